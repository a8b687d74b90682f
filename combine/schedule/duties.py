"""What the scheduler does unasked: tell idbd, look names up, wake who waits, look after leases and lost batches.

Each duty is one loop that takes its work from the frontier and asks for a commit. What a duty must wait for (idbd, the
resolver) it waits for alone; TAKE and DONE never do. What lies in other rooms comes in as functions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from combine.errors import Rejected, RetryLater, WireError
from combine.ipc.client import AsyncClient
from combine.schedule import names
from combine.schedule.clock import utc_text
from combine.schedule.frontier import Frontier
from combine.schedule.holders import Holders
from combine.schedule.leases import Holder
from combine.schedule.sites import DUE
from formats import jcf
from formats.jcf import Job

log = logging.getLogger(__name__)

#: Rows told to idbd in one message.
TELL = 500

#: Seconds between two looks: at the disk, at leases and batches, and at what is due again.
ROOM_S, WATCH_S, REVISIT_S = 1.0, 5.0, 60.0

#: Seconds that a fetched row's batch must be missing, and looks in a row that must miss it, before the row is queued
#: again.
LOST_S, LOST_LOOKS = 60.0, 2


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
    """What the duties need of other rooms: the batches in the spool, room on the disk, the case against an address."""

    batches: Callable[[], set[str]]
    stalled: Callable[[], str]
    refusal: Callable[[str, str], str]
    reread_exclusions: Callable[[], None]


class Duties:
    """The loops of the scheduler, and what wakes them."""

    def __init__(
        self,
        frontier: Frontier,
        idbd: AsyncClient,
        outside: Outside,
        durable: Callable[[], Awaitable[None]],
        commit_soon: Callable[[], None],
    ) -> None:
        self.frontier, self.idbd, self.outside = frontier, idbd, outside
        self.pulse = Pulse()
        self.holders = Holders(self._died)
        self.stored = asyncio.Event()
        self.unresolved = asyncio.Event()
        self.offer: Callable[[list[Job]], Awaitable[object]] | None = None
        self._durable, self._commit_soon = durable, commit_soon
        self._timer = asyncio.Event()
        self._missing: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lookups: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start all loops; leases of holders that died meanwhile are over."""
        self.after_load()
        for loop in (self._tell, self._resolve, self._wake, self._watch, self._mind_room, self._revisit):
            task = asyncio.get_running_loop().create_task(loop())
            self._tasks.add(task)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the loops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """End all loops."""
        for task in (*self._tasks, *self._lookups):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._lookups, return_exceptions=True)
        self.holders.close()
        self.idbd.close()

    def after_load(self) -> None:
        """The frontier was read from disk: see which holders live, and look at everything once."""
        for lease in list(self.frontier.leases.values()):
            if not self.holders.watch(lease.holder):
                self.frontier.end_lease(lease.id, is_clean=False)
        self._commit_soon()
        self.stored.set()
        self.changed()

    def changed(self) -> None:
        """Something about the sites changed: wake who may care."""
        if self.frontier.seeds.is_refilled:
            self.frontier.tick()
        if self.frontier.sites.members["unresolved"]:
            self.unresolved.set()
        if self.frontier.sites.members[DUE] or self.frontier.relinks[0]:
            self.pulse.beat()
        self._timer.set()

    def _died(self, holder: Holder) -> None:
        self.frontier.keep_only(holder, ())
        self._commit_soon()
        self.changed()

    async def _tell(self) -> None:
        """Tell idbd what was stored, then let the rows go."""
        while True:
            await self.stored.wait()
            self.stored.clear()
            try:
                await self._durable()
                while rows := self.frontier.untold(TELL):
                    await self.idbd.call("REMEMBER", [jcf.parse_text(row.result) for row in rows])
                    self.frontier.told(rows)
                    self.changed()
                    await self._durable()
            except (RetryLater, WireError) as error:
                log.info("idbd is to hear of stored pages later reason=%s", error)
                await asyncio.sleep(0.5)
                self.stored.set()
            except Rejected as error:
                log.error("idbd rejects a visit reason=%s", error)
                await asyncio.sleep(WATCH_S)
                self.stored.set()

    async def _resolve(self) -> None:
        """Look up the names of sites that have jobs."""
        while True:
            await self.unresolved.wait()
            self.unresolved.clear()
            for site in self.frontier.unresolved(max(names.LOOKUPS - len(self._lookups), 0)):
                site.resolving = True
                task = asyncio.get_running_loop().create_task(self._look_up(site.name, site.host))
                self._lookups.add(task)
                task.add_done_callback(self._lookups.discard)

    async def _look_up(self, name: str, host: str) -> None:
        answer = await names.look_up(host, self.outside.refusal)
        site = self.frontier.sites.by_name.get(name)
        if site is None:
            return
        site.resolving = False
        if answer.address:
            self.frontier.resolved(site, answer.address)
        else:
            log.info("a site has no address site=%s reason=%s", name, answer.reason)
            self.frontier.unresolvable(site, answer.reason, answer.no_such_name, answer.is_refused)
            self._commit_soon()
        self.changed()

    async def _wake(self) -> None:
        """Wake at the time of the next wait's end."""
        while True:
            after = self.frontier.next_event()
            wait = 3600.0 if after is None else max(after - self.frontier.clock.boot(), 0.001)
            try:
                async with asyncio.timeout(wait):
                    await self._timer.wait()
            except TimeoutError:
                self.frontier.tick()
                self._commit_soon()
                self.changed()
            self._timer.clear()

    async def _watch(self) -> None:
        """End leases past their time, find lost batches, read the exclude file again when it changed."""
        while True:
            await asyncio.sleep(WATCH_S)
            self._end_overdue()
            self._rescue()
            self.outside.reread_exclusions()

    def _end_overdue(self) -> None:
        now = self.frontier.clock.boot()
        for lease in self.frontier.leases.values():
            if lease.until < now and not lease.killed:
                lease.killed = True
                log.warning("a lease is past its time, its holder is ended lease=%d pid=%d", lease.id, lease.holder.pid)
                self.holders.kill(lease.holder)

    def _rescue(self) -> None:
        """A row is fetched, and its batch is nowhere: after some looks it is queued again."""
        now = self.frontier.clock.boot()
        present = self.outside.batches()
        missing = {batch for batch, at in self.frontier.rows.batches() if batch not in present and at < now - LOST_S}
        self._missing = {batch: self._missing.get(batch, 0) + 1 for batch in missing}
        for batch, looks in self._missing.items():
            if looks >= LOST_LOOKS:
                log.warning("a batch is lost, its jobs are queued again batch=%s", batch)
                self.frontier.requeue_batch(batch)
                self._commit_soon()
                self.changed()

    async def _mind_room(self) -> None:
        """While the spool or the disk is full, nothing is handed out."""
        while True:
            sentence = self.outside.stalled()
            if sentence != self.frontier.stalled:
                log.warning("%s", sentence or "there is room again")
                self.frontier.stalled = sentence
                self.changed()
            await asyncio.sleep(ROOM_S)

    async def _revisit(self) -> None:
        """In a standing harvest, queue what is due again."""
        while True:
            await asyncio.sleep(REVISIT_S if self.frontier.settings.scheduler.standing else 3600.0)
            if self.frontier.settings.scheduler.standing and self.frontier.gate == "open":
                await self.ask_again(jcf.job(BEFORE=utc_text(self.frontier.clock.utc()), COUNT=1000))

    async def ask_again(self, question: Job, since: str = "") -> None:
        """Offer what idbd says is due."""
        try:
            visits = await self.idbd.call("DUE", [question])
            lines = [
                jcf.job(URL=visit.url, SEED=visit.get("SEED"), DEPTH=visit.get("DEPTH") or "0", SINCE=since or None)
                for visit in visits
                if visit.get("SEED")
            ]
            if lines and self.offer is not None:
                await self.offer(lines)
        except (RetryLater, Rejected, WireError) as error:
            log.info("what is due could not be asked reason=%s", error)
