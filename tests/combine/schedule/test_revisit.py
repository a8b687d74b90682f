"""When to ask again: fixed, adaptive, by site rule; and redirects that are remembered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from combine.config import Scheduler
from combine.schedule.revisit import interval
from combine.site_rules import SiteRule
from formats import jcf
from tests.combine.schedule.world import KNOWN, World

SEED, DAY_S = "http://a.example/", 86_400.0
ADAPTIVE = replace(KNOWN, scheduler=Scheduler(revisit="adaptive", revisit_s=8 * DAY_S, revisit_most_s=30 * DAY_S))


@pytest.mark.parametrize(
    ("old", "news", "days"),
    [
        (None, {"OUTCOME": "ok", "DIGEST": "A"}, 8),
        ({"EVERY": 4 * DAY_S, "DIGEST": "A"}, {"OUTCOME": "ok", "DIGEST": "B"}, 2),
        ({"EVERY": 4 * DAY_S, "DIGEST": "A"}, {"OUTCOME": "ok", "DIGEST": "A"}, 6),
        ({"EVERY": 4 * DAY_S, "DIGEST": "A"}, {"OUTCOME": "not-modified"}, 6),
        ({"EVERY": 4 * DAY_S, "DIGEST": "A"}, {"OUTCOME": "refused"}, 4),
        ({"EVERY": 4 * DAY_S}, {"OUTCOME": "ok", "DIGEST": "B"}, 4),
        ({"EVERY": 1 * DAY_S, "DIGEST": "A"}, {"OUTCOME": "ok", "DIGEST": "B"}, 1),
        ({"EVERY": 25 * DAY_S, "DIGEST": "A"}, {"OUTCOME": "not-modified"}, 30),
        ({"DIGEST": "A"}, {"OUTCOME": "not-modified"}, 12),
    ],
)
def test_the_interval_follows_the_page(old: dict[str, Any] | None, news: dict[str, Any], days: float) -> None:
    before = None if old is None else jcf.job(URL=SEED, **old)
    assert days * DAY_S == interval(before, jcf.job(URL=SEED, **news), ADAPTIVE)
    assert 30 * DAY_S == interval(before, jcf.job(URL=SEED, **news), KNOWN)


def test_a_site_rule_says_where_it_begins() -> None:
    settings = replace(ADAPTIVE, site=(SiteRule("a.example", revisit_s=2 * DAY_S),))
    assert 2 * DAY_S == interval(None, jcf.job(URL=SEED, OUTCOME="ok"), settings)


def test_what_changes_is_asked_sooner_and_what_does_not_later() -> None:
    world = World(ADAPTIVE)
    world.seed(SEED)
    waits = []
    for digest in ("AA", "BB", "CC", "CC"):
        world.fetch(SEED, DIGEST=digest)
        began = world.clock.utc()
        while not world.seed(SEED).new:
            world.clock.sleep(DAY_S / 4)
        waits.append(round((world.clock.utc() - began) / DAY_S))
    assert [8, 4, 2, 3] == waits


def test_a_permanent_redirect_is_remembered_until_it_is_due() -> None:
    world = World()
    world.seed(SEED)
    world.fetch(SEED, "redirect", STATUS=301, TO="http://a.example/new")
    line = jcf.job(URL=SEED, SEED=SEED, DEPTH=3)
    world.clock.sleep(29 * DAY_S)
    assert (0, 1) == ((offer := world.add(line)).new, offer.known)
    assert "http://a.example/new" == world.visit(SEED).get("TO")
    world.clock.sleep(2 * DAY_S)
    assert 1 == world.add(line).new
