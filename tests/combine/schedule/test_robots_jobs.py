"""Robots jobs: a robots.txt that lies on another site is asked for there, and the site whose file it is waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from combine.config import SiteRule
from combine.schedule.politeness import DAY_S
from combine.schedule.sites import BLOCKED
from formats import jcf
from tests.combine.schedule.world import KNOWN, A, World

URL = "http://a.example/"
ROBOTS = "http://b.example/robots.txt"


def errand(world: World, **params: str | int) -> None:
    world.add(jcf.job(**{"URL": ROBOTS, "KIND": "robots", "FOR": URL, "HOPS": 1, **params}))


def test_a_site_waits_until_its_robots_was_read_elsewhere(world: World) -> None:
    errand(world)
    site = world.site("a.example")
    assert (BLOCKED, "its robots.txt is read at b.example") == (site.state, site.reason)
    (job,) = world.take()
    assert (ROBOTS, "robots", "http://a.example", "1", "-1") == tuple(
        job.get(name) for name in ("URL", "KIND", "FOR", "HOPS", "PRIO")
    )
    assert not world.done(job)
    assert "" == world.state(ROBOTS, "robots")
    assert [URL] == [each.url for each in world.take()]
    assert 0 == world.row_count()


def test_a_robots_job_goes_although_its_own_site_is_blocked(world: World) -> None:
    world.seed("http://b.example/")
    world.frontier.block(world.site("b.example"), 5000, "refusals")
    errand(world)
    jobs = world.take()
    assert [ROBOTS] == [job.url for job in jobs]
    world.done(jobs[0])
    world.clock.sleep(100)
    assert ["a.example"] == [job.url[7:16] for job in world.take()]


@pytest.mark.parametrize(
    ("seeds", "pace"),
    [
        ({"http://b.example/": "2"}, "2"),  # that of its site's next job …
        ({URL: "3", "http://b.example/": "2"}, "2"),
        ({URL: "3"}, "3"),  # … or, where it has none, of the site that waits
        ({URL: "auto"}, f"{KNOWN.politeness.auto_start_s:g}"),
        ({URL: "3", "http://b.example/": ""}, "60"),  # that of the settings, if its own run asks for none
        ({}, "60"),
    ],
)
@pytest.mark.parametrize("crashes", [False, True])
def test_a_robots_job_goes_at_the_pace_of_a_run(seeds: dict[str, str], pace: str, crashes: bool) -> None:
    """It has no seed: were the pace of the settings taken, its site would rest for a minute in a run of seconds."""
    world = World()
    for url, delay in seeds.items():
        world.seed(url, **({"DELAY": delay} if delay else {}))
    errand(world)
    if crashes:
        world.crash()
        world.clock.sleep(5)  # after a start every address rests a moment
    assert {pace} == {job.get("DELAY") for job in world.take() if job.kind == "robots"}
    world.frontier.keep_only(A, ())
    assert float(pace) == pytest.approx(world.site("b.example").next - world.clock.boot(), abs=0.1)


def test_of_its_sites_jobs_the_one_whose_run_can_pay_says_the_pace(world: World) -> None:
    world.seed("http://b.example/", DELAY="60", BUDGET="old", LIMIT=5)
    world.frontier.seeds.set_budget("old", 0)
    world.seed("http://b.example/second", DELAY="2", PRIO=9)
    errand(world)
    assert {"2"} == {job.get("DELAY") for job in world.take() if job.kind == "robots"}


def test_without_another_job_a_robots_job_goes_at_the_last_pace_of_its_site() -> None:
    world = World()
    world.seed("http://b.example/", DELAY="2")
    world.fetch("http://b.example/")
    world.clock.sleep(3)
    errand(world)
    assert {"2"} == {job.get("DELAY") for job in world.take() if job.kind == "robots"}


def test_two_sites_may_wait_for_each_other(world: World) -> None:
    world.seed("http://b.example/")
    errand(world)
    errand(world, URL="http://a.example/robots2.txt", FOR="http://b.example/")
    jobs = world.take()
    assert {"robots"} == {job.kind for job in jobs}
    assert 2 == len(jobs)
    for job in jobs:
        world.done(job)
    world.clock.sleep(61)
    assert [URL, "http://b.example/"] == sorted(job.url for job in world.take())


def test_a_robots_job_that_fails_is_tried_again_and_the_site_waits(world: World) -> None:
    errand(world)
    (job,) = world.take()
    world.done(job, "failed", REASON="status", STATUS=500)
    assert BLOCKED == world.site("a.example").state
    world.clock.sleep(61)
    assert [ROBOTS] == [each.url for each in world.take()]


def test_after_a_day_the_site_asks_anew(world: World) -> None:
    errand(world)
    world.clock.sleep(DAY_S + 1)
    assert sorted([URL, ROBOTS]) == sorted(job.url for job in world.take())


@pytest.mark.parametrize("how", ["excluded", "no name"])
def test_a_robots_job_that_is_given_up_goes_and_the_site_waits_its_day(world: World, how: str) -> None:
    errand(world)
    if how == "excluded":
        world.frontier.settings = replace(KNOWN, site=(SiteRule("b.example", blocked=True),))
        assert [] == world.take()
    else:
        world.frontier.unresolvable(world.site("b.example"), "private", False, is_refused=True)
        world.commit()
    assert "" == world.state(ROBOTS, "robots")
    assert BLOCKED == world.site("a.example").state
    world.clock.sleep(DAY_S + 1)
    assert [URL] == [job.url for job in world.take()]
    errand(world)
    assert BLOCKED == world.site("a.example").state or world.site("a.example").lease
