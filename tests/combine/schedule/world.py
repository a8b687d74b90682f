"""A frontier with everything around it in memory: clocks that a test sets, idbd's visits, and an unspoken web.

Nothing here is a process, a socket or a sleep. `World` plays the scheduler's desk (it commits, and forgets what was not
committed) and idbd; `Web` plays harvesters and parsers, one step at a time, in whatever order a test wants.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from combine.config import Agent, Settings
from combine.schedule.frontier import Frontier
from combine.schedule.intake import Intake, Offer
from combine.schedule.leases import Holder
from combine.schedule.offered import question
from combine.schedule.rows import STATE_NAMES, Row, Rows, job_key
from combine.schedule.sites import LEASED, STATES, Site
from combine.schedule.visits import Visits
from combine.urls import site_of
from formats import jcf
from formats.jcf import Job

T = TypeVar("T")

#: Noon of a day in 2026, UTC.
NOON = 1_780_315_200.0

#: An operator who says who he is, so that no delay is raised.
KNOWN = Settings(agent=Agent(url="https://example.org/us", email="us@example.org"))

A, B = Holder(101, 1), Holder(102, 2)


@dataclass(slots=True)
class FakeClock:
    """Clocks that a test sets."""

    boot_id: str = "first"
    now: float = 1000.0
    shift: float = NOON - 1000.0

    def boot(self) -> float:
        return self.now

    def utc(self) -> float:
        return self.now + self.shift

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def reboot(self, down_s: float = 60.0) -> None:
        """Another boot: the boot clock begins again, and the calendar goes on."""
        utc = self.utc() + down_s
        self.boot_id, self.now = f"{self.boot_id}'", 5.0
        self.shift = utc - self.now


def never(host: str, address: str) -> bool:
    return False


def always(host: str, address: str) -> bool:
    return True


class Crash(Exception):
    """The scheduler is killed, or its disk is full, just before a commit."""


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    raise AssertionError("it waits for something")


class World:
    """A scheduler and idbd without processes."""

    def __init__(
        self,
        settings: Settings = KNOWN,
        listed: Callable[[str, str], bool] = never,
        seed: int = 1,
        path: Path = Path(":memory:"),
    ) -> None:
        self.clock = FakeClock()
        self.rows = Rows(path)
        self.visits = Visits(Path(":memory:"), settings)
        self.chance = random.Random(seed)
        self.frontier = Frontier(self.rows, settings, self.clock, self.chance, listed)
        self.clock.sleep(5.0)  # after a start every address rests a moment
        self.intake = Intake(self.frontier)
        self.batches = itertools.count(1)
        self.crashes: Callable[[], bool] = lambda: False
        self.faults = 0
        self.addresses: dict[str, str] = {}

    def close(self) -> None:
        self.rows.db.close()
        self.visits.close()

    # The desk ---------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        if self.crashes():
            raise Crash
        self.check()
        self.frontier.commit()

    def insist(self, verb: Callable[[], T]) -> T:
        """Do a verb, and again after each crash in it, as its caller does."""
        while True:
            try:
                return verb()
            except Crash:
                self.faults += 1
                self.crash()

    def crash(self) -> None:
        """What was not committed is forgotten, and the state read again, as after a kill or a full disk."""
        self.rows.rollback()
        self.frontier.load()
        self.check()

    async def look_up(self, questions: list[str]) -> list[str]:
        """LOOKUP, in idbd's time."""
        return self.visits.lookup(questions, self.clock.utc())

    def add(self, *lines: Job, is_due: bool = False) -> Offer:
        """ADD, with idbd asked in between."""
        offer = at_once(self.intake.offer(map(jcf.dump_text, lines), self.look_up, is_due))
        self.frontier.tick()
        self.commit()
        return offer

    def seed(self, url: str, **params: str | int | None) -> Offer:
        """ADD of one seed."""
        return self.add(jcf.job(**{"URL": url, "SCOPE": "host", **params}))

    def resolve(self) -> None:
        """Look up all names; each host has an address of its own unless `addresses` says otherwise."""
        while sites := self.frontier.unresolved(100):
            for site in sites:
                number = sum(site.host.encode())
                self.frontier.resolved(site, self.addresses.get(site.host, f"198.41.{number // 256}.{number % 256}"))

    def take(self, holder: Holder = A, count: int = 100, held: Iterable[int] = ()) -> list[Job]:
        """TAKE: names are looked up, the leases named are kept, what is due is leased."""
        self.resolve()
        self.frontier.keep_only(holder, held)
        self.frontier.tick()
        self.resolve()
        jobs = [jcf.parse_text(line) for line in self.frontier.take(holder, count)]
        self.commit()
        return jobs

    def done(self, job: Job, outcome: str = "ok", end: bool = True, **params: Any) -> bool:
        """DONE of one job, and by itself the END of its lease."""
        line = jcf.job(URL=job.url, FETCH=job.fetch, LEASE=job.get("LEASE"), OUTCOME=outcome or None)
        if outcome not in ("", "failed"):
            line = line.having(STATUS=200, BATCH=params.pop("BATCH", None) or f"batch-{next(self.batches)}")
        current = self.frontier.done(line.having(**params))
        if end:
            self.end(job)
        self.commit()
        return current

    def end(self, job: Job) -> None:
        """DONE with the END of a job's lease."""
        self.frontier.done(jcf.job(LEASE=job.get("LEASE"), END="1"))
        self.commit()

    def stored(self, job: Job, outcome: str = "ok", tell: bool = True, **params: Any) -> None:
        """STORED of one job; a page that is ok has a record."""
        line = jcf.job(URL=job.url, FETCH=job.fetch, OUTCOME=outcome, RECORD="1" if outcome == "ok" else None)
        self.frontier.stored(line.having(**params))
        self.commit()
        if tell:
            self.tell()

    def tell(self) -> None:
        """REMEMBER, and then the rows go."""
        while self.insist(self._tell):
            pass

    def _tell(self) -> bool:
        rows = self.frontier.untold(500)
        self.visits.remember([jcf.parse_text(row.result) for row in rows], self.clock.utc())
        self.visits.commit()
        self.frontier.told(rows)
        self.commit()
        return bool(rows)

    def fetch(self, url: str, outcome: str = "ok", **params: Any) -> Job:
        """Bring one queued URL all the way to its visit."""
        for _ in range(1000):
            for job in (jobs := self.take()):
                if job.url == url:
                    for other in jobs:
                        if other is not job:
                            self.done(other, "", end=False)
                    self.done(job, outcome)
                    self.stored(job, outcome, **params)
                    return job
                self.done(job, "", end=False)
            for job in jobs:
                self.end(job)
            self.clock.sleep(60.0)
        raise AssertionError(f"{url} was never handed out")

    # Looking ----------------------------------------------------------------------------------------------------

    def row(self, url: str, kind: str = "page", waiting: str = "") -> Row | None:
        """The row of a URL, as it lies on disk."""
        found = self.rows.db.execute("SELECT id FROM site WHERE name = ?", (site_of(url),)).fetchone()
        return self.rows.find(found[0], job_key(kind, url, waiting)) if found else None

    def state(self, url: str, kind: str = "page") -> str:
        """The state of a URL's row in a word; "" without a row."""
        row = self.row(url, kind)
        return STATE_NAMES[row.state] if row else ""

    def row_count(self) -> int:
        """Rows that wait for something."""
        return int(self.rows.db.execute("SELECT count(*) FROM job WHERE state < 2").fetchone()[0])

    def site(self, name: str) -> Site:
        """A site in memory or on disk."""
        site = self.frontier.site_named(name)
        assert site is not None
        return site

    def visit(self, url: str) -> Job:
        """What idbd knows of a URL."""
        return next(map(jcf.parse_text, self.visits.lookup([question(url)], self.clock.utc())), jcf.job())

    def check(self) -> None:
        """The invariants: each site in one set, counts as on disk, leases as on disk."""
        frontier = self.frontier
        sites = frontier.sites
        numbers = [number for state in STATES for number in sites.members[state]]
        assert len(numbers) == len(set(numbers)) == len(sites.by_id) + sites.asleep
        for site in sites:
            assert site is sites.members[site.state][site.id]
            assert (site.state == LEASED) == bool(site.lease)
            assert site is frontier.sites.by_name[site.name]
        counts = dict(self.rows.counts())
        assert frontier.relinks == counts.pop(0)
        assert counts == {number: held for number, held, _ in sites.counts() if any(held)}
        totals = [sum(held) for held in zip([0] * 6, *counts.values(), strict=True)]
        awake = [sum(site.counts[state] for site in sites) for state in range(6)]
        assert totals == [sum(both) for both in zip(awake, sites.asleep_counts, strict=True)]
        errands = dict(self.rows.errands())
        assert errands == {number: errands for number, _, errands in sites.counts() if errands}
        stored = {number for (number,) in self.rows.db.execute("SELECT id FROM lease")}
        assert stored == set(frontier.leases)


