"""A few seeds of the fault driver; `make soak` runs two hundred."""

from __future__ import annotations

import pytest

from combine.crashpoints import POINTS
from tests.soak.driver import run
from tests.soak.plan import KINDS, Fault, Plan, draw

#: Seeds whose plans hold every kind of fault between them, and last few seconds each.
SEEDS = (559, 2504, 2550)


def test_a_seed_says_it_all() -> None:
    assert draw(7) == draw(7)
    assert set(KINDS) == {fault.kind for seed in SEEDS for faults in draw(seed).rounds for fault in faults}
    assert set(KINDS) == {fault.kind for seed in range(60) for faults in draw(seed).rounds for fault in faults}


@pytest.mark.system
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_whatever_happens(seed: int) -> None:
    plan = draw(seed)
    found, said, _ = run(plan)
    assert [] == found, "\n".join([str(plan), "again: python -m tests.soak --seed " + str(seed), *found, *said])


@pytest.mark.system
def test_a_death_at_each_point_loses_nothing() -> None:
    """All points in one harvest, one after another; each of them is met."""
    faults = tuple(Fault(3 * number, "crash", point) for number, point in enumerate(POINTS))
    found, said, struck = run(Plan(0, 90, 0.0, 2, 2, (faults,)))
    assert [] == found, "\n".join([*found, *said])
    assert len(POINTS) == struck, "a point that nobody came by"
