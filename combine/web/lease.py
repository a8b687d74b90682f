"""One lease at work: ask for its jobs one after another, at its delay, as robots.txt allows, and report on each.

Theory of operation. A lease gives a site to one harvester alone, so the gap between requests is kept here: no request
starts before the end of the last one plus the delay, robots.txt's own request counted. Sites that share an address
are spaced as well, by a turn that they take. A job ends in exactly one report: fetched, denied, or handed back
unasked. The lease is handed back early when its time is over, when we are to stop, when a failure speaks of the whole
site, or when the site has refused so often in a row that it is to rest.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol

from combine.config import Settings
from combine.urls import extension_of, host_of, network_of
from combine.web.addresses import Allowed
from combine.web.fetch import Fetched, Fetcher, boottime
from combine.web.gate import Permission, RobotsKeeper
from combine.web.robots import origin_of
from formats.jcf import Job

#: Failures that the site's other jobs would meet, too.
SITE_FAILURES = frozenset({"connect", "dns", "tls", "timeout", "reset"})

#: Statuses by which a site asks to be left alone.
SLOW_DOWN = frozenset({429, 503})

#: Statuses that, one after another, say that we are not wanted; so do pages that ask for proof of a person.
REFUSALS = frozenset({401, 403, 451})

#: Addresses remembered for their spacing; above, those at rest are forgotten.
ADDRESSES = 10_000


class Unasked(NamedTuple):
    """Why a job is handed back without its request, where there is a reason.

    `after_s`: for how long its site is to rest, by which kind of `fault`; `permission`: what robots.txt says;
    `requests` were made for other things, such as robots.txt.
    """

    reason: str = ""
    after_s: float = 0.0
    fault: str = ""
    permission: Permission | None = None
    requests: int = 0


class Reports(Protocol):
    """Who is told what came of each job."""

    async def fetched(self, job: Job, fetched: Fetched, permission: Permission) -> None:
        """A job was asked for."""
        ...

    async def denied(self, job: Job, permission: Permission, requests: int) -> None:
        """A job may not be asked for; to know it, so many requests were made."""
        ...

    def unasked(self, job: Job, why: Unasked) -> None:
        """A job is handed back."""
        ...

    def answered(self, job: Job, is_kept: bool, requests: int) -> None:
        """A robots job is done; `is_kept` where the copy of the site that waits is written now."""
        ...

    async def sitemaps(self, job: Job, permission: Permission) -> None:
        """The robots.txt of a page's origin names sitemaps."""
        ...

    async def errand(self, url: str, origin: str, hops: int) -> None:
        """The robots.txt of an origin lies on another site, which must be leased first."""
        ...

    def ended(self, lease: Lease) -> None:
        """No request of this lease will follow."""
        ...


@dataclass(slots=True)
class Lease:
    """A site with some of its jobs, as TAKE answered it."""

    id: int
    address: str
    delay_s: float
    jobs: list[Job] = field(default_factory=list)
    requests: float = math.inf  # left of the site's budget for today …
    bytes: float = math.inf  # … and bytes
    refused: int = 0  # times in a row, before


def leases_of(lines: list[Job]) -> list[Lease]:
    """The leases in an answer of TAKE, whose lines are grouped by lease."""
    leases: dict[int, Lease] = {}
    for line in lines:
        number = line.number("LEASE")
        lease = leases.setdefault(number, Lease(number, line.get("ADDR"), line.seconds("DELAY")))
        if room := line.get("ROOM"):
            lease.requests, lease.bytes = (float(part) for part in room.split(" "))
            line = line.without(("ROOM",))
        if refused := line.number("REFUSALS"):
            lease.refused = refused
            line = line.without(("REFUSALS",))
        lease.jobs.append(line)
    return list(leases.values())


async def sleep_until(moment: float) -> None:
    """Sleep until a boot time, and never a millisecond less: timers may fire early."""
    while (left := moment - boottime()) > 0:  # noqa: ASYNC110 -- it is time itself that is waited for
        await asyncio.sleep(left + 0.001)


