"""A lease at work: what robots.txt asks for while it goes on."""

from __future__ import annotations

import asyncio
import time

import pytest

from combine.config import Politeness, Scheduler, Settings, SiteRule
from combine.web.addresses import Allowed
from combine.web.fetch import Fetched
from combine.web.gate import Permission
from combine.web.lease import Lease, Spacing, Tools, Unasked, Worker, leases_of
from formats import jcf
from formats.jcf import Job

JOBS = [jcf.job(URL=f"http://127.0.0.1/{number}", FETCH=number, LEASE=9) for number in (1, 2)]

#: Leases are over after so long, here.
LEASE_S = 5.0


class Site:
    """A gate that knows robots.txt, or asks for it first; a fetcher; and one who is told what came of each job."""

    def __init__(self, crawl_s: float, knows_robots: bool, policies: tuple[str, ...] = ()) -> None:
        self.crawl_s, self.knows_robots, self.policies = crawl_s, knows_robots, policies
        self.asked: list[float] = []
        self.counted = 0
        self.told: list[tuple[int, str, float]] = []

    async def permission(self, job: Job, address: str, ask: object) -> Permission:
        if not self.knows_robots:
            self.knows_robots = True
            await ask(jcf.job(URL="http://127.0.0.1/robots.txt", KIND="robots"), address)  # type: ignore[operator]
        return Permission(allowed=True, crawl_delay=self.crawl_s or None)

    async def with_policies(self, job: Job, permission: Permission, address: str, ask: object) -> Permission:
        for name in self.policies:
            await ask(jcf.job(URL=f"http://127.0.0.1/{name}", KIND="robots"), address)  # type: ignore[operator]
        self.policies = ()
        return permission

    async def fetch(self, job: Job, address: str, *, robots: str, head_only: bool) -> Fetched:
        self.asked.append(time.monotonic())
        return Fetched("ok", 200)

    async def fetched(self, job: Job, fetched: Fetched, permission: Permission) -> None:
        self.counted += fetched.requests
        self.told.append((job.fetch, "ok", permission.crawl_delay or 0.0))

    def unasked(self, job: Job, why: Unasked) -> None:
        self.counted += why.requests
        self.told.append((job.fetch, "", (why.permission and why.permission.crawl_delay) or 0.0))

    def ended(self, lease: Lease) -> None:
        self.told.append((0, "END", 0.0))


@pytest.mark.parametrize(
    ("crawl_s", "delay_s", "knows_robots", "rule_s", "told", "requests"),
    [
        # Nobody waited so long before this lease: the scheduler is to know first.
        (60.0, 0.0, True, None, [(1, "", 60.0), (2, "", 0.0)], 0),
        (0.2, 0.0, True, None, [(1, "", 0.2), (2, "", 0.0)], 0),
        # It did wait.
        (0.2, 0.2, True, None, [(1, "ok", 0.2), (2, "ok", 0.2)], 2),
        (0.1, 0.2, True, None, [(1, "ok", 0.1), (2, "ok", 0.1)], 2),
        # robots.txt was just asked for: from its end the delay counts, if the lease lasts so long.
        (0.2, 0.0, False, None, [(1, "ok", 0.2), (2, "ok", 0.2)], 3),
        (60.0, 0.0, False, None, [(1, "", 60.0), (2, "", 0.0)], 1),
        # A site rule says how long; nothing is asked for.
        (60.0, 0.0, True, 0.0, [(1, "ok", 60.0), (2, "ok", 60.0)], 2),
        (0.0, 0.0, True, None, [(1, "ok", 0.0), (2, "ok", 0.0)], 2),
    ],
)
def test_a_crawl_delay_counts_from_the_request_before_it_was_known(
    crawl_s: float,
    delay_s: float,
    knows_robots: bool,
    rule_s: float | None,
    told: list[tuple[int, str, float]],
    requests: int,
) -> None:
    site = Site(crawl_s, knows_robots)
    rules = () if rule_s is None else (SiteRule("127.0.0.1", delay_s=rule_s),)
    settings = Settings(scheduler=Scheduler(lease_s=LEASE_S), site=rules)
    spacing = Spacing(settings, Allowed(["127.0.0.0/8"]))
    tools = Tools(settings, site, site, spacing, site, lambda: False)  # type: ignore[arg-type]
    asyncio.run(Worker(Lease(9, "127.0.0.1", delay_s, JOBS), tools).run())
    assert [*told, (0, "END", 0.0)] == site.told
    assert requests == len(site.asked) == site.counted
    least = delay_s if rule_s is not None else max(crawl_s, delay_s)
    assert all(later - earlier >= least for earlier, later in zip(site.asked, site.asked[1:], strict=False))


