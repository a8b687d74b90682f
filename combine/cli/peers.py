"""The daemons of a home as the command sees them: what they say, read once into values.

A one-shot harvest stops its daemons at its end, and people ask `why` afterwards: `with_daemons` starts what a question
needs and stops what it started. Only a daemon opens its database, so there is no other way to ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from combine.errors import CombineError, RetryLater
from combine.ipc.client import Client as Client
from combine.ipc.client import Reply as Reply
from combine.keep.home import Home
from formats.jcf import Job

#: Seconds that a daemon may take to be ready: a large database after a power loss reads its journal.
READY_S = 60.0


#: Outcomes that the scheduler counts since its start, where it does.
_COUNTS = ("OK", "UNCHANGED", "REDIRECTED", "GONE", "REFUSED", "DENIED", "FAILED")


@dataclass(frozen=True, slots=True)
class SiteLine:
    """One site that waits, and for what; `next_s` counts from now."""

    site: str
    state: str
    next_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Stat:
    """The scheduler's counters. `next_s` is None where nothing may be handed out any more."""

    gate: str = "open"
    queued: int = 0
    leased: int = 0
    fetched: int = 0
    dead: int = 0
    unresolved: int = 0
    waiting: int = 0
    due: int = 0
    leased_sites: int = 0
    blocked: int = 0
    pages: int = 0
    bytes: int = 0
    next_s: float | None = None
    idle_s: float = 0.0
    stalled: str = ""
    since: str = ""
    public: int = 0
    budgets: tuple[tuple[str, int, int], ...] = ()  # run, pages left, pages out
    sites: tuple[SiteLine, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)  # outcomes since the scheduler started

    @property
    def is_done(self) -> bool:
        """Nothing is queued, leased or fetched."""
        return not (self.queued or self.leased or self.fetched)

    @property
    def under_way(self) -> int:
        """Jobs leased or fetched."""
        return self.leased + self.fetched

    def budget(self, name: str) -> tuple[int, int] | None:
        """Pages left and pages out of a run; None where the scheduler knows of no limit."""
        return next(((left, out) for run, left, out in self.budgets if run == name), None)


def scheduler(home: Home) -> Client:
    """A client of the scheduler."""
    return Client(home.socket("scheduler"), "scheduler")


def idbd(home: Home) -> Client:
    """A client of idbd."""
    return Client(home.socket("idbd"), "idbd")


def known_records(home: Home) -> int | None:
    """The records that idbd counts, None where it does not answer. To count a million on the disk takes 12 s."""
    try:
        with Client(home.socket("idbd"), "idbd", timeout_s=5.0) as client:
            return client.call("STAT")[0].number("RECORDS")
    except (CombineError, IndexError):
        return None


def read_stat(lines: Iterable[Job]) -> Stat:
    """Read what the scheduler answers to STAT; raises RecordError for what is none."""
    first, *rest = lines
    return Stat(
        gate=first.get("GATE", "open"),
        queued=first.number("QUEUED"),
        leased=first.number("LEASED"),
        fetched=first.number("FETCHED"),
        dead=first.number("DEAD"),
        unresolved=first.number("UNRESOLVED"),
        waiting=first.number("WAITING"),
        due=first.number("DUE"),
        leased_sites=first.number("LEASEDSITES"),
        blocked=first.number("BLOCKED"),
        pages=first.number("PAGES"),
        bytes=first.number("BYTES"),
        next_s=first.seconds("NEXT") if first.get("NEXT") else None,
        idle_s=first.seconds("IDLE"),
        stalled=first.get("STALLED"),
        since=first.get("SINCE"),
        public=first.number("PUBLIC"),
        budgets=tuple(
            (line.get("BUDGET"), line.number("LEFT"), line.number("OUT")) for line in rest if line.get("BUDGET")
        ),
        counts={name.lower(): first.number(name) for name in _COUNTS if first.get(name)},
        sites=tuple(
            SiteLine(line.get("SITE"), line.get("STATE"), line.seconds("NEXT"), line.get("REASON"))
            for line in rest
            if line.get("SITE")
        ),
    )


def ask_stat(home: Home) -> Stat | None:
    """The scheduler's counters, None where it does not answer."""
    try:
        with Client(home.socket("scheduler"), "scheduler", timeout_s=5.0) as client:
            return read_stat(client.call("STAT"))
    except RetryLater:
        return None
