"""The spool: how harvests go from harvesters to parsers, by renames only.

    hrf/tmp/harvester-3-…     a batch that is being written        (the holder of the slot harvester-3)
    hrf/new/NAME.hrf          published, for any parser            (nobody)
    hrf/cur/parser-2/NAME.hrf in work                              (the holder of the slot parser-2)
    hrf/cur/NAME.mark         which record of it is in work, and which ones killed parsers
    raw/YYYY/MM/DD/NAME.hrf   worked on and kept                   (nobody; never changed)
    hrf/bad/NAME-OFFSET.hrf   one harvest that no parser could work on, its reason beside it in one JCF line (.jcf)

A batch is in exactly one of these places. Its owner is whoever holds the lock of the slot in its path; a batch in
`cur` whose slot is free has lost its parser, and goes back to `new`. This module decides nothing about what is in a
batch.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from combine.crashpoints import reached
from combine.keep import guilt
from combine.keep.batch import SUFFIX, age_key, is_batch_name
from combine.keep.batch import BatchWriter as BatchWriter
from combine.keep.batch import Sealed as Sealed
from combine.keep.guilt import Marks as Marks
from combine.keep.home import Home
from combine.keep.places import IN_THE_WAY, clear_way, is_plain, put_aside, remove, weigh
from combine.keep.slots import Slot as Slot
from combine.keep.slots import is_slot_name
from formats import jcf

_FETCHED = re.compile(rb"\nFetched: ([0-9]{4})-([0-9]{2})-([0-9]{2})T")
_HEAD_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch in work: its name, where it lies, the slot that owns it, and the day (YYYY/MM/DD) it is kept under."""

    name: str
    path: Path
    slot: str
    day: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is in the spool: batches in new and cur, harvests in bad, bytes of new and cur."""

    new: int
    cur: int
    bad: int
    bytes: int


def raw_place(batch: Batch) -> str:
    """Where the batch will be, below raw/, once it is finished: known in advance, so that records can say it."""
    return f"{batch.day}/{batch.name}{SUFFIX}"


class Spool:
    """The spool as parsers, the scheduler and keepalive see it. It keeps nothing in memory."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def claim(self, slot: str, count: int) -> list[Batch]:
        """Take up to `count` batches, oldest first, for the slot that the caller holds.

        What another parser took first is left.
        """
        own = self._home.spool_cur / slot
        claimed: list[Batch] = []
        for name in sorted(_batches(self._home.spool_new), key=age_key):
            if len(claimed) >= count:
                break
            target = own / (name + SUFFIX)
            if _rename(self._home.spool_new / (name + SUFFIX), target):
                reached("batch.claimed")
                claimed += self._in_work(slot, name)
        return claimed

    def take_back(self, slot: str) -> list[Batch]:
        """The batches that an earlier holder of the caller's slot left, oldest first."""
        own = self._home.spool_cur / slot
        if os.path.lexists(own) and not own.is_dir():
            put_aside(own, self._home.spool_bad)
        return [batch for name in sorted(_batches(own), key=age_key) for batch in self._in_work(slot, name)]

    def put_aside(self, batch: Batch) -> None:
        """Move a batch that nobody can read as a whole to bad/."""
        put_aside(batch.path, self._home.spool_bad)

    def recover(self) -> int:
        """Put back into `new` what parsers left whose slots are free; answer how many batches."""
        self._remove_orphans()
        moved = 0
        for slot in _names(self._home.spool_cur):
            if not is_slot_name(slot) or not (names := list(_batches(self._home.spool_cur / slot))):
                continue
            # The lock is held while they move, so that no new holder finds them under its hands.
            held = Slot.take_if_free(self._home, slot)
            if held is None:
                continue
            with held:
                for name in names:
                    source = self._home.spool_cur / slot / (name + SUFFIX)
                    moved += _rename(source, self._home.spool_new / (name + SUFFIX))
        return moved

    def marks(self, batch: Batch) -> Marks:
        """The guilt marks of a batch; a death that they tell of is counted now."""
        path = self._mark_file(batch.name)
        if os.path.lexists(path) and not is_plain(path):
            put_aside(path, self._home.spool_bad)
        return Marks(path)

    def finish(self, batch: Batch, raw: bool) -> None:
        """Put a batch that was worked on into raw/, or remove it; it is well if that was done already."""
        if raw:
            self._keep(batch, self._home.raw / raw_place(batch))
        else:
            batch.path.unlink(missing_ok=True)
        reached("batch.finished")
        self._mark_file(batch.name).unlink(missing_ok=True)

    def fail(self, batch: Batch, offset: int, length: int, reason: str) -> Path:
        """Copy one harvest (a length of -1: all the rest) to bad/, its reason beside it; answer where.

        The batch stays.
        """
        with open(batch.path, "rb") as file:
            file.seek(offset)
            data = file.read(length if length >= 0 else None)
        place = self._home.spool_bad / f"{batch.name}-{offset}{SUFFIX}"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = jcf.job(BATCH=batch.name, OFFSET=offset, REASON=reason, AT=at)
        for target, content in ((place.with_suffix(".jcf"), jcf.dump(line) + b"\n"), (place, data)):
            fresh = self._home.tmp / f"{batch.slot}-{target.name}"
            fresh.write_bytes(content)
            fresh.rename(target)
        return place

    def names(self) -> set[str]:
        """The names of all batches that are in new or in work; none is missed while it moves."""
        found = set(_batches(self._home.spool_new))
        for slot in _names(self._home.spool_cur):
            if is_slot_name(slot):
                found.update(_batches(self._home.spool_cur / slot))
        # What went from cur back to new after new was read shows now.
        found.update(_batches(self._home.spool_new))
        return found

    def is_empty(self) -> bool:
        """Whether no batch is in new or in work, and no mark is left of one."""
        return not self.names() and not self._marked()

    def sizes(self) -> Sizes:
        """Count the spool; one look at each directory."""
        new, new_bytes = weigh(self._home.spool_new, SUFFIX)
        cur = cur_bytes = 0
        for slot in _names(self._home.spool_cur):
            if is_slot_name(slot):
                count, size = weigh(self._home.spool_cur / slot, SUFFIX)
                cur, cur_bytes = cur + count, cur_bytes + size
        bad, _ = weigh(self._home.spool_bad, SUFFIX)
        return Sizes(new, cur, bad, new_bytes + cur_bytes)

    def _keep(self, batch: Batch, place: Path) -> None:
        try:
            _rename(batch.path, place)
        except OSError as error:
            if error.errno not in IN_THE_WAY or not clear_way(self._home.raw, place, self._home.spool_bad):
                raise
            _rename(batch.path, place)

    def _in_work(self, slot: str, name: str) -> list[Batch]:
        """A batch in a slot's directory; none where it is no file, which would be waited for, or read without end."""
        path = self._home.spool_cur / slot / (name + SUFFIX)
        if not is_plain(path):
            put_aside(path, self._home.spool_bad)
            return []
        return [Batch(name, path, slot, _day(path))]

    def _remove_orphans(self) -> None:
        """Remove marks of which a death came between a batch's end and theirs.

        Marks are made after their batch is there.
        """
        marks = self._marked()
        alive = self.names() if marks else set()
        for mark in marks:
            if Path(mark).stem not in alive:
                remove(self._home.spool_cur / mark, self._home.spool_bad)

    def _marked(self) -> list[str]:
        return [name for name in _names(self._home.spool_cur) if Path(name).suffix in (guilt.SUFFIX, guilt.FRESH)]

    def _mark_file(self, name: str) -> Path:
        return self._home.spool_cur / (name + guilt.SUFFIX)


def _rename(source: Path, target: Path) -> bool:
    """Rename, making the target's directory where it is missing; False where the source is gone."""
    try:
        os.rename(source, target)
    except FileNotFoundError:
        if not source.exists():
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(source, target)
        except FileNotFoundError:
            return False
    return True


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _batches(directory: Path) -> Iterator[str]:
    for name in _names(directory):
        if name.endswith(SUFFIX) and is_batch_name(name[: -len(SUFFIX)]):
            yield name[: -len(SUFFIX)]


def _day(path: Path) -> str:
    """The day of a batch's first harvest; of the file, where its head is damaged."""
    with open(path, "rb") as file:
        if match := _FETCHED.search(file.read(_HEAD_BYTES)):
            return b"/".join(match.groups()).decode("ascii")
        return time.strftime("%Y/%m/%d", time.gmtime(os.fstat(file.fileno()).st_mtime))
