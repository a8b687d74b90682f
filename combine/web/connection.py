"""Connections to leased addresses: made, kept while they are idle, and used for one request after another.

Theory of operation. aiohttp reads the answers (its protocol and its parser, which is C); the rest of its client is left
aside, since names, redirects, cookies and proxies are none of ours, and since its session costs more than the fetch. A
`Place` names the leased address, and a connection belongs to one place for good: so it can lead nowhere else.
This module never decides which address may be asked: `Fetcher` does, before it comes here.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial
from math import inf
from typing import NamedTuple

from combine.config import Harvest
from combine.web import head
from combine.web.aiohttp_parts import ClientPayloadError, ResponseHandler

#: Seconds an idle connection is kept: less than the 5 s of Apache and Node, so that a request seldom meets a closing
#: one.
KEEP_S = 4.0

#: Seconds between two looks at the idle ones.
LOOK_S = 1.0

#: Bytes of a head that are held back until it is whole; a longer one is passed on, and refused for its size.
HEAD_BYTES = 128 * 1024

#: Bytes of a field, on average: a header of n bytes may have n / 16 fields, which bounds the memory it takes.
FIELD_BYTES = 16


class Place(NamedTuple):
    """Where a connection leads, and how it gets there."""

    is_tls: bool
    host: str
    port: int
    address: str
    source: str = ""  # the address of ours from which it goes; "" where that does not matter
    is_accepted: bool = False  # its certificate is not verified

    @property
    def peer(self) -> str:
        """Address and port at the other end."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


class Unconnected(Exception):
    """There was no connection, and nothing was sent; the cause says why."""

    def __init__(self, place: Place, cause: Exception) -> None:
        super().__init__(f"no connection to {place.peer}: {str(cause) or 'no answer in time'}")
        self.host = place.host
        self.cause = cause


class Connections:
    """A harvester's connections. Invariant: of a place at most one is kept, and it waits for no answer."""

    def __init__(self, limits: Harvest) -> None:
        self._limits = limits
        self._kept: dict[Place, tuple[Protocol, float]] = {}
        self._look: asyncio.TimerHandle | None = None
        self._contexts: dict[bool, ssl.SSLContext] = {}

    async def take(self, place: Place) -> Protocol:
        """The kept connection of a place, or a new one; raises Unconnected."""
        kept, since = self._kept.pop(place, (None, 0.0))
        if kept is not None:
            if kept.is_connected() and not kept.should_close and kept.loop.time() - since < KEEP_S:
                return kept
            kept.close()
        return await self._connect(place)

    def give(self, place: Place, connection: Protocol) -> None:
        """Take a connection back after its request; it is closed where the answer did not end well."""
        if connection.should_close or not connection.is_connected():
            connection.close()
            return
        connection.rest()
        loop = connection.loop
        self._kept[place] = connection, loop.time()
        if self._look is None:
            self._look = loop.call_later(LOOK_S, self._close_idle, loop)

    def close(self) -> None:
        """Close all that are kept."""
        if self._look is not None:
            self._look.cancel()
        for connection, _ in self._kept.values():
            connection.close()
        self._kept.clear()

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        ended = loop.time() - KEEP_S
        for place in [place for place, (_, since) in self._kept.items() if since <= ended]:
            self._kept.pop(place)[0].close()
        self._look = loop.call_later(LOOK_S, self._close_idle, loop) if self._kept else None

    async def _connect(self, place: Place) -> Protocol:
        loop = asyncio.get_running_loop()
        make = partial(Protocol, loop, self._limits)
        context = self._context(place.is_accepted) if place.is_tls else None
        name = place.host if place.is_tls else None
        made: socket.socket | None = None
        connection: Protocol | None = None
        try:
            async with asyncio.timeout(self._limits.connect_s):
                made = _socket(place)
                await loop.sock_connect(made, (place.address, place.port))
                _, connection = await loop.create_connection(make, sock=made, ssl=context, server_hostname=name)
        except (OSError, ValueError) as error:
            raise Unconnected(place, error) from None
        finally:
            if made is not None and connection is None:
                made.close()
        return connection

    def _context(self, is_accepted: bool) -> ssl.SSLContext:
        # Made when first needed: the certificates of the system are some hundred.
        if is_accepted not in self._contexts:
            context = self._contexts[is_accepted] = ssl.create_default_context()
            if is_accepted:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
        return self._contexts[is_accepted]


