"""What the scheduler does unasked: tell idbd, look names up, wake who waits, look after leases and lost batches.

Each duty is a round, done again and again, that takes its work from the frontier and asks for a commit. What a duty
must wait for (idbd, the resolver) it waits for alone; TAKE and DONE never do. What lies in other rooms comes in as
functions. A full disk ends no duty: what was not committed is forgotten, and the round begins anew.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from combine.crashpoints import reached
from combine.duty import end_with
from combine.errors import RecordError, Rejected, RetryLater, WireError
from combine.schedule import names
from combine.schedule.clock import epoch_of, utc_text
from combine.schedule.frontier import Frontier
from combine.schedule.holders import Holders
from combine.schedule.leases import Holder
from combine.schedule.offered import question
from combine.schedule.rows import QUEUED, Stored
from combine.schedule.sites import DUE, UNRESOLVED
from combine.services import MESSAGE_LINES
from formats import jcf
from formats.jcf import Job

log = logging.getLogger(__name__)

#: Rows told to idbd in one message.
TELL = 500

#: Parts of what is due that are asked for at a time.
PARTS = 20

#: Seconds between two looks: at the disk, at leases and batches, and at what is due again.
ROOM_S, WATCH_S, REVISIT_S = 1.0, 5.0, 60.0

#: Seconds until what failed is tried again.
AGAIN_S = 0.5

#: Seconds that a row must have been fetched, and looks in a row that must miss its batch, before it is queued again.
LOST_S, LOST_LOOKS = 10.0, 3


class Pulse:
    """Wakes those who wait for something to be due."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def beat(self) -> None:
        """Wake all who wait."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait for the next beat, so long at most."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await future
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(future)


@dataclass(frozen=True, slots=True)
class Outside:
    """What the duties need of other rooms: the batches in the spool, why nothing may go out, the case of an address."""

    batches: Callable[[], set[str]]
    stalled: Callable[[], str]
    refusal: Callable[[str, str], str]


class Skeleton(Protocol):
    """What the duties need of the server that they run in."""

    @property
    def stopping(self) -> asyncio.Event:
        """Set when the daemon is to end."""
        ...

    async def durable(self) -> None:
        """Wait until all that was changed is committed."""
        ...

    def commit_soon(self) -> None:
        """Commit with the next tick."""
        ...

    def spoil(self, reason: str, error: Exception | None = None) -> None:
        """Forget what is not committed."""
        ...


class Peer(Protocol):
    """A client of idbd."""

    async def call(self, verb: str, lines: Iterable[Job | bytes | str] = ()) -> Iterable[Job]:
        """Ask and await the answer."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


#: Offers lines of jobs as ADD does; with the flag, whatever their visits say.
Offering = Callable[[list[str], bool], Awaitable[object]]


