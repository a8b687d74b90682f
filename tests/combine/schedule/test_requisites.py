"""What pages are made of: offered by all pages, taken where the seed wishes it."""

from __future__ import annotations

import pytest

from formats import jcf
from tests.combine.schedule.world import World

SEED = "https://example.org/"


@pytest.mark.parametrize(
    ("url", "wished", "is_taken"),
    [
        ("https://example.org/a.png", True, True),
        ("https://static.example.org/a.png", True, True),
        ("https://elsewhere.example/a.png", True, False),
        ("https://example.org/a.png", False, False),
    ],
)
def test_requisites_of_a_page(url: str, wished: bool, is_taken: bool) -> None:
    world = World()
    world.seed(SEED, MAXDEPTH=0, REQUISITES="1" if wished else None)
    offer = world.add(jcf.job(URL=url, SEED=SEED, VIA=SEED, DEPTH=0, REQUISITE=1))
    assert (int(is_taken), int(not is_taken)) == (offer.new, offer.outside)


def test_a_lease_says_whether_requisites_are_wished() -> None:
    world = World()
    world.seed(SEED)
    assert "" == world.fetch(SEED).get("REQUISITES")
    world.seed(SEED, REQUISITES="1", SINCE="2026-06-01T13:00:00Z")
    world.clock.sleep(7200)
    offer = world.seed(SEED, REQUISITES="1", SINCE="2026-06-01T13:00:00Z")
    assert 1 == offer.new
    assert "1" == world.fetch(SEED).get("REQUISITES")


def test_a_later_wish_offers_the_links_of_stored_pages_again() -> None:
    world = World()
    world.seed(SEED)
    world.fetch(SEED)
    world.seed(SEED, REQUISITES="1")
    assert "queued" == world.state(SEED, "relink")
