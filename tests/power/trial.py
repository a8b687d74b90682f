"""A whole harvest, recorded; the power fails at any of its calls; and Combine goes on from what the disk kept.

Each page of its site is linked from one other page only, so that each link counts. The harvest that goes on is given
another seed, so that whatever is found of the first was kept by the disk.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import time
import uuid
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from combine.keep.batch import this_boot
from combine.urls import record_id
from tests.power import promise, recording
from tests.power.disk import KEPT, Disk, Fate, Sync, lay
from tests.shim import Shim
from tests.soak import checker
from tests.system.harness import CLONE, COMBINE, Harness, Web

#: Syncs that each have their reason: what is lost if they do nothing, to see that the replay would find it.
KINDS = {
    "the records' file system before STORED": lambda sync: sync.call == "syncfs",
    "a batch before its name": lambda sync: sync.path.endswith(".hrf"),
    "the spool's names before DONE": lambda sync: sync.path.endswith("hrf/new"),
    "the queue's log before an answer": lambda sync: sync.path.endswith("queue.sqlite-wal"),
    "the visits' log before an answer": lambda sync: sync.path.endswith("visits.sqlite-wal"),
    "the names of a new home": lambda sync: sync.call == "fsync" and sync.path.endswith(("/h", "/h/hrf")),
}

#: Seconds in which a harvest ends that goes on; a batch that is lost is given up after a minute.
ENDED_S = 180.0


def make_site(root: Path, pages: int) -> None:
    """Page n links to 2n and 2n + 1; `after.html` stands alone."""
    root.mkdir()
    for number in range(1, pages + 1):
        children = [child for child in (2 * number, 2 * number + 1) if child <= pages]
        links = "".join(f"<li><a href=page-{child}.html>Page {child}</a>" for child in children)
        name = "index.html" if number == 1 else f"page-{number}.html"
        text = f"This is what page {number} has to say. " * 8
        (root / name).write_text(f"<!doctype html><title>Page {number}</title><p>{text}<ul>{links}</ul>")
    (root / "after.html").write_text("<!doctype html><title>After</title><p>The power is back.")


class _Left(Harness):
    """A home that is there already."""

    def __init__(self, home: Path) -> None:
        self.home = home


class Trial:
    """One recorded harvest of `pages` pages. It owns the site's server."""

    def __init__(self, place: Path, pages: int, delay_s: float = 0.0) -> None:
        self.place, self.home = place, place / "h"
        self._stack = ExitStack()
        make_site(place / "site", pages)
        options = ("--delay", f"{delay_s:g}")
        self.web = self._stack.enter_context(closing(Web(place / "site", place / "web.jsonl", *options)))
        done = recording.record(self._command(self.home, "/index.html"), place / "calls", cwd=CLONE)
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        self.calls = recording.calls(place / "calls")
        self.promises = promise.promises(self.calls)
        self.records = {
            self.web.url(path): promise.text_of(self._record(path).read_bytes())
            for path in ("/index.html", *(f"/page-{number}.html" for number in range(2, pages + 1)))
        }
        self.tries = 0

    def close(self) -> None:
        """End the server."""
        self._stack.close()

    def disk(self, ignored: str = "") -> Disk:
        """The disk as it was, or with syncs of one kind that do nothing."""
        return Disk(str(self.home), KINDS[ignored] if ignored else lambda sync: False).take(self.calls)

    def unlike(self) -> list[str]:
        """Files that the model believes to be other than they are: none, or the recording is not whole."""
        model = self.disk().tree(len(self.calls), lambda change, page: KEPT)
        there = [path for path in self.home.rglob("*") if path.is_file() and not path.name.endswith((".mark", "-shm"))]
        real = {str(path.relative_to(self.home)): path.read_bytes() for path in there}
        files = {name: content for name, content in model.items() if isinstance(content, bytes)}
        return sorted(name for name in set(real) | set(files) if real.get(name) != files.get(name))

    def broken(self, disk: Disk, at: int, fate: Fate) -> list[str]:
        """The promises that what is left after so many calls cannot keep."""
        place = self.place / "left"
        shutil.rmtree(place, ignore_errors=True)
        lay(disk.tree(at, fate), place)
        return promise.broken(place, *self.promises.before(at), disk.published(at), self.records)

    def goes_on(self, disk: Disk, at: int, fate: Fate, chance: random.Random) -> list[str]:
        """All that is wrong after Combine was started on what is left, by another boot."""
        self.tries += 1
        place = self.place / f"t{self.tries}"
        lay(_shaken(disk.tree(at, fate), chance), place)
        added, stored = self.promises.before(at)
        seen = len(self.web.requests())
        with Shim(self.place / "control", place) as shim, closing(_Left(place)) as home:
            shim.boot(str(uuid.UUID(int=chance.getrandbits(128))))
            shim.clocks(boot_s=30 - time.clock_gettime(time.CLOCK_BOOTTIME))
            environment = {**os.environ, **shim.environment}
            command = subprocess.Popen(
                self._command(place, "/after.html"), cwd=CLONE, env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            try:
                said, _ = command.communicate(timeout=ENDED_S)
            except subprocess.TimeoutExpired:
                state = home.run("status", "--json", code=None).stdout
                command.kill()
                said = f"it did not end: {command.communicate()[0]}{state}"
            if command.returncode:
                return [f"exit {command.returncode}: {said}", home.logs(), *_left_of(place)]
            return self._wrong(home, self.web.requests()[seen:], added, stored)

    def _wrong(self, home: Harness, requests: list[dict[str, Any]], added: set[str], stored: set[str]) -> list[str]:
        kept = home.records(self.web)
        expected = {url.removeprefix(self.web.url("")): text for url, text in self._as_told().items()}
        if not added and set(kept) == {"/after.html"}:
            expected = {}
        expected["/after.html"] = kept.get("/after.html", "")
        found = checker.faults_of(home, self.web, expected, requests, 0, 0.0)
        asked = {self.web.url(str(entry["path"])) for entry in requests}
        found += [f"{url} was asked again, though it was stored" for url in sorted(asked & stored)]
        return found

    def _as_told(self) -> dict[str, str]:
        return {url: text.replace(self.web.address, "SITE") for url, text in self.records.items()}

    def _record(self, path: str) -> Path:
        key = record_id(self.web.url(path))
        return self.home / "hdb" / key[:2] / key[2:4] / key

    def _command(self, home: Path, path: str) -> list[str]:
        words = ["harvest", self.web.url(path), "--delay", "0", "--allow-private", "127.0.0.0/8"]
        return [*COMBINE, "--home", str(home), *words]


def _left_of(home: Path) -> list[str]:
    """The rows of a harvest that did not end, and the batches that are there."""
    with closing(sqlite3.connect(home / "cabin/queue.sqlite")) as database:
        rows = [str(row) for row in database.execute("SELECT * FROM job")]
    return [*rows, *(str(path) for path in (home / "hrf").rglob("*") if path.is_file())]


def cost(disk: Disk, pages: int) -> dict[str, int]:
    """How many syncs each durable step took, beside the pages and the batches."""
    batches = {sync.path for sync in disk.syncs if sync.path.endswith(".hrf")}
    counted = Counter(_step(sync) for sync in disk.syncs)
    return {"pages": pages, "batches": len(batches), **dict(sorted(counted.items()))}


def _step(sync: Sync) -> str:
    if sync.call == "syncfs":
        return "parser: records"
    for ending, step in (
        (".hrf", "harvester: a batch"),
        ("hrf/new", "harvester: its name"),
        ("queue.sqlite-wal", "scheduler: commits"),
        ("visits.sqlite-wal", "idbd: commits"),
    ):
        if sync.path.endswith(ending):
            return step
    return "once: what is made at the start"


def _shaken(tree: dict[str, bytes | str | None], chance: random.Random) -> dict[str, bytes | str | None]:
    """The same, with something in the files that are written without a call: SQLite's index, and the marks."""
    for name, content in tree.items():
        if name.endswith("-shm") and isinstance(content, bytes):
            tree[name] = chance.randbytes(len(content))
        if name.endswith(".mark") and isinstance(content, bytes):
            tree[name] = chance.choice((bytes(40), f"at 0 alone {this_boot()}".ljust(39).encode() + b"\n", content))
    return tree


def points(disk: Disk) -> list[int]:
    """The calls at which the power may fail: from the first change on, before and after each."""
    return sorted({change.at + after for change in disk.changes for after in (0, 1)})
