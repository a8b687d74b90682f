"""Read Retry-After and the dates of HTTP: how long a server asks us to stay away.

RFC 9110 gives two forms, whole seconds and a date; a date may be in any of three shapes, which 5.6.7 makes a recipient
accept. Anything else is no answer, and the caller's own back-off stands. This module never looks at the clock.
"""

from __future__ import annotations

import calendar
import re

DAY_S = 86_400.0

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = "(?P<month>" + "|".join(_MONTHS) + ")"
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LONG_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CLOCK = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_FORMS = (
    re.compile(rf"(?P<day_name>{'|'.join(_DAYS)}), (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_CLOCK} GMT"),
    re.compile(
        rf"(?P<day_name>{'|'.join(_LONG_DAYS)}), (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_CLOCK} GMT"
    ),
    re.compile(rf"(?P<day_name>{'|'.join(_DAYS)}) {_MONTH} (?P<day>[ 0-9][0-9]) {_CLOCK} (?P<year>[0-9]{{4}})"),
)


def seconds(value: str, now: float, ceiling_s: float = DAY_S) -> float | None:
    """Seconds from `now` (epoch) that a Retry-After asks for, at most `ceiling_s`.

    None where it says nothing readable.
    """
    value = value.strip(" \t")
    if value.isascii() and value.isdigit():
        return min(float(value[:12]), ceiling_s)
    moment = date(value, now)
    if moment is None:
        return None
    return min(max(moment - now, 0.0), ceiling_s)


def date(value: str, now: float) -> int | None:
    """The epoch of an HTTP date, None where it is none. `now` decides the century of a year of two digits."""
    for form in _FORMS:
        if match := form.fullmatch(value):
            return _epoch(match, now)
    return None


def _epoch(match: re.Match[str], now: float) -> int | None:
    day, hour, minute, second = (int(match[name]) for name in ("day", "hour", "minute", "second"))
    year, month = int(match["year"]), _MONTHS.index(match["month"]) + 1
    if len(match["year"]) == 2:
        # RFC 9110 5.6.7: a year that seems over 50 years ahead is the last one with these digits.
        this_year = 1970 + int(now // 31_556_952)
        year += this_year - this_year % 100
        if year > this_year + 50:
            year -= 100
    if not (
        year > 0 and 1 <= day <= calendar.monthrange(year, month)[1] and hour < 24 and minute < 60 and second <= 60
    ):
        return None
    if second == 60 and (hour, minute) != (23, 59):  # a leap second comes at the end of a day
        return None
    if not match["day_name"].startswith(_DAYS[calendar.weekday(year, month, day)]):
        return None
    return calendar.timegm((year, month, day, hour, minute, second))
