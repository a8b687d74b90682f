"""The dates of HTTP: undici's vectors, and what RFC 9110, 5.6.7 says beside its grammar."""

from __future__ import annotations

import json
from calendar import timegm

import pytest

from combine.http_dates import http_date
from tests.conformance import CONFORMANCE, needs_conformance

NOW = timegm((2026, 11, 30, 12, 0, 0))


@needs_conformance
@pytest.mark.parametrize("now", [NOW, None])
def test_http_dates_of_undici(now: float | None) -> None:
    cases = json.loads((CONFORMANCE / "http" / "undici_http_dates.json").read_text())
    assert 230 == len(cases)
    assert [] == [case for case in cases if http_date(case["input"], now) != case["epoch"]]


@pytest.mark.parametrize(
    ("value", "now", "expected"),
    [
        (" \tSun, 06 Nov 1994 08:49:37 GMT\t ", NOW, (1994, 11, 6, 8, 49, 37)),
        ("Sun Nov  6 08:49:37 1994 ", NOW, (1994, 11, 6, 8, 49, 37)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", NOW, (1994, 11, 6, 8, 49, 37)),
        # The last day of the fifty years, and the first one after them.
        ("Sunday, 29-Nov-76 00:00:00 GMT", NOW, (2076, 11, 29, 0, 0, 0)),
        ("Thursday, 02-Dec-76 00:00:00 GMT", NOW, (1976, 12, 2, 0, 0, 0)),
        ("Wednesday, 02-Dec-76 00:00:00 GMT", NOW, None),
        ("Tuesday, 29-Feb-00 00:00:00 GMT", NOW, (2000, 2, 29, 0, 0, 0)),
        ("Saturday, 01-Jan-00 00:00:00 GMT", timegm((1999, 12, 31, 0, 0, 0)), None),
        ("Thursday, 01-Jan-70 00:00:00 GMT", None, (1970, 1, 1, 0, 0, 0)),
        ("Tuesday, 01-Jan-69 00:00:00 GMT", None, (2069, 1, 1, 0, 0, 0)),
        ("Sat, 31 Dec 2016 23:59:60 GMT", NOW, (2017, 1, 1, 0, 0, 0)),
        ("Sat, 31 Dec 2016 22:59:60 GMT", NOW, None),
        # The form of cookies, other zones, other letters and what is beyond the calendar are none of the three forms.
        ("Sun, 06-Nov-1994 08:49:37 GMT", NOW, None),
        ("Sun, 06 Nov 1994 08:49:37 +0000", NOW, None),
        ("sun, 06 nov 1994 08:49:37 gmt", NOW, None),
        ("Sun, 06 Nov 1994 08:49:37 GMT\n", NOW, None),
        ("Sat, 00 Jan 2000 00:00:00 GMT", NOW, None),
        ("Sat, 01 Jan 0000 00:00:00 GMT", NOW, None),
        ("Sun, ٠٦ Nov 1994 08:49:37 GMT", NOW, None),
        ("", NOW, None),
    ],
)
def test_forms(value: str, now: float | None, expected: tuple[int, ...] | None) -> None:
    assert http_date(value, now) == (None if expected is None else timegm((*expected, 0, 0, 0)))
