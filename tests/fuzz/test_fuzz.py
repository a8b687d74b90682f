"""Strangers' bytes for seconds; `make fuzz` does it for ten minutes each."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.inputs import inputs, mutated
from tests.fuzz.targets import TARGETS, Target

#: Seconds that one input may take at most: a hang is longer. The machine may be busy.
MOST_S = 5.0


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_only_the_known_is_raised_and_soon(target: Target) -> None:
    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def attempt(data: st.DataObject) -> None:
        given_bytes = data.draw(inputs(target))
        began = time.process_time()
        target.run(given_bytes)
        assert time.process_time() - began < MOST_S

    attempt()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_long_search_works(target: Target) -> None:
    chance = random.Random(1)
    for _ in range(20):
        target.run(mutated(chance, target))
