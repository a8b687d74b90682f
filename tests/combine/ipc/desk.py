"""A desk whose verbs do what a test says, behind the real server on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from combine.ipc.message import Message
from combine.ipc.server import Request, Server, Verb, ok
from combine.services import SERVICES

T = TypeVar("T")

#: Seconds after which a test that waits gives up; nothing here takes a tenth of it.
PATIENCE_S = 20.0


class Desk:
    """Counts commits and recoveries; LOOKUP echoes, REMEMBER raises `fault`, DUE waits for `go`."""

    service = SERVICES["idbd"]
    database = Path("idb/visits.sqlite")

    def __init__(self) -> None:
        self.log: list[str] = []
        self.fault: Exception | None = None
        self.commit_faults: list[Exception] = []
        self.recover_faults: list[Exception] = []
        self.go = asyncio.Event()
        self.entered = asyncio.Event()
        self.requests: list[Request] = []

    def verbs(self) -> dict[str, Verb]:
        own: dict[str, Verb] = {"LOOKUP": self.lookup, "REMEMBER": self.remember, "DUE": self.due}
        return {name: own.get(name, self.ping) for name in self.service.verbs}

    async def ping(self, request: Request) -> Message:
        self.requests.append(request)
        return ok(text=request.message.word)

    async def lookup(self, request: Request) -> Message:
        self.log.append("verb")
        return ok(request.jobs())

    async def remember(self, request: Request) -> Message:
        if self.fault is not None:
            raise self.fault
        return ok()

    async def due(self, request: Request) -> Message:
        self.requests.append(request)
        self.entered.set()
        await self.go.wait()
        return ok(text="gone" if request.is_gone() else "here")

    @property
    def syncs(self) -> int:
        return self.log.count("commit")

    def commit(self) -> None:
        if self.commit_faults:
            raise self.commit_faults.pop(0)
        self.log.append("commit")

    def recover(self, reason: str) -> None:
        if self.recover_faults:
            raise self.recover_faults.pop(0)
        self.log.append(f"recover: {reason}")

    def reread(self) -> None:
        self.log.append("reread")

    async def start(self, server: Server) -> None:
        self.log.append("start")

    async def stop(self) -> None:
        self.log.append("stop")


class Wire:
    """A connection as `nc -U` makes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def hear(self) -> str:
        return (await self.reader.readline()).decode()

    async def ask(self, data: bytes) -> str:
        await self.say(data)
        return await self.hear()

    async def end(self) -> bytes:
        """What still comes until the other end closes."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read()
        return b""

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


async def connect(path: Path) -> Wire:
    """A connection whose greeting is heard."""
    wire = Wire(*await asyncio.open_unix_connection(str(path)))
    assert (await wire.hear()) == "combine/1 idbd\n"
    return wire


@contextlib.asynccontextmanager
async def serving(path: Path) -> AsyncIterator[tuple[Desk, Server]]:
    """A desk that serves at a path until the block ends."""
    desk = Desk()
    server = Server(desk, path)
    ready = asyncio.Event()
    running = asyncio.get_running_loop().create_task(server.run(ready.set))
    await asyncio.wait({running, asyncio.ensure_future(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield desk, server
    finally:
        server.stopping.set()
        await running


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine, and give up after a while."""
    return uvloop.run(asyncio.wait_for(work, PATIENCE_S))


async def aside(call: Callable[[], T]) -> T:
    """Run a blocking call beside the loop."""
    work: Awaitable[T] = asyncio.get_running_loop().run_in_executor(None, call)
    return await work
