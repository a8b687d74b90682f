"""The skeleton of a daemon: a Unix socket, verbs, three answers, one commit for all answers of a tick, an ordered end.

A daemon is a `Desk`: its verbs are `async` methods in a table, `commit` makes durable what they changed, `recover`
throws away what is not durable and reads the state anew. The skeleton owns everything else. Theory of operation:

1. A connection has at most one request in hand. Meanwhile no more than `AHEAD_BYTES` are read of what follows, so a
   fast sender only fills its own buffer; reading goes on at all so that a peer's end is known while his request waits.
2. A finished request's answer waits for `commit`, which runs once for all that finished in one turn of the loop.
3. When a verb or the commit fails by the disk or by a bug, `recover` runs, and every answer that waited becomes RETRY:
   nothing that was not durable has been promised to anybody. Where the disk is so full that `recover` fails, too,
   nothing is done and everybody gets RETRY until it succeeds.

This module knows no verb and no table.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sqlite3
import struct
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from combine.crashpoints import reached
from combine.errors import ConfigError, Rejected, RetryLater, WireError, damaged, is_damage
from combine.ipc.message import OK, REJECT, RETRY, Line, Message, Reader, dump, message
from combine.services import CALL_S, PROTOCOL, Service
from formats.jcf import Job, RecordError

log = logging.getLogger(__name__)

#: Connections held at once; above, the longest idle one is closed. Twice what 500 workers need.
CONNECTIONS = 1_024

#: Bytes read ahead of a connection whose request is in hand.
AHEAD_BYTES = 64 * 1024

#: Seconds between two looks at idle and half-fed connections, and at the socket file.
SWEEP_S = 5.0


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a connection, as the kernel vouches for it."""

    pid: int
    uid: int


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its message, who asks, and a question whether he still waits."""

    message: Message
    peer: Peer
    is_gone: Callable[[], bool]

    def jobs(self) -> list[Job]:
        """The request's lines read as JCF; RecordError becomes a REJECT."""
        return self.message.jobs()

    def texts(self) -> list[str]:
        """The request's lines as text; RecordError becomes a REJECT."""
        return self.message.texts()


Verb = Callable[[Request], Awaitable[Message]]


class Desk(Protocol):
    """What a daemon brings to the skeleton."""

    service: Service
    database: Path  # of which a fault speaks that says that a database is damaged

    @property
    def syncs(self) -> int:
        """How often something was made durable so far."""
        ...

    def verbs(self) -> dict[str, Verb]:
        """The handler of each verb."""
        ...

    def commit(self) -> None:
        """Make durable what the verbs changed; raises OSError or sqlite3.Error where it could not."""
        ...

    def recover(self, reason: str) -> None:
        """Forget what is not durable and read the state from disk again."""
        ...

    async def start(self, server: Server) -> None:
        """Called once, before the socket listens."""
        ...

    async def stop(self) -> None:
        """Called once, after the last answer."""
        ...

    def reread(self) -> None:
        """SIGHUP: read again what may change while running."""
        ...


def ok(lines: Iterable[Line] = (), text: str = "") -> Message:
    """The answer of a request that was done."""
    return message(OK, lines, text)


