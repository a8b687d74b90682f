"""The simulation: the real scheduler, politeness and visits under a clock that jumps from event to event.

Harvesters and parsers are modelled by what they say to the scheduler. Invariants are checked at each request: a site is
never asked twice at once, nor sooner than its delay after the last request ended; and at every 499th commit the whole
state is compared with its tables.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from combine.config import Agent, Politeness, Scheduler, Settings
from combine.schedule.clock import utc_text
from combine.schedule.leases import Holder
from combine.schedule.sites import DUE
from combine.web.lease import Lease, leases_of
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.world import World, never
from tests.simulator.web import Site

#: Seconds from a request's end until its page is stored, and between two looks at what is due again.
STORE_S, REVISIT_S = 2.0, 3600.0

#: Commits between two comparisons of the whole state with its tables.
CHECKS = 499


class Watched(World):
    """A world whose state is compared with its tables now and then, since that takes time."""

    commits = 0

    def commit(self) -> None:
        self.commits += 1
        if self.commits % CHECKS == 0:
            self.check()
        self.frontier.commit()


@dataclass(slots=True)
class Asked:
    """What a site has seen."""

    busy: bool = False
    ended: float = -1e9
    requests: int = 0


@dataclass(slots=True)
class Measures:
    """What a simulation has measured."""

    requests: int = 0
    failed: int = 0
    fresh: list[float] = field(default_factory=list)  # each day, the share of records that are as their pages are
    rests: list[float] = field(default_factory=list)  # seconds between requests to a site beyond its delay
    by_site: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    records: int = 0
    pages: int = 0

    def __str__(self) -> str:
        served = sorted(self.by_site.values()) or [0]
        rests = sorted(self.rests) or [0.0]
        fresh = self.fresh[-1] if self.fresh else 0.0
        return (
            f"{self.requests} requests, {self.failed} failed; {self.records} of {self.pages} pages have records; "
            f"fresh {fresh:.0%} at the end, {sum(self.fresh) / max(len(self.fresh), 1):.0%} on the mean; "
            f"fairness {_fairness(served):.2f}; rests beyond the delay: half below {rests[len(rests) // 2]:.1f} s, "
            f"95 % below {rests[len(rests) * 95 // 100]:.1f} s; faults {dict(self.faults)}"
        )


def _fairness(served: list[int]) -> float:
    """Jain's index: 1 where all are served alike, 1/n where one gets all."""
    return sum(served) ** 2 / (len(served) * sum(count * count for count in served) or 1)


