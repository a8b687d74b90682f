"""The rows of the queue: one for each job that is not yet stored, in one SQLite table. SQL only, no decisions.

A row's key is its site and 64 bits of the MD5 of its kind, its URL and, for a robots job, the site that waits. Its
state is one of QUEUED (may be handed out), DEFERRED (queued, but not before `later`), LEASED, FETCHED (its harvest lies
in a batch), STORED (its result is committed here and idbd is to hear of it), DEAD. `later` is a boot time, and `wait`
the wait it came from: after a reboot waits begin again in full. What is not of rows lies in `tables`.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from combine.schedule.tables import Tables
from combine.services import MESSAGE_LINES
from formats.jcf import VERSION

QUEUED, DEFERRED, LEASED, FETCHED, STORED, DEAD = range(6)

STATE_NAMES = ("queued", "queued", "leased", "fetched", "fetched", "dead")

_COLUMNS = (
    "seq, site, h, state, kind, prio, depth, seed, since, fetch, lease, nrt, first_failed, later, batch, reason,"
    " events, relinks, line, scopes, result"
)


_READY = "seq, site, fetch, line, kind, prio, depth, seed, since, nrt"

_SITE = itemgetter(0)
_FIRST_64 = struct.Struct(">q8x").unpack
_md5 = hashlib.md5  # it is called for each link
_BEGIN = f'{VERSION} URL="'
_KNOWN = ' FTIME="'


class Brief(NamedTuple):
    """What tells whether a row need be looked at more closely."""

    state: int
    kind: str
    prio: int
    depth: int
    seed: int
    since: str


class Stored(NamedTuple):
    """The number of a row, and what idbd is to hear of it."""

    seq: int
    result: str


class Ready(NamedTuple):
    """What a hand-out must know of a row that may go; from `kind` on what many rows have alike."""

    seq: int
    site: int
    fetch: int
    line: str
    kind: str
    prio: int
    depth: int
    seed: int
    since: str
    nrt: int

    @property
    def url(self) -> str:
        """The job's URL."""
        return _url_of(self.line)

    @property
    def alike(self) -> tuple[int | str, ...]:
        """What all that is said of it depends on, but its line and its numbers."""
        return self[4:]

    @property
    def is_known(self) -> bool:
        """Whether a visit has left a record of it: its validators go with the job."""
        return _KNOWN in self.line


@dataclass(slots=True)
class Row:
    """One row of the queue; `line` is the job's JCF line without what has a column of its own."""

    seq: int
    site: int
    h: int
    state: int
    kind: str
    prio: int
    depth: int
    seed: int
    since: str
    fetch: int
    lease: int
    nrt: int
    first_failed: float
    later: float
    batch: str
    reason: str
    events: str
    relinks: str
    line: str
    scopes: str  # scope and hops left with which it was handed out last
    result: str

    @property
    def url(self) -> str:
        """The job's URL, with which its line begins: it is asked for more often than all the rest."""
        return _url_of(self.line)


def _url_of(line: str) -> str:
    assert line.startswith(_BEGIN), "a job's line begins with its URL"
    return line[len(_BEGIN) : line.index('"', len(_BEGIN))]


def job_key(kind: str, url: str, waiting: str = "") -> int:
    """64 bits that tell a job from any other of its site."""
    key: int
    (key,) = _FIRST_64(_md5(f"{kind}\0{url}\0{waiting}".encode(), usedforsecurity=False).digest())
    return key


def _paid(spent: set[str]) -> str:
    """The condition that a row's run can pay for it."""
    marks = ",".join("?" * len(spent))
    return f" AND (kind = 'robots' OR seed NOT IN (SELECT id FROM seed WHERE budget IN ({marks})))" if spent else ""


