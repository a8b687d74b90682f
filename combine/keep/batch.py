"""Batches: files of harvests, written in hrf/tmp and published in hrf/new by one rename.

A batch is named by its age and its maker: nanoseconds of CLOCK_BOOTTIME, the boot, the slot, the pid. Names of one
boot sort by age; a batch of another boot is older than all of this one.

Records are written in portions: a page by itself costs the kernel twice as much. Nothing half-written is ever
published: what could not be written whole is cut off again, and a batch is cut to its last whole record before its
fsync. The writer stays usable after every OSError, so a full disk costs time and no harvest.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

from combine.config import Settings
from combine.crashpoints import reached
from combine.keep.home import Home
from combine.keep.places import remove, sync_directory, write_all, write_pieces
from formats import hrf
from formats.hrf import Harvest

SUFFIX = ".hrf"

_NAME = re.compile(r"[0-9]{19}-[0-9a-f]{8}-[a-z]+-[0-9]{1,6}-[0-9]{1,10}")
_COPY_BYTES = 1 << 20

#: Bytes of a portion, and its pieces at most: one call takes 1,024.
PORTION_BYTES, PORTION_PIECES = 256 * 1024, 1000


@lru_cache(maxsize=1)
def this_boot() -> str:
    """Eight digits of the boot id, which tell one boot of the machine from another."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]


def boottime_ns() -> int:
    """Now, in nanoseconds of CLOCK_BOOTTIME."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def is_batch_name(name: str) -> bool:
    """Whether this is the name of a batch (without its suffix)."""
    return _NAME.fullmatch(name) is not None


def age_key(name: str) -> tuple[bool, str]:
    """Sorts names of batches, the oldest first."""
    return name[20:28] == this_boot(), name


class _Draft:
    """The file of a batch while it is written, and what is yet to be written to it.

    Invariant: the file's first `written` bytes, and the pieces behind them, are whole records of `size` bytes together.
    What may lie behind them in the file is never published.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self.written = 0
        self.pieces: list[bytes] = []
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)

    def add(self, *record: bytes) -> None:
        """Take a record in pieces, and write the portion if it is full; raises OSError, and the record is not taken."""
        length = sum(map(len, record))
        self.pieces += record
        if self.size + length - self.written >= PORTION_BYTES or len(self.pieces) >= PORTION_PIECES:
            try:
                self.flush()
            except OSError:
                del self.pieces[-len(record) :]
                raise
        self.size += length

    def flush(self) -> None:
        """Write what is yet to be written; raises OSError, and all of it is still to be written."""
        if self.pieces:
            self.written = write_pieces(self.descriptor, self.pieces, self.written)
            self.pieces.clear()

    def add_file(self, head: Callable[[int], bytes], path: Path) -> None:
        """Take a record whose body is a file, and whose head is made of its length. Raises OSError as `add`."""
        self.flush()
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            length = os.fstat(source).st_size
            end = write_all(self.descriptor, head(length), self.written)
            _copy(source, self.descriptor, length, end)
            self.size = self.written = write_all(self.descriptor, b"\n", end + length)
        finally:
            os.close(source)

    def cut(self) -> None:
        """Cut off what lies behind the written records."""
        os.ftruncate(self.descriptor, self.written)

    def write_again(self) -> None:
        """Write all of it to a new file, which takes the place of this one. Raises OSError."""
        path = f"{self.path}-again"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            _copy_by_hand(self.descriptor, descriptor, self.size, 0)
            os.rename(path, self.path)
        except OSError:
            os.close(descriptor)
            raise
        os.close(self.descriptor)
        self.descriptor = descriptor

    def close(self) -> None:
        """Close the file."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class Sealed:
    """A batch that takes no more records and waits for `publish`, which may run in a thread and may be repeated."""

    def __init__(self, home: Home, slot: str, draft: _Draft, records: int) -> None:
        self.records = records
        self.size = draft.size
        self.name = ""
        self._home = home
        self._slot = slot
        self._draft = draft
        self._is_suspect = False
        self._is_renamed = False

    def publish(self) -> str:
        """Make the batch durable, then visible, then its name durable; answer its name.

        Raises OSError: call it again later.
        """
        if not self._is_renamed:
            self._draft.flush()
            reached("batch.written")
            self._make_durable()
            reached("batch.synced")
            self.name = self.name or f"{boottime_ns():019d}-{this_boot()}-{self._slot}-{os.getpid()}"
            os.rename(self._draft.path, self._home.spool_new / (self.name + SUFFIX))
            self._is_renamed = True
            reached("batch.renamed")
        sync_directory(self._home.spool_new)
        self.discard()
        return self.name

    def discard(self) -> None:
        """Close the file; what was not published is left to the slot's next holder."""
        self._draft.close()

    def _make_durable(self) -> None:
        if self._is_suspect:
            self._draft.write_again()
            self._is_suspect = False
        self._draft.cut()
        try:
            os.fsync(self._draft.descriptor)
        except OSError:
            # After a failed fsync the kernel calls the lost pages clean, and a second one would lie: write them anew.
            self._is_suspect = True
            raise


