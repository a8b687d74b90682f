"""The protocol below the fetcher: what its parser keeps back while nobody reads must come when somebody does."""

import asyncio
from typing import Any

import pytest
from aiohttp import ClientPayloadError

from combine.config import Harvest
from combine.web.connection import Connections, Place, Protocol, Unconnected

LENGTH = 1 << 20


class Wire(asyncio.Transport):
    """A transport that can be paused."""

    paused = False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def close(self) -> None:
        pass

    def write(self, data: object) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def asked() -> tuple[Protocol, Wire]:
    """A connection on which a request was sent."""
    protocol, wire = Protocol(asyncio.get_running_loop(), Harvest()), Wire()
    protocol.connection_made(wire)
    protocol.ask(b"", False, 60.0)
    return protocol, wire


@pytest.mark.parametrize(
    "packets",
    [
        [b"Content-Length: %d\r\n\r\n" % LENGTH, bytes(LENGTH)],
        [b"Content-Length: %d\r\n\r\n" % LENGTH + bytes(LENGTH)],
        [b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n" % LENGTH, bytes(LENGTH) + b"\r\n0\r\n\r\n"],
    ],
)
def test_a_body_ends_though_its_last_packet_filled_the_buffer(packets: list[bytes]) -> None:
    async def read() -> int:
        protocol, wire = asked()
        protocol.data_received(b"HTTP/1.1 200 OK\r\n")
        for packet in packets:
            protocol.data_received(packet)
        assert wire.paused
        _, body = await protocol.read()
        length = 0
        async with asyncio.timeout(5):
            while chunk := await body.readany():
                length += len(chunk)
        assert not wire.paused
        return length

    assert LENGTH == asyncio.run(read())


def test_garbage_among_chunks_ends_the_body_at_once_and_what_came_before_is_there() -> None:
    async def read() -> bytes:
        protocol, _ = asked()
        protocol.data_received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n")
        _, body = await protocol.read()
        with pytest.raises(ClientPayloadError):
            await body.read()
        return b"".join(body._buffer)

    assert b"hello" == asyncio.run(read())


@pytest.mark.parametrize(
    "packets",
    [
        [b"Content-Length: 5\r\n\r\nhelloJUNK"],
        [b"Content-Length: 5\r\n\r\n", b"helloJUNK"],
        [b"Content-Length: 5\r\n\r\nhe", b"lloJUNK"],
        [b"Content-Length: 5\r\n\r\nhe", b"llo", b"JUNK"],
        [b"Content-Length: 5\r\n\r\n", b"helloHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nun"],
        [b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nJUNK"],
        [b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\nJUNK"],
    ],
)
def test_a_body_is_whole_whatever_follows_it_and_in_whichever_packet(packets: list[bytes]) -> None:
    async def read() -> tuple[bytes, bool]:
        protocol, _ = asked()
        protocol.data_received(b"HTTP/1.1 200 OK\r\n")
        for packet in packets:
            protocol.data_received(packet)
        _, body = await protocol.read()
        protocol.connection_lost(None)
        return await body.read(), protocol.should_close

    assert (b"hello", True) == asyncio.run(read())


@pytest.mark.parametrize(("late", "is_kept"), [(b"", True), (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", False)])
def test_what_comes_unasked_is_no_answer_to_the_next_request(late: bytes, is_kept: bool) -> None:
    async def read() -> bool:
        place, connections = Place(False, "a.example", 80, "192.0.2.7"), Connections(Harvest(connect_s=0.0))
        protocol, _ = asked()
        protocol.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        _, body = await protocol.read()
        assert b"ok" == await body.read()
        connections.give(place, protocol)
        if late:
            protocol.data_received(late)
        try:
            return protocol is await connections.take(place)
        except Unconnected:
            return False
        finally:
            connections.close()

    assert is_kept == asyncio.run(read())
