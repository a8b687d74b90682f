"""Dead sites and a dead line: which failures count, over hours and across restarts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from combine.config import Politeness
from combine.schedule.line import BELIEVED_S
from combine.schedule.rows import DEAD
from combine.schedule.sites import DUE
from formats.jcf import Job
from tests.combine.schedule.world import KNOWN, World

#: Two days, until which what can be given up is given up.
LONG_S = 2 * 86400.0

PACE = replace(KNOWN, politeness=Politeness(delay_s=1.0, address_delay_s=0.0))

Fails = Callable[[Job, float], bool]


class Quick(World):
    """A world whose state is not compared with its tables at each of its thousands of steps."""

    def check(self) -> None:
        """Nothing."""


def harvest(world: World, seconds: float, fails: Fails) -> None:
    """Ask for what may be asked for, one page of a site at a time, until a time is over or nothing is left to do."""
    end, began = world.clock.now + seconds, world.clock.now
    while world.clock.now < end:
        for job in world.take():
            if fails(job, world.clock.now - began):
                world.done(job, "failed", REASON="connect", TOOK=1000)
            else:
                world.done(job, SIZE=500)
                world.stored(job)
        world.resolve()
        wake = world.frontier.next_event()
        if wake is None and not world.frontier.sites.members[DUE]:
            return
        world.clock.now = max(wake or 0.0, world.clock.now + 0.5)


def rows(world: World) -> list[tuple[int, int, str]]:
    """State, tries and host of each row that is left."""
    found = world.rows.db.execute("SELECT state, nrt, line FROM job").fetchall()
    return [(state, nrt, line.split("/")[3]) for state, nrt, line in found]


def seeds(world: World, name: str, count: int, pages: int = 1) -> None:
    for number in range(count):
        for page in range(pages):
            world.seed(f"http://{name}{number}.example/{page or ''}")


def test_dead_sites_beside_a_good_one_are_counted_and_given_up() -> None:
    world = Quick(PACE)
    seeds(world, "dead", 15)
    seeds(world, "good", 1, pages=3)
    harvest(world, LONG_S, lambda job, _: "dead" in job.url)
    assert {(DEAD, f"dead{number}.example") for number in range(15)} == {
        (state, host) for state, _, host in rows(world)
    }
    assert all(nrt >= PACE.politeness.tries for _, nrt, _ in rows(world))


def test_dead_sites_alone_are_given_up_too() -> None:
    world = Quick(PACE)
    seeds(world, "dead", 12)
    harvest(world, LONG_S + BELIEVED_S, lambda *_: True)
    assert [DEAD] * 12 == [state for state, *_ in rows(world)]


def test_dead_sites_that_are_left_after_a_restart_are_no_outage(tmp_path: Path) -> None:
    world = Quick(PACE, path=tmp_path / "queue.sqlite")
    seeds(world, "dead", 15)
    seeds(world, "good", 1)
    harvest(world, 400.0, lambda job, _: "dead" in job.url)
    world.close()
    world = Quick(PACE, path=tmp_path / "queue.sqlite")
    harvest(world, 3600.0, lambda *_: True)
    assert not world.frontier.line.is_down()
    assert 15 == len(rows(world))
    assert min(nrt for _, nrt, _ in rows(world)) > 10
    world.close()


def test_an_outage_of_hours_counts_nothing_beyond_its_first_moments() -> None:
    world = Quick(PACE)
    seeds(world, "good", 12, pages=5)
    harvest(world, 6 * 3600.0, lambda _, passed: passed > 2.0)
    assert world.frontier.line.is_down()
    counted = [nrt for _, nrt, _ in rows(world) if nrt]
    assert (9, {1}) == (len(counted), set(counted))
    harvest(world, 3600.0, lambda *_: False)
    assert not world.frontier.line.is_down()
    assert [] == rows(world)


def test_an_outage_at_the_start_counts_as_little() -> None:
    world = Quick(PACE)
    seeds(world, "good", 60)
    harvest(world, 3600.0, lambda *_: True)
    assert 9 == sum(nrt for _, nrt, _ in rows(world))
    harvest(world, 3600.0, lambda *_: False)
    assert [] == rows(world)