class Spacing:
    """The turns of sites that share an address: one request at a time, and a rest after its end."""

    def __init__(self, settings: Settings, allowed: Allowed) -> None:
        limits = settings.politeness
        self._delay_s = limits.address_delay_s + limits.margin_s if limits.address_delay_s > 0 else 0.0
        self._allowed = allowed
        self._turns: dict[str, asyncio.Lock] = {}
        self._ended: dict[str, float] = {}

    def is_spaced(self, host: str, address: str) -> bool:
        """Listed private hosts are not spaced."""
        return self._delay_s > 0 and not self._allowed.listed(host, address)

    async def ask(self, address: str, request: Callable[[], Awaitable[Fetched]]) -> Fetched:
        """Make a request when it is the address's turn; addresses of one IPv6 /64 have one turn."""
        address = network_of(address)
        async with self._turns.setdefault(address, asyncio.Lock()):
            await sleep_until(self._ended.get(address, 0.0) + self._delay_s)
            try:
                return await request()
            finally:
                self._ended[address] = boottime()
                self._forget()

    def _forget(self) -> None:
        if len(self._ended) > ADDRESSES:
            rested = boottime() - self._delay_s
            for address in [address for address, ended in self._ended.items() if ended < rested]:
                if not self._turns[address].locked():
                    del self._ended[address], self._turns[address]


@dataclass(slots=True)
class Tools:
    """What all leases of a harvester share."""

    settings: Settings
    fetcher: Fetcher
    keeper: RobotsKeeper
    spacing: Spacing
    reports: Reports
    should_stop: Callable[[], bool]
    in_flight: int = 0


