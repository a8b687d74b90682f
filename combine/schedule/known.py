"""The table of visits: a line for each known URL, under one number. SQL only: what a visit says is decided in `visits`.

A visit's number is made of 23 bits of a hash of its site's name and, below these, 40 of the hash of its URL. So it is
told without a look at any table, the visits of a site lie side by side, and the inner pages of the tree hold numbers
alone: a look costs the same among twenty million as among one. Whether a line is that of the URL asked for is told by
the line. Where two URLs have one number, the later is a twin: it gets a number of its own near by, which a table keeps
and memory, too; there are hardly ever any.

A home of version 1 has its visits in a table `visit`, by the number of the site and 64 bits of the URL's hash. They
are brought over by `move`, so many at a time, and until then both tables are asked: a visit is in one of them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from combine.urls import site_of
from formats import jcf
from formats.jcf import RecordError

log = logging.getLogger(__name__)

SCHEMA = """
CREATE TABLE IF NOT EXISTS known(number INTEGER PRIMARY KEY, due INTEGER, record INTEGER, line TEXT);
CREATE INDEX IF NOT EXISTS known_due ON known(due);
CREATE TABLE IF NOT EXISTS twin(number INTEGER, h INTEGER, own INTEGER, PRIMARY KEY(number, h)) WITHOUT ROWID;
"""

#: Bits of a number that the URL makes; those above are the site's.
URL_BITS = 40
_URL = (1 << URL_BITS) - 1
_SITE = (1 << (63 - URL_BITS)) - 1

_FIRST_64 = struct.Struct(">q8x").unpack
_md5 = hashlib.md5  # it is called for each link
_URL_AT = len(f'{jcf.VERSION} URL="')

_WRITE = (
    "INSERT INTO known VALUES (?1, ?2, ?3, ?4) ON CONFLICT(number) DO UPDATE SET due = excluded.due,"
    " record = excluded.record, line = excluded.line WHERE substr(line, 1, ?5) = substr(excluded.line, 1, ?5)"
)


class Key(NamedTuple):
    """What tells a visit from any other: URL, site and kind, and the 64 bits that other tables know it by."""

    url: str
    site: str
    kind: str
    h: int

    @property
    def number(self) -> int:
        """The number under which it lies, unless it is a twin."""
        return _first(self.site) | (self.h >> (64 - URL_BITS) & _URL)

    @property
    def head(self) -> int:
        """Characters at the beginning of its line that no other visit's line begins with."""
        return _URL_AT + len(self.url) + len('" OUTCOME="' if self.kind == "page" else '" KIND="')

    def is_of(self, line: str) -> bool:
        """Whether a visit's line is its own."""
        return _is_of(line, self.url, self.kind)


class Visit(NamedTuple):
    """A visit as it is kept: when it is due, whether there is a record, and its line."""

    due: int
    record: int
    line: str


def url_key(url: str, kind: str = "page") -> int:
    """64 bits of the URL's MD5, as the signed number that SQLite stores; a sitemap's visit is not that of a page."""
    text = url if kind == "page" else f"{kind} {url}"
    key: int
    (key,) = _FIRST_64(_md5(text.encode(), usedforsecurity=False).digest())
    return key


def _is_of(line: str, url: str, kind: str) -> bool:
    """Whether a visit's line is that of a URL: it begins with it."""
    mark = '" OUTCOME="' if kind == "page" else '" KIND="'
    return line.startswith(url, _URL_AT) and line.startswith(mark, _URL_AT + len(url))


def _first(site: str) -> int:
    """The first number that a visit of a site may have."""
    return (crc32(site.encode()) & _SITE) << URL_BITS