class BatchWriter:
    """The open batch of one harvester, whose slot (`harvester-3`) it holds."""

    def __init__(self, home: Home, slot: str, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.records = 0
        self._home = home
        self._slot = slot
        self._limits = settings.harvest
        self._clock = clock
        self._draft: _Draft | None = None
        self._first_at = 0.0
        self._files = 0
        self._waiting: Sealed | None = None
        for leftover in home.spool_tmp.glob(f"{slot}-*"):
            remove(leftover, home.spool_bad)

    def body_path(self) -> Path:
        """A new name for a body that lies on disk while it comes in; the caller unlinks it after `put`."""
        self._files += 1
        return self._home.spool_tmp / f"{self._slot}-{self._files}.body"

    def put(self, harvest: Harvest, body_path: Path | None = None) -> None:
        """Append a harvest, its body from `body_path` where it was spilled.

        Raises OSError, and then the batch is as before.
        """
        if self._draft is None:
            self._files += 1
            self._draft = _Draft(str(self._home.spool_tmp / f"{self._slot}-{self._files}{SUFFIX}"))
        try:
            if body_path is None:
                self._draft.add(hrf.head(harvest, len(harvest.body)), harvest.body, b"\n")
            else:
                self._draft.add_file(partial(hrf.head, harvest), body_path)
        except OSError:
            # Cutting off what was written of it gives its blocks back to a full disk.
            with contextlib.suppress(OSError):
                self._draft.cut()
            raise
        if self.records == 0:
            self._first_at = self._clock()
        self.records += 1

    @property
    def size(self) -> int:
        """Bytes of the open batch."""
        return self._draft.size if self._draft is not None else 0

    @property
    def is_full(self) -> bool:
        """Whether the open batch has as many records, or bytes, as one may have."""
        return self.records >= self._limits.batch_records or self.size >= self._limits.batch_bytes

    def should_publish(self, now: float | None = None) -> bool:
        """Is the batch full, or its first record old enough? `now` is of the writer's clock (time.monotonic)."""
        if self._waiting is not None:
            return True
        if self.records == 0:
            return False
        if self.is_full:
            return True
        return (self._clock() if now is None else now) - self._first_at >= self._limits.batch_s

    def seal(self) -> Sealed | None:
        """Take the open batch away, so that the next `put` starts another; None where it has no record."""
        if self.records == 0 or self._draft is None:
            return None
        sealed = Sealed(self._home, self._slot, self._draft, self.records)
        self._draft, self.records = None, 0
        return sealed

    def publish(self) -> str:
        """Publish what was put; answer the batch's name, "" where there was nothing.

        Raises OSError: call it again later.
        """
        if self._waiting is None:
            self._waiting = self.seal()
        if self._waiting is None:
            return ""
        name = self._waiting.publish()
        self._waiting = None
        return name


def _copy(source: int, target: int, length: int, offset: int) -> None:
    """Copy the first bytes of one file into another in the kernel, or by hand where the file systems cannot."""
    done = 0
    while done < length:
        try:
            copied = os.copy_file_range(source, target, length - done, done, offset + done)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
                raise
            _copy_by_hand(source, target, length - done, offset + done, done)
            return
        if copied == 0:
            raise OSError(errno.EIO, "the spilled body became shorter while it was copied")
        done += copied


def _copy_by_hand(source: int, target: int, length: int, offset: int, start: int = 0) -> None:
    while length > 0:
        piece = os.pread(source, min(length, _COPY_BYTES), start)
        if not piece:
            raise OSError(errno.EIO, "a file of the spool became shorter while it was copied")
        offset = write_all(target, piece, offset)
        start += len(piece)
        length -= len(piece)
