"""The real idbd as a function: a state of its tables and a message give a state and an answer."""

from __future__ import annotations

import re
from typing import Any

from formats import jcf
from tests.combine.schedule.world import World, always, at_once
from tests.explorer.tables import NOW, SETTINGS, Answer, Rows, Tables

_IDB = ("site", "known", "twin", "digest", "turned", "held", "count")

_EVENTS = re.compile(r' EVENTS="[^"]*"')


class Idb:
    """idbd, as a function."""

    def __init__(self) -> None:
        self._world = World(SETTINGS, always)
        self._tables = Tables(self._world.visits._db, _IDB)
        self._states: dict[Rows, int] = {}
        self._rows: list[Rows] = []
        self._memory: dict[Any, Any] = {}

    def close(self) -> None:
        self._world.close()

    def start(self) -> int:
        """The state in which nothing was visited."""
        return self._read()

    def _put_back(self, number: int) -> None:
        self._tables.load(self._rows[number])
        self._world.visits.rollback()  # what it remembers of the tables is forgotten

    def _read(self) -> int:
        rows = tuple(tuple(tuple(map(_without_events, row)) for row in table) for table in self._tables.dump())
        if rows not in self._states:
            self._states[rows] = len(self._rows)
            self._rows.append(rows)
        return self._states[rows]

    def lookup(self, number: int, questions: Answer, utc: float) -> Answer:
        """LOOKUP: the visits of those URLs that have one."""
        words = ("lookup", number, questions, utc)
        if words not in self._memory:
            self._put_back(number)
            self._world.clock.shift = utc - NOW
            self._memory[words] = tuple(at_once(self._world.look_up(list(questions))))
        found: Answer = self._memory[words]
        return found

    def remember(self, number: int, news: Answer, utc: float) -> int:
        """REMEMBER: the state after it."""
        words = ("remember", number, news, utc)
        if words not in self._memory:
            self._put_back(number)
            self._world.visits.remember([jcf.parse_text(line) for line in news], utc)
            self._world.visits.commit()
            self._memory[words] = self._read()
        found: int = self._memory[words]
        return found


def _without_events(value: Any) -> Any:
    """A visit's line without what is told of it and nobody decides by: its last outcomes."""
    return _EVENTS.sub("", value) if isinstance(value, str) else value
