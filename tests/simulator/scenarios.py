"""What is simulated: each scenario is a web, some days, and what happens on them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from tests.simulator.run import Measures, Simulation
from tests.simulator.web import draw

DAY_S = 86400.0


def year(seed: int, scale: float) -> Measures:
    """A standing harvest's year: small sites, one tenth of which fails."""
    with closing(Simulation(draw(seed, int(600 * scale), 60, failing=0.1), seed)) as simulation:
        return simulation.go(365)


def failing(seed: int, scale: float) -> Measures:
    """Very many sites of one page or two, of which one tenth fails: at scale 250, a million.

    Once the others are done, those that fail are asked less and less often, each some twenty times; they are not taken
    for our own line. There are as many harvesters as can wait for them.
    """
    web = draw(seed, int(4_000 * scale), 2, failing=0.1)
    with closing(Simulation(web, seed, harvesters=max(4, int(scale / 12)))) as simulation:
        return simulation.go(0.25)


def giant(seed: int, scale: float) -> Measures:
    """One giant site beside many small ones: they are done while it is only begun."""
    web = draw(seed, int(1_000 * scale), 4, failing=0.0, giant=int(3_000 * scale))
    with closing(Simulation(web, seed, harvesters=2, delay_s=5.0)) as simulation:
        found = simulation.go(0.1)
        small = [count for name, count in found.by_site.items() if name != "giant.example"]
        assert len(small) == len(web) - 1, "each small site had its turn"
        enough = min(web["giant.example"].pages, 0.8 * 0.1 * DAY_S / 6.5)
        assert found.by_site["giant.example"] >= enough, "and the giant was never idle"
        return found


def jumps(seed: int, scale: float) -> Measures:
    """The calendar jumps ahead by a month, and back by two."""
    with closing(Simulation(draw(seed, int(60 * scale), 40, failing=0.1), seed)) as simulation:
        simulation.at(10 * DAY_S, lambda: simulation.jump(30 * DAY_S))
        simulation.at(20 * DAY_S, lambda: simulation.jump(-60 * DAY_S))
        found = simulation.go(60)
        assert found.records == found.pages
        assert found.requests < 6 * found.pages + 20 * found.failed
        return found


def storm(seed: int, scale: float) -> Measures:
    """The scheduler is killed every few minutes, harvesters with it."""
    with closing(Simulation(draw(seed, int(200 * scale), 30, failing=0.1), seed, harvesters=3)) as simulation:

        def again() -> None:
            simulation.restart()
            simulation.at(simulation.chance.uniform(1, 600), again)

        simulation.at(30, again)
        found = simulation.go(2)
        assert found.records == found.pages
        return found


SCENARIOS: dict[str, Callable[[int, float], Measures]] = {
    "year": year,
    "failing": failing,
    "giant": giant,
    "jumps": jumps,
    "storm": storm,
}
