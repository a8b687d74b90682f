from __future__ import annotations

from tests.combine.schedule.world import A, World


def test_one_page() -> None:
    world = World()
    world.seed("http://a/")
    job = world.fetch("http://a/")
    assert "http://a/" == job.url
    assert "1" == world.visit("http://a/").get("RECORD")
    assert "" == world.state("http://a/")
    assert [] == world.take(A)
