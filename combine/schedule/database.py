"""The databases of the scheduler and idbd: how they are opened, and the version of their tables.

Each says in its header (SQLite's `user_version`) of which version its tables are. One that a newer program wrote, and
one whose tables are not those that its version has, is refused before anything is changed. See docs/operations.md,
"Upgrading".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from combine.errors import ConfigError, damaged

#: Version of the tables. Whoever changes a table raises it, writes the way from the version before, and keeps a home
#: of that version beside tests/data/home-1.
VERSION = 2

_PRAGMAS = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=16000;"
    "PRAGMA cache_size=-8192; PRAGMA temp_store=MEMORY; PRAGMA journal_size_limit=268435456;"
)


def open_database(path: Path, schema: str) -> sqlite3.Connection:
    """Open one of Combine's databases, or make it: a write-ahead log, checkpointed seldom, one sync a commit.

    Raises ConfigError where the file is no database, or none of this program's.
    """
    with read_whole(path):
        database = sqlite3.connect(path, isolation_level=None, cached_statements=256)
        try:
            _check(path, database, schema)
            database.executescript(_PRAGMAS + schema)
            if database.execute("PRAGMA user_version").fetchone() != (VERSION,):
                database.execute(f"PRAGMA user_version={VERSION}")
        except BaseException:
            database.close()
            raise
    return database


@contextmanager
def read_whole(path: Path) -> Iterator[None]:
    """Name the database in which a damaged page is met: raises ConfigError then. What is the disk's goes through."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and (path.is_file() or not path.exists()):
            raise  # it passes
        raise damaged(path, error) from None


def _check(path: Path, database: sqlite3.Connection, schema: str) -> None:
    """A database of before its first version was kept has the tables of version 1, or is refused by them."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise ConfigError(
            f"{path} has tables of version {version}, and this program knows {VERSION}:"
            " use the program that wrote it, or a newer one (pip install --upgrade combine-system)"
        )
    with closing(sqlite3.connect(":memory:")) as wanted:
        wanted.executescript(schema)
        for (table,) in wanted.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            found = _columns(database, table)
            if found and found != _columns(wanted, table):
                raise ConfigError(
                    f"{path} has a table {table} that is none of version {VERSION}: use the program that wrote it,"
                    " restore it from a backup, or move it away to begin anew"
                )


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]
