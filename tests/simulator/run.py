"""The simulation: the real scheduler, politeness and visits under a clock that jumps from event to event.

Harvesters and parsers are modelled by what they say to the scheduler, and say it as the real ones do: outcomes, links
and results by messages, a commit each. What comes from them, and what the frontier has to do, is worked off in turns
(`_turn`), so that one look at what is due serves all that happened since the last one.

Invariants are checked at each request: a site is never asked twice at once, nor sooner than its delay after the last
request ended; and the whole state is compared with its tables each time that it could have changed altogether.
"""

from __future__ import annotations

import heapq
import itertools
import random
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from combine.config import Agent, Politeness, Scheduler, Settings
from combine.schedule.clock import utc_text
from combine.schedule.leases import Holder
from combine.schedule.offers import Offers
from combine.schedule.sites import DUE
from combine.services import MESSAGE_LINES
from combine.web.lease import Lease, leases_of
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.world import World, never
from tests.simulator.web import Site

#: Seconds after its first result at which a harvester's batch is published and its DONE said, after which a parser has
#: stored it, between two turns, and between two looks at what is due again.
SAY_S, STORE_S, TURN_S, REVISIT_S = 1.0, 2.0, 0.5, 3600.0

#: Commits between two comparisons of the whole state with its tables, and at least as many as there are sites.
CHECKS = 499


class Watched(World):
    """A world whose state is compared with its tables now and then, since that takes time."""

    checks_at = CHECKS
    commits = 0

    def commit(self) -> None:
        self.commits += 1
        if self.commits >= self.checks_at:
            self.check()
            self.checks_at = self.commits + max(CHECKS, len(self.frontier.sites) // 10)
        self.frontier.commit()


@dataclass(slots=True)
class Asked:
    """What a site has seen."""

    busy: bool = False
    ended: float = -1e9
    requests: int = 0
    served: int = 0


@dataclass(slots=True)
class Measures:
    """What a simulation has measured."""

    requests: int = 0
    failed: int = 0
    fresh: list[float] = field(default_factory=list)  # each day, the share of records that are as their pages are
    rests: array[float] = field(default_factory=lambda: array("f"))  # seconds between requests beyond the delay
    by_site: dict[str, int] = field(default_factory=dict)
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


@dataclass(slots=True)
class Harvested:
    """A page in a batch: its job, its version, and when it was asked for."""

    job: Job
    site: Site
    version: int
    began: float


@dataclass(slots=True)
class Harvester:
    """What one harvester has in hand: its leases, and what it has not yet said."""

    leases: dict[int, Lease] = field(default_factory=dict)
    unsaid: list[Job] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)  # leases whose END is among that
    batch: list[Harvested] = field(default_factory=list)
    say_at: float = float("inf")


