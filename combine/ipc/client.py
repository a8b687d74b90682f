"""The two clients of the wire protocol: `Client` blocks (parser, command), `AsyncClient` awaits (harvester, scheduler).

Both keep one connection, check the greeting, and close the connection after any fault: the request is then repeated
once on a new one, since every verb may come twice. What still fails is RetryLater; a REJECT is Rejected. This is the
only module that retries.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import cast

from combine.errors import Rejected, RetryLater, WireError
from combine.ipc.message import OK, REJECT, RETRY, Line, Message, Reader, dump, message
from combine.services import CALL_S, PROTOCOL, SERVICES
from formats.jcf import Job, RecordError

#: Bytes of a greeting at most: it has two words.
GREETING_BYTES = 1024


class Reply(list[Job]):
    """The lines of an OK, and its text."""

    def __init__(self, lines: Iterable[Job], text: str) -> None:
        super().__init__(lines)
        self.text = text

    @property
    def lines(self) -> list[Job]:
        """The lines themselves."""
        return self


def _check_ladder(service: str, caller: str | None) -> None:
    if caller is not None:
        assert SERVICES[caller].may_call(SERVICES[service]), f"{caller} must not call {service}: calls go right"


def _check_greeting(line: bytes, service: str) -> None:
    words = line.decode("ascii", "replace").split()
    if words[:1] != [PROTOCOL]:
        spoken = " ".join(words[:1]) or "nothing"
        raise WireError(f"{service} speaks {spoken}, this program {PROTOCOL}: restart the older of the two")
    if words[1:2] != [service]:
        raise WireError(f"at the socket of {service} answers {' '.join(words[1:2])}")


def _judge(reply: Message, service: str) -> Message:
    if reply.word == OK:
        return reply
    if reply.word == RETRY:
        raise RetryLater(f"{service}: {reply.text or 'not now'}")
    if reply.word == REJECT:
        raise Rejected(f"{service}: {reply.text or 'rejected'}")
    raise WireError(f"{service} answered {reply.word}, which is no answer")


def _is_no_line(service: str, error: RecordError) -> WireError:
    return WireError(f"{service} answered with a line that is none: {error}")


class Client:
    """A blocking client of one daemon. Not for threads."""

    def __init__(self, path: Path, service: str, caller: str | None = None, timeout_s: float = CALL_S) -> None:
        _check_ladder(service, caller)
        self._path, self._service, self._timeout_s = path, service, timeout_s
        self._socket: socket.socket | None = None
        self._reader = Reader()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, verb: str, lines: Iterable[Line] = (), text: str = "") -> Reply:
        """Ask and wait for the answer; raises RetryLater, Rejected or WireError."""
        reply = self.ask(verb, lines, text)
        try:
            return Reply(reply.jobs(), reply.text)
        except RecordError as error:
            self.close()
            raise _is_no_line(self._service, error) from None

    def ask(self, verb: str, lines: Iterable[Line] = (), text: str = "") -> Message:
        """The same, with the answer's lines as they came."""
        request = dump(message(verb, lines, text))
        is_fresh = self._socket is None
        try:
            return self._ask(request)
        except (OSError, EOFError) as error:
            if is_fresh or isinstance(error, TimeoutError):
                raise _is_away(self._service, error) from None
        try:
            return self._ask(request)
        except (OSError, EOFError) as error:
            raise _is_away(self._service, error) from None

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._reader = Reader()

    def _ask(self, request: bytes) -> Message:
        # Whatever ends an exchange half way, Ctrl-C too, its answer may yet come: the next call must not read that.
        try:
            reply = self._exchange(request, time.monotonic() + self._timeout_s)
        except BaseException:
            self.close()
            raise
        return _judge(reply, self._service)

    def _exchange(self, request: bytes, deadline: float) -> Message:
        connection = self._socket or self._open(deadline)
        connection.settimeout(_left(deadline))
        connection.sendall(request)
        while (reply := self._reader.take()) is None:
            connection.settimeout(_left(deadline))
            data = connection.recv(256 * 1024)
            if not data:
                raise EOFError("it closed the connection")
            self._reader.feed(data)
        return reply

    def _open(self, deadline: float) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_left(deadline))
            connection.connect(str(self._path))
            greeting = b""
            while not greeting.endswith(b"\n"):
                connection.settimeout(_left(deadline))
                data = connection.recv(256)
                if not data or len(greeting) > GREETING_BYTES:
                    raise EOFError("it closed the connection without a greeting")
                greeting += data
            _check_greeting(greeting, self._service)
        except BaseException:
            connection.close()
            raise
        self._socket = connection
        return connection


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _is_away(service: str, error: Exception) -> RetryLater:
    return RetryLater(f"{service} is away ({str(error) or type(error).__name__})")


