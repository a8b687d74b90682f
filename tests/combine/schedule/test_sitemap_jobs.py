"""Sitemap jobs in the queue: which are taken, when they are read again, and what their URLs do."""

from __future__ import annotations

import pytest

from combine.schedule.clock import epoch_of, utc_text
from combine.schedule.intake import has_changed
from combine.schedule.offered import question
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.world import NOON, World

SEED, MAP = "https://example.org/", "https://maps.example.net/map.xml"
DAY_S = 86_400.0


@pytest.fixture
def world() -> World:
    world = World()
    world.seed(SEED)
    return world


def sitemap(url: str = MAP, **params: str | int | None) -> Job:
    return jcf.job(**{"URL": url, "KIND": "sitemap", "SEED": SEED, "VIA": SEED, "DEPTH": 0, **params})


@pytest.mark.parametrize(
    ("line", "is_taken"),
    [
        (sitemap(), True),
        (sitemap(VIA=None), True),
        (sitemap(VIA="https://elsewhere.example/"), False),
        (sitemap("https://maps.example.net/2.xml", VIA=MAP, DEPTH=1), True),
        (sitemap("https://www.maps.example.net/2.xml", VIA=MAP, DEPTH=3), True),
        (sitemap("https://maps.example.net/2.xml", VIA=MAP, DEPTH=4), False),
        (sitemap("https://elsewhere.example/2.xml", VIA=MAP, DEPTH=1), False),
        (sitemap("https://example.org/2.xml", VIA=MAP, DEPTH=1), True),
        (sitemap("https://example.net/map.xml", VIA=MAP, HOPS=1), True),
        (sitemap("https://example.net/map.xml", VIA=MAP, HOPS=11), False),
    ],
)
def test_a_sitemap_may_lie_on_another_host(world: World, line: Job, is_taken: bool) -> None:
    offer = world.add(line)
    assert (int(is_taken), int(not is_taken), []) == (offer.new, offer.outside, offer.refused)


def test_urls_only_means_no_sitemap(world: World) -> None:
    world.seed("https://alone.example/", MAXDEPTH=0)
    assert 1 == world.add(sitemap(SEED="https://alone.example/", VIA="https://alone.example/")).outside


def test_a_sitemap_is_read_once_a_day_and_is_no_page(world: World) -> None:
    world.add(sitemap())
    job = world.fetch(MAP)
    assert ("sitemap", "") == (job.kind, world.visit(MAP).get("OUTCOME"))
    world.stored(job)
    assert 1 == world.add(sitemap()).known
    assert 1 == world.add(jcf.job(URL=SEED + "map.xml", SEED=SEED, DEPTH=1)).new
    world.clock.sleep(DAY_S + 1)
    assert 1 == world.add(sitemap()).new


def test_another_scope_reads_it_again(world: World) -> None:
    world.add(sitemap())
    world.fetch(MAP)
    world.seed("https://second.example/")
    assert 1 == world.add(sitemap(SEED="https://second.example/", VIA="https://second.example/")).new
    world.fetch(MAP)
    world.seed("https://third.example/")
    assert 0 == world.add(sitemap()).new


def test_another_scope_that_comes_while_it_is_read_reads_it_again(world: World) -> None:
    world.add(sitemap())
    world.seed("https://second.example/")
    world.add(sitemap(SEED="https://second.example/", VIA="https://second.example/"))
    world.fetch(MAP)
    assert "queued" == world.state(MAP, "sitemap")
    assert "https://second.example/" == world.fetch(MAP).get("SEED")
    assert "" == world.state(MAP, "sitemap")


def test_one_that_fails_is_given_up_soon_and_tried_another_day(world: World) -> None:
    world.add(sitemap())
    for _ in range(3):
        assert "queued" == world.state(MAP, "sitemap")
        job = next(job for job in iter(lambda: _next(world), None) if job.url == MAP)
        world.done(job, "failed", REASON="http")
        world.clock.sleep(100)
    assert "dead" == world.state(MAP, "sitemap")
    assert 1 == world.add(sitemap()).known
    world.clock.sleep(DAY_S)
    assert 1 == world.add(sitemap()).new


