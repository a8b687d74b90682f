"""parser: turn harvested pages into WIR records.

Takes   batches from hrf/new, oldest first, several a look; relink jobs from the scheduler when there is time.
Calls   scheduler TAKE (relink) DONE ADD STORED, idbd SAME.
Keeps   in memory the batches whose records are written and not yet synced; hrf/cur/parser-N holds what is in work.
Fails   a page that raises goes to hrf/bad at once, one that kills three parsers alone as well; see docs/operations.md.
Limits  one page at a time, `page.cpu_s` seconds and `page.memory_bytes` each; run several processes to go faster.
Size:   one page's way, from batch to STORED, is kept in one file so that the order of its steps can be seen.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from combine import __version__
from combine.channel import Channel, Context
from combine.codings import decode
from combine.crashpoints import reached
from combine.errors import CombineError
from combine.events import Events
from combine.ipc.client import Client, Reply
from combine.ipc.message import Line
from combine.keep.home import Home
from combine.keep.slots import Slot
from combine.keep.spool import Batch, Marks, Spool, raw_place
from combine.keep.store import WirStore
from combine.keep.yielded import HOPS, Yielded
from combine.page.fate import REMOVE
from combine.page.lesson import WRITE, Lesson, learn, links_of, targets
from combine.schedule.offers import Offers
from combine.services import MESSAGE_LINES
from combine.urls import record_id
from combine.web import listing
from combine.web.listing import Listing
from formats import hrf, jcf
from formats.hrf import Harvest
from formats.jcf import Job, RecordError
from formats.wir import Link, Record

T = TypeVar("T")

#: A harvest of a batch: where it begins, its length, and what it is.
Item = tuple[int, int, Harvest]

log = logging.getLogger(__name__)

#: Batches claimed at a look; seconds between two questions for relink jobs, two looks for what others left, two pages
#: after which keepalive is listened to.
CLAIM, RELINK_S, RECOVER_S, LISTEN_S = 2, 0.5, 0.5, 0.02

#: Seconds between two looks at an empty spool: at first, and at most; a share of the time that it was empty is added.
LOOK_S, MOST_LOOK_S, LOOK_SHARE = 0.05, 0.25, 0.05

#: Records that are written wait at most so long for one sync for all.
SYNC_S = 2.0

#: Seconds to wait where the scheduler, idbd or the disk says not now.
AGAIN_S = 0.3


class Stopped(Exception):
    """The parser is to end; what is in work stays in its place."""


@dataclass(slots=True)
class Work:
    """Batches and relink leases that are done but for the sync, and what STORED says of them."""

    batches: list[Batch] = field(default_factory=list)
    leases: list[int] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    since: float = 0.0


class Parser:
    """One parser process."""

    def __init__(self, home: Home, slot: Slot, context: Context, channel: Channel) -> None:
        self._home, self._slot, self._settings, self._channel = home, slot.name, context.settings, channel
        self._scheduler = Client(home.socket("scheduler"), "scheduler", "parser")
        self._idbd = Client(home.socket("idbd"), "idbd", "parser")
        self._spool = Spool(home)
        self._store = WirStore(home, slot.name)
        self._offers = Offers(self._add)
        self._events = Events(home.path, slot.name)
        self._work = Work()
        self._has_unseen = True
        self._should_stop = False
        self._documents = 0
        self._born = self._worked = time.monotonic()
        self._next_relinks = self._next_recovery = self._next_listening = 0.0
        self._cpu = _CpuLimit(context.settings.page.cpu_s)
        self._yielded = Yielded(home.run / "yielded")

    def run(self) -> None:
        """Work until told to stop, or until this life is over."""
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        signal.signal(signal.SIGINT, lambda *_: self._stop())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        _limit_memory(self._settings.page.memory_bytes)
        gc.disable()  # A page makes no cycles that are worth a search; what there is goes with this short life.
        self._channel.ready()
        try:
            batches = self._patiently(self._claim)
            while not self._is_over():
                for batch in batches:
                    self._patiently(partial(self._batch, batch))
                    self._worked = time.monotonic()
                did_relink = self._relinks()
                batches = self._patiently(self._claim)
                if self._work.batches or self._work.leases:
                    if (not batches and not did_relink) or time.monotonic() - self._work.since >= SYNC_S:
                        self._patiently(self._finish)
                elif not batches and not did_relink:
                    self._recover()
                    self._wait(min(LOOK_S + LOOK_SHARE * (time.monotonic() - self._worked), MOST_LOOK_S))
            self._patiently(self._finish)
        except Stopped:
            self._finish_once()
        self._events.close()

    def _claim(self) -> list[Batch]:
        """Batches to work on: new ones; at first, and after a fault amid a claim, those that lie in the slot unseen."""
        if self._has_unseen:
            batches = [batch for batch in self._spool.take_back(self._slot) if batch not in self._work.batches]
        else:
            self._has_unseen = True
            batches = self._spool.claim(self._slot, CLAIM)
        self._has_unseen = False
        return batches

    def _recover(self) -> None:
        """Put back what other parsers have left at their death; that is looked for seldom, and takes six looks."""
        if time.monotonic() >= self._next_recovery:
            self._patiently(self._spool.recover)
            self._next_recovery = time.monotonic() + RECOVER_S

    def _stop(self) -> None:
        self._should_stop = True

    def _finish_once(self) -> None:
        """At the end what is written may be told; what is not stays in the spool, and is done again."""
        try:
            self._finish()
        except (OSError, CombineError) as error:
            log.info("stopped; what is in work stays in the spool reason=%s", error)

    def _is_over(self) -> bool:
        if self._should_stop or not self._channel.answer_pings():
            return True
        limits = self._settings.supervise
        return self._documents >= limits.documents or time.monotonic() - self._born >= limits.life_s

    def _is_called_off(self) -> bool:
        """Whether the parser is to end amid a batch; pings are answered now and then."""
        if self._should_stop or (now := time.monotonic()) < self._next_listening:
            return self._should_stop
        self._next_listening = now + LISTEN_S
        return not self._channel.answer_pings()

    def _wait(self, seconds: float) -> None:
        """Wait, and answer pings meanwhile; raises Stopped when it is time to end."""
        select.select([self._channel], [], [], seconds)
        if not self._channel.answer_pings() or self._should_stop:
            raise Stopped

    def _patiently(self, step: Callable[[], T]) -> T:
        """Do a step again until the disk and the daemons let it through: such faults are nobody's guilt."""
        while True:
            try:
                done = step()
                self._channel.note("")
                return done
            except (OSError, CombineError) as error:
                self._channel.note(f"waits: {error}")
                log.info("a step is tried again later reason=%s", error)
                self._wait(AGAIN_S)

    # One batch --------------------------------------------------------------------------------------------------

    def _batch(self, batch: Batch) -> None:
        """Bring the harvests of a batch into the store; its records wait for the sync in `_finish`."""
        try:
            data = batch.path.read_bytes()
        except FileNotFoundError:
            log.error("a batch is gone, its jobs will be queued again batch=%s", batch.name)
            return
        except MemoryError:
            self._spool.put_aside(batch)
            return
        with self._spool.marks(batch) as marks:
            harvests = self._current(batch, list(self._scan(batch, data)))
            reached("parser.current")
            for offset, length, harvest in harvests:
                if offset in marks.condemned:
                    self._to_bad(batch, offset, length, harvest, "it killed three parsers")
                elif offset in marks.suspects:
                    self._finish()
                    self._harvests(batch, [(offset, length, harvest)], marks, alone=True)
                    self._finish()
            marked = marks.condemned | marks.suspects
            healthy = [item for item in harvests if item[0] not in marked]
            self._harvests(batch, healthy, marks, alone=False)
            marks.clear()
        self._work.batches.append(batch)
        self._work.since = self._work.since or time.monotonic()

    def _scan(self, batch: Batch, data: bytes) -> Iterator[Item]:
        end = 0
        try:
            for offset, length, harvest in hrf.scan(data):
                end = offset + length
                yield offset, length, harvest
        except RecordError as error:
            log.error("a batch is damaged, its rest goes to bad batch=%s offset=%d fault=%s", batch.name, end, error)
            self._spool.fail(batch, end, -1, str(error))

    def _current(self, batch: Batch, harvests: list[Item]) -> list[Item]:
        """Repeat DONE for the batch, and keep the harvests whose FETCH is still their row's."""
        lines = [
            jcf.job(
                URL=harvest.job.url, FETCH=harvest.job.fetch, OUTCOME=harvest.outcome, STATUS=harvest.status or None,
                BATCH=batch.name,
            )
            for _, _, harvest in harvests
        ]  # fmt: skip
        current = set()
        for start in range(0, len(lines), MESSAGE_LINES):
            current |= {line.fetch for line in self._scheduler.call("DONE", lines[start : start + MESSAGE_LINES])}
        return [item for item in harvests if item[2].job.fetch in current]

    def _harvests(self, batch: Batch, harvests: list[Item], marks: Marks, alone: bool) -> None:
        """Learn from harvests, ask idbd, write the records, offer the links; in this order."""
        lessons, listings = [], []
        for item in harvests:
            marks.at(item[0], alone=alone)
            self._cpu.begin()
            learned = self._guarded(batch, item, partial(self._learn, batch, item))
            if isinstance(learned, Listing):
                listings.append(learned)
            elif learned is not None:
                lessons.append((item, learned))
            if self._is_called_off():
                marks.clear()
                raise Stopped
        marks.clear()
        self._cpu.end()
        if self._settings.page.canonical == "honour":
            lessons = [(item, lesson.yielding() if self._yields(lesson) else lesson) for item, lesson in lessons]
        answers = self._ask([lesson.question for _, lesson in lessons if lesson.question is not None])
        settled = []
        for item, lesson in lessons:
            marks.at(item[0], alone=alone)
            kept = self._guarded(batch, item, partial(self._keep, lesson, answers.get(lesson.url)))
            settled += [kept] if kept is not None else []
        marks.clear()
        reached("parser.kept")
        self._offers.send((job, found) for job, found, _ in settled)
        reached("parser.offered")
        self._work.lines += [stored for _, _, stored in settled]
        for found in listings:
            self._offers.send_jobs(found.offers)
            self._work.lines.append(found.stored)

    def _yields(self, lesson: Lesson) -> bool:
        """Whether a page's canonical URL is another one in scope, that does not lead back here; it is then offered."""
        if not lesson.canonical or self._leads_back(lesson):
            return False
        job = lesson.harvest.job
        kept = {name: job.get(name) or None for name in ("SEED", "TAG", "SINCE", "DEPTH")}
        reply = self._scheduler.call("ADD", [jcf.job(URL=lesson.canonical, VIA=job.url, **kept)])
        # idbd does not know of others before STORED.
        return "outside=0 refused=0" in reply.text and self._yielded.leave(lesson.url, lesson.canonical)

    def _leads_back(self, lesson: Lesson) -> bool:
        """Whether the canonical URL, or one that it led to when it was last asked, leads back to the page."""
        hop = lesson.canonical
        for _ in range(HOPS):
            visit = next(iter(self._idbd.call("LOOKUP", [jcf.job(URL=hop)])), None)
            hop = visit.get("TO") if visit is not None else ""
            if not hop or hop == lesson.url:
                break
        return hop == lesson.url

    def _guarded(self, batch: Batch, item: Item, step: Callable[[], T]) -> T | None:
        """Do a step of one page; a page that raises goes to bad at once, and is None."""
        try:
            return step()
        except OSError:
            raise
        except Exception as error:
            log.error(
                "%s: a page could not be parsed fault=%s", record_id(item[2].job.url), error,
                exc_info=not isinstance(error, RecordError),
            )  # fmt: skip
            self._to_bad(batch, *item, f"{type(error).__name__}: {error}")
            return None

    def _learn(self, batch: Batch, item: Item) -> Lesson | Listing:
        """Read one harvest, within the limits of a page."""
        offset, length, harvest = item
        raw = (raw_place(batch), offset, length) if self._settings.keep.raw != "none" else ("", 0, 0)
        self._documents += 1
        if harvest.job.kind == "sitemap":
            return self._read_sitemap(harvest)
        return learn(harvest, raw, self._standing, self._settings.page, self._settings.agent.name)

    def _standing(self, url: str) -> Record | None:
        """The record that a page has; a damaged one (a power loss may leave an empty file) is none: it is made anew."""
        try:
            return self._store.get(url)
        except RecordError as error:
            log.warning("a record is damaged, it counts as none: %s", error)
            return None

    def _read_sitemap(self, harvest: Harvest) -> Listing:
        """A sitemap is read for its URLs; it has no record."""
        limits = self._settings.harvest
        body = decode(
            harvest.body, harvest.all("content-encoding"), limits.sitemap_bytes, self._settings.page.ratio
        ).body
        return listing.read(harvest, body, limits.sitemap_urls)

    def _to_bad(self, batch: Batch, offset: int, length: int, harvest: Harvest, reason: str) -> None:
        self._spool.fail(batch, offset, length, reason)
        self._work.lines.append(
            jcf.job(
                URL=harvest.job.url, FETCH=harvest.job.fetch, OUTCOME="failed", REASON="parser", DETAIL=reason[:500]
            )
        )

    def _ask(self, questions: list[Job]) -> dict[str, Job]:
        answers: dict[str, Job] = {}
        for start in range(0, len(questions), MESSAGE_LINES):
            reply = self._idbd.call("SAME", questions[start : start + MESSAGE_LINES])
            answers |= {line.url: line for line in reply}
        return answers

    def _keep(self, lesson: Lesson, answer: Job | None) -> tuple[Job, dict[str, str], bytes]:
        """Decide what becomes of a record, and do it; gives its job, what its page leads to, and its line of STORED."""
        lesson = lesson.settle(answer, time.time(), __version__)
        stored = jcf.dump(lesson.stored())  # what is no line raises here: it is its page's fault, and not the batch's
        found = targets(lesson.harvest.job, lesson.links, self._settings.scheduler.links_page)
        if lesson.action == WRITE and lesson.record is not None:
            self._store.put(lesson.record)
        elif lesson.action == REMOVE:
            self._store.delete(record_id(lesson.url))
        self._events.event("stored", URL=lesson.url, OUTCOME=lesson.outcome, REASON=lesson.reason or None)
        return lesson.harvest.job, found, stored

    def _add(self, lines: list[bytes]) -> None:
        reply: Reply = self._scheduler.call("ADD", lines)
        self._channel.answer_pings()  # a sitemap has many messages
        for line in reply:
            log.debug("a link was refused url=%s reason=%s", line.url, line.get("REASON"))

    # The sync and STORED ----------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """One sync for all that was written since the last; only then STORED, and only then the batches go."""
        work = self._work
        if not (work.batches or work.leases or work.lines):
            return
        self._store.sync()
        reached("parser.synced")
        self._channel.answer_pings()
        while work.lines:
            self._scheduler.call("STORED", work.lines[: MESSAGE_LINES // 2])
            del work.lines[: MESSAGE_LINES // 2]
        reached("parser.stored")
        while work.batches:
            self._spool.finish(work.batches[0], raw=self._settings.keep.raw != "none")
            del work.batches[0]
        if work.leases:
            self._scheduler.call("DONE", [jcf.job(LEASE=lease, END="1") for lease in work.leases])
            work.leases.clear()
        work.since = 0.0
        self._events.flush()

    # Relink jobs ------------------------------------------------------------------------------------------------

    def _relinks(self) -> bool:
        """Offer the links of stored records again where the scheduler wants it; true if there were any."""
        if time.monotonic() < self._next_relinks:
            return False
        asked = [jcf.job(KIND="relink", COUNT=100, WAIT="0"), *(jcf.job(LEASE=lease) for lease in self._work.leases)]
        try:
            jobs = self._scheduler.call("TAKE", asked)
        except CombineError as error:
            self._channel.note(f"waits: {error}")
            self._next_relinks = time.monotonic() + RELINK_S
            return False
        if not jobs:
            self._next_relinks = time.monotonic() + RELINK_S
            return False
        self._patiently(partial(self._offer_again, jobs))
        self._work.leases.append(jobs[0].number("LEASE"))
        self._work.since = self._work.since or time.monotonic()
        return True

    def _offer_again(self, jobs: list[Job]) -> None:
        offered = []
        for job in jobs:
            record = self._standing(job.url)
            links = links_of(record, bool(job.get("REQUISITES"))) if record is not None else []
            if job.get("TO"):
                links = [Link("redirect", job.get("TO"), "", "")]
            offered.append((job, targets(job, links, self._settings.scheduler.links_page)))
        self._offers.send_again(offered)
        self._work.lines += [jcf.job(URL=job.url, FETCH=job.fetch, OUTCOME="ok") for job in jobs]


def _limit_memory(size: int) -> None:
    """The address space that a page may still take, above what the process has now."""
    with open("/proc/self/statm", "rb") as file:
        pages = int(file.read().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + size
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


class _CpuLimit:
    """The CPU seconds that a page may take, after which the kernel ends the process; none between batches."""

    def __init__(self, seconds: int) -> None:
        self._seconds, self._hard = seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]
        self._soft = self._hard

    def begin(self) -> None:
        """A page begins; the limit is of whole seconds, so it seldom changes."""
        self._set(int(time.process_time()) + self._seconds + 1)

    def end(self) -> None:
        """What follows is no page's work."""
        self._set(self._hard)

    def _set(self, soft: int) -> None:
        if soft != self._soft:
            resource.setrlimit(resource.RLIMIT_CPU, (soft, self._hard))
            self._soft = soft


def main(context: Context) -> int:
    """Run one parser's life; gives the exit code."""
    home = Home(context.home)
    channel = Channel(context.channel)
    with Slot.acquire(home, "parser", context.slot) as slot:
        Parser(home, slot, context, channel).run()
    return 0
