"""Lengths of time."""

from __future__ import annotations

import click
import pytest

from combine.cli.durations import Duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("0", 0), ("1.5s", 1.5), ("10m", 600), ("2h", 7200), ("1d", 86400), (" 5 m ", 300), (600.0, 600)],
)
def test_a_length_of_time(text: object, seconds: float) -> None:
    assert seconds == Duration().convert(text, None, None)


@pytest.mark.parametrize("text", ["", "m", "-1", "1w", "1e3", "inf", "nan", "1h30m"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)
