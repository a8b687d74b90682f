"""A model of a disk: what lies below a directory after the power fails, by the calls that were recorded.

What a call does to data or to a name is a change. A sync makes changes durable: fsync and fdatasync of a file its data
and its size, of a directory the names in it, syncfs and sync all; each only what was done before it began. Of the other
changes each may be on the disk or not, a write page by page. A rename is there as a whole or not at all, and no name is
in a directory that is not there: so much every file system with a journal holds to. A file's sync does not make its
name durable, and no order among names is relied on, though most file systems have both.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.power.recording import Call

PAGE = 4096
NEVER = 1 << 60

#: Memory that is shared with a file is written without a call: SQLite's index of its log, which is made anew after a
#: power cut, and the parser's mark, which does not count after another boot.
SHARED = ("-shm", ".mark", ".fresh")

_SYNCS = frozenset({"fsync", "fdatasync", "syncfs", "sync"})


@dataclass(slots=True, eq=False)
class Node:
    """A file, a directory or a symbolic link."""

    number: int
    kind: str
    target: str = ""
    offset: int = 0  # of the last who opened it, for writes that name none
    appends: bool = False
    size: int = 0


@dataclass(slots=True)
class Change:
    """One change: of the names (`gone` and `there`: directory and name), or of a file's data (a write, a size)."""

    at: int
    node: Node
    gone: tuple[Node, str] | None = None
    there: tuple[Node, str] | None = None
    offset: int = -1
    data: bytes = b""
    size: int = -1
    durable: int = NEVER

    @property
    def is_of_names(self) -> bool:
        """Whether names change by it."""
        return self.gone is not None or self.there is not None


#: Whether of a change that may be there or not a part is there: the change, and the number of its page.
Fate = Callable[[Change, int], str]

KEPT, LOST, ZERO = "kept", "lost", "zero"


@dataclass(slots=True)
class Sync:
    """One sync: when it began and ended (numbers of calls), whose it was, and of what."""

    began: int
    ended: int
    pid: int
    call: str
    path: str


