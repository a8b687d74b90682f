"""The sites in memory: each in exactly one of six sets, and the heaps that wake them. No rows, no clock of its own.

Invariant, asserted at every move: a site that is in memory is in exactly one of

    unresolved   it has jobs, and its host no address yet
    waiting      it has jobs, and its next request may not go yet
    due          it has jobs and may be handed out now
    leased       a harvester has it
    blocked      nobody may ask it until a time, or until the operator says so
    empty        it has no job that may go (all are deferred, fetched, or over their run's budget)

A heap entry is only a hint: it counts when it is the site's latest. Memory grows with the sites that have rows, never
with URLs.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from combine.urls import BadURL, normalise, site_of

UNRESOLVED, WAITING, DUE, LEASED, BLOCKED, EMPTY = "unresolved", "waiting", "due", "leased", "blocked", "empty"
STATES = (UNRESOLVED, WAITING, DUE, LEASED, BLOCKED, EMPTY)


def is_site(name: str) -> bool:
    """Whether a name is that of a site: a host, with its port where that is not the scheme's own."""
    try:
        return any(site_of(normalise(f"{scheme}://{name}/")) == name for scheme in ("https", "http"))
    except BadURL:
        return False


#: A block without an end: the operator's.
FOREVER = float("inf")


@dataclass(slots=True)
class Site:
    """One host with its port. Times are boot times; delays are seconds."""

    id: int
    name: str
    state: str = EMPTY
    counts: list[int] = field(default_factory=lambda: [0] * 6)  # rows by state, as in `rows`
    errands: int = 0  # queued robots jobs, which go although the site is blocked
    told: float | None = None  # the operator's delay
    auto: float | None = None  # the adapted delay of an `auto` run
    crawl: float = 0.0  # robots.txt's Crawl-delay
    asked: str = ""  # the pace that the run of its next job asks for
    next: float = 0.0  # no request before
    shut: bool = False  # blocked by the operator
    blocked: float = 0.0  # no request before, with a reason
    reason: str = ""
    failures: int = 0  # in a row
    refusals: int = 0  # in a row
    day: int = 0
    requests: int = 0  # today
    bytes: int = 0  # today
    address: str = ""
    address_until: float = 0.0
    turn: int = 0  # which of its host's addresses is looked up: another after each that no connection was had to
    resolving: bool = False
    name_failures: int = 0
    name_failed: float = 0.0  # the first of them
    lease: int = 0
    holder: str = ""  # who had it last
    parked: bool = False  # its ready jobs are all over their run's budget
    wake: float = 0.0  # the time of its latest heap entry

    @property
    def host(self) -> str:
        """The host without its port."""
        if self.name.startswith("["):
            return self.name.partition("]")[0] + "]"
        return self.name.partition(":")[0]

    @property
    def ready(self) -> int:
        """Rows that may be handed out as far as they themselves are concerned."""
        return self.counts[0]


class Sites:
    """All sites in memory, by id and by name."""

    def __init__(self) -> None:
        self.by_id: dict[int, Site] = {}
        self.by_name: dict[str, Site] = {}
        # A dict, which keeps its order, takes a third of an OrderedDict.
        self.members: dict[str, dict[int, Site]] = {state: {} for state in STATES}
        self._heap: list[tuple[float, int, int]] = []
        self._resting: list[tuple[float, int, int]] = []
        self._tie = itertools.count()

    def __iter__(self) -> Iterator[Site]:
        return iter(self.by_id.values())

    def enter(self, site: Site) -> None:
        """Take a site into memory."""
        assert site.id not in self.by_id, "a site is in memory once"
        self.by_id[site.id] = self.by_name[site.name] = site
        self.members[site.state][site.id] = site

    def leave(self, site: Site) -> None:
        """Let a site go."""
        assert site.state == EMPTY, "only a site without work leaves"
        del self.members[site.state][site.id], self.by_id[site.id], self.by_name[site.name]

    def move(self, site: Site, state: str) -> None:
        """Put a site into one set, at its end; the end of `due` is the back of the round."""
        held = self.members[site.state].pop(site.id, None)
        assert held is site, f"{site.name} is in exactly one set, {site.state}"
        site.state = state
        self.members[state][site.id] = site

    def settle(self, site: Site, now: float) -> None:
        """Put a site where its facts say it belongs."""
        state = self.state_of(site, now)
        if state != site.state:
            self.move(site, state)

    def state_of(self, site: Site, now: float) -> str:
        """The set where a site belongs by its facts; it will be woken when they change by themselves."""
        if site.lease:
            return LEASED
        if site.counts[0] == 0 or site.parked:
            return EMPTY
        until = FOREVER if site.shut else site.blocked
        if until > now and (site.shut or not site.errands):
            self._wake_at(site, until)
            return BLOCKED
        if not site.address or site.address_until <= now:
            return UNRESOLVED
        if site.next > now:
            self._wake_at(site, site.next)
            return WAITING
        return DUE

    def ripe(self, now: float) -> Iterator[Site]:
        """Sites whose wait or block is over; they are to be settled."""
        while self._heap and self._heap[0][0] <= now:
            time, _, number = heapq.heappop(self._heap)
            site = self.by_id.get(number)
            if site is not None and site.wake == time:
                site.wake = 0.0
                yield site

    def next_wake(self) -> float | None:
        """When the next wait or block is over."""
        while self._heap:
            time, _, number = self._heap[0]
            site = self.by_id.get(number)
            if site is not None and site.wake == time and site.state in (WAITING, BLOCKED):
                return time
            heapq.heappop(self._heap)
            if site is not None and site.wake == time:
                site.wake = 0.0
        return None

    def rest(self, site: Site, until: float) -> None:
        """A site without rows stays in memory until a time: its rest is not over."""
        heapq.heappush(self._resting, (until, next(self._tie), site.id))

    def rested(self, now: float) -> Iterator[Site]:
        """Sites whose rest is over; they are to be settled, and those that have no rows leave."""
        while self._resting and self._resting[0][0] <= now:
            site = self.by_id.get(heapq.heappop(self._resting)[2])
            if site is not None and site.state == EMPTY:
                yield site

    def _wake_at(self, site: Site, time: float) -> None:
        if time != FOREVER and site.wake != time:
            site.wake = time
            heapq.heappush(self._heap, (time, next(self._tie), site.id))
