"""DONE and look-ups: every row of the design's table of outcomes, and what a site learns from them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from combine.config import Politeness, SiteRule
from combine.errors import RecordError, Rejected
from combine.schedule.clock import utc_text
from combine.schedule.politeness import DAY_S
from combine.schedule.rows import STATE_NAMES
from combine.schedule.sites import BLOCKED, EMPTY, UNRESOLVED, WAITING
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.world import KNOWN, A, B, World, always, never

URL = "http://a.example/"


def more(world: World, count: int = 5) -> None:
    world.add(*(jcf.job(URL=f"{URL}{number}", SEED=URL, DEPTH=1) for number in range(count)))


# The table ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["ok", "not-modified", "redirect", "gone", "refused", "denied"])
def test_a_harvest_in_a_batch_is_fetched(world: World, outcome: str) -> None:
    (job,) = world.take()
    assert world.done(job, outcome, BATCH="b1")
    row = world.row(URL)
    assert row is not None
    assert ("fetched", "b1", job.fetch) == (STATE_NAMES[row.state], row.batch, row.fetch)
    assert {"b1"} == {batch for batch, _ in world.rows.batches()}
    assert [] == world.take()


def test_a_failed_try_waits_and_counts(world: World) -> None:
    (job,) = world.take()
    assert not world.done(job, "failed", REASON="status", STATUS=500)
    row = world.row(URL)
    assert row is not None
    assert ("queued", 1, 0, "status") == (STATE_NAMES[row.state], row.nrt, row.fetch, row.reason)
    assert 1.3 < row.later - world.clock.now < 1.7
    assert "failed 500 status" in row.events
    assert EMPTY == world.site("a.example").state
    assert world.frontier.next_event() == row.later
    world.clock.sleep(60.1)
    (again,) = world.take()
    assert ("1", True) == (again.get("NRT"), again.fetch > job.fetch)


def test_a_page_that_fails_does_not_hide_those_behind_it(world: World) -> None:
    more(world)
    (bad, *others) = world.take()
    for job in others:
        world.done(job, "", end=False)
    world.done(bad, "failed", REASON="reset")
    world.clock.sleep(90.0)
    jobs = world.take()
    assert [*(job.url for job in others), URL] == [job.url for job in jobs]


@pytest.mark.parametrize(
    ("after", "least"), [(None, 1.2), ("100", 100.0), ("1", 1.2), (str(3 * DAY_S), DAY_S), ("0", 1.2)]
)
def test_retry_after_is_obeyed_up_to_a_day(world: World, after: str | None, least: float) -> None:
    (job,) = world.take()
    world.done(job, "failed", REASON="status", STATUS=503, AFTER=after)
    row = world.row(URL)
    assert row is not None
    assert least <= row.later - world.clock.now <= max(least, 1.8)


@pytest.mark.parametrize(("tries", "days", "is_dead"), [(20, 2, True), (19, 2, False), (30, 0, False)])
def test_dead_after_twenty_tries_and_a_day(world: World, tries: int, days: float, is_dead: bool) -> None:
    world.frontier.settings = replace(KNOWN, politeness=replace(KNOWN.politeness, retry_ceiling_s=60.0))
    started = world.clock.now
    for number in range(tries):
        if number == tries - 1:
            world.clock.now = max(world.clock.now, started + days * DAY_S)
        world.clock.sleep(120)
        (job,) = world.take()
        world.done(job, "failed", REASON="status", STATUS=500)
    assert ("dead" if is_dead else "queued") == world.state(URL)
    if is_dead:
        world.clock.sleep(10 * DAY_S)
        assert [] == world.take()
        world.seed(URL)
        (job,) = world.take()
        assert "" == job.get("NRT")


def test_a_day_of_tries_goes_on_after_a_reboot(world: World) -> None:
    world.frontier.settings = replace(KNOWN, politeness=replace(KNOWN.politeness, retry_ceiling_s=60.0, tries=3))
    for wait in (0.0, 0.7 * DAY_S, None, 0.4 * DAY_S):
        if wait is None:
            world.clock.reboot()
            world.crash()
            continue
        world.clock.sleep(wait + 120)
        (job,) = world.take()
        world.done(job, "failed", REASON="status", STATUS=500)
    assert "dead" == world.state(URL)


@pytest.mark.parametrize("clean", [True, False])
def test_handed_back_unasked_is_no_try(world: World, clean: bool) -> None:
    (job,) = world.take()
    if clean:
        world.done(job, "")
    else:
        world.frontier.keep_only(A, ())
    row = world.row(URL)
    assert row is not None
    assert ("queued", 0, 0 if clean else job.fetch) == (STATE_NAMES[row.state], row.nrt, row.fetch)
    world.clock.sleep(61)
    assert [URL] == [each.url for each in world.take()]


# The fence ----------------------------------------------------------------------------------------------------------


def test_a_number_that_is_not_the_rows_changes_nothing(world: World) -> None:
    (job,) = world.take()
    stranger = job.having(FETCH=4711)
    for outcome in ("ok", "failed", ""):
        assert not world.done(stranger, outcome, end=False, REASON="status")
    assert not world.done(job.having(FETCH=None), "ok", end=False)
    assert "leased" == world.state(URL)
    assert world.done(job)


def test_a_harvest_after_an_unclean_end_is_taken_once(world: World) -> None:
    (job,) = world.take()
    world.frontier.keep_only(A, ())
    world.commit()
    assert world.done(job, BATCH="late")
    assert "fetched" == world.state(URL)
    assert world.done(job, BATCH="late")
    world.stored(job)
    assert not world.done(job, BATCH="late")
    assert "1" == world.visit(URL).get("RECORD")


def test_a_harvest_that_comes_after_the_next_hand_out_is_dropped(world: World) -> None:
    (job,) = world.take()
    world.frontier.keep_only(A, ())
    world.clock.sleep(61)
    (second,) = world.take(B)
    assert not world.done(job, end=False)
    world.stored(job)
    assert "leased" == world.state(URL)
    assert world.done(second)


def test_a_harvest_of_what_was_handed_back_unasked_is_dropped(world: World) -> None:
    (job,) = world.take()
    world.done(job, "")
    assert not world.done(job)
    assert "queued" == world.state(URL)


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"OUTCOME": "splendid"}, Rejected),
        ({"OUTCOME": "OK"}, Rejected),
        ({"FETCH": "x"}, RecordError),
        ({"LEASE": "x", "END": "1"}, RecordError),
        ({"STATUS": "x", "OUTCOME": "ok"}, RecordError),
        ({"AFTER": "soon", "OUTCOME": "failed"}, RecordError),
    ],
)
def test_what_no_outcome_means(world: World, params: dict[str, Any], error: type[Exception]) -> None:
    (job,) = world.take()
    line = jcf.job(**{"URL": URL, "FETCH": job.fetch, "LEASE": job.get("LEASE"), **params})
    with pytest.raises(error):
        world.frontier.done(line)
    world.crash()
    assert "leased" == world.state(URL)


# What a site learns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "status", "is_blocked"),
    [
        ("connect", None, True),
        ("tls", None, True),
        ("timeout", None, True),
        ("reset", None, True),
        ("status", 429, True),
        ("status", 503, True),
        ("status", 500, False),
        ("status", 408, False),
        ("http", None, False),
    ],
)
def test_some_failures_speak_of_the_site(world: World, reason: str, status: int | None, is_blocked: bool) -> None:
    more(world)
    (job,) = world.take()
    world.done(job, "failed", REASON=reason, STATUS=status)
    site = world.site("a.example")
    assert (BLOCKED if is_blocked else WAITING) == site.state
    assert int(is_blocked) == site.failures


def test_failures_in_a_row_wait_longer_and_recovery_halves(world: World) -> None:
    more(world, 40)
    site = world.site("a.example")
    waits = []
    for _ in range(8):
        (job,) = world.take()
        world.done(job, "failed", REASON="timeout")
        waits.append(site.blocked - world.clock.now)
        world.clock.sleep(max(waits[-1], 60.1))
    assert all(later > sooner for sooner, later in itertools.pairwise(waits))
    for outcome, left in (("ok", 4), ("gone", 4), ("not-modified", 2), ("redirect", 1), ("denied", 1), ("ok", 0)):
        (job,) = world.take()
        world.done(job, outcome)
        assert left == site.failures
        world.clock.sleep(60.1)


def test_retry_after_rests_the_whole_site(world: World) -> None:
    more(world)
    (job,) = world.take()
    world.done(job, "failed", REASON="status", STATUS=429, AFTER=500)
    site = world.site("a.example")
    assert (BLOCKED, "Retry-After of 500 s") == (site.state, site.reason)
    world.clock.sleep(499)
    assert [] == world.take()
    world.clock.sleep(1.1)
    assert 1 == len(world.take())


def test_retry_after_of_a_redirect_is_obeyed(world: World) -> None:
    more(world)
    (job,) = world.take()
    world.done(job, "redirect", STATUS=302, AFTER=500)
    world.clock.sleep(499)
    assert [] == world.take()
    world.clock.sleep(1.1)
    assert 1 == len(world.take())


def test_robots_that_cannot_be_read_closes_the_site(world: World) -> None:
    more(world)
    (job,) = world.take()
    world.done(job, "", REASON="robots.txt cannot be read (503)", AFTER=300)
    site = world.site("a.example")
    assert (BLOCKED, "robots.txt cannot be read (503)") == (site.state, site.reason)
    assert "queued" == world.state(URL)


def test_the_longest_of_several_blocks_stands(world: World) -> None:
    site = world.site("a.example")
    for seconds, reason in ((100, "long"), (50, "short"), (1e12, "longest")):
        world.frontier.block(site, seconds, reason)
    assert "longest" == site.reason
    assert world.clock.now + 32 * DAY_S == site.blocked


def test_twenty_refusals_in_a_row_rest_a_site_for_a_day() -> None:
    world = World(listed=always)
    world.seed(URL)
    more(world, 60)
    site = world.site("a.example")
    days = []
    for number in range(1, 41):
        job = world.take()[0]
        world.done(job, "refused", STATUS=(401, 403, 451)[number % 3])
        if site.blocked > world.clock.now:
            days.append((number, (site.blocked - world.clock.now) / DAY_S, site.reason))
            world.clock.now = site.blocked
    assert [(20, 1, "20 refusals in a row"), (40, 2, "40 refusals in a row")] == days
    job = world.take()[0]
    world.done(job, "refused", STATUS=405)
    assert 40 == site.refusals
    world.done(world.take()[0], "ok")
    assert 0 == site.refusals


def test_a_crawl_delay_is_a_floor_and_goes_with_the_file(world: World) -> None:
    more(world)
    (job,) = world.take()
    world.done(job, DELAY="500")
    world.crash()
    assert 500.0 == world.frontier.delay(world.site("a.example"))
    world.clock.sleep(500.1)
    (job,) = world.take()
    assert "500" == job.get("DELAY")
    world.done(job, "denied", ROBOTS="changed")
    assert 60.0 == world.frontier.delay(world.site("a.example"))


def test_an_auto_site_adapts_to_its_answers() -> None:
    world = World(replace(KNOWN, politeness=Politeness(mode="auto")))
    world.seed(URL)
    more(world, 30)
    site = world.site("a.example")
    assert 5.0 == world.frontier.delay(site)
    for status, took, delay in (
        (200, 1000, 3.0),
        (200, 1000, 2.0),
        (404, 100, 2.0),
        (500, 8000, 5.0),
        (200, 1, 2.5005),
    ):
        job = world.take()[0]
        outcome = {200: "ok", 404: "gone", 500: "failed"}[status]
        world.done(job, outcome, STATUS=status, TOOK=took, REASON="status" if outcome == "failed" else None)
        assert delay == pytest.approx(world.frontier.delay(site))
        world.clock.sleep(70)
    world.crash()
    assert 2.5005 == pytest.approx(world.frontier.delay(world.site("a.example")))


def test_who_was_not_asked_learns_nothing(world: World) -> None:
    (job,) = world.take()
    world.done(job, "denied", REASON="robots.txt")
    site = world.site("a.example")
    assert (0, 0, 0) == (site.requests, site.bytes, site.refusals)


@pytest.mark.parametrize(
    ("rule", "listed", "rests"),
    [
        ({}, False, True),
        ({"requests_day": 100}, False, False),
        ({"bytes_day": 5}, False, True),
        ({}, True, False),
        ({"requests_day": 3}, True, True),
        ({"bytes_day": 5}, True, True),
    ],
)
def test_a_site_has_a_budget_a_day(rule: dict[str, Any], listed: bool, rests: bool) -> None:
    politeness = replace(KNOWN.politeness, site_requests_day=3, site_bytes_day=1000)
    rules = (SiteRule("a.example", delay_s=0.0, **rule),)
    world = World(replace(KNOWN, politeness=politeness, site=rules), listed=always if listed else never)
    world.seed(URL)
    more(world, 10)
    jobs = world.take()
    for job in jobs[:3]:
        world.done(job, SIZE=2, end=False)
    world.end(jobs[0])
    site = world.site("a.example")
    assert rests == (site.blocked > world.clock.now)
    if rests:
        assert site.reason.startswith("asked for 3 pages and 6 bytes today")
        assert 0.5 * DAY_S - 10 < site.blocked - world.clock.now <= 0.5 * DAY_S
        world.clock.now = site.blocked + 1
        world.done(world.take()[0], SIZE=2)
        assert (1, 2) == (site.requests, site.bytes)


# https, then http ---------------------------------------------------------------------------------------------------

HTTPS = "https://a.example/"


def without_scheme(world: World) -> Job:
    world.seed(HTTPS, ELSE=URL, BUDGET="run", LIMIT=10, TAG="t")
    (job,) = world.take()
    assert HTTPS == job.url
    return job


@pytest.mark.parametrize("reason", ["connect", "tls", "timeout", "reset"])
def test_a_seed_without_a_scheme_is_asked_by_http_where_https_is_not_there(reason: str) -> None:
    world = World()
    job = without_scheme(world)
    world.done(job, "failed", REASON=reason)
    assert ("", "queued") == (world.state(HTTPS), world.state(URL))
    world.clock.sleep(120)
    (again,) = world.take()
    assert (URL, HTTPS, "t", "") == (again.url, again.get("SEED"), again.get("TAG"), again.get("ELSE"))
    assert [("run", 9)] == world.frontier.seeds.budgets()


@pytest.mark.parametrize("params", [{"REASON": "status", "STATUS": 500}, {"REASON": "dns"}])
def test_other_failures_are_no_reason_to_ask_by_http(params: dict[str, Any]) -> None:
    world = World()
    world.done(without_scheme(world), "failed", **params)
    assert ("queued", "") == (world.state(HTTPS), world.state(URL))


def test_robots_that_cannot_be_asked_for_by_https_is_a_reason() -> None:
    world = World()
    world.done(without_scheme(world), "", REASON="robots.txt cannot be read", DETAIL="connect", AFTER=60)
    assert ("", "queued") == (world.state(HTTPS), world.state(URL))
    assert [("run", 10)] == world.frontier.seeds.budgets()
    assert 0 == world.site("a.example").blocked, "what says that there is no https says nothing against http"


def test_a_dead_line_of_ours_is_no_reason() -> None:
    world = World()
    job = without_scheme(world)
    for site in range(10):
        world.frontier.line.note(1000 + site, True, world.clock.now)
    world.done(job, "failed", REASON="connect")
    assert ("queued", "") == (world.state(HTTPS), world.state(URL))


def test_where_the_http_form_is_queued_already_there_is_one_row() -> None:
    world = World()
    world.seed(URL)
    world.seed(HTTPS, ELSE=URL)
    jobs = {job.url: job for job in world.take()}
    if HTTPS not in jobs:
        world.done(jobs[URL])
        world.clock.sleep(61)
        jobs = {job.url: job for job in world.take()}
    world.done(jobs[HTTPS], "failed", REASON="connect")
    assert "" == world.state(HTTPS)
    assert world.state(URL) in ("queued", "fetched")


# Names --------------------------------------------------------------------------------------------------------------


def test_a_name_that_does_not_exist_is_given_up_at_the_third_look(world: World) -> None:
    more(world, 4)
    site = world.site("a.example")
    for look in range(3):
        assert UNRESOLVED == site.state
        world.frontier.unresolvable(site, "no such name", True)
        world.commit()
        assert (5 if look == 2 else 0) == site.counts[5]
        world.clock.sleep(10)
        world.frontier.tick()
    row = world.row(URL)
    assert row is not None
    assert "no such name" == row.reason


def test_a_look_up_that_fails_for_now_counts_a_try_of_the_first_job(world: World) -> None:
    more(world, 2)
    site = world.site("a.example")
    world.frontier.unresolvable(site, "temporary", False)
    world.commit()
    row = world.row(URL)
    assert row is not None
    assert (1, "dns") == (row.nrt, row.reason)
    assert (BLOCKED, 1) == (site.state, site.failures)
    world.clock.sleep(2)
    assert 1 == len(world.take())
    assert 0 == site.name_failures


def test_an_address_that_is_refused_ends_all_jobs(world: World) -> None:
    more(world, 4)
    world.frontier.unresolvable(world.site("a.example"), "a.example is private: list it", False, is_refused=True)
    world.commit()
    row = world.row(URL)
    assert row is not None
    assert ("dead", "a.example is private: list it") == (world.state(URL), row.reason)
    world.seed(URL)
    assert UNRESOLVED == world.site("a.example").state


def test_while_our_line_is_down_no_look_up_counts() -> None:
    world = World()
    for number in range(15):
        world.seed(f"http://{number}.example/")
    for number in range(15):
        world.frontier.unresolvable(world.site(f"{number}.example"), "temporary", False)
    world.commit()
    assert world.frontier.line.is_down()
    assert [1] * 9 + [0] * 6 == [world.site(f"{number}.example").failures for number in range(15)]
    row = world.row("http://14.example/")
    assert row is not None
    assert 0 == row.nrt


@pytest.mark.parametrize("kind", ["gone from the disk", "there"])
def test_a_page_that_did_not_change_and_has_no_record_is_asked_for_whole(world: World, kind: str) -> None:
    world.fetch(URL, RECORD="1", FTIME="2026-06-01T12:00:00Z", ETAG="v1", LMOD="then", TYP="text/html")
    world.clock.sleep(60.1)
    world.seed(URL, SINCE=utc_text(world.clock.utc()))
    world.clock.sleep(60.1)
    (job,) = world.take()
    assert "v1" == job.get("ETAG")
    world.done(job, "not-modified")
    record = "1" if kind == "there" else None
    world.stored(job, "not-modified", RECORD=record)
    if record:
        assert "" == world.state(URL)
        return
    world.stored(job, "not-modified", RECORD=record)  # a message that comes twice
    world.clock.sleep(60.1)
    (again,) = world.take()
    assert ("", "", "", "") == tuple(again.get(name) for name in ("FTIME", "ETAG", "LMOD", "TYP"))
    assert job.get("SINCE") == again.get("SINCE")
    world.stored(job, "not-modified", RECORD=record)
    assert "leased" == world.state(URL)
    world.done(again)
    world.stored(again, RECORD="1", ETAG="v1")
    assert "" == world.state(URL)


def test_outcomes_are_counted_once(world: World) -> None:
    (job,) = world.take()
    world.done(job)
    world.done(job)
    assert {"ok": 1} == dict(world.frontier.outcomes)


@pytest.mark.parametrize(
    ("outcome", "params", "turn"),
    [
        ("failed", {"REASON": "connect"}, 1),
        ("", {"REASON": "robots.txt cannot be read (connect)", "DETAIL": "connect", "AFTER": 30}, 1),
        ("failed", {"REASON": "timeout"}, 0),
        ("ok", {}, 0),
    ],
)
def test_where_no_connection_is_had_the_name_is_looked_up_again_for_another_address(
    world: World, outcome: str, params: dict[str, Any], turn: int
) -> None:
    (job,) = world.take()
    world.done(job, outcome, **params)
    site = world.site("a.example")
    assert (turn, turn == 0) == (site.turn, site.address_until > world.clock.boot())
