"""What is read without a parser must be what the parser reads, byte for byte; and all else must be left to it."""

import asyncio

import pytest
from aiohttp import ClientPayloadError

from combine.config import Harvest
from combine.web.answer import Head
from combine.web.body import Body, read_body
from combine.web.connection import Protocol
from combine.web.plain import BODY_BYTES, PlainBody, begin
from tests.combine.web.test_connection import Wire

OK = b"HTTP/1.1 200 OK\r\n"
FIVE = b"Content-Length: 5\r\n"


def answered(*packets: bytes) -> tuple[Head, Body, bool]:
    """What a connection makes of an answer: its head, its body, and whether it is to be closed."""

    async def read() -> tuple[Head, Body, bool]:
        protocol = Protocol(asyncio.get_running_loop(), Harvest())
        protocol.connection_made(Wire())
        protocol.ask(b"", False, 60.0)
        for packet in packets:
            protocol.data_received(packet)
        head, content = await protocol.answer()
        return head, await read_body(content, 1 << 20, 0), protocol.should_close

    return asyncio.run(read())


def is_plain(data: bytes) -> bool:
    return begin(data, 65536, 4096) is not None


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (True, OK + FIVE + b"\r\nhello"),
        (True, OK + FIVE + b"\r\nhelloJUNK"),
        (True, OK + FIVE + b"Connection: close\r\n\r\nhello"),
        (True, OK + FIVE + b"CONNECTION: Keep-Alive\r\n\r\nhello"),
        (True, OK + b"content-length: 0\r\nx-empty: \r\n\r\n"),
        (True, OK + b"X: \xe4 \xff\tb\r\nx: again\r\n" + FIVE + b"\r\nhello"),
        (True, b"HTTP/1.1 404 Nicht da \xe4\r\n" + FIVE + b"\r\nhello"),
        (True, b"HTTP/1.1 301 Moved\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"),
        (True, OK + FIVE + b"X: says connection: close\r\n\r\nhello"),
        (False, OK + FIVE + b"Proxy-Connection: close\r\n\r\nhello"),
        (False, OK + FIVE + b"Connection: Upgrade\r\n\r\nhello"),
        (False, OK + FIVE + b"Connection: close, x\r\n\r\nhello"),
        (False, OK + FIVE + b"Connection:close\r\n\r\nhello"),
        (False, OK + FIVE + b"Connection: close\r\nConnection: keep-alive\r\n\r\nhello"),
        (False, OK + FIVE + b"X:  two blanks\r\n\r\nhello"),
        (False, OK + FIVE + b"X: blank behind \r\n\r\nhello"),
        (False, OK + FIVE + b"X:none\r\n\r\nhello"),
        (False, OK + FIVE + b"X: a\r\n folded\r\n\r\nhello"),
        (False, OK + FIVE + b"no field\r\n\r\nhello"),
        (False, OK + FIVE + b"X : a\r\n\r\nhello"),
        (False, OK + FIVE + b"X: \x00\r\n\r\nhello"),
        (False, OK + FIVE + FIVE + b"\r\nhello"),
        (False, OK + FIVE + b"Content-Length:5\r\n\r\nhello"),
        (False, OK + FIVE + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        (False, OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        (False, OK + b"Content-Length: 5, 5\r\n\r\nhello"),
        (False, OK + b"X: a\n" + FIVE + b"\r\nhello"),
        (False, b"HTTP/1.1 200 \r\n" + FIVE + b"\r\nhello"),
        (False, b"HTTP/1.1 200\r\n" + FIVE + b"\r\nhello"),
        (False, b"HTTP/1.0 200 OK\r\n" + FIVE + b"\r\nhello"),
        (False, b"HTTP/1.1 204 Nothing\r\n" + FIVE + b"\r\n"),
        (False, b"HTTP/1.1 304 Not Modified\r\n" + FIVE + b"\r\n"),
        (False, b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + OK + FIVE + b"\r\nhello"),
    ],
)
def test_a_plain_answer_is_what_the_parser_reads_and_an_odd_one_is_left_to_it(expected: bool, answer: bytes) -> None:
    assert expected == is_plain(answer)
    # In two packets its head is not whole at first, so that the parser reads it.
    assert answered(answer[:9], answer[9:]) == answered(answer)


@pytest.mark.parametrize("most", [(len(OK + FIVE) + 1, 9), (99, 0)])
def test_a_head_over_the_limits_is_left_to_the_parser(most: tuple[int, int]) -> None:
    assert begin(OK + FIVE + b"\r\nhello", 99, 1) is not None
    assert begin(OK + FIVE + b"\r\nhello", *most) is None


def test_a_body_that_is_long_and_a_head_that_is_not_whole_are_left_to_the_parser() -> None:
    assert is_plain(OK + b"Content-Length: %d\r\n\r\n" % BODY_BYTES)
    assert not is_plain(OK + b"Content-Length: %d\r\n\r\n" % (BODY_BYTES + 1))
    assert not is_plain(OK + FIVE)


@pytest.mark.parametrize(
    ("packets", "limit", "expected"),
    [
        ([b"he", b"llo"], 99, (b"hello", "")),
        ([b"hello"], 99, (b"hello", "")),
        ([b"he", b"llo"], 4, (b"hell", "length")),
        ([b"hello"], 4, (b"hell", "length")),
        ([b"he"], 99, (b"he", "disconnect")),
        ([], 99, (b"", "disconnect")),
    ],
)
def test_a_body_comes_in_pieces_and_keeps_what_came(
    packets: list[bytes], limit: int, expected: tuple[bytes, str]
) -> None:
    async def read() -> Body:
        answer = begin(OK + FIVE + b"\r\n", 99, 9)
        assert answer is not None
        reading = asyncio.ensure_future(read_body(answer.body, limit, 0))
        for packet in packets:
            await asyncio.sleep(0)
            assert b"" == answer.body.feed(packet)
        answer.body.set_exception(ClientPayloadError("closed"))
        return await reading

    body = asyncio.run(read())
    assert expected == (body.data, body.truncated)


def test_a_closed_connection_ends_a_body_and_leaves_a_whole_one() -> None:
    async def read(sent: bytes) -> tuple[bytes, str]:
        protocol = Protocol(asyncio.get_running_loop(), Harvest())
        protocol.connection_made(Wire())
        protocol.ask(b"", False, 60.0)
        protocol.data_received(OK + FIVE + b"\r\n" + sent)
        protocol.connection_lost(None)
        _, content = await protocol.answer()
        body = await read_body(content, 99, 0)
        return body.data, body.truncated

    assert (b"hello", "") == asyncio.run(read(b"hello"))
    assert (b"hel", "disconnect") == asyncio.run(read(b"hel"))


def test_a_fault_is_told_to_who_waits_and_only_once_what_came_is_read() -> None:
    async def read() -> bytes:
        body = PlainBody(5)
        body.feed(b"he")
        body.set_exception(TimeoutError("silent"))
        found = await body.readany()
        with pytest.raises(TimeoutError):
            await body.readany()
        return found

    assert b"he" == asyncio.run(read())
