"""What a running harvest shows."""

from __future__ import annotations

import sys

import pytest

from combine.cli import progress
from combine.cli.peers import Stat
from combine.cli.progress import Progress
from combine.cli.run import Look
from combine.keep.home import Home


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (Look(None, 9.0, away_s=4.0), "waiting for the scheduler for 4 s"),
        (
            Look(Stat(stalled="the disk is full", queued=1), 9.0),
            "stalled (the disk is full), 7 records, 0.0 pages/s, 1 queued, 0 failed, 0 sites",
        ),
        (
            Look(Stat(queued=300, leased=2, pages=600, leased_sites=1, next_s=0), 60.0),
            "harvesting, 7 records, 10.0 pages/s, 302 queued, 0 failed, 1 site, about 30 s to go",
        ),
        (Look(Stat(fetched=2, pages=5), 5.0), "parsing the last, 7 records, 1.0 pages/s, 0 queued, 0 failed, 0 sites"),
        (
            Look(Stat(queued=2, unresolved=1), 0.5),
            "looking up names, 7 records, 0.0 pages/s, 2 queued, 0 failed, 1 site",
        ),
        (
            Look(Stat(queued=2, waiting=1, next_s=60.0), 9.0),
            "waiting, 7 records, 0.0 pages/s, 2 queued, 0 failed, 1 site, next in 60 s",
        ),
        (
            Look(Stat(queued=2, leased=1), 9.0, is_closing=True),
            "finishing, 7 records, 0.0 pages/s, 3 queued, 0 failed, 0 sites",
        ),
    ],
)
def test_a_line(look: Look, said: str) -> None:
    assert said == progress.line(look, 7, is_own=True)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "1 s"), (40, "40 s"), (120, "2 min"), (5940, "99 min"), (7200, "2.0 h"), (360000, "4 days")],
)
def test_a_span(seconds: float, said: str) -> None:
    assert said == progress.span(seconds)


def test_the_rate_of_a_scheduler_that_ran_before_is_that_of_a_minute() -> None:
    assert (6.0, 1.0) == (progress.rate(Stat(pages=60), 10.0, True), progress.rate(Stat(pages=60), 10.0, False))


def test_plain_lines_come_after_a_second_each_ten_and_with_a_new_phase(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(progress, "say", said.append)
    busy, last = Stat(queued=1, leased=1), Stat(fetched=1)
    shown = Progress(home, quiet=False, is_own=True)
    for elapsed, stat in (
        (0.2, busy),
        (1.0, busy),
        (2.0, busy),
        (10.9, busy),
        (11.0, busy),
        (12.0, last),
        (13.0, last),
    ):
        shown.show(Look(stat, elapsed))
    shown.close()
    assert ["harvesting", "harvesting", "parsing the last"] == [line.split(": ")[1].split(",")[0] for line in said]


def test_quiet_shows_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "say", lambda _: pytest.fail("it spoke"))
    shown = Progress(home, quiet=True, is_own=True)
    shown.show(Look(Stat(queued=1), 5.0))
    shown.close()


class _Terminal:
    encoding = "utf-8"

    def __init__(self) -> None:
        self.written = ""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError

    def write(self, text: str) -> None:
        self.written += text

    def flush(self) -> None:
        return


def test_on_a_terminal_one_line_is_written_over(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    shown = Progress(home, quiet=False, is_own=True)
    shown.show(Look(Stat(queued=1, leased=1), 0.1))
    shown.live.say("combine: a sentence")
    shown.close()
    assert terminal.written.startswith("\r\x1b[Kharvesting, 0 records")
    assert terminal.written.endswith("\r\x1b[Kcombine: a sentence\n")
