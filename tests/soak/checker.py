"""The judge of the fault driver: looks at files, tables and the site's log, and asks no daemon."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from formats import hrf, jcf, wir
from tests.site.checker import violations
from tests.system.harness import Harness, Web

#: Seconds for which the site works on after a request was given up.
GIVEN_UP_S = 0.05


def faults_of(
    home: Harness, web: Web, expected: dict[str, str], requests: list[dict[str, Any]], struck: int, delay_s: float
) -> list[str]:
    """All that is wrong after a harvest that met so many faults."""
    records = home.records(web)
    found = [f"{path} has no record" for path in sorted(set(expected) - set(records))]
    found += [f"{path} has a record" for path in sorted(set(records) - set(expected))]
    found += [
        f"{path} has another record: {_difference(expected[path], records[path])}"
        for path in sorted(set(expected) & set(records))
        if expected[path] != records[path]
    ]
    found += [f"{path} is left over" for path in home.leftovers()]
    counts = Counter(entry["path"] for entry in requests if entry["path"] != "/robots.txt")
    found += [f"{path} was asked for {count} times" for path, count in counts.items() if count > 1 + struck]
    found += _too_close(requests, struck, delay_s)
    found += _tracebacks(home.home)
    return [*found, *_queue(home.home), *_visits(home.home, set(counts)), *_store(home.home)]


def _too_close(requests: list[dict[str, Any]], struck: int, delay_s: float) -> list[str]:
    """What came too close. Without a delay each fault may cost one touch.

    The request of a killed harvester is given up while the site still works on it, and another begins at once.
    """
    found = violations(requests, delay_s)
    touches = [one for one in found if delay_s == 0 and -one.gap_s < GIVEN_UP_S]
    return [str(one) for one in found if one not in touches[:struck]]


def _tracebacks(home: Path) -> Iterator[str]:
    """What a fault of the machine causes is said in a sentence, never by the lines of a program."""
    for path in sorted((home / "log").glob("*.out")):
        text = path.read_text(errors="replace")
        if (at := text.find("Traceback")) >= 0:
            yield f"{path.name}: {text[max(at - 300, 0) : at + 3000]}"


def _difference(expected: str, text: str) -> str:
    lines = set(expected.split("\n")) ^ set(text.split("\n"))
    return " | ".join(sorted(line[:200] for line in lines))


def _rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(statement).fetchall()


def _queue(home: Path) -> Iterator[str]:
    queue = home / "cabin" / "queue.sqlite"
    for table in ("job", "lease"):
        for row in _rows(queue, f"SELECT * FROM {table}"):
            yield f"the queue's table {table} still has {row}"


def _visits(home: Path, asked: set[str]) -> Iterator[str]:
    """Every page asked for has a visit, and idbd's counts are those of its rows."""
    visits = home / "idb" / "visits.sqlite"
    rows = _rows(visits, "SELECT record, line FROM known")
    paths = {"/" + jcf.parse_text(line).url.split("/", 3)[3] for _, line in rows}
    yield from (f"{path} was asked for and has no visit" for path in sorted(asked - paths))
    counted = dict(_rows(visits, "SELECT name, n FROM count"))
    there = {"urls": len(rows), "records": sum(record for record, _ in rows)}
    if counted != there:
        yield f"idbd counts {counted}, and has {there}"
    on_disk = sum(1 for path in (home / "hdb").rglob("*") if path.is_file())
    if on_disk != there["records"]:
        yield f"idbd knows of {there['records']} records, {on_disk} are there"


def _store(home: Path) -> Iterator[str]:
    """Each record lies where its URL says, and its harvest where it says itself."""
    for path in (home / "hdb").rglob("*"):
        if not path.is_file():
            continue
        record = wir.parse(path.read_bytes())
        key = hashlib.md5(record.url.encode(), usedforsecurity=False).hexdigest()
        if path.relative_to(home / "hdb") != Path(key[:2]) / key[2:4] / key:
            yield f"{path} holds the record of {record.url}"
        for name, offset, length in (columns[:3] for columns in record.columns("raw")):
            if not (home / "raw" / name).is_file():
                found = [str(place) for place in home.rglob(Path(name).name)]
                yield f"{path} has its harvest in {name}, which is {found or 'nowhere'}"
                continue
            data = (home / "raw" / name).read_bytes()[int(offset) : int(offset) + int(length)]
            if hrf.parse(data).job.url != record.url:
                yield f"{path} has another page's harvest at {name} {offset}"