class Known:
    """The visits of all URLs, on the connection of their owner, who begins and commits."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db = database
        self.read_again()

    def read_again(self) -> None:
        """Derive what is in memory from the tables: at the start, and after a rollback."""
        twins = self._db.execute("SELECT number, h, own FROM twin")
        self._twins: dict[tuple[int, int], int] = {(number, h): own for number, h, own in twins}
        old = self._db.execute("SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'visit'")
        self.is_moving = old.fetchone() is not None

    def find(self, keys: Sequence[tuple[str, str, str, int]]) -> list[tuple[int, str]]:
        """Of these visits, by what a Key says, those that there are: place among them and line, in their order."""
        first = {site: _first(site) for site in {site for _, site, _, _ in keys}}
        numbers = [first[site] | (h >> (64 - URL_BITS) & _URL) for _, site, _, h in keys]
        if self._twins:
            numbers = [self._twins.get((number, key[3]), number) for number, key in zip(numbers, keys, strict=True)]
        lines = self._lines(numbers)
        found = [
            (n, line)
            for n, ((url, _, kind, _), number) in enumerate(zip(keys, numbers, strict=True))
            if (line := lines.get(number)) and _is_of(line, url, kind)
        ]
        if self.is_moving and len(found) < len(keys):
            others = set(range(len(keys))) - {n for n, _ in found}
            found = sorted([*found, *self._find_old(keys, others)])
        return found

    def _find_old(self, keys: Sequence[tuple[str, str, str, int]], places: set[int]) -> Iterator[tuple[int, str]]:
        for n in places:
            url, site, kind, h = keys[n]
            if _is_of(line := self._old(site, h), url, kind):
                yield n, line

    def _lines(self, numbers: list[int]) -> dict[int, str]:
        # In their order, so that what lies together is read together.
        statement = "SELECT number, line FROM json_each(?) CROSS JOIN known ON number = value"
        return dict(self._db.execute(statement, (json.dumps(sorted(numbers)),)).fetchall())

    def write(self, visits: dict[Key, Visit]) -> None:
        """Put these visits into the place of those that there are."""
        rows = sorted((self._number(key), *visit, key.head, key) for key, visit in visits.items())
        written = self._db.executemany(_WRITE, (row[:5] for row in rows)).rowcount
        if written < len(rows):
            for number, *_, key in rows:
                self._set_apart(number, key, visits[key])
        if self.is_moving:
            self._db.executemany(f"DELETE FROM visit WHERE {_OLD}", ((key.site, key.h) for key in visits))

    def _set_apart(self, number: int, key: Key, visit: Visit) -> None:
        """Where a visit was not written, since another has its number, it gets the next that is free."""
        (line,) = self._db.execute("SELECT line FROM known WHERE number = ?", (number,)).fetchone()
        if key.is_of(line):
            return
        own = number
        while self._db.execute("SELECT 1 FROM known WHERE number = ?", (own,)).fetchone() is not None:
            own = own + 1 if own & _URL != _URL else own - _URL  # among those of its site
        self._db.execute("INSERT INTO known VALUES (?, ?, ?, ?)", (own, *visit))
        self._db.execute("INSERT INTO twin VALUES (?, ?, ?)", (number, key.h, own))
        self._twins[number, key.h] = own

    def remove(self, key: Key) -> None:
        """Delete a visit that there is."""
        number = self._number(key)
        begins = f'{jcf.VERSION} URL="{key.url}"'
        self._db.execute("DELETE FROM known WHERE number = ? AND substr(line, 1, ?) = ?", (number, len(begins), begins))
        if self._twins.pop((key.number, key.h), None) is not None:
            self._db.execute("DELETE FROM twin WHERE number = ? AND h = ?", (key.number, key.h))
        if self.is_moving:
            self._db.execute(f"DELETE FROM visit WHERE {_OLD}", (key.site, key.h))

    def due(self, before: float, since: float, count: int) -> list[str]:
        """The lines of visits that are due between two epoch times, the most overdue first."""
        where = "due >= ? AND due < ? ORDER BY due LIMIT ?"
        rows = self._both(f"SELECT due, line FROM {{}} WHERE {where}", int(since), int(before), count)
        return [line for _, line in rows][:count]

    def of_site(self, site: str, since: float) -> Iterator[str]:
        """The lines of a site's visits that are due at an epoch time or later, in that order; some are of others."""
        first = _first(site)
        statement = "SELECT due, line FROM known WHERE number BETWEEN ? AND ? AND due >= ?"
        rows = self._db.execute(statement, (first, first | _URL, int(since))).fetchall()
        if self.is_moving:
            statement = "SELECT due, line FROM visit WHERE site = (SELECT id FROM site WHERE name = ?) AND due >= ?"
            rows += self._db.execute(statement, (site, int(since))).fetchall()
        return (line for _, line in sorted(rows))

    def line_of(self, site: str, h: int) -> str:
        """The line of the visit that other tables know by a site and 64 bits; "" where there is none."""
        number = self._number(Key("", site, "", h))
        row = self._db.execute("SELECT line FROM known WHERE number = ?", (number,)).fetchone()
        for line in filter(None, (row[0] if row else "", self._old(site, h) if self.is_moving else "")):
            visit = jcf.parse_text(line)
            if url_key(visit.url, visit.kind) == h:
                return str(line)
        return ""

    def _number(self, key: Key) -> int:
        number = key.number
        return self._twins.get((number, key.h), number) if self._twins else number

    # Of version 1 -----------------------------------------------------------------------------------------------

    def move(self, count: int) -> list[tuple[int, int]]:
        """Bring so many visits of version 1 over; after the last their table goes. The caller commits.

        Those whose line is damaged stay behind: of each the number of its site is given, and whether it had a record.
        """
        rows = self._db.execute(
            "SELECT site, h, name, due, record, line FROM visit LEFT JOIN site ON id = site ORDER BY site, h LIMIT ?",
            (count,),
        ).fetchall()
        if not rows:
            self._db.execute("DROP TABLE visit")
            self.is_moving = False
            return []
        moved, damaged = {}, []
        for site, h, name, due, record, line in rows:
            try:
                visit = jcf.parse_text(str(line))
            except RecordError as error:
                log.error("a visit of version 1 is damaged, its page counts as new site=%s fault=%s", name, error)
                damaged.append((site, record))
                continue
            moved[Key(visit.url, name or site_of(visit.url), visit.kind, h)] = Visit(due, record, line)
        self.is_moving = False  # they are deleted at once
        try:
            self.write(moved)
        finally:
            self.is_moving = True
        self._db.execute("DELETE FROM visit WHERE (site, h) <= (?, ?)", rows[-1][:2])
        return damaged

    def _old(self, site: str, h: int) -> str:
        """The line that the table of version 1 has for a visit, "" if none."""
        row = self._db.execute(f"SELECT line FROM visit WHERE {_OLD}", (site, h)).fetchone()
        return str(row[0]) if row else ""

    def _both(self, statement: str, *values: object) -> list[tuple[int, str]]:
        """What a statement gives of the table, and of that of version 1, in the order of the first column."""
        tables = ["known", "visit"] if self.is_moving else ["known"]
        rows = [row for table in tables for row in self._db.execute(statement.format(table), values).fetchall()]
        return sorted(rows, key=lambda row: row[0])


#: Finds a visit in the table of version 1, by the name of its site and its hash.
_OLD = "site = (SELECT id FROM site WHERE name = ?) AND h = ?"
