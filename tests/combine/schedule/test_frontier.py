"""STORED, what idbd is told, relink jobs, forced rounds, FORGET: the last steps of a URL's life."""

from __future__ import annotations

from typing import Any

import pytest

from combine.errors import Rejected, RetryLater
from combine.schedule.clock import utc_text
from combine.schedule.frontier import WAYS
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.world import NOON, A, B, Page, Web, World, always

URL = "http://a.example/"


@pytest.fixture
def world() -> World:
    made = World(listed=always)
    made.seed(URL, MAXDEPTH=3)
    return made


def fetched(world: World, url: str = URL) -> Job:
    """A job whose harvest lies in a batch."""
    job = next(job for job in world.take() if job.url == url)
    world.done(job)
    return job


# STORED -------------------------------------------------------------------------------------------------------------


def test_the_row_lives_until_idbd_was_told(world: World) -> None:
    job = fetched(world)
    world.stored(job, tell=False, DIGEST="d", ETAG='"e"')
    assert "fetched" == world.state(URL)
    assert "" == world.visit(URL).url
    world.crash()
    assert "fetched" == world.state(URL)
    world.tell()
    assert "" == world.state(URL)
    visit = world.visit(URL)
    assert ("ok", "1", '"e"', URL, "0", "1:3") == tuple(
        visit.get(name) for name in ("OUTCOME", "RECORD", "ETAG", "SEED", "DEPTH", "SCOPES")
    )


def test_stored_twice_is_stored_once(world: World) -> None:
    job = fetched(world)
    for _ in range(2):
        world.stored(job, tell=False)
    world.tell()
    world.stored(job)
    assert 1 == len(world.visit(URL).get("EVENTS").split(";"))


def test_told_twice_is_told_once(world: World) -> None:
    world.stored(fetched(world), "gone", tell=False, STATUS=404, LAST=utc_text(NOON))
    rows = world.frontier.untold(10)
    for _ in range(2):
        world.visits.remember([jcf.parse_text(row.result) for row in rows], NOON)
    world.frontier.told(rows)
    world.frontier.told(rows)
    world.commit()
    visit = world.visit(URL)
    assert (1, utc_text(NOON + 86400)) == (len(visit.get("EVENTS").split(";")), visit.get("DUE"))


@pytest.mark.parametrize("outcome", ["", "splendid"])
def test_no_outcome_is_no_result(world: World, outcome: str) -> None:
    job = fetched(world)
    with pytest.raises(Rejected, match="OUTCOME="):
        world.stored(job, outcome)
    assert "fetched" == world.state(URL)


def test_a_page_that_no_parser_can_read_is_dead_and_its_visit_stays(world: World) -> None:
    job = fetched(world)
    world.stored(job, "failed", REASON="parser")
    row = world.row(URL)
    assert row is not None
    assert ("dead", "parser") == (world.state(URL), row.reason)
    assert "" == world.visit(URL).url
    world.stored(job)
    assert "dead" == world.state(URL)


def test_failed_tries_go_into_the_visit(world: World) -> None:
    (job,) = world.take()
    world.done(job, "failed", REASON="status; five hundred", STATUS=500)
    world.clock.sleep(60)
    world.stored(fetched(world), STATUS=200)
    first, second = world.visit(URL).get("EVENTS").split(";")
    assert first.endswith("failed 500 status, five hundred")
    assert second.endswith("ok 200")


def test_what_is_long_is_cut_and_what_is_strange_is_left_out(world: World) -> None:
    world.stored(fetched(world), REASON="r" * 5000, DETAIL="d" * 5000, X="x" * 5000)
    visit = world.visit(URL)
    assert 300 == len(visit.get("REASON"))
    assert "" == visit.get("DETAIL") == visit.get("X")


def test_a_robots_job_is_never_stored(world: World) -> None:
    world.add(jcf.job(URL="http://b.example/robots.txt", KIND="robots", FOR=URL))
    (job,) = world.take()
    world.stored(job)
    assert "leased" == world.state("http://b.example/robots.txt", "robots") or world.frontier.leases


def test_a_lost_batch_is_asked_for_again(world: World) -> None:
    (job,) = world.take()
    world.done(job, BATCH="b")
    world.frontier.requeue_batch("other")
    assert "fetched" == world.state(URL)
    world.frontier.requeue_batch("b")
    world.commit()
    assert "queued" == world.state(URL)
    assert not world.done(job, end=False)
    (again,) = world.take()
    assert again.fetch > job.fetch


# Relink jobs --------------------------------------------------------------------------------------------------------


def relinked(world: World, url: str = URL) -> list[tuple[str, str]]:
    """The relink jobs of a URL, done one after another: seed and depth."""
    found: list[tuple[str, str]] = []
    for _ in range(50):
        jobs = [jcf.parse_text(line) for line in world.frontier.take_relinks(B, 10)]
        world.commit()
        if not jobs:
            return found
        for job in jobs:
            if job.url == url:
                found.append((job.get("SEED"), job.get("DEPTH")))
            world.stored(job)
        world.end(jobs[0])
    raise AssertionError("relink jobs without end")


