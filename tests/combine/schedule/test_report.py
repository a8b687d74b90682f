"""What STAT, SITE and WHY say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from combine.schedule import report
from combine.schedule.exclusions import read_exclusions
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.world import World, always, never

URL = "http://a.example/"


def stat(world: World) -> Job:
    return report.stat(world.frontier, 0, 0)[0]


# STAT ---------------------------------------------------------------------------------------------------------------


def test_rows_are_counted_by_what_they_wait_for(world: World) -> None:
    world.add(*(jcf.job(URL=f"http://a.example/{number}", SEED=URL, DEPTH=1) for number in range(6)))
    world.seed("http://b.example/")
    (first, second) = world.take()
    world.done(first)
    world.done(second, "failed", REASON="status")
    row = world.row("http://a.example/1")
    assert row is not None
    world.frontier.die(row, "why not")
    names = "QUEUED LEASED FETCHED DEAD UNRESOLVED WAITING DUE LEASEDSITES BLOCKED PUBLIC".split()
    assert [6, 0, 1, 1, 0, 1, 0, 0, 0, 2] == [stat(world).number(name) for name in names]
    world.clock.sleep(61)
    world.take()
    assert [4, 2, 1, 1, 0, 0, 0, 2, 0, 1] == [stat(world).number(name) for name in names]


def test_the_end_of_a_harvest_is_one_stat(world: World) -> None:
    job = world.take()[0]
    world.done(job)
    world.stored(job, tell=False)
    assert 1 == stat(world).number("FETCHED")
    world.tell()
    assert [0, 0, 0] == [stat(world).number(name) for name in ("QUEUED", "LEASED", "FETCHED")]


def test_rates_gate_and_what_stands_in_the_way(world: World) -> None:
    world.frontier.gate, world.frontier.stalled = "paused", "the disk is full"
    first = report.stat(world.frontier, 7, 9000)[0]
    assert ("paused", "the disk is full", 7, 9000) == (
        first.get("GATE"),
        first.get("STALLED"),
        first.number("PAGES"),
        first.number("BYTES"),
    )


def test_our_own_line_is_said(world: World) -> None:
    for site in range(10):
        world.frontier.line.note(100 + site, True, world.clock.now)
    assert "our own line" in stat(world).get("STALLED")


def test_idle_counts_from_the_last_outcome_that_is_no_failure(world: World) -> None:
    world.clock.sleep(100)
    before = stat(world).seconds("IDLE")
    assert 100 <= before
    world.done(world.take()[0], "failed", REASON="status")
    assert before <= stat(world).seconds("IDLE")
    world.clock.sleep(61)
    world.done(world.take()[0])
    assert 0.0 == stat(world).seconds("IDLE")


def due(world: World) -> None:
    world.resolve()


def waiting(world: World) -> None:
    world.add(jcf.job(URL="http://a.example/1", SEED=URL, DEPTH=1))
    job = world.take()[0]
    world.done(job)
    world.stored(job)


def deferred(world: World) -> None:
    world.done(world.take()[0], "failed", REASON="status", AFTER=500)


def nothing(world: World) -> None:
    world.frontier.forget([URL])


def parked(world: World) -> None:
    world.seed(URL, BUDGET="run", LIMIT=0)
    world.take()


def leased(world: World) -> None:
    world.take()


def fetched(world: World) -> None:
    world.done(world.take()[0])


def done(world: World) -> None:
    world.fetch(URL)


def shut(world: World) -> None:
    world.frontier.instruct(world.site("a.example"), jcf.job(BLOCK="1"))
    world.frontier.settle(world.site("a.example"))


@pytest.mark.parametrize(
    ("make", "after"),
    [
        (due, 0.0),
        (leased, 0.0),
        (fetched, 0.0),
        (waiting, 60.05),
        (deferred, 500.0),
        (nothing, None),
        (done, None),
        (parked, None),
        (shut, None),
    ],
)
def test_next_is_when_something_may_go(world: World, make: Callable[[World], None], after: float | None) -> None:
    make(world)
    said = stat(world)
    assert after == (said.seconds("NEXT") if said.get("NEXT") else None)


def test_budgets_and_what_is_out(world: World) -> None:
    world.seed(URL, BUDGET="run", LIMIT=3)
    world.take()
    budgets = [line for line in report.stat(world.frontier, 0, 0) if line.get("BUDGET")]
    assert [("run", 2, 1)] == [(line.get("BUDGET"), line.number("LEFT"), line.number("OUT")) for line in budgets]


def test_some_sites_that_wait_are_named(world: World) -> None:
    for number in range(20):
        world.seed(f"http://{number}.example/")
        world.frontier.block(world.site(f"{number}.example"), 100, "a rest")
        world.frontier.settle(world.site(f"{number}.example"))
    named = [line for line in report.stat(world.frontier, 0, 0) if line.get("SITE")]
    assert report.NAMED == len(named)
    assert ("blocked", "a rest", "100.000") == tuple(named[0].get(name) for name in ("STATE", "REASON", "NEXT"))


@pytest.mark.parametrize(("listed", "public"), [(never, 1), (always, 0)])
def test_public_sites(listed: Callable[[str, str], bool], public: int) -> None:
    world = World(listed=listed)
    world.seed(URL)
    assert public == stat(world).number("PUBLIC")


# SITE ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "state", "reason"),
    [
        (due, "due", ""),
        (waiting, "waiting", ""),
        (leased, "leased", ""),
        (shut, "blocked", "blocked by the operator"),
        (deferred, "blocked", "Retry-After of 500 s"),
    ],
)
def test_a_site_in_a_line(world: World, make: Callable[[World], None], state: str, reason: str) -> None:
    make(world)
    world.frontier.settle(world.site("a.example"))
    line = report.site_line(world.frontier, world.site("a.example"))
    said = line.get("STATE") if state != "blocked" else "blocked"
    assert (state, reason, "60") == (said, line.get("REASON"), line.get("DELAY"))
    assert ("101" if state == "leased" else "") == line.get("HOLDER")


# WHY ----------------------------------------------------------------------------------------------------------------


def why(world: World, url: str = URL) -> list[Job]:
    visit = world.visit(url)
    return report.why(world.frontier, url, visit if visit.url else None)


def dead(world: World) -> None:
    row = world.row(URL)
    assert row is not None
    world.frontier.die(row, "a.example is private")


def paused(world: World) -> None:
    world.resolve()
    world.frontier.gate = "paused"


def full(world: World) -> None:
    world.resolve()
    world.frontier.stalled = "the disk is full"


def rests(world: World) -> None:
    world.frontier.block(world.site("a.example"), 100, "Retry-After of 100 s")
    world.frontier.settle(world.site("a.example"))


def unresolved(world: World) -> None:
    pass


def rested(world: World) -> None:
    world.done(world.take()[0], "", AFTER=60, REASON="robots.txt cannot be read (503)")


def rested_long_ago(world: World) -> None:
    rested(world)
    world.clock.sleep(61)
    site = world.site("a.example")
    site.address = ""
    world.frontier.settle(site)


def resolving(world: World) -> None:
    unresolved(world)
    site = world.frontier.site_named("a.example")
    assert site is not None
    site.resolving = True


def retries(world: World) -> None:
    world.done(world.take()[0], "failed", REASON="status", STATUS=500, AFTER=500)


def held(world: World) -> None:
    world.add(jcf.job(URL="http://a.example/1", SEED=URL, DEPTH=1, PRIO=0))
    job = next(job for job in world.take() if job.url == URL)
    world.done(job, "")


@pytest.mark.parametrize(
    ("make", "state", "reason"),
    [
        (due, "queued", "it waits for its turn"),
        (unresolved, "queued", "the address of a.example is looked up as soon as a harvester asks for jobs"),
        (rested, "queued", "its site rests for 60 s: robots.txt cannot be read (503)"),
        (
            rested_long_ago,
            "queued",
            "the address of a.example is looked up as soon as a harvester asks for jobs; before, robots.txt cannot be",
        ),
        (resolving, "queued", "the address of a.example is being looked up"),
        (held, "queued", "its site may be asked again in 60.0 s"),
        (leased, "leased", "a harvester has it"),
        (fetched, "fetched", "it was fetched, and a parser is to store it"),
        (dead, "dead", "given up: a.example is private"),
        (retries, "queued", "try 1 failed (status); the next in 500 s"),
        (paused, "queued", "the gate is paused"),
        (full, "queued", "the disk is full"),
        (shut, "queued", "its site is blocked by the operator"),
        (rests, "queued", "its site rests for 100 s: Retry-After of 100 s"),
        (parked, "queued", "its run's budget of pages is spent"),
        (done, "stored", "it was fetched and has a record at "),
        (nothing, "unknown", "no page that was stored leads to it within its seed's depth and 10 redirects"),
    ],
)
def test_why(world: World, make: Callable[[World], None], state: str, reason: str) -> None:
    make(world)
    first = why(world)[0]
    assert (state, "a.example") == (first.get("STATE"), first.get("SITE"))
    assert first.get("REASON").startswith(reason)


@pytest.mark.parametrize(
    ("outcome", "params", "reason"),
    [
        ("ok", {}, "it was fetched and has a record at"),
        ("not-modified", {"RECORD": "1"}, "it had not changed"),
        ("redirect", {"TO": "http://b.example/"}, "it redirects to http://b.example/"),
        ("redirect", {}, "it redirects to nowhere"),
        ("gone", {"STATUS": 404}, "it is gone (404)"),
        ("refused", {"STATUS": 403}, "it was refused (403)"),
        ("refused", {"REASON": "noindex"}, "it was refused (noindex)"),
        ("denied", {}, "robots.txt forbids it"),
    ],
)
def test_why_of_what_was_visited(world: World, outcome: str, params: dict[str, str], reason: str) -> None:
    world.fetch(URL, outcome, **params)
    first, visit, *events = why(world)
    assert ("stored", URL) == (first.get("STATE"), first.get("SEED"))
    assert first.get("REASON").startswith(reason)
    assert "; due again " in first.get("REASON")
    assert ("visit", outcome, "") == (visit.kind, visit.get("OUTCOME"), visit.get("EVENTS"))
    assert [outcome] == [event.get("OUTCOME") for event in events]


def test_why_tells_what_happened_oldest_first(world: World) -> None:
    world.fetch(URL, "gone", STATUS=404)
    world.clock.sleep(86_401)
    world.seed(URL)
    world.done(world.take()[0], "failed", REASON="status", STATUS=500)
    _, _, *events = why(world)
    assert [("gone", "404", ""), ("failed", "500", "status")] == [
        (event.get("OUTCOME"), event.get("STATUS"), event.get("REASON")) for event in events
    ]
    assert {"event"} == {event.kind for event in events}


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://b.example/", "b.example is outside the scope of every seed"),
        ("http://a.example/deep", "no page that was stored leads to it within its seed's depth and 10 redirects"),
        ("http://x.example/", "the exclude file forbids it"),
        ("", " is outside the scope of every seed"),
        ("junk", " is outside the scope of every seed"),
    ],
)
def test_why_of_what_nobody_knows(world: World, url: str, reason: str) -> None:
    world.frontier.exclusions = read_exclusions("x.example")
    first = why(world, url)[0]
    assert ("unknown", reason) == (first.get("STATE"), first.get("REASON"))


def test_why_without_any_seed() -> None:
    assert "no seed was ever given" == why(World())[0].get("REASON")
