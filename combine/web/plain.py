"""Plain answers: a good head that announces the length of its body. They need no parser, and most answers are plain.

Theory of operation. A head is plain if it can be kept byte for byte as it came, and if it says by one Content-Length,
and by nothing else, where its body ends. Whatever is in any way odd (chunks, folded lines, blanks in other places, a
version other than 1.1, an answer without a body) is left to aiohttp's parser. Both ways give the same `Head` and the
same bytes. This module never does I/O.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import NamedTuple

from combine.web.answer import Head

#: The longest body that is read without a parser; with a longer one aiohttp pauses where the disk is slow.
BODY_BYTES = 512 * 1024

#: Nothing is tried twice (`*+`): it is matched against whatever a server sends.
_PLAIN = re.compile(
    rb"HTTP/1\.1 ([2-9][0-9]{2}) [!-~\x80-\xff](?:[\t -~\x80-\xff]*+(?<![\t ]))?\r\n"
    rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]++: (?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*+(?<![\t ]))?)?\r\n)++\r\n"
)
_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]{1,7})\r\n")
_END = b"\r\n\r\n"
#: The fields that speak of the connection: parsers heed the historical one, too. What a plain head may say of it, and
#: whether that closes it.
_OF_CONNECTION = (b"connection:", b"proxy-connection:")
_SAID = {b"connection: close": True, b"connection: keep-alive": False}
#: Statuses that have no body, whatever their head says.
_BODILESS = frozenset({204, 304})


class PlainBody:
    """A body whose length is known, as it comes in; it is read as aiohttp's is, by `readany`.

    Invariant: `missing` bytes have yet to come.
    """

    __slots__ = ("_fault", "_pieces", "_waiter", "missing")

    def __init__(self, length: int) -> None:
        self.missing = length
        self._pieces: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._fault: BaseException | None = None

    def feed(self, data: bytes) -> bytes:
        """Take what belongs to the body; gives the rest."""
        rest = b""
        if len(data) > self.missing:
            data, rest = data[: self.missing], data[self.missing :]
        self.missing -= len(data)
        if data:
            self._pieces.append(data)
            self._wake()
        return rest

    def is_eof(self) -> bool:
        """Whether all of it came."""
        return not self.missing

    def set_exception(self, fault: BaseException, cause: BaseException | None = None) -> None:
        """End it where it is, for that fault; one that is whole stays so."""
        if self.missing and self._fault is None:
            self._fault = fault
            self._wake()

    def whole(self) -> bytes | None:
        """All of a body of which nothing was read yet, where it came in one piece; else None."""
        if self.missing or len(self._pieces) > 1:
            return None
        return self._pieces[0] if self._pieces else b""

    async def readany(self) -> bytes:
        """What came and was not read yet, b"" at the end; raises the fault that ended it."""
        if not self._pieces and self.missing:
            if self._fault is not None:
                raise self._fault
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if not self._pieces:
            if self._fault is not None:
                raise self._fault
            return b""
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Plain(NamedTuple):
    """What a plain answer began with; the server closes the connection after it, or it is to be closed."""

    head: Head
    body: PlainBody
    is_last: bool


def begin(data: bytes, most_bytes: int, most_fields: int) -> Plain | None:
    """Read the first bytes of an answer.

    None where they hold no whole plain head of at most so many bytes and fields.
    """
    end = data.find(_END) + len(_END)
    if not len(_END) <= end <= most_bytes:
        return None
    header = data[:end]
    match = _PLAIN.fullmatch(header)
    if match is None or header.count(b"\n") - 2 > most_fields:
        return None
    lower = header.lower()
    length = _LENGTH.search(lower)
    if length is None or lower.count(b"\ncontent-length:") > 1 or b"\ntransfer-encoding:" in lower:
        return None
    closes = _closes(lower) if b"connection:" in lower else False
    code, size = int(match[1]), int(length[1])
    if closes is None or code in _BODILESS or size > BODY_BYTES:
        return None
    body = PlainBody(size)
    rest = body.feed(data[end:])
    return Plain(Head(code, "HTTP/1.1", header), body, closes or bool(rest))


def _closes(lower: bytes) -> bool | None:
    """Whether a head says that its connection ends with this answer; None where it says anything else of it."""
    said = [line for line in lower.split(b"\r\n") if line.startswith(_OF_CONNECTION)]
    return False if not said else _SAID.get(said[0]) if len(said) == 1 else None
