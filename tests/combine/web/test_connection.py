"""The protocol below the fetcher: what its parser keeps back while nobody reads must come when somebody does."""

import asyncio
from typing import Any

import pytest
from aiohttp import ClientPayloadError

from combine.web.connection import Protocol

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

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


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
        protocol, wire = Protocol(asyncio.get_running_loop()), Wire()
        protocol.connection_made(wire)
        protocol.set_response_params()
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
        protocol = Protocol(asyncio.get_running_loop())
        protocol.connection_made(Wire())
        protocol.set_response_params()
        protocol.data_received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n")
        _, body = await protocol.read()
        with pytest.raises(ClientPayloadError):
            await body.read()
        return b"".join(body._buffer)

    assert b"hello" == asyncio.run(read())
