"""Guilt: which record a parser was at when it died, marked beforehand and never guessed.

Beside the batches in work lies a small file for each that has marks: the record being worked on, and the records that
were marked at a death. A parser's loop reads:

    with spool.marks(batch) as marks:              # counts the death that it finds, if there was one
        for offset, length, harvest in hrf.scan(data):
            if offset in marks.condemned:
                spool.fail(batch, offset, length, "parser died three times")
                continue
            marks.at(offset, alone=offset in marks.suspects)
            work_on(harvest)
        marks.clear()
    spool.finish(batch, raw=True)

A first death makes its record a suspect. Suspects are tried alone: with nothing else in work, best first thing in a
new process. Three deaths alone condemn. Nothing is synced: what is counted is the death of a process, and after that
of the machine (another boot) a mark does not count. Full disk, I/O errors, RETRY and SIGTERM never count: on these
the parser clears its mark.
"""

from __future__ import annotations

import os
import re
from mmap import mmap
from pathlib import Path
from types import TracebackType

from combine.keep.batch import this_boot
from combine.keep.places import write_all

SUFFIX = ".mark"
FRESH = ".fresh"

#: Deaths alone after which a record is not tried again.
DEATHS = 3

_LINE_BYTES = 40
_NOBODY = b"-".ljust(_LINE_BYTES - 1) + b"\n"
_AT = re.compile(r"at ([0-9]{1,18}) (alone|company) ([0-9a-f]{8})")
_DEAD = re.compile(r"dead ([0-9]{1,18}) ([0-9]{1,18})")


class Marks:
    """The marks of one batch, owned by the parser that holds the batch.

    The file's first line, of fixed length, is the record in work; a line for each suspect follows.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line: mmap | None = None
        self._deaths: dict[int, int] = {}
        self._read()

    @property
    def suspects(self) -> frozenset[int]:
        """Offsets of the records to try alone."""
        return frozenset(offset for offset, deaths in self._deaths.items() if deaths < DEATHS)

    @property
    def condemned(self) -> frozenset[int]:
        """Offsets of the records not to try again."""
        return frozenset(offset for offset, deaths in self._deaths.items() if deaths >= DEATHS)

    def attempts(self, offset: int) -> int:
        """How many parsers died of a record while it was alone."""
        return self._deaths.get(offset, 0)

    def at(self, offset: int, alone: bool = False) -> None:
        """Say which record is worked on from now; `alone` if nothing else is in work."""
        if self._line is None:
            self._line = self._open()
        line = f"at {offset} {'alone' if alone else 'company'} {this_boot()}".encode("ascii")
        self._line[:] = line.ljust(_LINE_BYTES - 1) + b"\n"

    def clear(self) -> None:
        """Say that no record is worked on: a death from now is nobody's guilt."""
        if self._line is not None:
            self._line[:] = _NOBODY

    def close(self) -> None:
        """Let go of the file; the mark stands as it is."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def __enter__(self) -> Marks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An exception is not a death: whoever lives to raise it is not killed by its record.
        if error is not None:
            self.clear()
        self.close()

    def _open(self) -> mmap:
        """The first line in memory that is shared with the file.

        Writing there costs a tenth of a system call, and outlives the process as a write does. The write here takes the
        line's place on the disk, so that a full disk is told by it, and not by a signal later.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            write_all(descriptor, _NOBODY, 0)
            return mmap(descriptor, _LINE_BYTES)
        finally:
            os.close(descriptor)

    def _read(self) -> None:
        try:
            first, *rest = self._path.read_text(encoding="ascii", errors="replace").split("\n")
        except FileNotFoundError:
            return
        for line in rest:
            if match := _DEAD.fullmatch(line):
                self._deaths[int(match[1])] = int(match[2])
        if (match := _AT.fullmatch(first.rstrip())) and match[3] == this_boot():
            offset = int(match[1])
            self._deaths[offset] = self._deaths.get(offset, 0) + (match[2] == "alone")
            self._write()

    def _write(self) -> None:
        lines = "".join(f"dead {offset} {deaths}\n" for offset, deaths in sorted(self._deaths.items()))
        fresh = self._path.with_suffix(FRESH)
        fresh.write_bytes(_NOBODY + lines.encode("ascii"))
        fresh.rename(self._path)
