"""The scheduler's and idbd's desks behind their real servers on real sockets, all in one process and one loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from combine.channel import Context
from combine.config import Harvest, Scheduler, Settings
from combine.ipc.client import AsyncClient, Reply
from combine.ipc.server import Desk, Server
from combine.keep.home import Home, create
from daemons.idbd import Idbd
from daemons.scheduler import Scheduler as SchedulerDesk
from formats.jcf import Job

#: Seconds after which a test that waits gives up; nothing here takes a tenth of it.
PATIENCE_S = 20.0

#: Loopback is listed, so no site has a delay; nobody waits long in TAKE.
LISTED = Settings(harvest=Harvest(allow_private=("127.0.0.0/8",)), scheduler=Scheduler(take_wait_s=5.0, standing=False))


class Daemon:
    """A desk that serves, and a client of it."""

    def __init__(self, desk: Desk, path: Path, caller: str) -> None:
        self.desk = desk
        self.server = Server(desk, path)
        self.client = AsyncClient(path, desk.service.name, caller)
        self._running: asyncio.Task[None] | None = None
        self._path, self._caller = path, caller

    async def start(self) -> None:
        """Serve from now on."""
        ready = asyncio.Event()
        self._running = asyncio.get_running_loop().create_task(self.server.run(ready.set))
        waiting = asyncio.ensure_future(ready.wait())
        await asyncio.wait({self._running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if self._running.done():
            waiting.cancel()
            self._running.result()

    async def call(self, verb: str, *lines: Job) -> Reply:
        """Ask on the client's connection."""
        return await self.client.call(verb, lines)

    async def aside(self, verb: str, *lines: Job) -> Reply:
        """Ask on a connection of its own."""
        client = AsyncClient(self._path, self.desk.service.name, self._caller)
        try:
            return await client.call(verb, lines)
        finally:
            client.close()

    async def stop(self) -> None:
        """End in order."""
        self.client.close()
        self.server.stopping.set()
        if self._running is not None:
            await self._running
            self._running = None


class Cabin:
    """A home with a scheduler and an idbd."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self.home, self.settings = home, settings
        self._ours, self._theirs = socket.socketpair()
        self.idbd = self.make_idbd()
        self.scheduler = self.make_scheduler()

    def make_idbd(self) -> Daemon:
        """An idbd that does not serve yet."""
        return Daemon(Idbd(self.home.idb, self.settings), self.home.socket("idbd"), "scheduler")

    def make_scheduler(self) -> Daemon:
        """A scheduler that does not serve yet."""
        context = Context(self.home.path, "scheduler", 0, self.settings, self._theirs)
        return Daemon(SchedulerDesk(self.home, context), self.home.socket("scheduler"), "harvester")

    async def call(self, verb: str, *lines: Job) -> Reply:
        """Ask the scheduler."""
        return await self.scheduler.call(verb, *lines)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let all others work until something holds."""
        while not condition():  # noqa: ASYNC110 -- a test may wait for anything, which has no event
            await asyncio.sleep(0.002)

    def close(self) -> None:
        """Close what the desks do not."""
        self._ours.close()
        self._theirs.close()


@asynccontextmanager
async def cabin(path: Path, settings: Settings = LISTED) -> AsyncIterator[Cabin]:
    """A scheduler and an idbd that serve until the block ends."""
    made = Cabin(create(path / "h"), settings)
    try:
        await made.idbd.start()
        await made.scheduler.start()
        yield made
    finally:
        await made.scheduler.stop()
        await made.idbd.stop()
        made.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine, and give up after a while."""
    uvloop.run(asyncio.wait_for(work, PATIENCE_S))


def standing(settings: Settings = LISTED) -> Settings:
    """The same settings for a standing harvest."""
    return replace(settings, scheduler=replace(settings.scheduler, standing=True))


@contextmanager
def broken(thing: object, name: str, faults: Iterable[Exception]) -> Iterator[list[Exception]]:
    """Make a method of a thing fail so many times."""
    left = list(faults)
    method = getattr(thing, name)

    def fail(*args: Any, **named: Any) -> Any:
        if left:
            raise left.pop(0)
        return method(*args, **named)

    setattr(thing, name, fail)
    try:
        yield left
    finally:
        delattr(thing, name)