class _Wire(asyncio.Protocol):
    """One connection of an AsyncClient: hands over the greeting, then one message for each request."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self._reader = Reader()
        self._greeting = bytearray()
        self._greeted: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answer: asyncio.Future[Message] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by class

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        for waiting in (self._greeted, self._answer):
            if waiting is not None and not waiting.done():
                waiting.set_exception(EOFError("it closed the connection"))
                waiting.exception()  # nobody may be there any more to be told

    def data_received(self, data: bytes) -> None:
        if not self._greeted.done():
            self._greeting += data
            if b"\n" not in self._greeting:
                if len(self._greeting) > GREETING_BYTES and self.transport is not None:
                    self.transport.abort()
                return
            line, _, data = bytes(self._greeting).partition(b"\n")
            self._greeted.set_result(line)
        self._reader.feed(data)
        try:
            reply = self._reader.take()
        except WireError as error:
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(error)
            return
        if reply is not None and self._answer is not None and not self._answer.done():
            self._answer.set_result(reply)

    async def greeting(self) -> bytes:
        return await self._greeted

    async def exchange(self, request: bytes) -> Message:
        if self.closed or self.transport is None:
            raise EOFError("it closed the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()


class AsyncClient:
    """An awaiting client of one daemon; calls of several tasks go one after another."""

    def __init__(self, path: Path, service: str, caller: str, timeout_s: float = CALL_S) -> None:
        _check_ladder(service, caller)
        self._path, self._service, self._timeout_s = path, service, timeout_s
        self._wire: _Wire | None = None
        self._turn = asyncio.Lock()

    async def call(self, verb: str, lines: Iterable[Line] = (), text: str = "") -> Reply:
        """Ask and await the answer; raises RetryLater, Rejected or WireError."""
        reply = await self.ask(verb, lines, text)
        try:
            return Reply(reply.jobs(), reply.text)
        except RecordError as error:
            self.close()
            raise _is_no_line(self._service, error) from None

    async def ask(self, verb: str, lines: Iterable[Line] = (), text: str = "") -> Message:
        """The same, with the answer's lines as they came."""
        request = dump(message(verb, lines, text))
        async with self._turn:
            is_fresh = self._wire is None or self._wire.closed
            try:
                return await self._ask(request)
            except (OSError, EOFError) as error:
                if is_fresh or isinstance(error, TimeoutError):
                    raise _is_away(self._service, error) from None
            try:
                return await self._ask(request)
            except (OSError, EOFError) as error:
                raise _is_away(self._service, error) from None

    async def _ask(self, request: bytes) -> Message:
        try:
            async with asyncio.timeout(self._timeout_s):
                if self._wire is None or self._wire.closed:
                    await self._open()
                assert self._wire is not None
                return _judge(await self._wire.exchange(request), self._service)
        except (OSError, EOFError, WireError, asyncio.CancelledError):
            self.close()
            raise

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_unix_connection(_Wire, str(self._path))
        try:
            _check_greeting(await wire.greeting(), self._service)
        except BaseException:
            wire.close()
            raise
        self._wire = wire

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