def _socket(place: Place) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in place.address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        if place.source:
            made.bind((place.source, 0))
    except OSError:
        made.close()
        raise
    return made


class Protocol(ResponseHandler):
    """aiohttp's protocol, to which a head comes whole and mended, and never more body than the head announces.

    Holding back the head until it is whole puts it under the limit of the first byte, however slowly it drips. Bytes
    beyond the announced length aiohttp takes for the beginning of another answer, finds them bad, and loses the good
    one that came in the same packet; so it does where bad chunks come in the packet of their head.

    One timer watches all requests of a connection: it looks at its deadlines when it goes off and not with each packet.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Harvest) -> None:
        super().__init__(loop)
        self.loop = loop
        self.is_used = False  # a request was sent on it
        self.is_silent = True  # nothing came of the answer
        self._limits = limits
        self._held: bytearray | None = None
        self._silent_at = self._over_at = inf
        self._alarm: asyncio.TimerHandle | None = None

    def ask(self, request: bytes, head_only: bool, left_s: float) -> None:
        """Send a request; `read` gives the head of its answer and its body, within `left_s` seconds in all."""
        assert self.transport is not None
        limits, now = self._limits, self.loop.time()
        self.is_used, self.is_silent, self._held = True, True, bytearray()
        self._silent_at, self._over_at = now + limits.first_byte_s, now + left_s
        self.set_response_params(
            skip_payload=head_only,
            read_until_eof=True,
            auto_decompress=False,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=limits.header_bytes // FIELD_BYTES,
        )
        self.transport.write(request)
        if self._alarm is None:
            self._watch()

    def rest(self) -> None:
        """Wait for nothing any more."""
        self._silent_at = self._over_at = inf

    def close(self) -> None:
        """Close the connection."""
        self.rest()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        super().close()

    def _watch(self) -> None:
        """End a request whose time is over; else look again when it would be."""
        self._alarm, now = None, self.loop.time()
        if self._reading_paused:
            self._silent_at = now + self._limits.first_byte_s  # it is we who do not read
        due = min(self._silent_at, self._over_at)
        if due <= now:
            self._on_read_timeout()
        elif due < inf:
            self._alarm = self.loop.call_at(due, self._watch)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Go on where reading was paused; aiohttp asks for it with every piece that is taken."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def data_received(self, data: bytes) -> None:
        """Take what the socket brought; nothing is how aiohttp wakes a parser that it paused, which holds the rest."""
        self.is_silent = False
        if not data and self._held is None:
            self._feed(data)
        elif self._held is None:
            self._hear()
        while self._held is not None and data:
            seen = max(0, len(self._held) - 3)
            self._held += data
            end = head.end_of(self._held, seen)
            if not end and len(self._held) <= HEAD_BYTES and _may_be_head(self._held):
                return
            received, self._held = bytes(self._held), None
            self._hear()
            if end:
                received, data = self._taken(received[:end], received[end:])
                self._feed(received)
            else:
                data = received
        if data:
            self._feed(data)

    def _hear(self) -> None:
        """Put off the end for silence. A piece of a head does not: it would drip as long as it likes."""
        if self._over_at < inf:
            self._silent_at = self.loop.time() + self._limits.first_byte_s

    def _feed(self, data: bytes) -> None:
        """Let the parser read; where it cannot go on, aiohttp leaves the body's reader waiting for its time-out.

        A body that was whole before stays so, whatever comes behind it.
        """
        super().data_received(data)
        if self.exception() is not None and self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(ClientPayloadError("what follows is no HTTP"))

    def _taken(self, received: bytes, rest: bytes) -> tuple[bytes, bytes]:
        """The head mended, and what may follow it."""
        received = head.mended(received)
        if head.is_interim(received):
            self._held = bytearray()
            return received, rest
        length = head.length_of(received)
        if length is not None and len(rest) > length:
            self.force_close()
            rest = rest[:length]
        return (received, rest) if length is None else (received + rest, b"")


def _may_be_head(held: bytearray) -> bool:
    return held.startswith(b"HTTP/") or b"HTTP/".startswith(held)
