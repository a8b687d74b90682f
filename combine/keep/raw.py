"""Raw: the batches that were worked on, kept so that records can be made again without asking the web.

A record's field `raw` says file, offset and length. That stays true when the file is compressed (`NAME.hrf.zst`: one
frame a record), and it is true already while the batch still lies in the spool. A batch in raw/ is never changed: it
is compressed into a file beside it that takes its place, or it is removed with its day.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from combine.keep import seekable
from combine.keep.batch import SUFFIX, is_batch_name
from combine.keep.home import Home
from combine.keep.places import sync_directory
from formats import hrf, wir
from formats.hrf import Harvest
from formats.jcf import RecordError

COMPRESSED = ".zst"

_FILE = re.compile(r"([0-9]{4})/([0-9]{2})/([0-9]{2})/([^/]+)\.hrf")
_NUMBER = re.compile(r"[0-9]{1,15}")


class Raw:
    """The kept batches of a home."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def where(self, file: str) -> Path | None:
        """The file that holds a batch now (in raw/, compressed or not, or still in the spool).

        None where it is kept no more.
        """
        match = _FILE.fullmatch(file)
        if match is None or not is_batch_name(match[4]):
            return None
        kept = self._home.raw / file
        name = match[4] + SUFFIX
        # Twice, since a batch may move on while it is looked for.
        for _ in range(2):
            for path in (kept, kept.with_name(name + COMPRESSED), self._home.spool_new / name):
                if path.is_file():
                    return path
            if found := next(self._home.spool_cur.glob(f"*/{name}"), None):
                return found
        return None

    def read(self, file: str, offset: int, length: int) -> Harvest | None:
        """One harvest; None where its batch is kept no more. Raises RecordError, with the path, where it is damaged."""
        while (path := self.where(file)) is not None:
            try:
                return _read_at(path, offset, length)
            except FileNotFoundError:
                continue
            except RecordError as error:
                raise RecordError(f"{path}: {error}") from None
        return None

    def of(self, record: wir.Record) -> Harvest | None:
        """The harvest from which a record was made; None where it is not kept. Raises RecordError as `read`."""
        for columns in record.columns("raw"):
            if len(columns) == 3 and _NUMBER.fullmatch(columns[1]) and _NUMBER.fullmatch(columns[2]):
                return self.read(columns[0], int(columns[1]), int(columns[2]))
        return None

    def walk(self) -> Iterator[Path]:
        """All kept batches, the oldest day first."""
        for _, directory in self._days():
            seen = ""
            for name in sorted(os.listdir(directory)):
                plain = name.removesuffix(COMPRESSED)
                # Beside its compressed form a plain file lies only after a fault: they hold the same.
                if plain != seen and plain.endswith(SUFFIX) and is_batch_name(plain.removesuffix(SUFFIX)):
                    seen = plain
                    yield directory / name

    def compress(self, before: date, count: int) -> int:
        """Compress up to `count` batches of days before `before`; answer how many. A little at a time, at idle."""
        done = 0
        for day, directory in self._days():
            if day >= before:
                break
            for name in sorted(os.listdir(directory)):
                if done >= count:
                    return done
                if name.endswith(SUFFIX) and is_batch_name(name.removesuffix(SUFFIX)):
                    compress_batch(directory / name)
                    done += 1
        return done

    def sweep(self, days: int, today: date) -> int:
        """Remove the batches of days more than `days` ago; answer how many files went."""
        removed = 0
        for day, directory in list(self._days()):
            if day >= today - timedelta(days=days):
                break
            for path in list(directory.iterdir()):
                path.unlink(missing_ok=True)
                removed += 1
            # An empty month or year goes with its last day.
            with contextlib.suppress(OSError):
                for level in (directory, directory.parent, directory.parent.parent):
                    level.rmdir()
        return removed

    def _days(self) -> Iterator[tuple[date, Path]]:
        for directory in sorted(self._home.raw.glob("[0-9][0-9][0-9][0-9]/[0-9][0-9]/[0-9][0-9]")):
            with contextlib.suppress(ValueError):
                yield date.fromisoformat("-".join(directory.parts[-3:])), directory


def scan(path: Path) -> Iterator[tuple[int, int, Harvest]]:
    """Read a batch, compressed or not: offset, length, harvest of each record.

    Raises RecordError at the first damaged one.
    """
    with _mapped(path) as data:
        if not path.name.endswith(COMPRESSED):
            yield from hrf.scan(data)
            return
        frames = seekable.Frames(data)
        for number in range(len(frames)):
            start = frames.offset(number)
            try:
                harvest, length = hrf.parse_at(piece := frames.frame(number), 0)
            except RecordError as error:
                raise RecordError(f"the record at byte {start}: {error}") from None
            if length != len(piece):
                raise RecordError(f"the record at byte {start}: {len(piece) - length} bytes follow it in its frame")
            yield start, length, harvest


def compress_batch(path: Path) -> Path:
    """Put the compressed form of a batch in its place; answer its path.

    Raises OSError, and then nothing has changed.
    """
    target = path.with_name(path.name + COMPRESSED)
    fresh = path.with_name(path.name + ".fresh")
    try:
        with _mapped(path) as data, open(fresh, "wb") as file:
            for piece in seekable.compress(_records(data)):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(target)
        sync_directory(target.parent)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    # Only now: until the new name is durable the plain file is the one that counts.
    path.unlink()
    return target


def _records(data: bytes | mmap.mmap) -> Iterator[bytes]:
    """The bytes of each record, and as one piece what follows a damaged one."""
    end = 0
    try:
        for offset, length, _ in hrf.scan(data):
            end = offset + length
            yield bytes(data[offset:end])
    except RecordError:
        yield bytes(data[end:])


def _read_at(path: Path, offset: int, length: int) -> Harvest:
    with _mapped(path) as data:
        if path.name.endswith(COMPRESSED):
            return hrf.parse(seekable.Frames(data).read(offset, length))
        return hrf.parse(bytes(data[offset : offset + length]))


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[bytes | mmap.mmap]:
    """A file's bytes, without reading them all. An empty file cannot be mapped."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data
