"""Each scenario, small: invariants hold at every request, and the same seed gives the same numbers."""

from __future__ import annotations

import pytest

from tests.simulator.scenarios import SCENARIOS, storm


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_invariants_hold(name: str) -> None:
    found = SCENARIOS[name](1, 0.05)
    assert found.requests > 0
    assert found.records > 0


def test_a_seed_says_it_all() -> None:
    assert str(storm(3, 0.05)) == str(storm(3, 0.05))
