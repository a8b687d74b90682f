from __future__ import annotations

import pytest

from combine.schedule.line import BELIEVED_S, DOUBTED_S, GOOD, NEW, PROBE_S, PROOF, SILENT, WINDOW_S, Line


def tried(*outcomes: bool, now: float = 0.0, known: str = NEW) -> Line:
    line = Line()
    for site, failed in enumerate(outcomes):
        line.note(site, failed, now, known)
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


def test_an_outage_of_sites_that_had_answered_lasts_until_a_probe_is_answered() -> None:
    line = tried(*[True] * 10, known=GOOD)
    for probe in range(100):
        now = PROBE_S * (probe + 1)
        assert now >= line.next_probe()
        line.probed(now)
        assert now + PROBE_S == line.next_probe()
        line.note(200 + probe, True, now + 1, NEW)
        assert line.is_down()
    line.note(300, False, 4000.0)
    assert not line.is_down()
    line.note(301, True, 4001.0)
    assert not line.is_down()


@pytest.mark.parametrize(("good", "seconds"), [(PROOF - 1, DOUBTED_S), (PROOF, BELIEVED_S)])
def test_an_outage_is_not_believed_for_ever(good: int, seconds: float) -> None:
    line = tried(False)
    for site in range(10):
        line.note(site, True, 0.0, GOOD if site < good else NEW)
    line.note(0, True, seconds, GOOD)
    assert line.is_down()
    line.note(0, True, seconds + 1, GOOD)
    assert not line.is_down()
    for site in range(10):  # they are taken for dead, and that they fail says nothing more
        line.note(site, True, seconds + 2, GOOD)
    assert not line.is_down()
    line.note(0, False, seconds + 3)
    for site in (0, *range(100, 110)):  # but what answered once more may say it again
        line.note(site, True, seconds + 4, GOOD)
    assert line.is_down()


def test_a_site_that_was_failing_says_nothing() -> None:
    line = tried(*[True] * 50, known=SILENT)
    assert not line.is_down()
    line.note(1, False, 1.0, SILENT)  # and when it answers, that counts
    line.note(2, False, 1.0, SILENT)
    for site in range(100, 110):
        line.note(site, True, 1.0, GOOD)
    assert line.is_down()


def test_what_a_site_said_when_it_began_to_fail_stands_for_its_minute() -> None:
    line = Line()
    for site in range(9):
        line.note(site, True, 0.0, GOOD)
        line.note(site, True, 2.0, SILENT)
    line.note(9, True, 5.0, GOOD)
    assert line.is_down()
