"""What a command writes: data on stdout, all else on stderr.

Piped data is faithful, byte for byte. On a terminal the control characters of what came from the web are made visible,
since they could move the cursor, set its title or hide text. Sentences on stderr are cleaned always: nobody parses
them.
"""

from __future__ import annotations

import io
import os
import re
import select
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

#: C0 but TAB and LF, DEL, C1, line separators and the marks that turn the direction of writing round.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    r"""The text with its control characters made visible, `\x1b` for escape; TAB and LF stay."""
    return _UNSAFE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def one_line(text: str) -> str:
    """The text cleaned and on one line, as a sentence needs it."""
    return clean(" ".join(text.split()))


def counted(number: int, noun: str) -> str:
    """A number and its noun: 1 record, 2,000 records."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def put(text: str) -> None:
    """Write data to stdout and add no line end: faithful UTF-8 in a pipe, cleaned on a terminal."""
    if sys.stdout.isatty():
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(clean(text).encode(encoding, "replace").decode(encoding))
    else:
        put_bytes(text.encode("utf-8", "surrogateescape"))


def put_bytes(data: bytes | memoryview) -> None:
    """Write bytes to stdout: as they are in a pipe, cleaned on a terminal."""
    if sys.stdout.isatty():
        put(str(data, "utf-8", "replace"))
    else:
        sys.stdout.buffer.write(data)


class _Stdout(io.FileIO):
    """Standard output, whose first fault says where it came about; what is left then goes nowhere."""

    _has_failed = False

    def write(self, data: Any) -> int:
        if self._has_failed:  # the interpreter's end tries again, and would complain of it
            return len(data)
        try:
            while (count := super().write(data)) is None:  # a pipe that does not block is full
                select.select([], [self], [])
            return count
        except OSError as error:
            self._has_failed = True
            raise OSError(error.errno, error.strerror, "standard output") from error


def name_stdout() -> None:
    """Let a full disk below stdout be told from one below the home, whoever writes to it."""
    old = sys.stdout
    buffer = io.BufferedWriter(_Stdout(old.fileno(), "w", closefd=False))
    sys.stdout = io.TextIOWrapper(buffer, old.encoding, old.errors, line_buffering=old.isatty())


def put_json(value: Any) -> None:
    """Write one JSON document and a line end."""
    import json

    put(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def put_pairs(pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
    """Write names and values in two columns."""
    rows = list(pairs.items() if isinstance(pairs, Mapping) else pairs)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        put(f"{name.ljust(width)}  {value}".rstrip() + "\n")


def say(text: str) -> None:
    """Write one sentence, or lines of them, to stderr; where stderr is closed it is lost, never an error."""
    lines = "".join(clean(line) + "\n" for line in text.split("\n"))
    _write(sys.stderr, lines)


def put_coloured(text: str, colour: int) -> None:
    """Write data in a colour where stdout is a terminal and NO_COLOR is not set."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        sys.stdout.write(f"\x1b[{colour}m")
        put(text)
        sys.stdout.write("\x1b[0m")
    else:
        put(text)


class Live:
    """One line at the foot of the terminal that is written over; where stderr is no terminal, it writes nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self.on = sys.stderr.isatty() and not quiet
        self._shown = False

    def show(self, text: str) -> None:
        """Write over the line."""
        if self.on:
            _write(sys.stderr, "\r\x1b[K" + one_line(text)[: _width() - 1])
            self._shown = True

    def say(self, text: str) -> None:
        """Write a sentence above the line."""
        self.clear()
        say(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            _write(sys.stderr, "\r\x1b[K")
            self._shown = False


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except OSError:
        return