OTHER = "http://www.a.example/other"


@pytest.mark.parametrize(
    ("line", "relinks"),
    [
        (jcf.job(URL="http://a.example/1", SEED=URL, DEPTH=2), []),
        (jcf.job(URL="http://a.example/1", SEED=URL, DEPTH=3), []),
        (jcf.job(URL="http://a.example/1", SEED=URL, DEPTH=1), [(URL, "1")]),
        (jcf.job(URL="http://a.example/1", SEED=OTHER, DEPTH=1), []),
        (jcf.job(URL="http://a.example/1", SEED=OTHER, DEPTH=0), [(OTHER, "0")]),
        (jcf.job(URL="http://a.example/1", SEED="http://a.example/wide", DEPTH=5), [("http://a.example/wide", "5")]),
        (jcf.job(URL="http://a.example/1", SCOPE="host", MAXDEPTH=9), [("http://a.example/1", "0")]),
        (jcf.job(URL="http://a.example/1", SCOPE="host", MAXDEPTH=0), []),
    ],
)
@pytest.mark.parametrize("moment", ["stored", "leased", "fetched", "untold"])
def test_a_better_way_has_the_links_offered_again(
    world: World, line: Job, relinks: list[tuple[str, str]], moment: str
) -> None:
    world.seed(OTHER, MAXDEPTH=2)
    world.seed("http://a.example/wide", SCOPE="domain")
    world.add(jcf.job(URL="http://a.example/1", SEED=URL, DEPTH=2))
    job = next(job for job in world.take() if job.url == "http://a.example/1")
    if moment == "leased":
        world.add(line)
    world.done(job)
    if moment == "fetched":
        world.add(line)
    world.stored(job, tell=False)
    if moment == "untold":
        world.add(line)
    world.tell()
    if moment == "stored":
        world.add(line)
    start = [("http://a.example/1", "0")] if moment != "stored" and line.get("MAXDEPTH") == "0" else []
    assert (relinks or start) == relinked(world, "http://a.example/1")
    world.add(line)
    assert [] == relinked(world, "http://a.example/1")


@pytest.mark.parametrize("moment", ["leased", "fetched", "untold", "stored"])
def test_a_seed_that_is_widened_while_its_page_is_in_work(world: World, moment: str) -> None:
    (job,) = world.take()
    if moment == "leased":
        world.seed(URL, SCOPE="domain", MAXDEPTH=5)
    world.done(job)
    if moment == "fetched":
        world.seed(URL, SCOPE="domain", MAXDEPTH=5)
    world.stored(job, tell=False)
    if moment == "untold":
        world.seed(URL, SCOPE="domain", MAXDEPTH=5)
    world.tell()
    if moment == "stored":
        world.seed(URL, SCOPE="domain", MAXDEPTH=5)
    assert [(URL, "0")] == relinked(world)
    assert "1:3 2:5" == world.visit(URL).get("SCOPES")
    assert [] == relinked(world)


def test_a_better_way_found_while_idbd_was_told_is_not_lost(world: World) -> None:
    world.seed("http://a.example/wide", SCOPE="domain")
    job = next(job for job in world.take() if job.url == URL)
    world.done(job)
    world.stored(job, tell=False)
    rows = world.frontier.untold(10)
    world.visits.remember([jcf.parse_text(row.result) for row in rows], NOON)
    world.add(jcf.job(URL=URL, SEED="http://a.example/wide", DEPTH=7))
    world.frontier.told(rows)
    world.commit()
    assert [("http://a.example/wide", "7")] == relinked(world)


@pytest.mark.parametrize(("outcome", "params", "jobs"), [("gone", {}, 0), ("redirect", {"TO": "http://b/"}, 1)])
def test_only_what_has_links_is_relinked(world: World, outcome: str, params: dict[str, Any], jobs: int) -> None:
    job = next(job for job in world.take() if job.url == URL)
    world.seed(URL, MAXDEPTH=5)
    world.done(job, outcome)
    world.stored(job, outcome, **params)
    taken = [jcf.parse_text(line) for line in world.frontier.take_relinks(A, 10)]
    world.commit()
    assert [params.get("TO", "")] * jobs == [job.get("TO") for job in taken]


def test_a_relink_job_is_made_once_however_often_it_is_wanted(world: World) -> None:
    world.add(jcf.job(URL="http://a.example/1", SEED=URL, DEPTH=3))
    world.fetch("http://a.example/1")
    for depth in (2, 2, 1, 1, 2):
        world.add(jcf.job(URL="http://a.example/1", SEED=URL, DEPTH=depth))
    assert [(URL, "2"), (URL, "1")] == relinked(world, "http://a.example/1")


def test_ways_are_bounded(world: World) -> None:
    job = fetched(world)
    for number in range(WAYS + 5):
        world.seed(f"http://a.example/{number}", SCOPE=f"under:http://a.example/{number}")
        world.add(jcf.job(URL=URL, SEED=f"http://a.example/{number}", DEPTH=1, HOPS=0, SCOPE="domain"))
    world.stored(job)
    assert len(relinked(world)) <= WAYS + 1