class Simulation:
    """A web, some harvesters, and the time."""

    def __init__(self, web: dict[str, Site], seed: int, harvesters: int = 2, delay_s: float = 60.0) -> None:
        settings = Settings(
            agent=Agent(url="https://example.org/us", email="us@example.org"),
            politeness=Politeness(delay_s=delay_s, address_delay_s=0.0),
            scheduler=Scheduler(standing=True),
        )
        self.web, self.delay_s = web, delay_s
        self.world = Watched(settings, never, seed)
        self.clock = self.world.clock
        self.chance = random.Random(seed)
        self.found = Measures(pages=sum(site.pages for site in web.values() if not site.fails))
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._tie = itertools.count()
        self._asked = {name: Asked() for name in web}
        self._held: dict[Holder, dict[int, Lease]] = {Holder(101 + n, 1): {} for n in range(harvesters)}
        self._stored: dict[str, tuple[int, float]] = {}  # by URL, the version and when
        self._wake_at = float("inf")

    def close(self) -> None:
        self.world.close()

    def go(self, days: float) -> Measures:
        """Let days pass; everything begins with the front pages as seeds."""
        for start in range(0, len(self.web), 500):
            names = list(self.web)[start : start + 500]
            self.world.add(*(jcf.job(URL=self.web[name].url(), SCOPE="host") for name in names))
        end = self.clock.now + days * 86400.0
        self.at(REVISIT_S, self._revisit)
        self.at(86400.0, self._measure)
        self._take()
        while self._events and self._events[0][0] <= end:
            self.clock.now, _, happens = heapq.heappop(self._events)
            happens()
            self._take()
        self._look()
        self.world.check()
        return self.found

    def at(self, seconds: float, happens: Callable[[], None]) -> None:
        """Something happens after some seconds."""
        heapq.heappush(self._events, (self.clock.now + seconds, next(self._tie), happens))

    # Faults ------------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """The scheduler is killed and starts again; so does, half the time, a harvester."""
        self.found.faults["restart"] += 1
        self.world.crash()
        if self.chance.random() < 0.5:
            self._kill(self.chance.choice(list(self._held)))

    def jump(self, seconds: float) -> None:
        """The calendar jumps."""
        self.found.faults["jump"] += 1
        self.clock.shift += seconds

    def _kill(self, holder: Holder) -> None:
        self.found.faults["kill"] += 1
        for lease in self._held.pop(holder).values():
            asked = self._asked[_site_of(lease)]
            if asked.busy:
                asked.busy, asked.ended = False, self.clock.now
        self._held[Holder(holder.pid, holder.start + 1)] = {}
        self.world.frontier.keep_only(holder, ())
        self.world.commit()

    # Harvesters --------------------------------------------------------------------------------------------------

    def _take(self) -> None:
        frontier = self.world.frontier
        self.world.resolve()
        frontier.tick()
        for holder, held in self._held.items():
            room = frontier.settings.harvest.sites - len(held)
            if room > 0 and frontier.sites.members[DUE]:
                for lease in leases_of(self.world.take(holder, room, held)):
                    held[lease.id] = lease
                    self._next(holder, lease, lease.jobs[:], self.clock.now + frontier.settings.scheduler.lease_s)
        wake = frontier.next_event()
        if wake is not None and not self.clock.now < self._wake_at <= wake:
            self._wake_at = max(wake, self.clock.now + 0.001)
            self.at(self._wake_at - self.clock.now, lambda: None)

    def _next(self, holder: Holder, lease: Lease, jobs: list[Job], over: float) -> None:
        """A harvester's next step in a lease: a request when its time has come, or the end."""
        asked = self._asked[_site_of(lease)]
        wait = max(asked.ended + lease.delay_s + 0.05 - self.clock.now, 0.0) if len(jobs) < len(lease.jobs) else 0.0
        if not jobs or (len(jobs) < len(lease.jobs) and self.clock.now + lease.delay_s > over):
            for job in jobs:
                self.world.frontier.done(jcf.job(URL=job.url, FETCH=job.fetch, LEASE=lease.id))
            self.world.end(lease.jobs[0])
            self._held[holder].pop(lease.id, None)
            return
        self.at(wait, lambda: self._begin(holder, lease, jobs, over))

    def _begin(self, holder: Holder, lease: Lease, jobs: list[Job], over: float) -> None:
        if lease.id not in self._held.get(holder, ()):
            return  # the harvester died
        site, asked = self.web[_site_of(lease)], self._asked[_site_of(lease)]
        gap = self.clock.now - asked.ended
        assert not asked.busy, f"{site.name} is asked twice at once"
        assert gap >= self.delay_s, f"{site.name} is asked {self.delay_s - gap:.3f} s too soon"
        if asked.requests:
            self.found.rests.append(gap - self.delay_s)
        asked.busy, asked.requests = True, asked.requests + 1
        self.found.requests += 1
        began = self.clock.utc()
        took = 10.0 if site.fails else site.latency_s
        self.at(took, lambda: self._end(holder, lease, jobs, over, began))

    def _end(self, holder: Holder, lease: Lease, jobs: list[Job], over: float, began: float) -> None:
        if lease.id not in self._held.get(holder, ()):
            return
        site, asked, job = self.web[_site_of(lease)], self._asked[_site_of(lease)], jobs[0]
        asked.busy, asked.ended = False, self.clock.now
        took = int(site.latency_s * 1000)
        if site.fails:
            self.found.failed += 1
            self.world.done(job, "failed", end=False, REASON="connect", TOOK=10_000)
            self._next(holder, lease, [], over)
            return
        self.world.done(job, "ok", end=False, TOOK=took)
        number = int(job.url.rpartition("/")[2] or 0)
        version = site.version(number, self.clock.now)
        self.at(STORE_S, lambda: self._store(site, job, number, version, began))
        self._next(holder, lease, jobs[1:], over)

    def _store(self, site: Site, job: Job, number: int, version: int, began: float) -> None:
        """A parser: the links, the record, STORED; and idbd is told."""
        given = {name: job.get(name) or None for name in ("SEED", "SINCE")}
        depth = job.number("DEPTH") + 1
        self.world.add(*(jcf.job(URL=url, VIA=job.url, DEPTH=depth, **given) for url in site.links(number)))
        self._stored[job.url] = (version, began)
        self.found.by_site[site.name] += 1
        self.world.stored(job, LAST=utc_text(began), RECORD="1")

    # Time --------------------------------------------------------------------------------------------------------

    def _revisit(self) -> None:
        """What is due is offered again, as in a standing harvest."""
        visits = self.world.visits.due(self.clock.utc(), 2_000)
        lines = [jcf.job(URL=visit.url, SEED=visit.get("SEED"), DEPTH=visit.get("DEPTH") or "0") for visit in visits]
        for start in range(0, len(lines), 500):
            self.world.add(*lines[start : start + 500])
        self.at(REVISIT_S, self._revisit)

    def _measure(self) -> None:
        self._look()
        self.at(86400.0, self._measure)

    def _look(self) -> None:
        fresh = 0
        for url, (version, _) in self._stored.items():
            name, _, number = url.removeprefix("http://").partition("/")
            fresh += version == self.web[name].version(int(number or 0), self.clock.now)
        self.found.records = len(self._stored)
        self.found.fresh.append(fresh / max(len(self._stored), 1))


def _site_of(lease: Lease) -> str:
    return lease.jobs[0].url.removeprefix("http://").partition("/")[0]
