"""ADD: what becomes a row, what is known, outside or refused, and which of two ways counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from combine.config import Urls
from combine.errors import RetryLater
from combine.schedule.clock import utc_text
from combine.schedule.exclusions import read_exclusions
from combine.schedule.intake import ROBOTS_HOPS, is_due
from combine.schedule.offered import JOB_BYTES
from combine.schedule.politeness import DAY_S
from formats import jcf
from formats.jcf import LINE_BYTES, Job
from tests.combine.schedule.world import NOON, World, always, at_once

URL = "http://a.example/"


@pytest.fixture
def world() -> World:
    made = World(listed=always)
    made.seed(URL, MAXDEPTH=3, TAG="t")
    return made


def link(url: str, depth: int = 1, seed: str = URL, **params: Any) -> Job:
    return jcf.job(**{"URL": url, "SEED": seed, "DEPTH": depth, **params})


def texts(*lines: Job) -> list[str]:
    return [jcf.dump_text(line) for line in lines]


def job_of(world: World, url: str) -> Job:
    row = world.row(url)
    assert row is not None
    return jcf.parse_text(row.line)


# What becomes of a line ---------------------------------------------------------------------------------------------

LINES = [
    (link("http://a.example/1"), "new=1 known=0 outside=0 refused=0"),
    (link("https://www.a.example/1"), "new=1 known=0 outside=0 refused=0"),
    (link("http://a.example/1", 3), "new=1 known=0 outside=0 refused=0"),
    (link("http://a.example/1", 4), "new=0 known=0 outside=1 refused=0"),
    (link("http://b.example/1"), "new=0 known=0 outside=1 refused=0"),
    (link("http://c.a.example/1"), "new=0 known=0 outside=1 refused=0"),
    (link(URL), "new=0 known=1 outside=0 refused=0"),
    (link(URL + "#part"), "new=0 known=1 outside=0 refused=0"),
    (link("http://a.example/1", HOPS=10), "new=1 known=0 outside=0 refused=0"),
    (link("http://a.example/1", HOPS=11), "new=0 known=0 outside=1 refused=0"),
    (link("http://x.example/1"), "new=0 known=0 outside=1 refused=0"),
    (link("http://a.example/secret/1"), "new=0 known=0 outside=1 refused=0"),
]


@pytest.mark.parametrize(("line", "text"), LINES)
def test_what_becomes_of_a_link(world: World, line: Job, text: str) -> None:
    world.frontier.exclusions = read_exclusions("x.example\nhttp://a.example/secret/\n")
    assert text == world.add(line).text()


REFUSED = [
    (link("mailto:a@example.org"), "only http and https"),
    (link("http://"), ""),
    (link(""), ""),
    (link("http://u:p@a.example/"), "user name"),
    (link("http://a.example/" + "x" * 2100), "bytes"),
    (link("http://a.example/1", seed="http://unknown/"), "names no known SEED"),
    (link("http://a.example/1", seed=""), "names no known SEED"),
    (link("http://a.example/1", KIND="picture"), "KIND='picture' is not known"),
    (link("http://a.example/1", KIND="relink"), "KIND='relink' is not known"),
    (link("http://a.example/1", -1), "DEPTH=-1 is not within"),
    (link("http://a.example/1", PRIO=10), "PRIO=10 is not within 0 and 9"),
    (link("http://a.example/1", HOPS=-1), "HOPS=-1 is not within"),
    (link("http://a.example/1", HOPS="x"), "HOPS='x' is not a whole number"),
    (link("http://a.example/1", SCOPE="world"), "SCOPE='world'"),
    (link("http://a.example/1", SCOPE="host", MAXDEPTH="-2"), "MAXDEPTH=-2 is below 0"),
    (link("http://a.example/1", SCOPE="host", DELAY="x"), "DELAY='x'"),
    (link("http://a.example/secret/", SCOPE="host"), "the exclude file forbids it"),
    (link("http://a.example/1", X="x" * JOB_BYTES), "the job's line has more than"),
    (jcf.job(REASON="no URL"), ""),
]


@pytest.mark.parametrize(("line", "why"), REFUSED)
def test_a_line_that_is_refused_says_why_and_hurts_no_other(world: World, line: Job, why: str) -> None:
    world.frontier.exclusions = read_exclusions("http://a.example/secret/\n")
    offer = world.add(link("http://a.example/before"), line, link("http://a.example/after"))
    assert "new=2 known=0 outside=0 refused=1" == offer.text()
    (refused,) = offer.refused
    assert why in refused.get("REASON")
    assert line.url[:2000] == refused.url


def test_a_row_keeps_what_was_said_of_the_job_and_nothing_that_others_say(world: World) -> None:
    given: dict[str, Any] = {
        "VIA": "http://a.example/v",
        "HDB": "x",
        "OWN": "kept",
        "HOPS": 2,
        "SINCE": "2026-01-01T00:00:00Z",
    }
    others: dict[str, Any] = {
        "ETAG": '"e"',
        "FTIME": "t",
        "FETCH": 7,
        "LEASE": 8,
        "ADDR": "10.0.0.1",
        "OUTCOME": "ok",
        "NRT": 5,
    }
    world.add(link("http://a.example/1", 2, PRIO=3, **given, **others))
    kept = {"URL": "http://a.example/1", "SEED": URL, "TAG": "t", "VIA": given["VIA"], "HDB": "x", "OWN": "kept"}
    assert {**kept, "HOPS": "2"} == dict(job_of(world, "http://a.example/1").params)
    row = world.row("http://a.example/1")
    assert row is not None
    assert (2, 3, given["SINCE"], 0) == (row.depth, row.prio, row.since, row.nrt)


def test_the_longest_job_can_be_handed_out(world: World) -> None:
    long: dict[str, Any] = {"VIA": "http://a.example/" + "v" * 2000, "HDB": "h" * 3500}
    url = "http://a.example/" + "u" * 2000
    world.add(link(url, **long))
    world.fetch(url, ETAG='"' * 1024, LMOD="l" * 64, TYP="t" * 200, FTIME="2026-01-01T00:00:00.000Z")
    world.clock.sleep(31 * DAY_S)
    world.add(link(url, **long))
    (job,) = [job for job in world.take() if job.url == url]
    assert len(jcf.dump(job)) <= LINE_BYTES
    assert '"' * 1024 == job.get("ETAG")


# Seeds --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "hops", "depth", "becomes"),
    [
        ("http://b.a.example/", 1, 0, "new=1"),
        ("http://other.example.net/", 1, 0, "new=1"),
        ("http://other.example.net/", 0, 0, "new=0"),
        ("http://other.example.net/", 1, 1, "new=0"),
    ],
)
def test_where_a_seed_redirects_to_is_taken(world: World, target: str, hops: int, depth: int, becomes: str) -> None:
    assert world.add(link(target, depth, HOPS=hops)).text().startswith(becomes)


@pytest.mark.parametrize(("target", "admitted"), [("http://b.a.example/", 1), ("http://other.example.net/", 0)])
def test_a_redirect_within_its_domain_widens_a_seed(world: World, target: str, admitted: int) -> None:
    world.add(link(target, 0, HOPS=1))
    assert admitted == world.add(link(target + "2", 1)).new


def test_a_site_that_redirects_to_https_and_www_is_harvested_whole() -> None:
    world = World(listed=always)
    world.seed("http://example.org/", MAXDEPTH=1)
    (job,) = world.take()
    world.done(job, "redirect")
    target = link("https://www.example.org/", 0, "http://example.org/", HOPS=1)
    assert 1 == world.add(target).new
    assert 1 == world.add(link("https://www.example.org/1", 1, "http://example.org/")).new


# One URL in several ways --------------------------------------------------------------------------------------------


def test_of_two_ways_in_one_message_the_better_counts(world: World) -> None:
    offer = world.add(*(link("http://a.example/1", depth, VIA=f"http://a.example/{depth}") for depth in (2, 1, 3)))
    assert "new=1 known=2 outside=0 refused=0" == offer.text()
    row = world.row("http://a.example/1")
    assert row is not None
    assert (1, "http://a.example/1") == (row.depth, job_of(world, "http://a.example/1").get("VIA"))


@pytest.mark.parametrize(
    ("depth", "prio", "since", "expected"),
    [
        (1, 0, "", (1, 0, "")),
        (3, 0, "", (2, 0, "")),
        (2, 5, "", (2, 3, "")),
        (1, 5, "", (1, 3, "")),
        (2, 1, "", (2, 1, "")),
        (3, 5, "2026-01-02T00:00:00Z", (2, 3, "2026-01-02T00:00:00Z")),
    ],
)
def test_a_queued_row_takes_the_best_of_both(
    world: World, depth: int, prio: int, since: str, expected: tuple[int, int, str]
) -> None:
    world.add(link("http://a.example/1", 2, PRIO=3))
    world.add(link("http://a.example/1", depth, PRIO=prio, SINCE=since or None))
    row = world.row("http://a.example/1")
    assert row is not None
    assert expected == (row.depth, row.prio, row.since)


def test_an_older_round_takes_nothing_from_a_newer(world: World) -> None:
    world.add(link("http://a.example/1", 2, SINCE="2026-01-02T00:00:00Z"))
    world.add(link("http://a.example/1", 1, SINCE="2026-01-01T00:00:00Z"))
    row = world.row("http://a.example/1")
    assert row is not None
    assert (1, "2026-01-02T00:00:00Z") == (row.depth, row.since)


@pytest.mark.parametrize(("since", "then", "kept"), [(3600, 0, 0), (3600, -60, -60), (-60, -3600, -60), (-60, 0, 0)])
def test_a_round_that_begins_in_the_future_gives_way_to_any(
    world: World, since: float, then: float, kept: float
) -> None:
    for seconds in (since, then):
        world.seed(URL, SINCE=utc_text(world.clock.utc() + seconds))
    row = world.row(URL)
    assert row is not None
    assert utc_text(world.clock.utc() + kept) == row.since


def test_a_rewritten_row_keeps_its_validators(world: World) -> None:
    world.add(link("http://a.example/1", 3))
    world.fetch("http://a.example/1", ETAG='"e"')
    world.clock.sleep(31 * DAY_S)
    world.add(link("http://a.example/1", 3))
    world.add(link("http://a.example/1", 1))
    assert '"e"' == job_of(world, "http://a.example/1").get("ETAG")


@pytest.mark.parametrize(
    ("params", "revived"),
    [
        ({}, False),
        ({"SCOPE": "host"}, True),
        ({"SINCE": utc_text(NOON)}, True),
    ],
)
def test_a_dead_row_is_revived_by_a_seed_or_a_newer_round(world: World, params: dict[str, Any], revived: bool) -> None:
    row = world.row(URL)
    assert row is not None
    world.frontier.die(row, "tried too often")
    world.commit()
    offer = world.add(link(URL, 0, **params))
    assert (int(revived), "queued" if revived else "dead") == (offer.new, world.state(URL))


# What idbd says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visit", "since", "due"),
    [
        ({"LAST": -1, "DUE": 30}, None, False),
        ({"LAST": -31, "DUE": -1}, None, True),
        ({"LAST": -1, "DUE": 0}, None, True),
        ({"LAST": -1, "DUE": 30}, 0, True),
        ({"LAST": -1, "DUE": 30}, -2, False),
        ({"LAST": -1, "DUE": 30}, 1, False),
        ({"LAST": 5, "DUE": 35}, 0, False),
        ({"LAST": 5, "DUE": 35}, None, False),
        ({}, None, True),
    ],
)
def test_when_a_visited_page_is_due(visit: dict[str, float], since: float | None, due: bool) -> None:
    line = jcf.job(**{name: utc_text(NOON + days * DAY_S) for name, days in visit.items()})
    assert due == is_due(line, "" if since is None else utc_text(NOON + since * DAY_S), NOON)


def test_a_page_is_asked_for_again_after_30_days_with_what_is_known_of_it(world: World) -> None:
    world.fetch(URL, ETAG='"e"', LMOD="l", TYP="text/html", FTIME="t")
    assert "new=0 known=1" in world.seed(URL, MAXDEPTH=3).text()
    world.clock.sleep(30 * DAY_S + 1)
    assert "new=1" in world.seed(URL, MAXDEPTH=3).text()
    (job,) = world.take()
    assert ('"e"', "l", "text/html", "t") == tuple(job.get(name) for name in ("ETAG", "LMOD", "TYP", "FTIME"))


def test_whatever_the_visit_says_if_it_is_told_so(world: World) -> None:
    world.fetch(URL, "denied")
    assert 0 == world.add(link(URL, 0)).new
    assert 1 == world.add(link(URL, 0), is_due=True).new
    row = world.row(URL)
    assert row is not None
    assert "" == row.since


def test_a_row_that_came_while_idbd_was_asked_is_merged(world: World) -> None:
    async def look_up(questions: list[str]) -> list[str]:
        world.add(link("http://a.example/1", 1))
        return []

    offer = at_once(world.intake.offer(texts(link("http://a.example/1", 2)), look_up))
    assert "new=0 known=1 outside=0 refused=0" == offer.text()


def test_a_row_that_went_while_idbd_was_asked_is_asked_for_again(world: World) -> None:
    asked: list[list[str]] = []

    async def look_up(questions: list[str]) -> list[str]:
        asked.append([jcf.parse_text(line).url for line in questions])
        before = await world.look_up(questions)
        if len(asked) == 1:
            world.add(link("http://a.example/1", 1))
            world.fetch("http://a.example/1")
        return before

    offer = at_once(world.intake.offer(texts(link("http://a.example/1", 2), link("http://a.example/2")), look_up))
    assert [["http://a.example/1", "http://a.example/2"], ["http://a.example/1"]] == asked
    assert "new=1 known=1 outside=0 refused=0" == offer.text()
    assert ({}, 0) == (world.frontier.gone, world.frontier.offers)


def test_a_forced_page_that_was_fetched_meanwhile_is_not_fetched_again(world: World) -> None:
    world.fetch(URL)
    world.clock.sleep(100)
    since = utc_text(world.clock.utc())
    world.clock.sleep(10)
    forced = link(URL, 0, SINCE=since)

    async def look_up(questions: list[str]) -> list[str]:
        before = await world.look_up(questions)
        if world.visit(URL).get("LAST") < since:
            world.add(forced)
            world.fetch(URL, LAST=utc_text(world.clock.utc()))
        return before

    assert 0 == at_once(world.intake.offer(texts(forced), look_up)).new


def test_after_a_crash_an_offer_is_to_come_again(world: World) -> None:
    async def look_up(questions: list[str]) -> list[str]:
        world.crash()
        return []

    with pytest.raises(RetryLater, match="read again"):
        at_once(world.intake.offer(texts(link("http://a.example/1")), look_up))
    assert 0 == world.frontier.offers
    assert 1 == world.add(link("http://a.example/1")).new


def test_where_idbd_is_away_nothing_is_lost_or_left_behind(world: World) -> None:
    async def look_up(questions: list[str]) -> list[str]:
        raise RetryLater("idbd is away")

    with pytest.raises(RetryLater):
        at_once(world.intake.offer(texts(link("http://a.example/1")), look_up))
    assert 0 == world.frontier.offers
    assert 1 == world.add(link("http://a.example/1")).new


# Robots jobs --------------------------------------------------------------------------------------------------------


def errand(**params: Any) -> Job:
    return jcf.job(**{"URL": "http://b.example/robots.txt", "KIND": "robots", "FOR": URL, **params})


def test_a_robots_job_is_queued_once_for_each_who_waits(world: World) -> None:
    assert "new=1" in world.add(errand(HOPS=1)).text()
    assert "new=0 known=1" in world.add(errand(HOPS=1)).text()
    assert "new=1" in world.add(errand(FOR="http://c.example")).text()
    assert 2 == world.site("b.example").errands


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"HOPS": ROBOTS_HOPS + 1}, "redirected too often"),
        ({"FOR": ""}, ""),
        ({"FOR": "mailto:x"}, "only http"),
        ({"FOR": "http://a.example/page"}, "no site's front page"),
        ({"URL": "x"}, ""),
    ],
)
def test_a_robots_job_that_makes_no_sense(world: World, params: dict[str, Any], why: str) -> None:
    offer = world.add(errand(**params))
    assert "new=0 known=0 outside=0 refused=1" == offer.text()
    assert why in offer.refused[0].get("REASON")


def test_a_robots_job_wakes_a_parked_site() -> None:
    world = World(listed=always)
    world.seed("http://b.example/", BUDGET="run", LIMIT=0)
    assert [] == world.take()
    world.add(errand())
    assert ["robots"] == [job.kind for job in world.take()]


def test_offered_urls_are_cleaned_as_the_settings_say(world: World) -> None:
    world.frontier.settings = replace(world.frontier.settings, urls=Urls(single_slashes=True))
    world.seed("http://a.example//b//c")
    assert [URL, "http://a.example/b/c"] == [job.url for job in world.take()]
