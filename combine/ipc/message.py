"""The message of the wire protocol: a head line `WORD count [text]` and `count` lines of JCF. Bytes in, values out.

A request's word is its verb; a reply's is OK, RETRY or REJECT, and there is no fourth. The limits are those of
`services` and of JCF, so a connection never holds more memory than a message of the longest lines. Lines stay bytes
until somebody needs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from combine.errors import WireError
from combine.services import MESSAGE_LINES
from formats import jcf
from formats.jcf import Job

#: Bytes of a head line. The longest text is a sentence.
HEAD_BYTES = 4096

#: Bytes of a whole message: as many lines as it may have, each as long as it may be. A page of a thousand links of
#: 2,000 characters has 4 MB of them, and a lower limit would let one such page stop a parser for good.
MESSAGE_BYTES = HEAD_BYTES + MESSAGE_LINES * (jcf.LINE_BYTES + 1)

OK, RETRY, REJECT = "OK", "RETRY", "REJECT"

_HEAD = re.compile(rb"([A-Z]{2,16}) ([0-9]{1,4})(?: (.*))?", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Message:
    """One request or reply: its word, its text (one line, may be empty) and its raw lines, without LF."""

    word: str
    text: str = ""
    lines: tuple[bytes, ...] = ()

    def jobs(self) -> list[Job]:
        """The lines read as JCF; raises RecordError that names the line."""
        jobs = []
        for number, line in enumerate(self.lines, 1):
            try:
                jobs.append(jcf.parse(line))
            except jcf.RecordError as error:
                raise jcf.RecordError(f"line {number} of {self.word}: {error}") from None
        return jobs

    def texts(self) -> list[str]:
        """The lines as text, for who needs little of each; raises RecordError where they are not UTF-8."""
        try:
            return b"\n".join(self.lines).decode("utf-8").split("\n") if self.lines else []
        except UnicodeDecodeError:
            self.jobs()  # names the line
            raise


#: A line to send, which may be written already.
Line = Job | bytes | str


def message(word: str, lines: Iterable[Line] = (), text: str = "") -> Message:
    """A message of these JCF lines; raises RecordError for what no line can hold."""
    return Message(word, text, tuple(map(_written, lines)))


def _written(line: Line) -> bytes:
    if isinstance(line, str):
        return line.encode("utf-8")
    return line if isinstance(line, bytes) else jcf.dump(line)


def dump(value: Message) -> bytes:
    """The bytes to send; line ends and control characters in the text become blanks."""
    text = _CONTROL.sub(" ", value.text)[: HEAD_BYTES // 4]
    head = f"{value.word} {len(value.lines)} {text}".rstrip(" ").encode("utf-8", "replace")
    return b"\n".join((head, *value.lines, b""))


class Reader:
    """Cuts the bytes of one connection into messages.

    `feed` takes what came, in whatever pieces; `take` gives the next whole message or None. Raises WireError where the
    bytes can be no message: nothing that follows on that connection has a meaning then.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._ends = 0  # line ends in the buffer
        self._head: tuple[str, int, str] | None = None
        self._start = 0  # of the lines after the head

    def feed(self, data: bytes) -> None:
        """Add what was received."""
        self._buffer += data
        self._ends += data.count(b"\n")

    @property
    def size(self) -> int:
        """Bytes that were received and are not taken yet."""
        return len(self._buffer)

    @property
    def is_empty(self) -> bool:
        """Nothing is half received."""
        return not self._buffer

    def take(self) -> Message | None:
        """The next whole message, or None while it is incomplete."""
        if self._head is None:
            if not self._ends:
                if len(self._buffer) > HEAD_BYTES:
                    raise WireError(f"a message starts with a line of at most {HEAD_BYTES} bytes")
                return None
            end = self._buffer.index(b"\n")
            self._head, self._start = self._read_head(bytes(self._buffer[:end])), end + 1
        word, count, text = self._head
        if self._ends <= count:
            if len(self._buffer) > MESSAGE_BYTES:
                raise WireError(f"a message has at most {MESSAGE_BYTES} bytes")
            if len(self._buffer) - self._buffer.rindex(b"\n") > jcf.LINE_BYTES + 1:
                raise WireError(f"a line has at most {jcf.LINE_BYTES} bytes")
            return None
        return Message(word, text, self._cut(count))

    def _read_head(self, line: bytes) -> tuple[str, int, str]:
        match = _HEAD.fullmatch(line) if len(line) <= HEAD_BYTES else None
        if match is None:
            raise WireError(f"a message starts with WORD COUNT, not with {line[:40]!r}")
        count = int(match[2])
        if count > MESSAGE_LINES:
            raise WireError(f"a message has at most {MESSAGE_LINES} lines, not {count}")
        return match[1].decode("ascii"), count, (match[3] or b"").decode("utf-8", "replace")

    def _cut(self, count: int) -> tuple[bytes, ...]:
        """Take the lines of the message away; what follows them is the beginning of the next."""
        *lines, rest = bytes(self._buffer[self._start :]).split(b"\n", count)
        if lines and len(max(lines, key=len)) > jcf.LINE_BYTES:
            raise WireError(f"a line has at most {jcf.LINE_BYTES} bytes")
        self._buffer[:] = rest
        self._ends -= count + 1
        self._head = None
        return tuple(lines)