class Simulation:
    """A web, some harvesters, a parser, and the time."""

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
        self._harvesters = {Holder(101 + n, 1): Harvester() for n in range(harvesters)}
        self._spool: deque[tuple[float, list[Harvested]]] = deque()  # batches, and when each is stored
        self._offers = Offers(lambda lines: self._add(map(jcf.parse, lines)), self.clock.boot)
        self._stored: dict[str, int] = {}  # by URL, the version
        self._turn_at = float("inf")
        self._turned = -TURN_S

    def close(self) -> None:
        self.world.close()

    def go(self, days: float) -> Measures:
        """Let days pass; everything begins with the front pages as seeds."""
        self._add(jcf.job(URL=site.url(), SCOPE="host") for site in self.web.values())
        end = self.clock.now + days * 86400.0
        self.at(REVISIT_S, self._revisit)
        self.at(86400.0, self._measure)
        self._turn()
        while self._events and self._events[0][0] <= end:
            self.clock.now, _, happens = heapq.heappop(self._events)
            happens()
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
            self._kill(self.chance.choice(list(self._harvesters)))
        self._turn_by(self.clock.now)

    def jump(self, seconds: float) -> None:
        """The calendar jumps."""
        self.found.faults["jump"] += 1
        self.clock.shift += seconds
        self._turn_by(self.clock.now)

    def _kill(self, holder: Holder) -> None:
        """A harvester dies, and with it what it has not said."""
        self.found.faults["kill"] += 1
        for lease in self._harvesters.pop(holder).leases.values():
            if lease.jobs and (asked := self._asked[_site_of(lease)]).busy:
                asked.busy, asked.ended = False, self.clock.now
        self._harvesters[Holder(holder.pid, holder.start + 1)] = Harvester()
        self.world.frontier.keep_only(holder, ())
        self.world.commit()

    # Turns -------------------------------------------------------------------------------------------------------

    def _turn_by(self, moment: float) -> None:
        """Have a turn at a time, or as soon after it as one may follow the last."""
        moment = max(moment, self._turned + TURN_S)
        if moment < self._turn_at:
            self._turn_at = moment
            heapq.heappush(self._events, (moment, next(self._tie), lambda: self._turn_if(moment)))

    def _turn_if(self, moment: float) -> None:
        if moment == self._turn_at:  # or an earlier one came between
            self._turn()

    def _turn(self) -> None:
        """All say what they have to say, and take what is due."""
        now = self._turned = self.clock.now
        self._turn_at = float("inf")
        for harvester in self._harvesters.values():
            if harvester.say_at <= now:
                self._say(harvester)
        while self._spool and self._spool[0][0] <= now:
            self._store(self._spool.popleft()[1])
        self.world.resolve()
        self.world.frontier.tick()
        for holder, harvester in self._harvesters.items():
            self._take(holder, harvester)
        times = [harvester.say_at for harvester in self._harvesters.values()]
        times += [self._spool[0][0]] if self._spool else []
        wake = self.world.frontier.next_event()
        self._turn_by(min(times + ([wake] if wake is not None else [])))

    def _say(self, harvester: Harvester) -> None:
        """DONE, a message for each thousand lines; then the batch is a parser's."""
        for lines in _messages(harvester.unsaid):
            self.world.frontier.done_all(lines)
            self.world.commit()
        for number in harvester.ended:
            del harvester.leases[number]
        if harvester.batch:
            self._spool.append((self.clock.now + STORE_S, harvester.batch))
        harvester.unsaid, harvester.ended, harvester.batch = [], [], []
        harvester.say_at = float("inf")

    def _take(self, holder: Holder, harvester: Harvester) -> None:
        frontier = self.world.frontier
        room = frontier.settings.harvest.sites - len(harvester.leases)
        if room > 0 and frontier.sites.members[DUE]:
            frontier.keep_only(holder, harvester.leases)
            jobs = [jcf.parse_text(line) for line in frontier.take(holder, room)]
            self.world.commit()
            for lease in leases_of(jobs):
                harvester.leases[lease.id] = lease
                lease.jobs.reverse()
                self._begin(holder, lease, self.clock.now + frontier.settings.scheduler.lease_s)

    # Harvesters --------------------------------------------------------------------------------------------------

    def _begin(self, holder: Holder, lease: Lease, over: float) -> None:
        """A harvester asks for the next job of a lease, its last one in the list."""
        if lease.id not in self._leases(holder):
            return  # the harvester died
        name = _site_of(lease)
        site, asked = self.web[name], self._asked[name]
        gap = self.clock.now - asked.ended
        assert not asked.busy, f"{site.name} is asked twice at once"
        assert gap >= self.delay_s, f"{site.name} is asked {self.delay_s - gap:.3f} s too soon"
        if asked.requests:
            self.found.rests.append(gap - self.delay_s)
        asked.busy, asked.requests = True, asked.requests + 1
        self.found.requests += 1
        began = self.clock.utc()
        self.at(10.0 if site.fails else site.latency_s, lambda: self._end(holder, lease, over, began))

    def _end(self, holder: Holder, lease: Lease, over: float, began: float) -> None:
        """An answer, or none; the next request of the lease goes after its delay, while its time lasts."""
        if lease.id not in self._leases(holder):
            return
        site, harvester, job = self.web[_site_of(lease)], self._harvesters[holder], lease.jobs.pop()
        asked = self._asked[site.name]
        asked.busy, asked.ended = False, self.clock.now
        line = {"URL": job.url, "FETCH": job.get("FETCH"), "LEASE": str(lease.id)}
        if site.fails:
            self.found.failed += 1
            line |= {"OUTCOME": "failed", "REASON": "connect", "TOOK": "10000"}
        else:
            batch = f"batch-{next(self.world.batches)}"
            line |= {"OUTCOME": "ok", "STATUS": "200", "BATCH": batch, "TOOK": f"{site.latency_s * 1000:.0f}"}
            number = int(job.url.rpartition("/")[2] or 0)
            harvester.batch.append(Harvested(job, site, site.version(number, self.clock.now), began))
        harvester.unsaid.append(Job(line))
        wait = lease.delay_s + 0.05
        if site.fails or not lease.jobs or self.clock.now + wait > over:
            harvester.unsaid += [jcf.job(URL=left.url, FETCH=left.fetch, LEASE=lease.id) for left in lease.jobs]
            harvester.unsaid.append(Job({"LEASE": str(lease.id), "END": "1"}))
            harvester.ended.append(lease.id)
        else:
            self.at(wait, lambda: self._begin(holder, lease, over))
        if harvester.say_at == float("inf"):
            harvester.say_at = self.clock.now + SAY_S
            self._turn_by(harvester.say_at)

    def _leases(self, holder: Holder) -> dict[int, Lease]:
        return self._harvesters[holder].leases if holder in self._harvesters else {}

    # Parsers -----------------------------------------------------------------------------------------------------

    def _store(self, batch: list[Harvested]) -> None:
        """A parser: the links, the records, STORED; and idbd is told."""
        self._offers.send((held.job, dict.fromkeys(held.site.links(_number_of(held.job)), "")) for held in batch)
        lines = []
        for held in batch:
            self._stored[held.job.url] = held.version
            self._asked[held.site.name].served += 1
            facts = {"OUTCOME": "ok", "LAST": utc_text(held.began), "RECORD": "1"}
            lines.append(Job({"URL": held.job.url, "FETCH": held.job.get("FETCH"), **facts}))
        for message in _messages(lines):
            self.world.frontier.stored_all(message)
            self.world.commit()
        self.world.tell()

    def _add(self, jobs: Iterator[Job]) -> None:
        for lines in _messages(list(jobs)):
            self.world.add(*lines)

    # Time --------------------------------------------------------------------------------------------------------

    def _revisit(self) -> None:
        """What is due is offered again, as in a standing harvest."""
        visits = self.world.visits.due(self.clock.utc(), 2_000)
        self._add(jcf.job(URL=visit.url, SEED=visit.get("SEED"), DEPTH=visit.get("DEPTH") or "0") for visit in visits)
        self.at(REVISIT_S, self._revisit)
        self._turn_by(self.clock.now)

    def _measure(self) -> None:
        self._look()
        self.at(86400.0, self._measure)

    def _look(self) -> None:
        fresh = 0
        for url, version in self._stored.items():
            name, _, number = url.removeprefix("http://").partition("/")
            fresh += version == self.web[name].version(int(number or 0), self.clock.now)
        self.found.records = len(self._stored)
        self.found.fresh.append(fresh / max(len(self._stored), 1))
        self.found.by_site = {name: asked.served for name, asked in self._asked.items() if asked.served}


def _messages(lines: list[Job]) -> Iterator[list[Job]]:
    for start in range(0, len(lines), MESSAGE_LINES):
        yield lines[start : start + MESSAGE_LINES]


def _site_of(lease: Lease) -> str:
    return lease.jobs[-1].url.removeprefix("http://").partition("/")[0]


def _number_of(job: Job) -> int:
    return int(job.url.rpartition("/")[2] or 0)
