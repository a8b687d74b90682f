"""The database of the queue: its tables, its transactions, and what it keeps beside the rows.

Whoever changes a table raises `database.VERSION`; an index may come and go. Indexes are partial, so that a row is only
in those of its state.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from combine.schedule.database import open_database

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS site(
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, told REAL, auto REAL, crawl REAL NOT NULL DEFAULT 0,
    next REAL NOT NULL DEFAULT 0, rest REAL NOT NULL DEFAULT 0, shut INTEGER NOT NULL DEFAULT 0,
    blocked REAL NOT NULL DEFAULT 0, block_s REAL NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '',
    failures INTEGER NOT NULL DEFAULT 0, refusals INTEGER NOT NULL DEFAULT 0, day INTEGER NOT NULL DEFAULT 0,
    requests INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, holder TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS scope(id INTEGER PRIMARY KEY, text TEXT UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS seed(
    id INTEGER PRIMARY KEY, url TEXT UNIQUE NOT NULL, scope INTEGER NOT NULL, maxdepth INTEGER,
    tag TEXT NOT NULL DEFAULT '', delay TEXT NOT NULL DEFAULT '', budget TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS seed_budget ON seed(budget);
CREATE TABLE IF NOT EXISTS trap(site INTEGER, h INTEGER, urls INTEGER NOT NULL, PRIMARY KEY(site, h)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS budget(name TEXT PRIMARY KEY, left INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lease(
    id INTEGER PRIMARY KEY, site INTEGER NOT NULL, pid INTEGER NOT NULL, start INTEGER NOT NULL,
    boot TEXT NOT NULL, until REAL NOT NULL, delay REAL NOT NULL, address TEXT NOT NULL, asked TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS job(
    seq INTEGER PRIMARY KEY, site INTEGER NOT NULL, h INTEGER NOT NULL, state INTEGER NOT NULL, kind TEXT NOT NULL,
    prio INTEGER NOT NULL, depth INTEGER NOT NULL, seed INTEGER NOT NULL, since TEXT NOT NULL DEFAULT '',
    fetch INTEGER NOT NULL DEFAULT 0, lease INTEGER NOT NULL DEFAULT 0, nrt INTEGER NOT NULL DEFAULT 0,
    first_failed REAL NOT NULL DEFAULT 0, later REAL NOT NULL DEFAULT 0, wait REAL NOT NULL DEFAULT 0,
    at REAL NOT NULL DEFAULT 0, batch TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '',
    events TEXT NOT NULL DEFAULT '', relinks TEXT NOT NULL DEFAULT '', line TEXT NOT NULL,
    scopes TEXT NOT NULL DEFAULT '', result TEXT NOT NULL DEFAULT '');
CREATE TEMP TABLE asked(site INTEGER, h INTEGER);
CREATE UNIQUE INDEX IF NOT EXISTS job_key ON job(site, h);
CREATE INDEX IF NOT EXISTS job_ready ON job(site, prio, depth) WHERE state = 0 AND kind <> 'relink';
CREATE INDEX IF NOT EXISTS job_relink ON job(seq) WHERE state = 0 AND kind = 'relink';
CREATE INDEX IF NOT EXISTS job_errand ON job(site) WHERE kind = 'robots' AND state = 0;
CREATE INDEX IF NOT EXISTS job_later ON job(later) WHERE state = 1;
CREATE UNIQUE INDEX IF NOT EXISTS job_fetch ON job(fetch) WHERE fetch > 0;
DROP INDEX IF EXISTS job_lease;
CREATE INDEX IF NOT EXISTS job_batch ON job(batch) WHERE state = 3;
CREATE INDEX IF NOT EXISTS job_stored ON job(seq) WHERE state = 4;
CREATE INDEX IF NOT EXISTS job_dead ON job(site, kind) WHERE state = 5;
CREATE INDEX IF NOT EXISTS job_since ON job(since) WHERE since <> '' AND state < 5;
"""


@lru_cache(maxsize=64)
def _setting(columns: tuple[str, ...]) -> str:
    return f"UPDATE job SET state = ?{''.join(f', {name} = ?' for name in columns)} WHERE seq = ?"


class Tables:
    """The open database. One process owns it; nothing is durable before `commit`."""

    def __init__(self, path: Path) -> None:
        self._db = open_database(path, SCHEMA)
        self.syncs = 0  # commits of something
        self._columns: tuple[str, ...] = ()  # those that the moves set
        self._moves: list[tuple[object, ...]] = []  # rows to states, not yet written: see `set_state`

    @property
    def db(self) -> sqlite3.Connection:
        """The database, in which all that was changed can be seen."""
        if self._moves:
            self._write_moves()
        return self._db

    def begin(self) -> None:
        """Open a transaction, unless one is open."""
        if not self._db.in_transaction:
            self._db.execute("BEGIN")

    def commit(self) -> None:
        """Make durable all that was changed."""
        if self.db.in_transaction:
            self._db.execute("COMMIT")
            self.syncs += 1

    def rollback(self) -> None:
        """Forget what was not committed."""
        self._moves.clear()
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def change(self, statement: str, *values: object) -> int:
        """Run a statement that changes something; gives the number of rows it changed."""
        self.begin()
        database = self.db if " job " in statement else self._db  # to other tables moves of rows are nothing
        return database.execute(statement, values).rowcount

    def meta(self, key: str, default: str = "") -> str:
        """A value of the scheduler as a whole."""
        row = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else default

    def set_meta(self, key: str, value: str) -> None:
        """Keep a value of the scheduler as a whole."""
        self.change("INSERT OR REPLACE INTO meta VALUES (?, ?)", key, value)

    def set_state(self, number: int, state: int, columns: dict[str, object]) -> None:
        """Move the row with a number to a state, and set columns with it.

        A message moves many rows alike, so that they are written together: before the next look at the database.
        """
        self.begin()
        names = tuple(columns)
        if self._moves and names != self._columns:
            self._write_moves()
        self._columns = names
        self._moves.append((state, *columns.values(), number))

    def _write_moves(self) -> None:
        moves, self._moves = self._moves, []
        self._db.executemany(_setting(self._columns), moves)

    def insert_sites(self, names: list[str]) -> range:
        """New sites; gives their numbers."""
        self.begin()
        (last,) = self.db.execute("SELECT coalesce(max(id), 0) FROM site").fetchone()
        numbers = range(last + 1, last + 1 + len(names))
        self.db.executemany("INSERT INTO site(id, name) VALUES (?, ?)", zip(numbers, names, strict=True))
        return numbers

    def insert_site(self, name: str) -> int:
        """A new site; gives its number."""
        self.begin()
        return int(self.db.execute("INSERT INTO site(name) VALUES (?)", (name,)).lastrowid or 0)

    def open_leases(self, leases: Iterable[tuple[int, int, int, int, str, float, float, str, str]]) -> None:
        """Keep leases, in the form in which `leases` gives them."""
        self.begin()
        self.db.executemany("INSERT INTO lease VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", leases)

    def leases(self) -> list[tuple[int, int, int, int, str, float, float, str, str]]:
        """All leases: number, site, pid, start, boot id, end, delay, address, pace that was asked for."""
        return self.db.execute("SELECT * FROM lease").fetchall()
