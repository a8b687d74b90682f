from __future__ import annotations

import random
from dataclasses import replace

import pytest

from combine.config import Agent, Politeness, Settings, SiteRule
from combine.schedule.politeness import (
    DAY_S,
    adapted,
    back_off,
    base_delay,
    is_auto,
    lease_size,
    lease_time,
    refusal_rest,
    rest,
    with_crawl_delay,
)
from tests.combine.schedule.world import KNOWN

AUTO = replace(KNOWN, politeness=Politeness(mode="auto"))
RULED = replace(KNOWN, site=(SiteRule(".example.org", delay_s=2.0), SiteRule("slow.net")))
RULED_AUTO = replace(AUTO, site=RULED.site)
NOBODY = Settings(agent=Agent())
NOBODY_AUTO = replace(NOBODY, politeness=AUTO.politeness)

#: settings, host, told by the operator, asked by the run, listed, learned: the delay
DELAYS = [
    (KNOWN, "a.net", None, "", False, None, 60.0),
    (KNOWN, "a.net", None, "", False, 3.0, 60.0),
    (KNOWN, "a.net", None, "", True, None, 0.0),
    (KNOWN, "a.net", None, "7.5", False, None, 7.5),
    (KNOWN, "a.net", None, "0", False, None, 0.0),
    (KNOWN, "a.net", None, "7.5", True, None, 7.5),
    (KNOWN, "a.net", None, "auto", False, None, 5.0),
    (KNOWN, "a.net", None, "auto", False, 1.5, 1.5),
    (KNOWN, "a.net", None, "auto", True, 1.5, 0.0),
    (AUTO, "a.net", None, "", False, None, 5.0),
    (AUTO, "a.net", None, "", False, 1.5, 1.5),
    (AUTO, "a.net", None, "20", False, 1.5, 20.0),
    (AUTO, "a.net", 3.0, "", False, 1.5, 3.0),
    (KNOWN, "a.net", 3.0, "7.5", True, 1.5, 3.0),
    (KNOWN, "a.net", 0.0, "7.5", False, None, 0.0),
    (RULED, "a.example.org", 3.0, "7.5", False, 1.5, 2.0),
    (RULED_AUTO, "a.example.org", None, "", False, 1.5, 2.0),
    (RULED, "slow.net", None, "", False, None, 60.0),
    (NOBODY, "a.net", None, "1", False, None, 5.0),
    (NOBODY, "a.net", None, "30", False, None, 30.0),
    (NOBODY, "a.net", None, "1", True, None, 1.0),
    (NOBODY, "a.net", None, "auto", False, 1.2, 5.0),
    (NOBODY_AUTO, "a.net", None, "", False, 1.2, 5.0),
]


@pytest.mark.parametrize(("settings", "host", "told", "asked", "listed", "learned", "delay"), DELAYS)
def test_the_delay_is_the_first_that_is_given(
    settings: Settings, host: str, told: float | None, asked: str, listed: bool, learned: float | None, delay: float
) -> None:
    assert delay == base_delay(settings, host, told, asked, listed, learned)


@pytest.mark.parametrize(
    ("settings", "asked", "listed", "auto"),
    [
        (KNOWN, "", False, False),
        (KNOWN, "auto", False, True),
        (KNOWN, "auto", True, False),
        (AUTO, "", False, True),
        (AUTO, "", True, False),
        (AUTO, "60", False, False),
    ],
)
def test_who_adapts(settings: Settings, asked: str, listed: bool, auto: bool) -> None:
    assert auto == is_auto(settings, asked, listed)


@pytest.mark.parametrize(
    ("settings", "host", "delay", "crawl", "floor"),
    [
        (KNOWN, "a.net", 5.0, 0.0, 5.0),
        (KNOWN, "a.net", 5.0, 10.0, 10.0),
        (KNOWN, "a.net", 5.0, 100_000.0, 100_000.0),
        (KNOWN, "a.net", 60.0, 10.0, 60.0),
        (RULED, "example.org", 2.0, 10.0, 2.0),
        (RULED, "slow.net", 2.0, 10.0, 10.0),
    ],
)
def test_only_a_site_rule_lowers_a_crawl_delay(
    settings: Settings, host: str, delay: float, crawl: float, floor: float
) -> None:
    assert floor == with_crawl_delay(settings, host, delay, crawl)


@pytest.mark.parametrize(("delay", "crawl", "seconds"), [(0.0, 0.0, 0.0), (5.0, 0.0, 5.05), (0.0, 3.0, 3.05)])
def test_a_rest_has_a_margin_unless_there_is_no_delay(delay: float, crawl: float, seconds: float) -> None:
    assert seconds == pytest.approx(rest(KNOWN, "a.net", delay, crawl))


@pytest.mark.parametrize(
    ("delay", "latency", "success", "new"),
    [
        (5.0, 1.0, True, 3.0),
        (3.0, 1.0, True, 2.0),
        (5.0, 1.0, False, 5.0),
        (5.0, 9.0, True, 7.0),
        (5.0, 9.0, False, 7.0),
        (1.0, 0.01, True, 1.0),
        (60.0, 500.0, True, 60.0),
    ],
)
def test_an_adapted_delay_goes_half_the_way_to_the_latency(
    delay: float, latency: float, success: bool, new: float
) -> None:
    assert new == adapted(KNOWN.politeness, delay, latency, success)


def test_back_off_grows_with_jitter_to_a_ceiling() -> None:
    chance = random.Random(1)
    for tries in range(1, 200):
        wait = back_off(KNOWN.politeness, tries, chance)
        assert min(0.87 * 1.5 ** min(tries, 64), DAY_S) <= wait <= DAY_S
        assert wait <= 1.13 * 1.5**tries
    assert 1 < len({back_off(KNOWN.politeness, 5, chance) for _ in range(10)})


@pytest.mark.parametrize(
    ("refusals", "days"),
    [(0, 0), (1, 0), (19, 0), (20, 1), (39, 1), (40, 2), (60, 4), (80, 8), (100, 16), (120, 32), (2000, 32)],
)
def test_refusals_in_a_row_rest_a_site_for_days_that_double(refusals: int, days: int) -> None:
    assert days * DAY_S == refusal_rest(KNOWN.politeness, refusals)


def test_no_number_of_refusals_rests_a_site_where_the_setting_is_0() -> None:
    assert 0.0 == refusal_rest(Politeness(refusals=0), 10_000)


@pytest.mark.parametrize(
    ("delay", "size"), [(0.0, 100), (0.1, 100), (1.0, 60), (5.0, 12), (59.0, 1), (60.0, 1), (1e6, 1)]
)
def test_a_lease_has_as_many_jobs_as_fit(delay: float, size: int) -> None:
    assert size == lease_size(KNOWN, delay)


def test_the_time_of_a_lease() -> None:
    assert 60.0 + 5.0 + 120.0 == lease_time(KNOWN, 5.0)
