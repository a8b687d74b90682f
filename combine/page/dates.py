"""Times as servers and pages write them, turned into UTC.

HTTP's three forms (RFC 9110, 5.6.7) are read strictly: a wrong weekday or a missing zero makes the value invalid. Times
in pages are read in the ISO 8601 forms that they use; what has no time of day is midnight UTC, and what cannot be read
is nothing. This module never does I/O and never asks for the local time.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LONG_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY, _LONG_DAY, _MONTH = "|".join(_DAYS), "|".join(_LONG_DAYS), "|".join(_MONTHS)
_TIME = r"(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d):(?P<second>[0-5]\d|(?<=23:59:)60)"
_FORMS = (
    re.compile(rf"(?P<week>{_DAY}), (?P<day>\d\d) (?P<month>{_MONTH}) (?P<year>\d{{4}}) {_TIME} GMT", re.ASCII),
    re.compile(rf"(?P<week>{_LONG_DAY}), (?P<day>\d\d)-(?P<month>{_MONTH})-(?P<year>\d\d) {_TIME} GMT", re.ASCII),
    re.compile(rf"(?P<week>{_DAY}) (?P<month>{_MONTH}) (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})", re.ASCII),
)
_ISO = re.compile(
    r"(\d{4})-?(\d\d)(?:-?(\d\d)(?:[T ](\d\d):?(\d\d)(?::?(\d\d)(?:[.,]\d{1,9})?)?"
    r"\s*(Z|UTC|GMT|[+-]\d\d:?(?:\d\d)?)?)?)?",
    re.ASCII | re.IGNORECASE,
)


def http_date(value: str) -> int | None:
    """The epoch time of an HTTP date; None where it is not one."""
    for form in _FORMS:
        if match := form.fullmatch(value):
            year, day = int(match["year"]), int(match["day"])
            if len(match["year"]) == 2:
                # RFC 850 years have two digits: the century is the one that is not more than 50 years ahead.
                year += 1900 if year >= 70 else 2000
            second = min(int(match["second"]), 59)
            month = _MONTHS.index(match["month"]) + 1
            return _epoch(match["week"], (year, month, day, int(match["hour"]), int(match["minute"]), second))
    return None


def _epoch(week: str, parts: tuple[int, int, int, int, int, int]) -> int | None:
    try:
        moment = datetime(*parts, tzinfo=UTC)
    except ValueError:
        return None
    if not _LONG_DAYS[moment.weekday()].startswith(week):
        return None
    return calendar.timegm(moment.timetuple())


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
        return 0
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:] or 0) * 60
    return seconds if zone[0] == "+" else -seconds


def utc(epoch: int) -> str:
    """An epoch time as records write it."""
    try:
        return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
    except (ValueError, OverflowError, OSError):
        return ""
