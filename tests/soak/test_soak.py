"""A few seeds of the fault driver; `make soak` runs two hundred."""

from __future__ import annotations

import pytest

from tests.soak.driver import run
from tests.soak.plan import KINDS, draw

#: Seeds whose plans hold every kind of fault between them, and last few seconds each.
SEEDS = (1, 2, 3, 4, 5)


def test_a_seed_says_it_all() -> None:
    assert draw(7) == draw(7)
    assert set(KINDS) == {fault.kind for seed in range(60) for faults in draw(seed).rounds for fault in faults}


@pytest.mark.system
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_whatever_happens(seed: int) -> None:
    plan = draw(seed)
    found, said = run(plan)
    assert [] == found, "\n".join([str(plan), "again: python -m tests.soak --seed " + str(seed), *found, *said])
