"""harvester: ask the web for what the scheduler hands out, many sites at once, and put what comes back into the spool.

Takes   nothing; it has no socket.
Calls   scheduler TAKE, DONE, and ADD for a robots.txt that lies on another site.
Keeps   in memory the leases it holds; hrf/tmp/harvester-N-* is the batch being written.
Fails   at SIGTERM it finishes or gives up the requests under way, publishes, and hands the rest back unasked.
Limits  one request at a time to a site; `harvest.sites` sites at once; a body over `harvest.spill_bytes` lies on disk.
Size:   the life of the process and what its leases report stand together, so that the order at the end can be seen.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache

from combine.channel import Channel, Context
from combine.crashpoints import reached
from combine.errors import CombineError
from combine.events import Events
from combine.ipc.client import AsyncClient
from combine.ipc.loop import run_child
from combine.keep.batch import BatchWriter
from combine.keep.home import Home
from combine.keep.outbox import Outbox
from combine.keep.slots import Slot
from combine.page.mime import REQUISITES, is_wanted
from combine.urls import record_id
from combine.web.addresses import Allowed
from combine.web.announcements import Announcements
from combine.web.fetch import Fetched, Fetcher
from combine.web.gate import Permission, RobotsKeeper
from combine.web.lease import Lease, Spacing, Tools, Unasked, Worker, leases_of
from combine.web.robots import RobotsStore
from formats import jcf
from formats.hrf import Harvest
from formats.jcf import Job

log = logging.getLogger(__name__)

#: Seconds that requests under way have after SIGTERM, and that the outbox has after them; keepalive kills after 8.
FINISH_S, SEND_S = 4.0, 2.5

#: Seconds to wait where the scheduler is away.
AGAIN_S = 0.5

#: Seconds that an event waits for company: logd writes the time at which it hears of it.
EVENTS_S = 1.0


class Harvester:
    """One harvester process. It holds a lease from TAKE until the DONE with its END is acknowledged."""

    def __init__(self, home: Home, slot: Slot, context: Context, channel: Channel) -> None:
        self._settings, self._channel = context.settings, channel
        socket = home.socket("scheduler")
        self._takes, self._dones, self._adds = (AsyncClient(socket, "scheduler", "harvester") for _ in range(3))
        self._allowed = Allowed(context.settings.harvest.allow_private)
        self._writer = BatchWriter(home, slot.name, context.settings)
        self._outbox = Outbox(self._writer, self._dones, context.settings.harvest.batch_s, self._is_idle)
        self._outbox.ended = self._lease_ended
        self._outbox.noted = channel.note
        self._events = Events(home.path, slot.name)
        self._events_go: asyncio.TimerHandle | None = None
        self._home, self._slot = home, slot
        self._held: set[int] = set()
        self._working: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._stopping = asyncio.Event()
        self._announcements = Announcements()
        self._types = context.settings.harvest.types
        self._requisite_types = (*self._types, *REQUISITES)
        self._documents = 0
        self._born = time.monotonic()
        self._tools: Tools | None = None

    def stop(self) -> None:
        """Begin the end."""
        self._stopping.set()
        self._room.set()

    async def run(self) -> None:
        """Take leases and work them off until told to stop, or until this life is over."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
        keeper = RobotsKeeper(self._settings, RobotsStore(self._home.robots))
        spill = (self._home.spool_tmp, f"{self._slot.name}-body")
        async with Fetcher(self._settings, self._allowed, *spill, self._is_wanted, self._home.path) as fetcher:
            spacing = Spacing(self._settings, self._allowed)
            self._tools = Tools(self._settings, fetcher, keeper, spacing, self, self._stopping.is_set)
            sender = loop.create_task(self._outbox.run())
            self._channel.ready()
            taker = loop.create_task(self._take_leases())
            await taker
            await self._finish(sender)
        self._events.close()

    async def _take_leases(self) -> None:
        stopped = asyncio.get_running_loop().create_task(self._stopping.wait())
        while not self._stopping.is_set() and not self._is_old():
            if len(self._working) >= self._settings.harvest.sites:
                self._room.clear()
                await self._room.wait()
                continue
            call = asyncio.get_running_loop().create_task(self._take())
            await asyncio.wait({call, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                call.cancel()
                break
            for lease in call.result():
                self._start(lease)
        stopped.cancel()

    async def _take(self) -> list[Lease]:
        wanted = self._settings.harvest.sites - len(self._working)
        lines = [jcf.job(SITES=wanted), *(jcf.job(LEASE=number) for number in sorted(self._held))]
        try:
            leases = leases_of(await self._takes.call("TAKE", lines))
            self._channel.note(self._outbox.fault)
        except CombineError as error:
            self._channel.note(f"waits: {error}")
            await asyncio.sleep(AGAIN_S)
            return []
        return leases

    def _start(self, lease: Lease) -> None:
        assert self._tools is not None
        self._held.add(lease.id)
        task = asyncio.get_running_loop().create_task(self._work(Worker(lease, self._tools)))
        self._working.add(task)
        task.add_done_callback(self._worked)

    async def _work(self, worker: Worker) -> None:
        try:
            await worker.run()
        except Exception:
            log.exception("a lease ended by a fault of ours; its jobs are handed back")

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        self._room.set()

    async def _finish(self, sender: asyncio.Task[None]) -> None:
        """Requests under way may end; an old harvester waits for all of them, one that must stop not for long."""
        if self._working and not self._stopping.is_set():
            stopped = asyncio.get_running_loop().create_task(self._stopping.wait())
            while self._working and not stopped.done():
                await asyncio.wait({stopped, *self._working}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
        if self._working:
            await asyncio.wait(self._working, timeout=FINISH_S)
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        await self._outbox.close()
        await asyncio.wait({sender}, timeout=SEND_S if self._stopping.is_set() else None)
        sender.cancel()
        for client in (self._takes, self._dones, self._adds):
            client.close()

    def _is_old(self) -> bool:
        limits = self._settings.supervise
        return self._documents >= limits.documents or time.monotonic() - self._born >= limits.life_s

    def _is_idle(self) -> bool:
        return self._tools is None or self._tools.in_flight == 0

    def _send_events(self) -> None:
        self._events_go = None
        self._events.flush()

    def _lease_ended(self, number: int) -> None:
        self._held.discard(number)

    def _is_wanted(self, job: Job, content_types: list[str]) -> bool:
        """Whether a body is waited for: what is read, what a setting names, and all that a page is made of."""
        return _is_wanted(tuple(content_types), self._requisite_types if job.get("REQUISITES") else self._types)

    # What a lease reports -------------------------------------------------------------------------------------------

    async def fetched(self, job: Job, fetched: Fetched, permission: Permission) -> None:
        """A job was asked for: its harvest goes into the batch; a failure is only told."""
        reached("harvester.asked")
        self._documents += 1
        line = _line(
            job,
            permission,
            OUTCOME=fetched.outcome,
            STATUS=fetched.status or None,
            REASON=fetched.reason or None,
            DETAIL=fetched.detail or None,
            AFTER=None if fetched.after_s is None else f"{fetched.after_s:g}",
            TOOK=fetched.took_ms,
            SIZE=fetched.body_length,
            ASKED=fetched.requests if fetched.requests > 1 else None,
        )
        status = fetched.status or None
        how = None if permission.robots == "obeyed" else f"robots.txt {permission.robots}"
        self._events.event(
            "fetched", URL=job.url, OUTCOME=fetched.outcome, STATUS=status, TOOK=fetched.took_ms, DETAIL=how
        )
        if self._events_go is None:
            self._events_go = asyncio.get_running_loop().call_later(EVENTS_S, self._send_events)
        if fetched.outcome == "failed":
            detail = f"{fetched.reason}: {fetched.detail}"
            log.info("%s: a request failed reason=%s", record_id(job.url), detail)
        if fetched.harvest is None:
            self._outbox.tell(line)
        else:
            await self._outbox.put(line, _with_rights(fetched.harvest, permission), fetched.body_path)

    async def denied(self, job: Job, permission: Permission, requests: int) -> None:
        """robots.txt forbids a job, which the records must know."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        harvest = Harvest(job=job, outcome="denied", fetched=now, robots=permission.robots)
        line = _line(job, permission, OUTCOME="denied", REASON="robots.txt", ASKED=requests or None)
        await self._outbox.put(line, harvest, None)

    def unasked(self, job: Job, why: Unasked) -> None:
        """A job is handed back."""
        after, asked = f"{why.after_s:.0f}" if why.after_s else None, why.requests or None
        reason, fault = why.reason or None, why.fault or None
        self._outbox.tell(_line(job, why.permission, REASON=reason, AFTER=after, DETAIL=fault, ASKED=asked))

    def answered(self, job: Job, is_kept: bool, requests: int) -> None:
        """A robots job is done."""
        self._outbox.tell(_line(job, OUTCOME="ok" if is_kept else "redirect", ASKED=requests))

    async def errand(self, url: str, origin: str, hops: int) -> None:
        """A robots.txt lies on another site: queue a job for it, before this site is handed back."""
        await self._insist_on([jcf.job(URL=url, KIND="robots", FOR=f"{origin}/", HOPS=hops)])

    async def sitemaps(self, job: Job, permission: Permission) -> None:
        """robots.txt names sitemaps: queue them for the seed that came here, once for each fresh file."""
        if self._settings.harvest.sitemaps and (lines := self._announcements.of(job, permission)):
            await self._insist_on(lines)

    async def _insist_on(self, lines: list[Job]) -> None:
        while not self._stopping.is_set():
            try:
                await self._adds.call("ADD", lines)
                return
            except CombineError as error:
                log.info("jobs cannot be queued yet reason=%s", error)
                await asyncio.sleep(AGAIN_S)

    def ended(self, lease: Lease) -> None:
        """No request of a lease will follow."""
        self._outbox.tell(jcf.job(LEASE=lease.id, END="1"))


@lru_cache(maxsize=256)
def _is_wanted(content_types: tuple[str, ...], more: tuple[str, ...]) -> bool:
    return is_wanted(list(content_types), more)


def _with_rights(harvest: Harvest, permission: Permission) -> Harvest:
    """The harvest, with what its site says of the use of its pages."""
    if not permission.signals:
        return harvest
    lines = (("Right", "\t".join(" ".join(part.split()) for part in signal)) for signal in permission.signals)
    return replace(harvest, extra=(*harvest.extra, *lines))


def _line(job: Job, permission: Permission | None = None, **params: str | int | None) -> Job:
    delay = permission.crawl_delay if permission is not None else None
    is_changed = permission is not None and permission.changed
    return jcf.job(
        URL=job.url,
        FETCH=job.fetch,
        LEASE=job.get("LEASE"),
        DELAY=f"{delay:g}" if delay else None,
        ROBOTS="changed" if is_changed else None,
        **params,
    )


def main(context: Context) -> int:
    """Run one harvester's life; gives the exit code."""
    home = Home(context.home)
    channel = Channel(context.channel)
    with Slot.acquire(home, "harvester", context.slot) as slot:
        life: list[Harvester] = []

        async def live() -> None:
            life.append(Harvester(home, slot, context, channel))
            await life[0].run()

        run_child(live, channel, lambda: life[0].stop())
    return 0
