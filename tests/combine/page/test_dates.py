"""Times of pages."""

from __future__ import annotations

import pytest

from combine.page.dates import page_date, utc


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-05-06", "2024-05-06T00:00:00Z"),
        ("2024-05-06T07:08:09Z", "2024-05-06T07:08:09Z"),
        ("2024-05-06T07:08:09.123+02:00", "2024-05-06T05:08:09Z"),
        (" 2024-05-06 07:08 ", "2024-05-06T07:08:00Z"),
        ("2024-05-06T07:08:09-0330", "2024-05-06T10:38:09Z"),
        ("2024-05-06 07:08:09 PDT", "2024-05-06T14:08:09Z"),
        ("2024-05-06 07:08 cest", "2024-05-06T05:08:00Z"),
        ("2024-05-06 07:08 UTC", "2024-05-06T07:08:00Z"),
        ("2024-05-06 07:08 Eastern", "2024-05-06T07:08:00Z"),
        ("20240506", "2024-05-06T00:00:00Z"),
        ("2024-05", "2024-05-01T00:00:00Z"),
        ("Wed, 11 Dec 2024 23:20:57 GMT", "2024-12-11T23:20:57Z"),
        ("Sat, 31 Dec 2016 23:59:60 GMT", "2017-01-01T00:00:00Z"),
        ("0001-01-01", "0001-01-01T00:00:00Z"),
        *((value, None) for value in ("2024", "May 6", "2024-13-01", "2024-02-30", "", "x", "²024-01-01")),
    ],
)
def test_page_dates(value: str, expected: str | None) -> None:
    found = page_date(value)
    assert expected == (None if found is None else utc(found))


def test_times_beyond_the_calendar_are_nothing() -> None:
    assert "" == utc(10**15)
