"""The files of the event log: log/events-YYYY-MM-DD[.n].log.

A new one begins each UTC day and after `limit_bytes`, and the oldest are removed. Several lines are one write to a file
opened for appending. A write that fails half-way is taken back, so no line is ever half there.
"""

from __future__ import annotations

import contextlib
import os
import re
from datetime import datetime
from pathlib import Path

_NAME = re.compile(r"events-(\d{4}-\d\d-\d\d)(?:\.(\d{1,6}))?\.log")


class EventLog:
    """Writes to the newest file of a directory; owned by logd alone."""

    def __init__(self, directory: Path, limit_bytes: int, files: int) -> None:
        self.directory = directory
        self.limit_bytes = limit_bytes
        self.files = files
        self._day = ""
        self._number = 0
        self._descriptor = -1
        self._size = 0

    def write(self, lines: bytes, now: datetime) -> None:
        """Append whole lines; raises OSError, with nothing written, where the disk will not take them."""
        day = f"{now:%Y-%m-%d}"
        if self._descriptor < 0 or day != self._day:
            self._open(day, self._newest(day))
        if self._size and self._size + len(lines) > self.limit_bytes:
            self._open(day, self._number + 1)
        try:
            written = os.write(self._descriptor, lines)
        except OSError:
            self.close()  # The next write opens anew: the file may have been taken away.
            raise
        if written < len(lines):
            os.ftruncate(self._descriptor, self._size)
            raise OSError(28, os.strerror(28))
        self._size += written

    def close(self) -> None:
        """Close the file; the next write opens the newest one again, which is how a file moved away is let go."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1

    def _open(self, day: str, number: int) -> None:
        self.close()
        path = self._path(day, number)
        while os.path.lexists(path) and not _is_plain(path):  # a named pipe would be waited for
            number += 1
            path = self._path(day, number)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._descriptor).st_size
        self._day, self._number = day, number
        for old in event_files(self.directory)[: -self.files or None]:
            with contextlib.suppress(OSError):
                old.unlink()

    def _path(self, day: str, number: int) -> Path:
        return self.directory / (f"events-{day}.{number}.log" if number else f"events-{day}.log")

    def _newest(self, day: str) -> int:
        numbers = [int(match[2] or 0) for match in map(_match, event_files(self.directory)) if match[1] == day]
        return max(numbers, default=0)


def event_files(directory: Path) -> list[Path]:
    """The event files of a directory, oldest first; what has such a name and is no file is passed over."""
    found = [path for name in os.listdir(directory) if _NAME.fullmatch(name) and _is_plain(path := directory / name)]
    return sorted(found, key=lambda path: (_match(path)[1], int(_match(path)[2] or 0)))


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _match(path: Path) -> re.Match[str]:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return match