@dataclass(slots=True)
class Page:
    """A page of the web: where it links, what it answers, where it redirects; `failures` come before the answer."""

    links: tuple[str, ...] = ()
    outcome: str = "ok"
    to: str = ""
    failures: int = 0


@dataclass(slots=True)
class Harvested:
    """A job that was asked for, with the batch it lies in."""

    job: Job
    batch: str


NOWHERE = Page(outcome="gone")


class Web:
    """Harvesters, parsers and a store, whose every step a test calls for."""

    def __init__(self, world: World, pages: dict[str, Page]) -> None:
        self.world, self.pages = world, pages
        self.asked: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.records: dict[str, Page] = {}
        self.leased: dict[Holder, list[Job]] = {}
        self.spool: list[Harvested] = []
        self.unsaid: list[Job] = []  # STORED that waits for the sync
        self.relinking: list[Job] = []
        self.parser = Holder(900, 9)

    def harvest(self, holder: Holder, dies: bool = False) -> None:
        """One harvester asks for one of its jobs, or takes new ones; it may die before it can say DONE."""
        jobs = self.leased.get(holder)
        if not jobs:
            self.leased[holder] = self.world.insist(lambda: self.world.take(holder, 1))
            return
        job = jobs.pop(0)
        self.asked[job.url] += 1
        page = self.pages.get(job.url, NOWHERE)
        outcome, batch = page.outcome, f"batch-{next(self.world.batches)}"
        if self.failed[job.url] < page.failures:
            self.failed[job.url] += 1
            outcome = "failed"
        else:
            self.spool.append(Harvested(job, batch))
        if dies:
            self.kill(holder)
            return
        named = batch if outcome != "failed" else None
        self.world.insist(lambda: self.world.done(job, outcome, end=not jobs, BATCH=named))

    def parse(self, place: int = 0) -> None:
        """A parser works on one harvest: DONE again, the record, the links; STORED comes later."""
        if not self.spool:
            return
        held = self.spool.pop(place % len(self.spool))
        page = self.pages.get(held.job.url, NOWHERE)
        if not self.world.insist(lambda: self.world.done(held.job, page.outcome, end=False, BATCH=held.batch)):
            return
        if page.outcome == "ok":
            self.records[held.job.url] = page
        self._offer(held.job, page)
        record = "1" if held.job.url in self.records else None
        line = jcf.job(URL=held.job.url, FETCH=held.job.fetch, OUTCOME=page.outcome, RECORD=record, TO=page.to or None)
        self.unsaid.append(line)

    def sync(self) -> None:
        """A parser says STORED for all that is on disk."""
        self.world.insist(self._say)
        self.unsaid.clear()

    def _say(self) -> None:
        for line in self.unsaid:
            self.world.frontier.stored(line)
        self.world.commit()

    def relink(self) -> None:
        """A parser offers the links of stored records again."""
        if not self.relinking:
            self.relinking = self.world.insist(self._take_relinks)
            return
        job = self.relinking.pop(0)
        self._offer(job, Page(to=job.get("TO")) if job.get("TO") else self.records.get(job.url, Page()))
        self.world.insist(lambda: self.world.stored(job, tell=False))
        if not self.relinking:
            self.world.insist(lambda: self.world.end(job))

    def _take_relinks(self) -> list[Job]:
        self.world.frontier.keep_only(self.parser, ())
        jobs = [jcf.parse_text(line) for line in self.world.frontier.take_relinks(self.parser, 2)]
        self.world.commit()
        return jobs

    def _offer(self, job: Job, page: Page) -> None:
        given = {name: job.get(name) or None for name in ("SEED", "TAG", "SINCE")}
        depth = job.number("DEPTH")
        lines = [jcf.job(URL=url, VIA=job.url, DEPTH=depth + 1, **given) for url in page.links]
        if page.to:
            lines.append(jcf.job(URL=page.to, VIA=job.url, DEPTH=depth, HOPS=job.number("HOPS") + 1, **given))
        if lines:
            self.world.insist(lambda: self.world.add(*lines))

    def kill(self, holder: Holder) -> None:
        """A harvester dies; what it had in hand is asked again."""
        self.leased.pop(holder, None)
        self.world.faults += 1
        self.world.insist(lambda: self._died(holder))

    def _died(self, holder: Holder) -> None:
        self.world.frontier.keep_only(holder, ())
        self.world.commit()

    def is_over(self) -> bool:
        """Nothing is queued, leased or fetched."""
        row = self.world.rows.db.execute("SELECT 1 FROM job WHERE state < 5 LIMIT 1").fetchone()
        return row is None and not self.spool and not self.unsaid and not self.relinking

    def finish(self, holders: Iterable[Holder] = (A,)) -> None:
        """Everybody does what there is to do, until nothing is left."""
        for _ in range(10_000):
            if self.is_over():
                return
            for holder in holders:
                self.harvest(holder)
            self.parse()
            self.sync()
            self.world.tell()
            self.relink()
            self.world.clock.sleep(0.5)
        raise AssertionError("the harvest does not end")


def urls(jobs: list[Job]) -> list[str]:
    return [job.url for job in jobs]


def all_done(world: World, jobs: list[Job], outcome: str = "ok", **params: str) -> None:
    """DONE of all jobs of one lease, and then its END."""
    for job in jobs:
        world.done(job, outcome, end=False, **params)
    world.end(jobs[0])


def add(world: World, *names: str, seed: str = "http://a.example/") -> None:
    world.add(*(jcf.job(URL=name, SEED=seed, DEPTH=1) for name in names))