class _Connection(asyncio.Protocol):
    """One connection: cuts bytes into requests and writes answers in their order."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.reader = Reader()
        self.peer = Peer(0, -1)
        self.busy: asyncio.Task[None] | None = None
        self.since = time.monotonic()
        self.closing = False
        self.gone = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by class
        end = self.transport.get_extra_info("socket")
        pid, uid, _ = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        self.peer = Peer(pid, uid)
        if uid not in (os.getuid(), 0):
            log.warning("a process of another user was turned away pid=%d uid=%d", pid, uid)
            self.transport.abort()
            return
        self.server.admit(self)
        self.transport.write(f"{PROTOCOL} {self.server.desk.service.name}\n".encode())

    def connection_lost(self, error: Exception | None) -> None:
        self.gone = True
        self.server.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self.reader.feed(data)
        self.since = time.monotonic()
        self.next()
        if self.busy is not None and self.transport is not None and self.reader.size > AHEAD_BYTES:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        """The peer sends nothing more: he is gone, or he only closed his end; his last request is answered."""
        self.gone = True
        return self.busy is not None

    def next(self) -> None:
        """Start the next whole request, if there is one and none is in hand."""
        if self.busy is not None or self.closing or self.transport is None:
            return
        try:
            request = self.reader.take()
        except WireError as error:
            log.warning("a peer did not speak the protocol pid=%d fault=%s", self.peer.pid, error)
            self.closing = True
            self.transport.write(dump(Message(REJECT, str(error))))
            self.transport.close()
            return
        if request is not None:
            self.busy = asyncio.get_running_loop().create_task(self.server.answer(self, request))

    def write(self, reply: Message) -> None:
        """Send an answer and go on with what lies in the buffer."""
        self.busy = None
        self.since = time.monotonic()
        if self.transport is None or self.transport.is_closing():
            return
        self.transport.write(dump(reply))
        self.transport.resume_reading()
        self.next()
        if self.gone and self.busy is None:
            self.transport.close()


class Server:
    """Runs a Desk on a socket until told to stop."""

    def __init__(self, desk: Desk, path: Path) -> None:
        self.desk = desk
        self.path = path
        self.connections: set[_Connection] = set()
        self.stopping = asyncio.Event()
        self._messages = 0
        self._verbs = desk.verbs()
        assert set(self._verbs) == set(desk.service.verbs), "the verbs are those of services.py"
        self.note: Callable[[str], None] = lambda text: None  # tells keepalive, and so the status, what is waited for
        self._fault = ""  # what the last commit failed of
        self._answers: list[tuple[_Connection, Message]] = []
        self._durable: list[asyncio.Future[None]] = []
        self._flush_is_due = False
        self._listener: asyncio.AbstractServer | None = None
        self._inode = 0
        self._spoiled = ""
        self._damage: ConfigError | None = None

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve: start, listen, say ready, wait for the end, stop in order; a damaged database raises ConfigError."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self.desk.reread)
        await self.desk.start(self)
        await self._listen()
        ready()
        sweeper = loop.create_task(self._sweep())
        await self.stopping.wait()
        sweeper.cancel()
        await self._close()
        if self._damage is not None:
            raise self._damage

    def commit_soon(self) -> None:
        """Something changed outside a verb: commit it with the next tick."""
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    async def durable(self) -> None:
        """Wait until all that was changed up to now is committed; raises RetryLater where it could not be."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._durable.append(waiter)
        self.commit_soon()
        await waiter

    def spoil(self, reason: str, error: Exception | None = None) -> None:
        """Something failed half way: nothing that is not committed may stand or be promised."""
        if error is not None:
            self._judge(error)
        self._recover(reason)
        answers, self._answers = self._answers, []
        for connection, _ in answers:
            connection.write(Message(RETRY, reason))
        waiting, self._durable = self._durable, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_exception(RetryLater(reason))

    def _recover(self, reason: str) -> bool:
        """Have the desk read its state again; false where that failed, too, and is to be tried again."""
        try:
            self.desk.recover(reason)
        except Exception as error:
            if not self._judge(error):
                log.exception("the state could not be read again")
            self._spoiled = reason
            return False
        self._spoiled = ""
        return True

    def _judge(self, error: Exception) -> bool:
        """Whether an error says that a database is damaged; the daemon is then to end."""
        if not is_damage(error) and not isinstance(error, ConfigError):
            return False
        named = error if isinstance(error, ConfigError) else damaged(self.desk.database, error)
        self._damage = self._damage or named
        self.stopping.set()
        return True

    def admit(self, connection: _Connection) -> None:
        """Count a connection in; above the limit the longest idle one goes."""
        self.connections.add(connection)
        if len(self.connections) > CONNECTIONS:
            idle = [held for held in self.connections if held.busy is None and held is not connection]
            if idle:
                oldest = min(idle, key=lambda held: held.since)
                if oldest.transport is not None:
                    oldest.transport.abort()
                self.connections.discard(oldest)

    async def answer(self, connection: _Connection, request: Message) -> None:
        """Run one verb; its answer waits for the tick's commit."""
        self._messages += 1
        reply = await self._dispatch(connection, request)
        self._answers.append((connection, reply))
        self.commit_soon()

    async def _dispatch(self, connection: _Connection, request: Message) -> Message:
        verb = self._verbs.get(request.word)
        if verb is None:
            known = " ".join(self.desk.service.verbs)
            return Message(REJECT, f"{request.word} is no verb of {self.desk.service.name}: {known}")
        if self._spoiled and not self._recover(self._spoiled):
            return Message(RETRY, self._spoiled)
        try:
            return await verb(Request(request, connection.peer, lambda: connection.gone))
        except (RecordError, Rejected) as error:
            return Message(REJECT, str(error))
        except (RetryLater, WireError) as error:  # a peer that it needs is away, or of another version
            return Message(RETRY, str(error))
        except (OSError, sqlite3.Error, ConfigError) as error:
            log.error("the disk failed verb=%s fault=%s", request.word, error)
            self.spoil(f"the disk failed: {error}", error)
            return Message(RETRY, str(self._damage or f"the disk failed: {error}"))
        except Exception:
            log.exception("a verb failed verb=%s", request.word)
            self.spoil(f"{request.word} failed; see the log")
            return Message(RETRY, f"{request.word} failed; see the log")

    def _flush(self) -> None:
        self._flush_is_due = False
        if self._spoiled:
            self.spoil(self._spoiled)
            return
        reached("daemon.changed")
        before = self.desk.syncs
        try:
            self.desk.commit()
        except (OSError, sqlite3.Error) as error:
            if str(error) != self._fault:
                log.error("nothing can be committed; it is tried again and again fault=%s", error)
            self._fault = str(error)
            self.note(f"waits: {self._fault}")
            self.spoil(f"the disk failed: {error}", error)
            return
        if self._fault and self.desk.syncs > before:  # a tick in which nothing changed shows nothing
            log.warning("commits go through again")
            self._fault = ""
            self.note("")
        reached("daemon.committed")
        waiting, self._durable = self._durable, []
        answers, self._answers = self._answers, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
        for connection, reply in answers:
            connection.write(reply)

    async def _listen(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listening.bind(str(self.path))
        except OSError:
            listening.close()
            raise
        finally:
            os.umask(before)
        listening.listen(512)
        listening.setblocking(False)
        self._inode = self.path.stat().st_ino
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_unix_server(lambda: _Connection(self), sock=listening)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            late = time.monotonic() - CALL_S
            for connection in list(self.connections):
                if connection.busy is None and not connection.reader.is_empty and connection.since < late:
                    log.warning("a peer sent half a message and fell silent pid=%d", connection.peer.pid)
                    if connection.transport is not None:
                        connection.transport.abort()
            if not self._socket_stands():
                log.warning("the socket was removed and is made again path=%s", self.path)
                if self._listener is not None:
                    self._listener.close()
                with contextlib.suppress(OSError):
                    await self._listen()

    def _socket_stands(self) -> bool:
        try:
            return self.path.stat().st_ino == self._inode
        except OSError:
            return False

    async def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        tasks = [held.busy for held in self.connections if held.busy is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._flush()
        for connection in list(self.connections):
            if connection.transport is not None:
                connection.transport.close()
        try:
            await self.desk.stop()
        except sqlite3.Error as error:
            if not self._judge(error):
                raise
        log.info("its work is done messages=%d syncs=%d", self._messages, self.desk.syncs)
        if self._socket_stands():
            self.path.unlink()
