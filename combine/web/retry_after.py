"""Read Retry-After: how long a server asks us to stay away.

RFC 9110, 10.2.3 gives two forms, whole seconds and a date. Anything else is no answer, and the caller's own back-off
stands. This module never looks at the clock.
"""

from __future__ import annotations

from combine.http_dates import http_date

DAY_S = 86_400.0


def seconds(value: str, now: float, ceiling_s: float = DAY_S) -> float | None:
    """Seconds from `now` (epoch) that a Retry-After asks for, at most `ceiling_s`.

    None where it says nothing readable.
    """
    value = value.strip(" \t")
    if value.isascii() and value.isdigit():
        return min(float(value[:12]), ceiling_s)
    moment = http_date(value, now)
    if moment is None:
        return None
    return min(max(moment - now, 0.0), ceiling_s)