def _next(world: World) -> Job:
    """The next job that is a sitemap; pages are handed back."""
    for _ in range(100):
        for job in world.take():
            if job.kind == "sitemap":
                return job
            world.done(job, "")
        world.clock.sleep(60)
    raise AssertionError("no sitemap is handed out")


@pytest.mark.parametrize(
    ("visited_s", "changed_s", "is_new"),
    [
        (-2 * DAY_S, -1 * DAY_S, True),
        (-2 * DAY_S, -3 * DAY_S, False),
        (-3600, -60, False),  # a site whose pages always changed just now
        (-2 * DAY_S, 3600, False),  # a time to come says nothing
    ],
)
def test_a_page_that_changed_is_asked_again(world: World, visited_s: float, changed_s: float, is_new: bool) -> None:
    world.clock.shift += visited_s
    world.fetch(SEED)
    world.clock.shift = NOON - world.clock.now
    line = jcf.job(URL=SEED, SEED=SEED, DEPTH=1, CHANGED=utc_text(NOON + changed_s))
    assert int(is_new) == world.add(line).new


@pytest.mark.parametrize(
    ("last", "changed", "is_due"),
    [
        ("2026-01-05T10:00:00.400Z", "2026-01-05T10:00:01Z", True),
        ("2026-01-05T10:00:00.400Z", "2026-01-05T10:00:00Z", True),  # in the second of the visit, and perhaps after it
        ("2026-01-05T10:00:00.400Z", "2026-01-05T09:59:59Z", False),
        ("2026-01-05T10:00:00Z", "2026-01-05T09:59:59Z", False),
        ("", "2026-01-05T10:00:00Z", True),  # nobody knows when it was
    ],
)
def test_a_change_in_the_second_of_the_visit_counts(last: str, changed: str, is_due: bool) -> None:
    now = epoch_of("2026-01-07T00:00:00Z")
    assert is_due == has_changed(jcf.job(URL=SEED, LAST=last or None), changed, now, DAY_S)


def test_a_spent_budget_holds_sitemaps_back_and_they_take_nothing_of_it(world: World) -> None:
    world.seed("https://small.example/", BUDGET="run", LIMIT=2)
    line = sitemap("https://small.example/map.xml", SEED="https://small.example/", VIA="https://small.example/")
    world.fetch("https://small.example/")
    world.add(line)
    world.fetch(line.url)
    assert [("run", 1)] == world.frontier.seeds.budgets()
    world.add(jcf.job(URL="https://small.example/a", SEED="https://small.example/", DEPTH=1))
    world.fetch("https://small.example/a")
    world.clock.sleep(DAY_S + 1)
    world.add(line)
    assert not [job for job in world.take() if job.url == line.url]


def test_in_a_standing_harvest_it_is_due_again_as_a_sitemap(world: World) -> None:
    world.add(sitemap(DEPTH=0))
    world.fetch(MAP)
    world.clock.sleep(DAY_S + 1)
    (visit,) = world.visits.due(world.clock.utc(), 10)
    assert (MAP, "sitemap", SEED, "0") == (visit.url, visit.kind, visit.get("SEED"), visit.get("DEPTH"))
    again = jcf.parse_text(question(visit.url, visit.kind)).having(SEED=visit.get("SEED"), DEPTH=visit.get("DEPTH"))
    assert 1 == world.add(again).new
    assert "sitemap" == world.fetch(MAP).kind


def test_it_is_forgotten_with_its_url(world: World) -> None:
    world.add(sitemap())
    world.fetch(MAP)
    assert 1 == world.add(sitemap()).known
    world.visits.forget(MAP)
    assert 1 == world.add(sitemap()).new
