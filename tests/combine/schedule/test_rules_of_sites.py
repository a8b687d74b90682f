"""Site rules in the scheduler: depth, hours, the revisit interval; and the allow file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from combine.config import Settings
from combine.schedule.exclusions import read_exclusions
from combine.site_rules import SiteRule
from formats import jcf
from tests.combine.schedule.world import KNOWN, NOON, World

SEED = "http://a.example/"


def ruled(**rule: Any) -> Settings:
    return replace(KNOWN, site=(SiteRule("a.example", **rule),))


@pytest.mark.parametrize(("depth", "is_taken"), [(2, True), (3, False)])
def test_depth(depth: int, is_taken: bool) -> None:
    world = World(ruled(depth=2))
    world.seed(SEED)
    assert int(is_taken) == world.add(jcf.job(URL="http://a.example/x", SEED=SEED, DEPTH=depth)).new


def test_outside_its_hours_a_site_is_not_asked() -> None:
    world = World(ruled(hours="22:00-06:00"))  # it is noon
    world.seed(SEED)
    assert [] == world.take()
    site = world.site("a.example")
    assert ("blocked", NOON + 10 * 3600) == (site.state, round(site.blocked + world.clock.shift))
    assert "other hours" in site.reason
    world.clock.sleep(10 * 3600 - 10)
    assert [] == world.take()
    world.clock.sleep(11)
    assert [SEED] == [job.url for job in world.take()]


def test_other_hours_are_in_effect_at_once() -> None:
    world = World(ruled(hours="22:00-06:00"))
    world.seed(SEED)
    assert [] == world.take()
    world.frontier.use(ruled(hours="11:00-13:00"))
    world.resolve()
    assert [SEED] == [job.url for job in world.take()]


@pytest.mark.parametrize(("rule", "due_s"), [({"revisit_s": 3600.0}, 3600), ({}, 30 * 86_400)])
def test_revisit(rule: dict[str, float], due_s: int) -> None:
    world = World(ruled(**rule))
    world.seed(SEED)
    world.fetch(SEED)
    world.clock.sleep(due_s - 1)
    assert 0 == world.seed(SEED).new
    world.clock.sleep(2)
    assert 1 == world.seed(SEED).new


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("", False),
        ("a.example\n", False),
        ("HOST: ^a\\.\n", False),
        ("URL: /$\n", False),
        ("b.example\n", True),
        ("http://a.example/deep/\n", True),
    ],
)
def test_the_allow_file_names_what_alone_is_asked(text: str, refused: bool) -> None:
    world = World()
    world.frontier.allowed = read_exclusions(text, "allow")
    offer = world.seed(SEED)
    assert (["the allow file does not name it"] if refused else []) == [line.get("REASON") for line in offer.refused]
