"""The dates of HTTP, in the three forms that RFC 9110, 5.6.7 makes a recipient accept.

They are read strictly, letter case included: a wrong weekday, a missing zero or another zone makes a value none. This
module never looks at the clock.
"""

from __future__ import annotations

import calendar
import re

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LONG_DAY, _DAY = (f"(?P<day_name>{'|'.join(names)})" for names in (_DAYS, [name[:3] for name in _DAYS]))
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_CLOCK = r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9]):(?P<second>[0-5][0-9]|(?<=23:59:)60)"
_FORMS = (
    re.compile(rf"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_CLOCK} GMT"),
    re.compile(rf"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_CLOCK} GMT"),
    re.compile(rf"{_DAY} {_MONTH} (?P<day>[ 0-9][0-9]) {_CLOCK} (?P<year>[0-9]{{4}})"),
)

#: A year of the Gregorian calendar.
_YEAR_S = 31_556_952


def http_date(value: str, now: float | None = None) -> int | None:
    """The epoch time of an HTTP date, None where it is none; blanks around it are no part of it.

    `now`, an epoch time, decides the century of a year of two digits: one that seems more than 50 years ahead is the
    last with these digits. Where it is not given they are 1970 to 2069. A leap second is the one after it.
    """
    value = value.strip(" \t")
    match = next((match for form in _FORMS if (match := form.fullmatch(value))), None)
    if match is None:
        return None
    if len(match["year"]) == 4:
        return _epoch(match, int(match["year"]))
    return _epoch(match, _year(match, now))


def _year(match: re.Match[str], now: float | None) -> int:
    digits = int(match["year"])
    if now is None:
        return digits + (1900 if digits >= 70 else 2000)
    this_year = 1970 + int(now // _YEAR_S)
    year = this_year - this_year % 100 + digits
    moment = _moment(match, year)
    return year - 100 if moment is not None and moment > now + 50 * _YEAR_S else year


def _epoch(match: re.Match[str], year: int) -> int | None:
    """The time, None where there is no such day, or it is another day of the week."""
    moment = _moment(match, year)
    if moment is None:
        return None
    weekday = calendar.weekday(year, _MONTHS.index(match["month"]) + 1, int(match["day"]))
    return moment if _DAYS[weekday].startswith(match["day_name"]) else None


def _moment(match: re.Match[str], year: int) -> int | None:
    month, day = _MONTHS.index(match["month"]) + 1, int(match["day"])
    if year < 1 or not 1 <= day <= calendar.monthrange(year, month)[1]:
        return None
    return calendar.timegm((year, month, day, int(match["hour"]), int(match["minute"]), int(match["second"])))