@pytest.mark.parametrize(
    ("lease_s", "told"),
    [
        (LEASE_S, [(1, "ok", 0.1), (2, "ok", 0.1)]),
        # They took the lease's time: the next one begins with the page.
        (0.15, [(1, "", 0.0), (2, "", 0.0)]),
    ],
)
def test_files_about_use_are_asked_for_at_the_crawl_delay(lease_s: float, told: list[tuple[int, str, float]]) -> None:
    site = Site(0.1, knows_robots=False, policies=("tdmrep.json", "ai.txt"))
    settings = Settings(scheduler=Scheduler(lease_s=lease_s))
    spacing = Spacing(settings, Allowed(["127.0.0.0/8"]))
    tools = Tools(settings, site, site, spacing, site, lambda: False)  # type: ignore[arg-type]
    asyncio.run(Worker(Lease(9, "127.0.0.1", 0.0, JOBS), tools).run())
    assert [*told, (0, "END", 0.0)] == site.told
    assert 1 + 2 + sum(outcome == "ok" for _, outcome, _ in told) == len(site.asked) == site.counted
    assert all(later - earlier >= 0.1 for earlier, later in zip(site.asked, site.asked[1:], strict=False))


def test_a_connection_that_the_server_had_left_costs_one_more_request_and_no_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(0.0, True)
    answers = iter([Fetched("ok", 200), Fetched("failed", reason="reset", is_stale=True), Fetched("ok", 200)])

    async def fetch(job: Job, address: str, *, robots: str, head_only: bool) -> Fetched:
        await Site.fetch(site, job, address, robots=robots, head_only=head_only)
        return next(answers)

    monkeypatch.setattr(site, "fetch", fetch)
    settings = Settings()
    spacing = Spacing(settings, Allowed(["127.0.0.0/8"]))
    tools = Tools(settings, site, site, spacing, site, lambda: False)  # type: ignore[arg-type]
    asyncio.run(Worker(Lease(9, "127.0.0.1", 0.1, JOBS), tools).run())
    assert [(1, "ok", 0.0), (2, "ok", 0.0), (0, "END", 0.0)] == site.told
    assert all(later - earlier >= 0.1 for earlier, later in zip(site.asked, site.asked[1:], strict=False))
    assert 3 == len(site.asked)


@pytest.mark.parametrize(
    ("room", "asked"), [("", 2), ("9 999", 2), ("1 999", 1), ("0 999", 1), ("9 10", 1), ("9 11", 2), ("9 0", 1)]
)
def test_a_lease_ends_where_the_budget_of_the_day_is_spent(
    room: str, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(0.0, True)

    async def fetch(job: Job, address: str, *, robots: str, head_only: bool) -> Fetched:
        assert not job.get("ROOM")  # it is of the lease, and no harvest holds it
        await Site.fetch(site, job, address, robots=robots, head_only=head_only)
        return Fetched("ok", 200, body_length=10)

    monkeypatch.setattr(site, "fetch", fetch)
    settings = Settings()
    tools = Tools(settings, site, site, Spacing(settings, Allowed(["127.0.0.0/8"])), site, lambda: False)  # type: ignore[arg-type]
    first, second = (job.having(ADDR="127.0.0.1") for job in JOBS)
    (lease,) = leases_of([first.having(ROOM=room or None), second])
    asyncio.run(Worker(lease, tools).run())
    assert asked == len(site.asked)
    assert 2 == len([told for told in site.told if told[1] != "END"])


NO, OK, GONE = Fetched("refused", 403), Fetched("ok", 200), Fetched("gone", 404)
CHALLENGE = Fetched("refused", 503, reason="challenge")


@pytest.mark.parametrize(
    ("refused", "answers", "asked"),
    [
        (0, [NO, CHALLENGE, NO, NO], 3),
        (2, [NO, NO], 1),
        (2, [OK, NO, NO, OK], 4),
        (1, [NO, GONE, NO, NO], 3),
        (3, [NO, Fetched("refused", 418), NO, NO, NO], 4),
    ],
)
def test_a_lease_ends_where_its_site_is_to_rest_for_its_refusals(
    monkeypatch: pytest.MonkeyPatch, refused: int, answers: list[Fetched], asked: int
) -> None:
    site = Site(0.0, True)
    left = list(answers)

    async def fetch(job: Job, address: str, *, robots: str, head_only: bool) -> Fetched:
        return left.pop(0)

    monkeypatch.setattr(site, "fetch", fetch)
    lines = [jcf.job(URL=f"http://127.0.0.1/{number}", FETCH=number, LEASE=9) for number in range(len(answers))]
    (lease,) = leases_of([lines[0].having(ADDR="127.0.0.1", REFUSALS=refused or None), *lines[1:]])
    assert "" == lease.jobs[0].get("REFUSALS")
    settings = Settings(politeness=Politeness(refusals=3), scheduler=Scheduler(lease_s=LEASE_S))
    spacing = Spacing(settings, Allowed(["127.0.0.0/8"]))
    asyncio.run(Worker(lease, Tools(settings, site, site, spacing, site, lambda: False)).run())  # type: ignore[arg-type]
    assert asked == len(answers) - len(left)
