"""The store: one WIR file a record, in two levels of directories named by the record's id.

A record appears, changes and goes by one rename or one unlink, so a reader never sees half of one. Directories are
made only when a rename misses them: in a store that has grown that is never. `put` does not sync: whoever tells
another that records are stored calls `sync` first, once for many. This module never decides whether a record should
be there.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from combine.crashpoints import reached
from combine.keep import places
from combine.keep.home import Home
from combine.urls import record_id
from formats import wir
from formats.jcf import RecordError

_ID = re.compile(r"[0-9a-f]{32}")
_LEVEL = re.compile(r"[0-9a-f]{2}")

#: What is made of a record's file.
Read = TypeVar("Read")


def is_id(text: str) -> bool:
    """Whether this is the id of a record: 32 lower-case hex digits."""
    return _ID.fullmatch(text) is not None


class WirStore:
    """The records of a home. `slot` names the worker that writes, whose leftovers are removed; a reader needs none."""

    def __init__(self, home: Home, slot: str = "") -> None:
        self.directory = home.hdb
        self._hdb = str(home.hdb)
        self._bad = home.spool_bad
        self._tmp = f"{home.tmp}/{slot}-" if slot else f"{home.tmp}/pid-{os.getpid()}-"
        self._written = 0
        self._orphans: list[str] = []  # files aside that could not be removed when their record could not be written
        if slot:
            for leftover in home.tmp.glob(f"{slot}-*"):
                places.remove(leftover, home.spool_bad)

    def path(self, key: str) -> Path:
        """Where the record of an id (or URL) is or would be."""
        return Path(self._place(key))

    def put(self, record: wir.Record) -> None:
        """Write a record over what was there; raises OSError or RecordError, and then nothing has changed."""
        if record.id != record_id(record.url):
            raise RecordError(f"{record.id[:40]!r} is not the id of {record.url[:200]!r}: the record is not written")
        place = self._place(record.id)
        self._written += 1
        fresh = f"{self._tmp}{self._written}"
        try:
            _write_file(fresh, wir.dump(record))
            reached("record.written")
            self._rename(fresh, place)
            reached("record.renamed")
        except OSError:
            self._orphans.append(fresh)
            self._tidy()
            raise

    def get(self, key: str) -> wir.Record | None:
        """The record of an id or URL, None where there is none.

        Raises RecordError, with the path, where the file is damaged.
        """
        try:
            return _read(self._place(key), wir.parse)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def get_bytes(self, key: str) -> bytes | None:
        """The file of an id or URL as it is, None where there is none."""
        try:
            return read_file(self._place(key))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def delete(self, key: str) -> bool:
        """Remove a record; False where there was none."""
        try:
            os.unlink(self._place(key))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def walk(self) -> Iterator[Path]:
        """The files of all records, as `places`."""
        return map(Path, self.places())

    def places(self) -> Iterator[str]:
        """Where all records lie, in the order of their ids.

        Files that are not records of this store are passed over.
        """
        places.check_directories([self.directory])  # it is not empty where it is not mounted
        for first in _names(self._hdb, _LEVEL):
            for second in _names(f"{self._hdb}/{first}", _LEVEL):
                for name in _names(f"{self._hdb}/{first}/{second}", _ID):
                    if name.startswith(first + second):
                        yield f"{self._hdb}/{first}/{second}/{name}"

    def records(self, damaged: Callable[[RecordError], None] | None = None) -> Iterator[wir.Record]:
        """All records, in the order of their ids; as `read`."""
        return self.read(self.places(), wir.parse, damaged)

    def read(
        self,
        places: Iterable[str],
        reader: Callable[[bytes], Read],
        damaged: Callable[[RecordError], None] | None = None,
    ) -> Iterator[Read]:
        """What a reader makes of these files; one that is gone is passed over.

        A damaged one is told to `damaged` and passed over, or raised where there is none.
        """
        for place in places:
            try:
                yield _read(place, reader)
            except FileNotFoundError:
                continue
            except RecordError as error:
                if damaged is None:
                    raise
                damaged(error)

    def sync(self) -> None:
        """Make every rename so far durable, by one syncfs for all of them."""
        self._tidy()
        descriptor = os.open(self._hdb, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sync_file_system(descriptor)
        finally:
            os.close(descriptor)

    def _rename(self, fresh: str, place: str) -> None:
        try:
            _rename(fresh, place)
        except OSError as error:
            if error.errno not in places.IN_THE_WAY or not places.clear_way(self.directory, Path(place), self._bad):
                raise
            _rename(fresh, place)

    def _tidy(self) -> None:
        """Remove what faults have left; a disk that fails may not let it go yet."""
        with contextlib.suppress(OSError):
            while self._orphans:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._orphans[-1])
                self._orphans.pop()

    def _place(self, key: str) -> str:
        name = key if _ID.fullmatch(key) else record_id(key)
        return f"{self._hdb}/{name[:2]}/{name[2:4]}/{name}"


def read_file(place: str, count: int = -1) -> bytes:
    """The first bytes of a record's file; raises FileNotFoundError, and RecordError for what is no file.

    A named pipe is not waited for.
    """
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise RecordError(f"{place} is damaged: {error.strerror}; remove it") from None
        raise
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise RecordError(f"{place} is damaged: it is no file; remove it")
        return os.read(descriptor, facts.st_size if count < 0 else count)
    finally:
        os.close(descriptor)


def sync_file_system(descriptor: int) -> None:
    """Sync the file system of an open file; raises OSError. Where the C library has no syncfs, everything is synced."""
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
    elif syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _read(place: str, reader: Callable[[bytes], Read]) -> Read:
    data = read_file(place)
    try:
        return reader(data)
    except RecordError as error:
        raise RecordError(f"{place} is damaged: {error}") from None


def _write_file(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        places.write_all(descriptor, data, 0)
    finally:
        os.close(descriptor)


def _rename(fresh: str, place: str) -> None:
    try:
        os.rename(fresh, place)
    except FileNotFoundError:
        _make_directory(os.path.dirname(place))
        os.rename(fresh, place)


def _make_directory(path: str) -> None:
    """Make a directory, of which mostly the parent is there: nine of the first ten thousand records in ten need one."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return  # Another writer made it, or is just making it: that is as good.
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)


def _names(directory: str, pattern: re.Pattern[str]) -> list[str]:
    try:
        return sorted(filter(pattern.fullmatch, os.listdir(directory)))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return []
        raise