class Worker:
    """Works one lease off."""

    def __init__(self, lease: Lease, tools: Tools) -> None:
        self._lease, self._tools = lease, tools
        self._delay_s = lease.delay_s
        self._ended = 0.0
        self._over = boottime() + tools.settings.scheduler.lease_s
        self._asked = self._reported = 0
        self._taken = 0  # bytes
        self._refused = lease.refused
        # All jobs of a lease are of one host.
        host = host_of(lease.jobs[0].url) if lease.jobs else ""
        self._rule = tools.settings.site_rule(host)
        self._is_spaced = tools.spacing.is_spaced(host, lease.address)

    async def run(self) -> None:
        """Ask for the lease's jobs; whatever happens, each is reported and the lease is ended."""
        jobs = list(self._lease.jobs)
        reports = self._tools.reports
        try:
            while jobs and not self._is_over():
                keeps_on = await self._job(jobs[0])
                jobs.pop(0)
                if not keeps_on:
                    break
        finally:
            for job in jobs:
                reports.unasked(job, Unasked())
            reports.ended(self._lease)

    def _is_over(self) -> bool:
        if self._tools.should_stop():
            return True
        is_spent = self._asked >= self._lease.requests or self._taken >= self._lease.bytes
        return self._asked > 0 and (is_spent or boottime() + self._delay_s > self._over)

    async def _job(self, job: Job) -> bool:
        """Bring one job to its report; false where the rest of the lease is better handed back."""
        reports, address = self._tools.reports, self._lease.address
        if job.kind == "robots":
            return await self._errand(job)
        permission = await self._tools.keeper.permission(job, address, self._ask)
        if not self._heed(permission):
            reason = "robots.txt asks for a longer delay"
            reports.unasked(job, Unasked(reason, permission=permission, requests=self._unreported()))
            return False
        if permission.redirect is not None:
            url, hops = permission.redirect
            await reports.errand(url, origin_of(job.url), hops)
            reports.unasked(job, Unasked(requests=self._unreported()))
            return False
        if permission.closed:
            reason = f"robots.txt cannot be read ({permission.reason})"
            reason += f": {permission.detail}" if permission.detail else ""
            why = Unasked(reason, permission.retry_s, permission.reason, requests=self._unreported())
            reports.unasked(job, why)
            return False
        if permission.sitemaps and job.kind == "page":
            await reports.sitemaps(job, permission)
        if permission.denied:
            await reports.denied(job, permission, self._unreported())
            return True
        asked = self._asked
        permission = await self._tools.keeper.with_policies(job, permission, address, self._ask)
        if self._asked > asked and self._is_over():
            # Those files are kept: the next lease begins with the page.
            reports.unasked(job, Unasked(requests=self._unreported()))
            return False
        fetched = await self._look_first(job, address, permission)
        if fetched is None:
            fetched = await self._ask(job, address, permission.robots)
        requests = self._unreported()
        fetched = self._slowed(fetched)
        if requests != fetched.requests:
            fetched = replace(fetched, requests=requests)
        self._taken += fetched.body_length
        await reports.fetched(job, fetched, permission)
        is_site_failure = fetched.outcome == "failed" and (
            fetched.reason in SITE_FAILURES or fetched.status in SLOW_DOWN
        )
        return not is_site_failure and not fetched.after_s and not self._is_to_rest(fetched)

    def _is_to_rest(self, fetched: Fetched) -> bool:
        """Whether this refusal is one too many; the scheduler counts the same way, and only hears of it later."""
        if fetched.outcome in ("ok", "not-modified"):
            self._refused = 0
        elif fetched.outcome == "refused" and (fetched.status in REFUSALS or fetched.reason == "challenge"):
            self._refused += 1
            return self._refused % max(self._tools.settings.politeness.refusals, 1) == 0
        return False

    def _unreported(self) -> int:
        """The requests since the last report: the next one tells of them, for they count for the site's day."""
        requests, self._reported = self._asked - self._reported, self._asked
        return requests

    def _slowed(self, fetched: Fetched) -> Fetched:
        """A site rule's bytes a second, on average: the site rests so long after an answer that was long."""
        rule = self._rule
        if rule is None or not rule.bytes_s or fetched.outcome == "failed":
            return fetched
        rest_s = fetched.body_length / rule.bytes_s - fetched.took_ms / 1000
        return fetched if rest_s <= self._delay_s else replace(fetched, after_s=max(rest_s, fetched.after_s or 0.0))

    async def _look_first(self, job: Job, address: str, permission: Permission) -> Fetched | None:
        """A HEAD where the name says that it is nothing to read; None where the page must be asked for all the same."""
        names = self._tools.settings.harvest.head_first
        if job.kind != "page" or job.get("REQUISITES") or extension_of(job.url) not in names:
            return None
        fetched = await self._ask(job, address, permission.robots, head_only=True)
        is_answer = fetched.is_unread or fetched.outcome in ("redirect", "not-modified")
        is_fault = fetched.outcome == "failed" and (fetched.reason in SITE_FAILURES or fetched.status in SLOW_DOWN)
        return fetched if is_answer or is_fault else None

    async def _errand(self, job: Job) -> bool:
        """A robots job: the file that another site's robots.txt is redirected to."""
        permission = await self._tools.keeper.fetch_for(job, self._lease.address, self._ask)
        if permission.redirect is not None:
            url, hops = permission.redirect
            await self._tools.reports.errand(url, job.get("FOR"), hops)
        self._tools.reports.answered(job, is_kept=permission.redirect is None, requests=self._unreported())
        return True

    def _heed(self, permission: Permission) -> bool:
        """robots.txt's Crawl-delay is a floor at once, which only a site rule may lower; false where it is no time.

        Where the scheduler did not know of it, nobody waited so long before this lease; and to wait in it for longer
        than its time would end this harvester. It is handed back, and the scheduler knows.
        """
        if not permission.crawl_delay or (self._rule is not None and self._rule.delay_s is not None):
            return True
        crawl_s = float(f"{permission.crawl_delay:g}")
        if crawl_s <= self._delay_s:
            return True
        self._delay_s = crawl_s
        return self._asked > 0 and boottime() + crawl_s <= self._over

    async def _ask(self, job: Job, address: str, robots: str = "", head_only: bool = False) -> Fetched:
        """One request, when its time has come; one more on a new connection where the server had left the old one."""
        fetched = await self._request(job, address, robots, head_only)
        return await self._request(job, address, robots, head_only) if fetched.is_stale else fetched

    async def _request(self, job: Job, address: str, robots: str, head_only: bool) -> Fetched:
        tools = self._tools
        if self._ended and self._delay_s > 0:
            await sleep_until(self._ended + self._delay_s + tools.settings.politeness.margin_s)
        tools.in_flight += 1
        self._asked += 1
        try:
            fetch = partial(tools.fetcher.fetch, job, address, robots=robots, head_only=head_only)
            return await (tools.spacing.ask(address, fetch) if self._is_spaced else fetch())
        finally:
            tools.in_flight -= 1
            self._ended = boottime()
