"""The limits of runs: what all sites and seeds of one may take together, and what is given back."""

from __future__ import annotations

import pytest

from formats import jcf
from tests.combine.schedule.world import B, World, add, all_done, always, urls


@pytest.fixture
def limited() -> World:
    made = World(listed=always)
    for name in "ab":
        made.seed(f"http://{name}.example/", BUDGET="run", LIMIT=3)
        add(made, *(f"http://{name}.example/{number}" for number in range(5)), seed=f"http://{name}.example/")
    return made


def test_a_limit_is_shared_by_all_sites_of_a_run(limited: World) -> None:
    assert 3 == len(limited.take())
    assert [] == limited.take(B)


def test_a_limit_is_shared_by_all_seeds_of_a_site() -> None:
    world = World(listed=always)
    for number in range(5):
        world.seed(f"http://a.example/{number}", BUDGET="run", LIMIT=2)
    assert 2 == len(world.take())


@pytest.mark.parametrize(("outcome", "more"), [("", 1), ("failed", 1), ("ok", 0)])
def test_what_brought_no_page_is_given_back(limited: World, outcome: str, more: int) -> None:
    jobs = limited.take()
    for job in jobs[1:]:
        limited.done(job, end=False)
    limited.done(jobs[0], outcome, REASON="status")
    assert more == len(limited.take(B))


def test_a_page_without_a_record_is_given_back(limited: World) -> None:
    jobs = limited.take()
    all_done(limited, jobs, "gone")
    for job in jobs:
        limited.stored(job, "gone")
    assert 3 == len(limited.take())


def test_a_lost_batch_is_given_back(limited: World) -> None:
    jobs = limited.take()
    all_done(limited, jobs, BATCH="lost")
    assert [] == limited.take()
    limited.frontier.requeue_batch("lost")
    limited.commit()
    assert urls(jobs) == urls(limited.take())


def test_a_site_over_its_limit_is_parked_until_there_is_more(limited: World) -> None:
    all_done(limited, limited.take())
    assert [] == limited.take()
    assert {"run"} == limited.frontier.seeds.spent
    limited.frontier.seeds.set_budget("run", 1)
    assert 1 == len(limited.take())


def test_another_run_takes_over_what_the_first_left(limited: World) -> None:
    all_done(limited, limited.take())
    limited.seed("http://a.example/again", BUDGET="second", LIMIT=10)
    add(limited, "http://a.example/4", seed="http://a.example/again")
    taken = urls(limited.take())
    assert "http://a.example/4" in taken


def test_relinks_and_errands_cost_nothing(limited: World) -> None:
    all_done(limited, limited.take())
    limited.add(jcf.job(URL="http://a.example/robots.txt", KIND="robots", FOR="http://c.example/"))
    (errand,) = limited.take()
    assert "robots" == errand.kind


def test_a_run_that_ends_within_a_take_does_not_hide_another_on_the_next_site() -> None:
    world = World(listed=always)
    world.seed("http://a.example/", BUDGET="run", LIMIT=100)
    world.seed("http://b.example/", BUDGET="run")
    add(world, *(f"http://b.example/{number}" for number in range(150)), seed="http://b.example/")
    add(world, *(f"http://a.example/{number}" for number in range(150)))
    world.seed("http://b.example/other", PRIO=9)
    taken = world.take()
    assert 101 == len(taken)
    assert "http://b.example/other" in urls(taken)
