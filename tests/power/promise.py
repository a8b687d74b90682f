"""What was promised when the power failed, and whether what the disk kept can keep it: asked of files and tables alone.

A promise is an OK that its asker has heard. ADD: the URL has a row or a visit. STORED: the page has its record, whole,
and a row that says so or a visit. A row that was fetched has its batch, whole, if that had been published; a visit that
knows of a record has it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from combine.schedule.rows import FETCHED, STORED
from combine.urls import record_id
from formats import hrf, jcf
from tests.power.recording import Call
from tests.system.harness import PASSING


@dataclass(slots=True)
class Promises:
    """What was acknowledged, each with the number of the call at which its asker heard of it."""

    added: dict[str, int] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)

    def before(self, at: int) -> tuple[set[str], set[str]]:
        """URLs whose ADD and whose STORED was acknowledged by then."""
        return (
            {url for url, when in self.added.items() if when < at},
            {url for url, when in self.stored.items() if when < at},
        )


def promises(calls: Iterable[Call]) -> Promises:
    """What blocking clients (the command, the parsers) asked and were answered."""
    found = Promises()
    asked: dict[tuple[int, str], bytes] = {}
    for at, call in enumerate(calls):
        if call.name == "sendto":
            key = (call.pid, call.arguments[0])
            asked[key] = asked.get(key, b"") + call.text(1)[: call.value]
        elif call.name == "recvfrom":
            key, answer = (call.pid, call.arguments[0]), call.text(1)[: call.value]
            if key in asked and answer.startswith((b"OK ", b"RETRY ", b"REJECT ")):
                _note(found, asked.pop(key), answer, at)
    return found


def _note(found: Promises, request: bytes, answer: bytes, at: int) -> None:
    head, *lines = request.split(b"\n")
    verb = head.split(b" ")[0]
    if not answer.startswith(b"OK ") or verb not in (b"ADD", b"STORED"):
        return
    noted = found.added if verb == b"ADD" else found.stored
    for line in lines:
        if line.startswith(b"JCF/"):
            noted.setdefault(jcf.parse(line).url, at)


def text_of(record: bytes) -> str:
    """A record without what depends on how and when its page was met."""
    lines = record.decode("utf-8", "replace").split("\n")
    return "\n".join(line for line in lines if line.split(":")[0] not in PASSING)


def broken(home: Path, added: set[str], stored: set[str], published: set[str], records: dict[str, str]) -> list[str]:
    """Promises that a home cannot keep any more.

    `published` are the batches that may be spoken of, `records` those of a harvest that nothing happens to, by URL.
    """
    try:
        rows = dict(_rows(home / "cabin/queue.sqlite", "SELECT line, state, batch, fetch FROM job"))
        kept = dict(_rows(home / "idb/visits.sqlite", "SELECT line, due, record FROM known"))
        visits = {url: bool(record) for url, (_, record) in kept.items()}
    except sqlite3.Error as error:
        return [f"a database cannot be read: {error}"] if added or stored else []
    found = [
        f"ADD of {url} was acknowledged; it has neither a row nor a visit" for url in added - set(rows) - set(visits)
    ]
    on_disk = {url for url in records if _is_whole(home, url, records[url])}
    for url in stored & set(records):
        if url not in on_disk:
            found.append(f"STORED of {url} was acknowledged; its record is not on the disk")
        if not visits.get(url) and rows.get(url, (0,))[0] != STORED:
            found.append(f"STORED of {url} was acknowledged; neither its row nor a visit says so")
    for url, (state, batch, fetch) in rows.items():
        if state == FETCHED and batch in published and fetch not in _fetches(home, batch):
            found.append(f"{url} was fetched as {fetch}; its harvest is in no batch")
        if state == STORED and url in records and url not in on_disk:
            found.append(f"the row of {url} says that it is stored; its record is not on the disk")
    found += [
        f"{url} has a visit with a record, which is not on the disk"
        for url in visits
        if visits[url] and url not in on_disk
    ]
    return found


def _rows(path: Path, statement: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Rows by their URLs; none where there is no database, or one that holds nothing yet."""
    if not path.exists():
        return
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA synchronous=OFF")  # the judge's own changes may be lost
        if database.execute("SELECT count(*) FROM sqlite_master WHERE name IN ('job', 'known')").fetchone()[0] == 0:
            return
        said = database.execute("PRAGMA integrity_check").fetchone()[0]
        if said != "ok":
            raise sqlite3.DatabaseError(said)
        for line, *rest in database.execute(statement):
            yield jcf.parse_text(line).url, tuple(rest)


def _is_whole(home: Path, url: str, expected: str) -> bool:
    key = record_id(url)
    try:
        return text_of((home / "hdb" / key[:2] / key[2:4] / key).read_bytes()) == expected
    except FileNotFoundError:
        return False


def _fetches(home: Path, batch: str) -> set[int]:
    """The numbers of the harvests that a batch holds, wherever it is; those before a damaged one."""
    found: set[int] = set()
    for path in (home / "hrf").glob(f"*/**/{batch}.hrf"):
        try:
            for _, _, harvest in hrf.scan(path.read_bytes()):
                found.add(harvest.job.fetch)
        except ValueError:
            continue
    return found