@dataclass(slots=True)
class Disk:
    """All that happened below `root`. `ignore` names syncs that do nothing, to see that they matter."""

    root: str
    ignore: Callable[[Sync], bool] = lambda sync: False
    changes: list[Change] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    length: int = 0
    _names: dict[tuple[int, str], Node] = field(default_factory=dict)
    _top: Node = field(default_factory=lambda: Node(0, "directory"))
    _numbers: int = 0
    _late: list[tuple[int, Call]] = field(default_factory=list)

    def take(self, calls: Iterable[Call]) -> Disk:
        """Take a recorded run, call by call."""
        for at, call in enumerate(calls):
            self.length = at + 1
            self._late.append((at, call))
            # Two calls of two processes may end in another order than that in which they worked: a rename of what
            # has no name yet waits for the call that gives it one.
            self._late = [(when, late) for when, late in self._late if not self._do(when, late)]
        if self._late:
            raise ValueError(f"{len(self._late)} calls are of files that were never there: {self._late[0][1]}")
        return self

    # One call -------------------------------------------------------------------------------------------------------

    def _do(self, at: int, call: Call) -> bool:
        """Do a call; false where its file is not there yet."""
        if call.name in _SYNCS:
            self._sync(at, call)
            return True
        work = getattr(self, "_" + call.name.removesuffix("64").removesuffix("2"), None)
        return True if work is None else bool(work(at, call))

    def _sync(self, at: int, call: Call) -> None:
        path = call.path() if call.name != "sync" else self.root
        if call.name in ("fsync", "fdatasync") and not self._is_below(path):
            return
        sync = Sync(call.began, at, call.pid, call.name, path)
        self.syncs.append(sync)
        if self.ignore(sync):
            return
        node = self._find(path) if call.name in ("fsync", "fdatasync") else None
        for change in self.changes:
            if change.durable == NEVER and change.at < sync.began and (node is None or _touches(change, node)):
                change.durable = at

    def _openat(self, at: int, call: Call) -> bool:
        if not self._is_below(call.opened):
            return True
        node, flags = self._find(call.opened), call.arguments[2]
        if node is None:
            if "O_CREAT" not in flags:
                return False
            node = self._make(at, call.opened, "file")
        elif "O_TRUNC" in flags and node.size:
            self._resize(at, node, 0)
        if node.kind == "file" and ("O_WRONLY" in flags or "O_RDWR" in flags):
            node.offset, node.appends = 0, "O_APPEND" in flags
        return True

    def _write(self, at: int, call: Call) -> bool:
        node = self._file(call)
        if node is not None:
            offset = node.size if node.appends else node.offset
            node.offset = offset + call.value
            self._put(at, node, offset, call.text(1)[: call.value])
        return True

    _writev = _write

    def _pwrite(self, at: int, call: Call) -> bool:
        node = self._file(call)
        if node is not None:
            self._put(at, node, call.number(3), call.text(1)[: call.value])
        return True

    _pwritev = _pwrite

    def _lseek(self, at: int, call: Call) -> bool:
        if (node := self._file(call)) is not None:
            node.offset = call.value
        return True

    def _ftruncate(self, at: int, call: Call) -> bool:
        node = self._file(call)
        if node is not None and node.size != call.number(1):
            self._resize(at, node, call.number(1))
        return True

    def _copy_file_range(self, at: int, call: Call) -> bool:
        source, target = self._file(call, 0), self._file(call, 2)
        if target is not None and call.value:
            if source is None:
                raise ValueError(f"a file without a name is copied: {call}")
            start = call.number(1)
            data = self._data(source, NEVER, lambda change, page: KEPT)[start : start + call.value]
            self._put(at, target, call.number(3), data)
        return True

    def _mmap(self, at: int, call: Call) -> bool:
        if "MAP_SHARED" in call.arguments[3] and "PROT_WRITE" in call.arguments[2]:
            path = call.path(4)
            if self._is_below(path) and not path.endswith(SHARED):
                raise ValueError(f"{path} is written without a call")
        return True

    def _rename(self, at: int, call: Call) -> bool:
        return self._move(at, call.named(0), call.named(1))

    def _renameat(self, at: int, call: Call) -> bool:
        return self._move(at, call.named(1, 0), call.named(3, 2))

    def _unlink(self, at: int, call: Call) -> bool:
        return self._remove(at, call.named(0))

    _rmdir = _unlink

    def _unlinkat(self, at: int, call: Call) -> bool:
        return self._remove(at, call.named(1, 0))

    def _mkdir(self, at: int, call: Call) -> bool:
        return self._new(at, call.named(0), "directory")

    def _mkdirat(self, at: int, call: Call) -> bool:
        return self._new(at, call.named(1, 0), "directory")

    def _symlink(self, at: int, call: Call) -> bool:
        return self._new(at, call.named(1), "link", os.fsdecode(call.text(0)))

    # What a call changes --------------------------------------------------------------------------------------------

    def _is_below(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root + "/")

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._top
        for part in path[len(self.root) :].split("/")[1:]:
            node = self._names.get((node.number, part)) if node is not None else None
        return node

    def _place(self, path: str) -> tuple[Node, str]:
        above, _, name = path.rpartition("/")
        directory = self._find(above)
        if directory is None:
            raise ValueError(f"{above} is not there")
        return directory, name

    def _file(self, call: Call, number: int = 0) -> Node | None:
        path = call.path(number)
        return self._find(path) if self._is_below(path) else None

    def _make(self, at: int, path: str, kind: str, target: str = "") -> Node:
        self._numbers += 1
        node, place = Node(self._numbers, kind, target), self._place(path)
        self._names[place[0].number, place[1]] = node
        self.changes.append(Change(at, node, there=place))
        return node

    def _new(self, at: int, path: str, kind: str, target: str = "") -> bool:
        if path != self.root and self._is_below(path):
            if self._find(path.rpartition("/")[0]) is None:
                return False
            self._make(at, path, kind, target)
        return True

    def _move(self, at: int, old: str, new: str) -> bool:
        if not self._is_below(new):
            return True
        node = self._find(old)
        if node is None or self._find(new.rpartition("/")[0]) is None:
            return False
        gone, there = self._place(old), self._place(new)
        del self._names[gone[0].number, gone[1]]
        self._names[there[0].number, there[1]] = node
        self.changes.append(Change(at, node, gone=gone, there=there))
        return True

    def _remove(self, at: int, path: str) -> bool:
        if not self._is_below(path) or path.endswith(".sock"):  # bind made it, and nothing is kept of it
            return True
        node = self._find(path)
        if node is None:
            return False
        gone = self._place(path)
        del self._names[gone[0].number, gone[1]]
        self.changes.append(Change(at, node, gone=gone))
        return True

    def _put(self, at: int, node: Node, offset: int, data: bytes) -> None:
        node.size = max(node.size, offset + len(data))
        self.changes.append(Change(at, node, offset=offset, data=data))

    def _resize(self, at: int, node: Node, size: int) -> None:
        node.size = size
        self.changes.append(Change(at, node, size=size))

    def published(self, at: int) -> set[str]:
        """Batches whose names in the spool were synced by then, for which harvesters wait before DONE.

        A parser may meet one before that, and say so to the scheduler: a power cut in that moment costs a fetch.
        """
        path = f"{self.root}/hrf/new"
        spool = self._find(path)
        began = max((sync.began for sync in self.syncs if sync.path == path and sync.ended < at), default=0)
        return {
            change.there[1].removesuffix(".hrf")
            for change in self.changes
            if change.at < began and change.there is not None and change.there[0] is spool
        }

    # What is left ---------------------------------------------------------------------------------------------------

    def _data(self, node: Node, at: int, fate: Fate, changes: Iterable[Change] | None = None) -> bytes:
        data = bytearray()
        for change in self.changes if changes is None else changes:
            if change.node is not node or change.at >= at or change.is_of_names:
                continue
            if change.size >= 0:
                if change.durable < at or fate(change, 0) == KEPT:
                    data = data[: change.size].ljust(change.size, b"\0")
                continue
            for page, start, piece in _pages(change):
                what = KEPT if change.durable < at else fate(change, page)
                if what != LOST:
                    if len(data) < start + len(piece):
                        data.extend(bytes(start + len(piece) - len(data)))
                    if what == KEPT:
                        data[start : start + len(piece)] = piece
        return bytes(data)

    def tree(self, at: int, fate: Fate) -> dict[str, bytes | str | None]:
        """What the power leaves that fails after so many calls: files' bytes, links' targets, None for a directory."""
        names: dict[tuple[int, str], Node] = {}
        of_data: dict[int, list[Change]] = {}
        here = {0}
        for change in self.changes:
            if change.at >= at:
                break
            if not change.is_of_names:
                of_data.setdefault(change.node.number, []).append(change)
                continue
            is_durable = change.durable < at
            if not is_durable and (
                fate(change, 0) != KEPT or (change.there is not None and change.there[0].number not in here)
            ):
                continue
            if change.gone is not None and names.get((change.gone[0].number, change.gone[1])) is change.node:
                del names[change.gone[0].number, change.gone[1]]
            if change.there is not None:
                names[change.there[0].number, change.there[1]] = change.node
                if change.there[0].number in here:
                    here.add(change.node.number)
        found: dict[str, bytes | str | None] = {}
        self._collect(
            names, self._top, "", found, lambda node: self._data(node, at, fate, of_data.get(node.number, ()))
        )
        return found

    def _collect(
        self,
        names: dict[tuple[int, str], Node],
        top: Node,
        path: str,
        found: dict[str, bytes | str | None],
        read: Callable[[Node], bytes],
    ) -> None:
        for (number, name), node in names.items():
            if number == top.number:
                place = f"{path}{name}"
                if node.kind == "directory":
                    found[place] = None
                    self._collect(names, node, place + "/", found, read)
                else:
                    found[place] = node.target if node.kind == "link" else read(node)


