"""Hours of a day in a time zone, as site rules name them: `22:00-06:00 Europe/Ljubljana`. Pure; UTC without a zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from combine.errors import ConfigError

_FORM = re.compile(r"([01]?\d|2[0-4]):([0-5]\d) *[-–] *([01]?\d|2[0-4]):([0-5]\d)(?: +([\w+/-]+))?", re.ASCII)
_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class Hours:
    """From a minute of the day to another; over midnight where the second is not the later one."""

    begin: int
    end: int
    zone: tzinfo

    def closed_for(self, epoch: float) -> float:
        """Seconds until they begin; 0 while they last."""
        now = datetime.fromtimestamp(epoch, self.zone)
        minute = now.hour * 60 + now.minute
        inside = self.begin <= minute < self.end
        if self.begin > self.end:
            inside = minute >= self.begin or minute < self.end
        if inside:
            return 0.0
        days = 1 if minute >= self.begin else 0
        start = datetime.combine(now.date() + timedelta(days), time(*divmod(self.begin, 60)), self.zone)
        return max(start.timestamp() - epoch, 1.0)


@lru_cache(maxsize=256)
def parse(text: str) -> Hours:
    """Read hours; raises ConfigError with a sentence."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f'hours are written "22:00-06:00 Europe/Ljubljana", not "{text}"')
    begin, end = (int(hour) * 60 + int(minute) for hour, minute in (match.group(1, 2), match.group(3, 4)))
    if begin >= _DAY or end > _DAY or begin == end:
        raise ConfigError(f'hours = "{text}" is no part of a day')
    return Hours(begin, end, _zone(match[5]) if match[5] else UTC)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ConfigError(f"{name} is no time zone that this machine knows") from None
