"""Times as pages write them, turned into UTC.

They are read in the ISO 8601 forms that pages use, and in HTTP's; what has no time of day is midnight UTC, and what
cannot be read is nothing. This module never does I/O and never asks for the local time.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime

from combine.http_dates import http_date
from combine.zones import ZONES

_ISO = re.compile(
    r"(\d{4})-?(\d\d)(?:-?(\d\d)(?:[T ](\d\d):?(\d\d)(?::?(\d\d)(?:[.,]\d{1,9})?)?"
    r"\s*([A-Z]{1,4}\b|[+-]\d\d:?(?:\d\d)?)?)?)?",
    re.ASCII | re.IGNORECASE,
)


def page_date(value: str) -> int | None:
    """The epoch time of a time written in a page or its meta elements; None where it cannot be read."""
    value = " ".join(value.split())
    match = _ISO.match(value)
    if match is None:
        return http_date(value)
    year, month, day, hour, minute, second, zone = match.groups()
    if day is None and len(value) != 7:
        return None
    numbers = (int(year), int(month), int(day or 1), int(hour or 0), int(minute or 0), min(int(second or 0), 59))
    try:
        moment = calendar.timegm(datetime(*numbers, tzinfo=UTC).timetuple())
    except ValueError:
        return None
    return moment - _offset(zone or "Z")


def _offset(zone: str) -> int:
    if zone[0] not in "+-":
        return ZONES.get(zone.upper(), 0) * 3600
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:] or 0) * 60
    return seconds if zone[0] == "+" else -seconds


def utc(epoch: int) -> str:
    """An epoch time as records write it."""
    try:
        return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
    except (ValueError, OverflowError, OSError):
        return ""