def _touches(change: Change, node: Node) -> bool:
    if node.kind != "directory":
        return change.node is node and not change.is_of_names
    return any(place is not None and place[0] is node for place in (change.gone, change.there))


def _pages(change: Change) -> Iterator[tuple[int, int, bytes]]:
    """A write, page by page: number of the page, offset, data."""
    start, end = change.offset, change.offset + len(change.data)
    while start < end:
        stop = min(end, (start // PAGE + 1) * PAGE)
        yield start // PAGE, start, change.data[start - change.offset : stop - change.offset]
        start = stop


def lay(tree: dict[str, bytes | str | None], place: Path) -> None:
    """Make a tree below a directory, which is new."""
    place.mkdir()
    for name in sorted(tree):
        content, path = tree[name], place / name
        if content is None:
            path.mkdir(mode=0o700 if name == "run" else 0o755)
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)


def fates(chance: random.Random) -> dict[str, Fate]:
    """The ways in which a disk may be left, by their names; what is drawn comes from `chance`."""
    share, cut = chance.choice((0.2, 0.5, 0.8)), chance.random()
    drawn: dict[tuple[int, int], float] = {}

    def draw(change: Change, page: int) -> float:
        return drawn.setdefault((id(change), page), chance.random())

    return {
        "nothing": lambda change, page: LOST,
        "everything": lambda change, page: KEPT,
        "names": lambda change, page: KEPT if change.is_of_names else LOST,
        "names and sizes": lambda change, page: KEPT if change.is_of_names else ZERO,
        "data": lambda change, page: LOST if change.is_of_names else KEPT,
        "some": lambda change, page: KEPT if draw(change, page) < share else LOST if draw(change, -1) < cut else ZERO,
    }
