"""The small databases of the explored daemons: their rows as values, their settings, their time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from combine.config import Agent, Politeness, Scheduler, Settings
from combine.schedule.duties import LOST_S
from tests.combine.schedule.world import NOON

NOW = 1000.0

#: Seconds between two requests to the site, and the time of a lease: two jobs fit in.
DELAY, LEASE_S = 10.0, 20.0

#: When the forced round begins: all that was asked before is older.
ROUND_S = 10.0

SETTINGS = Settings(
    agent=Agent(url="https://example.org/us", email="us@example.org"),
    politeness=Politeness(margin_s=0.0),
    scheduler=replace(Scheduler(), lease_s=LEASE_S, lease_grace_s=0.0, standing=False),
)

Rows = tuple[tuple[tuple[Any, ...], ...], ...]
Answer = tuple[str, ...]

#: What has no bearing on what may happen here: counts of the day, and who had a site last, of two who are alike.
#: And how long a row has been fetched: always long enough for its batch to be missed.
_IDLE: dict[str, dict[str, Any]] = {
    "site": {"day": 0, "requests": 0, "bytes": 0, "holder": "", "rest": DELAY},
    "job": {"at": NOW - LOST_S - 1.0},
}


class Tables:
    """The rows of some tables of a database, to be read and put back."""

    def __init__(self, db: Any, names: Iterable[str]) -> None:
        self._db = db
        self.columns = {name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in names}

    def dump(self) -> Rows:
        return tuple(self._rows(name) for name in self.columns)

    def _rows(self, name: str) -> tuple[tuple[Any, ...], ...]:
        rows = tuple(self._db.execute(f"SELECT * FROM {name}"))
        idle = _IDLE.get(name)
        if idle is None:
            return rows
        names = self.columns[name]
        return tuple(tuple(idle.get(column, value) for column, value in zip(names, row, strict=True)) for row in rows)

    def load(self, rows: Rows) -> None:
        self._db.execute("BEGIN")
        for (name, columns), content in zip(self.columns.items(), rows, strict=True):
            self._db.execute(f"DELETE FROM {name}")
            if content:
                self._db.executemany(f"INSERT INTO {name} VALUES ({','.join('?' * len(columns))})", content)
        self._db.execute("COMMIT")


def utc_at(forced: int) -> float:
    """The calendar before and after the forced round began."""
    return NOON + ROUND_S * forced
