"""Lengths of time as options take them: 90, 90s, 10m, 2h, 1d."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([smhd]?)")


if TYPE_CHECKING:
    _Type = click.ParamType[float]
else:  # click 8.1 has no type argument there
    _Type = click.ParamType


class Duration(_Type):
    """Seconds, from a number with or without its unit."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds; fails where the text is no length of time."""
        if isinstance(value, int | float):
            return float(value)
        match = _DURATION.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is no length of time: write 90, 90s, 10m, 2h or 1d", param, ctx)
        return float(match[1]) * _UNITS[match[2]]
