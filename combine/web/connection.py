"""Where aiohttp is held to the leased address, and to one answer for one request: the four places at which it can be.

The resolver, the socket factory and the class of requests are parameters of its session; the protocol is set on the
connector. This module never decides which address may be asked: `Fetcher` does, before it enters a lease here.
"""

from __future__ import annotations

import socket
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientPayloadError
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, ClientResponse

from combine.web import head
from combine.web.addresses import Refused, canonical

#: Bytes of a head that are held back until it is whole; a longer one is passed on, and refused for its size.
HEAD_BYTES = 128 * 1024


@dataclass(slots=True)
class Lease:
    """One fetch under way: where it may connect, to whom it spoke, and whether on a connection that was kept."""

    host: str
    port: int
    address: str
    peer: str = ""
    is_kept: bool = False


#: The address of ours from which the fetch of this task connects; "" where that does not matter.
SOURCE: ContextVar[str] = ContextVar("SOURCE", default="")


class OtherPeer(Exception):
    """A kept connection leads to another address than the leased one; nothing was sent on it."""


class Leases(AbstractResolver):
    """The leases of the fetches under way.

    Invariant: no name leads anywhere, and no socket is made, but to their addresses; and of one host and port there is
    one fetch at a time, as its lease promises.
    """

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, int], Lease] = {}
        self._addresses: dict[str, int] = {}

    def enter(self, host: str, port: int, address: str) -> Lease:
        """Let connections for this host and port go to `address`, until `leave`."""
        assert (host, port) not in self._by_place, f"{host}:{port} is being asked already"
        lease = Lease(host, port, address)
        self._by_place[host, port] = lease
        self._addresses[address] = self._addresses.get(address, 0) + 1
        return lease

    def leave(self, lease: Lease) -> None:
        """End what `enter` began."""
        del self._by_place[lease.host, lease.port]
        left = self._addresses[lease.address] - 1
        if left:
            self._addresses[lease.address] = left
        else:
            del self._addresses[lease.address]

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Give the leased address, whatever a name server would say."""
        lease = self._by_place.get((host, port))
        if lease is None:
            raise OSError(f"{host} is not leased")
        family = socket.AF_INET6 if ":" in lease.address else socket.AF_INET
        return [
            ResolveResult(
                hostname=host, host=lease.address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
            )
        ]

    async def close(self) -> None:
        """Do nothing: nothing is held."""

    def make_socket(self, addr_info: Any) -> socket.socket:
        """Make the socket for a connection; raises Refused where its address is not a leased and permitted one."""
        family, kind, protocol, _, sockaddr = addr_info
        if canonical(str(sockaddr[0])) not in self._addresses:
            raise Refused(f"{sockaddr[0]} is not the address that was leased")
        made = socket.socket(family=family, type=kind, proto=protocol)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if source := SOURCE.get():
            try:
                made.bind((source, 0))
            except OSError:
                made.close()
                raise
        return made

    def request_class(self) -> type[ClientRequest]:
        """Give the class of requests that look at their connection's other end just before they are sent."""
        by_place = self._by_place

        class LeasedRequest(ClientRequest):
            async def send(self, conn: Any) -> ClientResponse:
                address, port = conn.transport.get_extra_info("peername", ("", 0))[:2]
                lease = by_place[self.url.raw_host or "", self.url.port or 0]
                if canonical(address) != lease.address:
                    raise OtherPeer
                lease.is_kept, conn.protocol.is_used = conn.protocol.is_used, True
                lease.peer = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
                return await super().send(conn)

        return LeasedRequest


class Protocol(ResponseHandler):
    """aiohttp's protocol, to which a head comes whole and mended, and never more body than the head announces.

    Holding back the head until it is whole puts it under the limit of the first byte, however slowly it drips. Bytes
    beyond the announced length aiohttp takes for the beginning of another answer, finds them bad, and loses the good
    one that came in the same packet; so it does where bad chunks come in the packet of their head.
    """

    is_used = False  # a request was sent on it
    _held: bytearray | None = None

    def set_response_params(self, **params: Any) -> None:
        """Begin to wait for an answer."""
        self._held = bytearray()
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Take what the socket brought; nothing is how aiohttp wakes a parser that it paused, which holds the rest."""
        if not data and self._held is None:
            self._feed(data)
        while self._held is not None and data:
            seen = max(0, len(self._held) - 3)
            self._held += data
            end = head.end_of(self._held, seen)
            if not end and len(self._held) <= HEAD_BYTES and _may_be_head(self._held):
                return
            received, self._held = bytes(self._held), None
            if end:
                received, data = self._taken(received[:end], received[end:])
                self._feed(received)
            else:
                data = received
        if data:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        """Let the parser read; where it cannot go on, aiohttp leaves the body's reader waiting for its time-out."""
        super().data_received(data)
        if self.exception() is not None and self._payload is not None:
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
