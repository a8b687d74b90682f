"""When sites are to be looked at again: each in time and once, however far off, whatever was said of it before."""

from __future__ import annotations

import random

import pytest

from combine.schedule.wakes import LONG_S, SHORT_S, Wakes


@pytest.mark.parametrize("number", range(20))
def test_each_comes_in_time_and_once(number: int) -> None:
    chance = random.Random(number)
    times: dict[int, float] = {}
    wakes, now = Wakes(lambda site: times.get(site, 0.0)), 1000.0
    for _ in range(500):
        site, time = (
            chance.randrange(20),
            now + chance.choice((0.0, SHORT_S, 0.5, LONG_S, 50.0, 5000.0)) * chance.random(),
        )
        times[site] = time
        wakes.add(site, time)
        if chance.random() < 0.2:
            times.pop(chance.choice(list(times)))
        assert min(times.values(), default=None) == wakes.next()
        now += chance.choice((0.0, 1.0, 100.0)) * chance.random()
        wanted = {site for site, time in times.items() if time <= now}
        came = []
        for each in wakes.due(now):
            came.append(each)
            del times[each]
        assert sorted(wanted) == sorted(came)


def test_who_is_not_next_takes_few_bytes() -> None:
    times = {site: 1000.0 + site * SHORT_S / 4 for site in range(1, 1001)}
    wakes = Wakes(lambda site: times[site])
    for site, time in times.items():
        wakes.add(site, time)
    assert times[1] == wakes.next()
    assert len(wakes._near) <= 4