class Duties:
    """The rounds of the scheduler, and what wakes them."""

    def __init__(self, frontier: Frontier, idbd: Peer, outside: Outside, server: Skeleton, offer: Offering) -> None:
        self.frontier, self.idbd, self.outside, self.server = frontier, idbd, outside, server
        self.pulse = Pulse()
        self.holders = Holders(self._died)
        self.stored = asyncio.Event()
        self.unresolved = asyncio.Event()
        self._has_takers = False  # somebody asked for jobs; one who only asks why must not have them judged
        self._offer = offer
        self._timer = asyncio.Event()
        self._missing: dict[str, int] = {}
        self._said = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._lookups: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start all rounds; leases of holders that died meanwhile are over."""
        self.after_load()
        self.end_orphaned()
        for duty in (self.tell, self.resolve, self.wake, self.watch, self.mind_room, self.revisit):
            self.later(self._forever(duty))

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the rounds."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """End all rounds."""
        tasks = (*self._tasks, *self._lookups)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.holders.close()
        self.idbd.close()

    async def _forever(self, duty: Callable[[], Awaitable[None]]) -> None:
        """Do a duty round after round; where the disk fails in it, what was not committed is forgotten."""
        while True:
            try:
                await duty()
            except (OSError, sqlite3.Error) as error:
                self._disk_failed(error)
                await asyncio.sleep(AGAIN_S)

    def _disk_failed(self, error: Exception) -> None:
        log.error("the disk failed fault=%s", error)
        self.server.spoil(f"the disk failed: {error}", error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._lookups.discard(task)
        end_with(self.server.stopping, task)

    # What wakes them --------------------------------------------------------------------------------------------

    def after_load(self) -> None:
        """The frontier was read from disk: watch the holders, and look at everything once.

        It changes nothing: where the disk has just failed, one more change would fail at once, and so on without end.
        """
        for lease in self.frontier.leases.values():
            self.holders.watch(lease.holder)
        self.stored.set()
        self.changed()

    def changed(self) -> None:
        """Something about the sites changed: wake who may care."""
        if self.frontier.sites.members[DUE] or self.frontier.relinks[QUEUED]:
            self.pulse.beat()
        self.looked()

    def taken(self) -> None:
        """TAKE looked at the sites: names may be too old, and from now on they are looked up.

        Not before: `why` starts a scheduler for its question, without the --allow-private of the harvest that made the
        queue, and that one would find the jobs' addresses forbidden and give them up.
        """
        self._has_takers = True
        self.looked()

    def looked(self) -> None:
        """There may be names to look up, and there may be a new moment to wake at."""
        if self._has_takers and self.frontier.sites.members[UNRESOLVED]:
            self.unresolved.set()
        self._timer.set()

    def _died(self, holder: Holder) -> None:
        try:
            self.frontier.keep_only(holder, ())
        except (OSError, sqlite3.Error) as error:
            self._disk_failed(error)  # its leases are ended at the next look
        self.server.commit_soon()
        self.changed()

    # The rounds -------------------------------------------------------------------------------------------------

    async def tell(self) -> None:
        """Tell idbd what was stored, then let the rows go."""
        await self.stored.wait()
        self.stored.clear()
        try:
            await self.server.durable()
            while rows := self.frontier.untold(TELL):
                await self._remember(rows)
                self.changed()
                await self.server.durable()
        except (RetryLater, WireError) as error:
            log.info("idbd is to hear of stored pages later reason=%s", error)
            self.stored.set()
            await asyncio.sleep(AGAIN_S)

    async def _remember(self, rows: list[Stored]) -> None:
        try:
            await self.idbd.call("REMEMBER", [row.result for row in rows])
        except (Rejected, RecordError) as error:
            if len(rows) > 1:
                for row in rows:
                    await self._remember([row])
                return
            # Its page is stored. A link to it will have it asked for again, which is better than to stop all others.
            log.error("idbd does not take a visit, it is left out result=%s reason=%s", rows[0].result, error)
        reached("scheduler.remembered")
        self.frontier.told(rows)

    async def resolve(self) -> None:
        """Look up the names of sites that have jobs."""
        await self.unresolved.wait()
        self.unresolved.clear()
        for site in self.frontier.unresolved(max(names.LOOKUPS - len(self._lookups), 0)):
            site.resolving = True
            task = asyncio.get_running_loop().create_task(self._look_up(site.name, site.host, site.turn))
            self._lookups.add(task)
            task.add_done_callback(self._ended)
            task.add_done_callback(lambda task: self.looked())

    async def _look_up(self, name: str, host: str, turn: int) -> None:
        answer = await names.look_up(host, self.outside.refusal, turn)
        site = self.frontier.sites.by_name.get(name)
        if site is None:
            return
        site.resolving = False
        try:
            if answer.address:
                self.frontier.resolved(site, answer.address)
            else:
                log.info("a site has no address site=%s reason=%s", name, answer.reason)
                self.frontier.unresolvable(site, answer.reason, answer.no_such_name, answer.is_refused)
        except (OSError, sqlite3.Error) as error:
            self._disk_failed(error)
        self.server.commit_soon()
        self.changed()

    async def wake(self) -> None:
        """Wake at the time of the next wait's end."""
        after = self.frontier.next_event()
        wait = 3600.0 if after is None else max(after - self.frontier.clock.boot(), 0.001)
        try:
            async with asyncio.timeout(wait):
                await self._timer.wait()
        except TimeoutError:
            self.frontier.tick()
            self.server.commit_soon()
            self.changed()
        self._timer.clear()

    async def watch(self) -> None:
        """End leases past their time, and find lost batches."""
        await asyncio.sleep(WATCH_S)
        self.end_orphaned()
        self.end_overdue()
        self.rescue()

    def end_orphaned(self) -> None:
        """End the leases whose holders died unseen: while there was no scheduler, or while it could not commit."""
        for lease in list(self.frontier.leases.values()):
            if not self.holders.watch(lease.holder):
                self.frontier.end_lease(lease.id, is_clean=False)
                self.server.commit_soon()
                self.changed()

    def end_overdue(self) -> None:
        """Kill the holders of leases that are past their time."""
        now = self.frontier.clock.boot()
        for lease in self.frontier.leases.values():
            if lease.until < now and not lease.killed:
                lease.killed = True
                log.warning("a lease is past its time, its holder is ended lease=%d pid=%d", lease.id, lease.holder.pid)
                self.holders.kill(lease.holder)

    def rescue(self) -> None:
        """A row is fetched, and its batch is nowhere: after some looks it is queued again."""
        now = self.frontier.clock.boot()
        present = self.outside.batches()
        missing = {batch for batch, at in self.frontier.rows.batches() if batch not in present and at < now - LOST_S}
        self._missing = {batch: self._missing.get(batch, 0) + 1 for batch in missing}
        for batch, looks in self._missing.items():
            if looks >= LOST_LOOKS:
                log.warning("a batch is lost, its jobs are queued again batch=%s", batch)
                self.frontier.requeue_batch(batch)
                self.server.commit_soon()
                self.changed()

    async def mind_room(self) -> None:
        """While the spool or the disk is full, nothing is handed out."""
        said = self.frontier.line.sentence()
        if said != self._said:
            log.warning("%s", said or "sites can be reached again")
            self._said = said
        sentence = self.outside.stalled()
        if sentence != self.frontier.stalled:
            log.warning("%s", sentence or "sites are handed out again")
            self.frontier.stalled = sentence
            self.changed()
        await asyncio.sleep(ROOM_S)

    async def revisit(self) -> None:
        """In a standing harvest, queue what is due again."""
        await asyncio.sleep(min(REVISIT_S, max(self.frontier.settings.scheduler.revisit_s, 1.0)))
        if self.frontier.settings.scheduler.standing and self.frontier.gate == "open":
            await self.ask_again(jcf.job(BEFORE=utc_text(self.frontier.clock.utc())))

    async def ask_again(self, due: Job, is_due: bool = False) -> None:
        """Offer all that idbd names in answer to a DUE, part by part; with `is_due` whatever the visits say."""
        since, seen = "", set[str]()
        try:
            for _ in range(PARTS):
                visits = list(await self.idbd.call("DUE", [due.having(DUE=since or None, COUNT=MESSAGE_LINES)]))
                fresh = [visit for visit in visits if visit.url not in seen]
                lines = [
                    f'{question(visit.url, visit.kind)} SEED="{visit.get("SEED")}" DEPTH="{visit.number("DEPTH")}"'
                    for visit in fresh
                    if visit.get("SEED")
                ]
                if lines:
                    await self._offer(lines, is_due)
                if len(visits) < MESSAGE_LINES:
                    return
                since, seen = visits[-1].get("DUE"), {visit.url for visit in visits}
                if not fresh:  # more are due in one second than an answer holds: the rest have their turn another time
                    since = utc_text(epoch_of(since) + 1)
        except (RetryLater, Rejected, WireError) as error:
            log.info("what is due could not be asked reason=%s", error)
