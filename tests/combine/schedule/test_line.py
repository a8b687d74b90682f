from __future__ import annotations

import pytest

from combine.schedule.line import PROBE_S, WINDOW_S, Line


def tried(*outcomes: bool, now: float = 0.0) -> Line:
    line = Line()
    for site, failed in enumerate(outcomes):
        line.note(site, failed, now)
    return line


@pytest.mark.parametrize(
    ("failed", "answered", "is_down"),
    [(0, 0, False), (9, 0, False), (10, 0, True), (10, 9, True), (10, 10, False), (11, 10, True), (50, 60, False)],
)
def test_more_than_half_and_at_least_ten(failed: int, answered: int, is_down: bool) -> None:
    assert is_down == tried(*[False] * answered, *[True] * failed).is_down()


def test_a_site_counts_once() -> None:
    line = Line()
    for _ in range(50):
        line.note(7, True, 0.0)
    assert not line.is_down()


def test_only_the_last_minute_counts() -> None:
    line = tried(*[True] * 9)
    line.note(100, True, WINDOW_S + 1)
    assert not line.is_down()


def test_a_site_that_was_tried_again_counts_as_it_is_now() -> None:
    line = tried(*[True] * 9)
    line.note(0, False, 1.0)
    line.note(100, True, 2.0)
    assert not line.is_down()


def test_it_stays_down_until_a_probe_is_answered() -> None:
    line = tried(*[True] * 10)
    for probe in range(10):
        now = PROBE_S * (probe + 1)
        assert now >= line.next_probe()
        line.probed(now)
        assert now + PROBE_S == line.next_probe()
        line.note(200 + probe, True, now + 1)
        assert line.is_down()
    line.note(300, False, 1000.0)
    assert not line.is_down()
    line.note(301, True, 1001.0)
    assert not line.is_down()