class Rows(Tables):
    """The queue. One process owns the database; nothing is durable before `commit`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._held: dict[int, Row] = {}

    def trapped(self, site: int, pattern: str) -> int:
        """How many URLs of a trap were taken."""
        row = self.db.execute("SELECT urls FROM trap WHERE site = ? AND h = ?", (site, job_key("trap", pattern)))
        return int(next(iter(row), (0,))[0])

    def trap(self, site: int, pattern: str, urls: int) -> None:
        """Keep how many URLs of a trap were taken."""
        self.change("INSERT OR REPLACE INTO trap VALUES (?, ?, ?)", site, job_key("trap", pattern), urls)

    def sites_trapped(self) -> set[int]:
        """The sites that have traps."""
        return {site for (site,) in self.db.execute("SELECT DISTINCT site FROM trap")}

    def find(self, site: int, h: int) -> Row | None:
        """The row with a key."""
        return self._one("site = ? AND h = ?", site, h)

    def find_many(self, keys: list[tuple[int, int]]) -> list[tuple[int, int, Brief]]:
        """Of these keys, each a site and a hash, those that have a row, and their rows in brief."""
        if not keys:
            return []
        is_inside = self.db.in_transaction
        self.begin()  # or each key would be a transaction
        self.db.execute("DELETE FROM asked")
        self.db.executemany("INSERT INTO asked VALUES (?, ?)", keys)
        rows = self.db.execute(
            "SELECT job.site, job.h, state, kind, prio, depth, seed, since FROM asked CROSS JOIN job"
            " ON job.site = asked.site AND job.h = asked.h"
        ).fetchall()
        if not is_inside:
            self.db.execute("COMMIT")
        return [(site, h, Brief(*brief)) for site, h, *brief in rows]

    def fetched_as(self, fetch: int) -> Row | None:
        """The row whose latest fetch number this is; None fences a late message out."""
        if (held := self._held.pop(fetch, None)) is not None:
            return held
        return self._one("fetch = ? AND fetch > 0", fetch) if fetch > 0 else None

    @contextmanager
    def held(self, fetches: Iterable[int]) -> Iterator[None]:
        """Read the rows of a message's fetch numbers at once; each is given out once, and none outlives the body."""
        where = "fetch > 0 AND fetch IN (SELECT value FROM json_each(?))"
        self._held = {row.fetch: row for row in self._many(where, json.dumps([number for number in fetches if number]))}
        try:
            yield
        finally:
            self._held = {}

    def let_go(self, lease: int) -> None:
        """The rows of a lease are about to change: none that was read before counts."""
        for fetch in [fetch for fetch, row in self._held.items() if row.lease == lease]:
            del self._held[fetch]

    def delete_stored(self, rows: Iterable[Stored]) -> list[Row]:
        """Delete those of these that are STORED; gives them as they are now, in the order of their numbers."""
        return self.delete_many([row.seq for row in rows], " AND state = 4")

    def delete_many(self, numbers: list[int], where: str = "") -> list[Row]:
        """Delete the rows with these numbers; gives them as they were, in the order of their numbers."""
        if not numbers:
            return []
        self.begin()
        statement = f"DELETE FROM job WHERE seq IN (SELECT value FROM json_each(?)){where} RETURNING {_COLUMNS}"
        found = self.db.execute(statement, (json.dumps(numbers),)).fetchall()
        return sorted((Row(*row) for row in found), key=lambda row: row.seq)

    def insert(self, site: int, h: int, kind: str, prio: int, depth: int, seed: int, since: str, line: str) -> int:
        """Queue a new job; gives its number."""
        self.begin()
        statement = "INSERT INTO job(site, h, state, kind, prio, depth, seed, since, line) VALUES (?,?,0,?,?,?,?,?,?)"
        return int(self.db.execute(statement, (site, h, kind, prio, depth, seed, since, line)).lastrowid or 0)

    def insert_many(self, rows: list[tuple[object, ...]]) -> None:
        """Queue new jobs: site, hash, kind, priority, depth, seed, since and line of each.

        Those of a site together, in their order: what a lease takes, and changes three times, lies on few pages then.
        """
        self.begin()
        statement = "INSERT INTO job(site, h, state, kind, prio, depth, seed, since, line) VALUES (?,?,0,?,?,?,?,?,?)"
        self.db.executemany(statement, sorted(rows, key=_SITE))

    def lease(self, rows: list[tuple[int, int, str, int]]) -> None:
        """Queued rows go out: fetch number, lease, scopes and number of each."""
        self.begin()
        self.db.executemany("UPDATE job SET state = 2, fetch = ?, lease = ?, scopes = ? WHERE seq = ?", rows)

    def row(self, number: int) -> Row:
        """The row with a number that is known to be there."""
        row = self._one("seq = ?", number)
        assert row is not None, "a row that was read a moment ago is there"
        return row

    def ready(self, site: int, count: int, spent: set[str]) -> list[Ready]:
        """The next jobs of a site whose runs' budgets are not spent: by priority, then breadth first, then age."""
        return self._ready(f"site = ?{_paid(spent)} ORDER BY prio, depth, seq LIMIT ?", site, *spent, count)

    def seed_of(self, site: int, spent: set[str]) -> int:
        """The seed of the next job of a site that has one, as `ready` would give them; 0 where none has."""
        where = f"site = ? AND seed > 0{_paid(spent)} ORDER BY prio, depth, seq LIMIT 1"
        return next((row.seed for row in self._ready(where, site, *spent)), 0)

    def ready_of(self, sites: Iterable[int], spent: set[str]) -> list[Ready]:
        """All jobs of some sites that `ready` would give, in its order."""
        wanted = json.dumps(list(sites))
        where = f"site IN (SELECT value FROM json_each(?)){_paid(spent)} ORDER BY site, prio, depth, seq"
        return self._ready(where, wanted, *spent) if wanted != "[]" else []

    def relinks(self, count: int) -> list[Ready]:
        """The next relink jobs, oldest first."""
        found = self.db.execute(
            f"SELECT {_READY} FROM job WHERE state = 0 AND kind = 'relink' ORDER BY seq LIMIT ?", (count,)
        )
        return list(map(Ready._make, found.fetchall()))

    def of_lease(self, lease: int) -> list[Row]:
        """The rows that a lease still holds."""
        # By their fetch numbers, which follow that of the lease: an index of leases would cost each hand-out 1 µs.
        # Without `fetch > 0` all rows would be looked through: a partial index must be asked for in its own words.
        where = "fetch > 0 AND fetch > ? AND fetch <= ? AND state = 2 AND lease = ?"
        return self._many(where, lease, lease + MESSAGE_LINES, lease)

    def of_batch(self, batch: str) -> list[Row]:
        """The fetched rows whose harvests lie in a batch."""
        return self._many("state = 3 AND batch = ?", batch)

    def stored(self, count: int) -> list[Stored]:
        """Rows whose results idbd is to hear of, oldest first."""
        found = self.db.execute("SELECT seq, result FROM job WHERE state = 4 ORDER BY seq LIMIT ?", (count,))
        return [Stored(*row) for row in found.fetchall()]

    def fetched(self, fetches: Iterable[int]) -> set[int]:
        """Those of these fetch numbers whose rows are FETCHED."""
        wanted = json.dumps([number for number in fetches if number])
        where = "fetch > 0 AND fetch IN (SELECT value FROM json_each(?)) AND state = 3"
        return {fetch for (fetch,) in self.db.execute(f"SELECT fetch FROM job WHERE {where}", (wanted,))}

    def ripe(self, now: float, count: int) -> list[Row]:
        """Deferred rows whose wait is over."""
        return self._many("state = 1 AND later <= ? ORDER BY later LIMIT ?", now, count)

    def next_later(self) -> float | None:
        """When the next deferred row's wait is over."""
        row = self.db.execute("SELECT min(later) FROM job WHERE state = 1").fetchone()
        return None if row[0] is None else float(row[0])

    def batches(self) -> list[tuple[str, float]]:
        """The batches that fetched rows lie in, each with the time of its latest row."""
        return list(self.db.execute("SELECT batch, max(at) FROM job WHERE state = 3 GROUP BY batch"))

    def counts(self) -> Iterator[tuple[int, list[int]]]:
        """Rows by state, of each site that has some, by number.

        First those under 0: relink rows, which have no site to wait for.
        """
        # Each by the index of its state, since a look at a million rows takes seconds.
        statement = "SELECT {}, {}, count(*) FROM job INDEXED BY job_{} WHERE {} GROUP BY 1 ORDER BY 1"
        relink = "iif(kind = 'relink', 0, site)"
        queries = [
            statement.format("site", QUEUED, "ready", "state = 0 AND kind <> 'relink'"),
            statement.format("0", QUEUED, "relink", "state = 0 AND kind = 'relink'"),
            statement.format(relink, DEFERRED, "later", "state = 1"),
            statement.format(relink, LEASED, "fetch", "state = 2 AND fetch > 0"),
            statement.format(relink, FETCHED, "batch", "state = 3"),
            statement.format(relink, STORED, "stored", "state = 4"),
            statement.format(relink, DEAD, "dead", "state = 5"),
        ]
        number, counts = 0, [0] * 6
        for site, state, count in heapq.merge(*map(self.db.execute, queries)):
            if site != number:
                yield number, counts
                number, counts = site, [0] * 6
            counts[state] += count
        yield number, counts

    def errands(self) -> list[tuple[int, int]]:
        """The sites that have queued robots jobs, and how many."""
        return list(self.db.execute("SELECT site, count(*) FROM job WHERE kind = 'robots' AND state = 0 GROUP BY site"))

    def forced_since(self) -> str:
        """The SINCE of the forced round of which rows are left, "" if none."""
        row = self.db.execute("SELECT max(since) FROM job WHERE since <> '' AND state < 5").fetchone()
        return row[0] or ""

    def reboot(self, now: float) -> None:
        """A new boot id: boot times mean nothing any more; waits begin again in full."""
        failing = "UPDATE job SET first_failed = ? - max(later - wait - first_failed, 0) WHERE first_failed <> 0"
        self.change(failing, now)
        self.change("UPDATE job SET later = ? + wait WHERE state = 1", now)
        self.change("UPDATE job SET at = ? WHERE state = 3", now)
        self.change(
            "UPDATE site SET next = ? + rest, blocked = CASE WHEN block_s > 0 THEN ? + block_s ELSE 0 END", now, now
        )

    def _ready(self, where: str, *values: object) -> list[Ready]:
        statement = f"SELECT {_READY} FROM job WHERE state = 0 AND kind <> 'relink' AND {where}"
        return list(map(Ready._make, self.db.execute(statement, values).fetchall()))

    def _one(self, where: str, *values: object) -> Row | None:
        row = self.db.execute(f"SELECT {_COLUMNS} FROM job WHERE {where}", values).fetchone()
        return Row(*row) if row else None

    def _many(self, where: str, *values: object) -> list[Row]:
        return [Row(*row) for row in self.db.execute(f"SELECT {_COLUMNS} FROM job WHERE {where}", values).fetchall()]