def test_a_loop_of_redirects_ends(world: World) -> None:
    pages = {URL: Page((), "redirect", "http://a.example/2"), "http://a.example/2": Page((), "redirect", URL)}
    web = Web(world, pages)
    web.finish()
    world.seed("http://a.example/2")
    world.seed("http://a.example/3")
    web.pages["http://a.example/3"] = Page((), "redirect", URL)
    web.finish()
    assert {"http://a.example/2": 1, "http://a.example/3": 1, URL: 1} == web.asked


# Forced rounds ------------------------------------------------------------------------------------------------------

RING = {f"{URL}{number}": Page((f"{URL}{(number + 1) % 6}", f"{URL}{(number + 3) % 6}")) for number in range(6)}


@pytest.mark.parametrize("shift", [0.0, 5e6, -5e6])
def test_a_forced_round_asks_for_each_page_once(world: World, shift: float) -> None:
    web = Web(world, {URL: Page((f"{URL}0",)), **RING})
    world.seed(URL)
    web.finish()
    assert {1} == set(web.asked.values())
    world.clock.sleep(10)
    since = utc_text(world.clock.utc())
    world.clock.sleep(1)
    world.seed(URL, SINCE=since)
    assert since == world.rows.forced_since()
    world.clock.shift += shift
    web.finish()
    if shift < 0:  # a round from the future asks for nothing
        assert max(web.asked.values()) <= 2
    else:
        assert {2} == set(web.asked.values())
    assert "" == world.rows.forced_since()


def test_a_round_that_was_broken_off_goes_on(world: World) -> None:
    web = Web(world, {URL: Page((f"{URL}0",)), **RING})
    world.seed(URL)
    web.finish()
    world.clock.sleep(10)
    since = utc_text(world.clock.utc())
    world.clock.sleep(1)
    world.seed(URL, SINCE=since)
    for _ in range(6):
        web.harvest(A)
        web.parse()
        web.sync()
        world.tell()
        world.clock.sleep(1)
    world.crash()
    world.seed(URL, SINCE=world.rows.forced_since() or since)
    web.finish()
    assert {2} == set(web.asked.values())


def test_a_harvest_that_comes_late_does_not_stand_for_the_round_that_began_meanwhile(world: World) -> None:
    (job,) = world.take()
    asked = utc_text(world.clock.utc())
    world.clock.sleep(10)
    world.frontier.keep_only(A, ())  # its harvester died, with the batch published and no DONE sent
    since = utc_text(world.clock.utc())
    world.seed(URL, SINCE=since)
    assert world.done(job, end=False)
    world.stored(job, LAST=asked)
    world.clock.sleep(60)
    (again,) = world.take()
    assert (URL, since) == (again.url, again.get("SINCE"))
    world.done(again)
    world.stored(again, LAST=utc_text(world.clock.utc()))
    assert [] == world.take()


def test_a_round_from_the_future_asks_for_nothing_again_and_again(world: World) -> None:
    (job,) = world.take()
    world.seed(URL, SINCE=utc_text(world.clock.utc() + 3600))
    world.done(job)
    world.stored(job, LAST=utc_text(world.clock.utc()))
    world.clock.sleep(600)
    assert [] == world.take()


def test_what_was_fetched_before_the_round_is_fetched_in_it(world: World) -> None:
    (job,) = world.take()
    world.done(job)
    before = utc_text(world.clock.utc())
    world.clock.sleep(10)
    since = utc_text(world.clock.utc())
    world.clock.sleep(10)
    world.seed(URL, SINCE=since, MAXDEPTH=3)
    world.stored(job, LAST=before, ETAG='"e"')
    (again,) = world.take()
    assert (URL, since, '"e"') == (again.url, again.get("SINCE"), again.get("ETAG"))
    world.done(again)
    world.stored(again, LAST=utc_text(world.clock.utc()))
    assert [] == world.take()
    assert [] == world.frontier.take_relinks(A, 10)


# FORGET -------------------------------------------------------------------------------------------------------------


def test_forgotten_rows_are_gone(world: World) -> None:
    world.frontier.forget([URL, "http://unknown.example/", "junk", ""])
    world.commit()
    assert "" == world.state(URL)
    assert [] == world.take()
    assert [] == list(world.frontier.sites)


@pytest.mark.parametrize("moment", ["leased", "fetched", "untold"])
def test_what_is_in_work_is_not_forgotten_now(world: World, moment: str) -> None:
    (job,) = world.take()
    if moment != "leased":
        world.done(job)
    if moment == "untold":
        world.stored(job, tell=False)
    with pytest.raises(RetryLater, match="is in work"):
        world.frontier.forget([URL])
    assert "" != world.state(URL)


def test_a_relink_job_is_forgotten_too(world: World) -> None:
    world.fetch(URL)
    world.seed(URL, MAXDEPTH=9)
    assert "queued" == world.state(URL, "relink")
    world.frontier.forget([URL])
    world.commit()
    assert "" == world.state(URL, "relink")
