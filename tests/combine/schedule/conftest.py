"""What most tests of the scheduler begin with."""

from __future__ import annotations

import pytest

from tests.combine.schedule.world import World


@pytest.fixture
def world() -> World:
    """A world with one seed."""
    made = World()
    made.seed("http://a.example/")
    return made
