import json
from typing import Any

import pytest

from combine.http_dates import http_date
from combine.web import retry_after
from tests.conformance import CONFORMANCE, needs_conformance

NOW = 1_764_500_000.0


def vectors(name: str) -> list[dict[str, Any]]:
    path = CONFORMANCE / "http" / name
    return json.loads(path.read_text()) if path.exists() else []


@needs_conformance
@pytest.mark.parametrize("case", vectors("retry_after.json"), ids=lambda case: repr(case["value"]))
def test_retry_after_vectors(case: dict[str, Any]) -> None:
    value = case["value"] or ""
    if "http_date_epoch" in case:
        moment = case["http_date_epoch"]
        assert moment == http_date(value, NOW)
        assert 0.0 == retry_after.seconds(value, NOW), "in the past: no wait"
        assert 7.0 == retry_after.seconds(value, moment - 7)
        return
    now = http_date(case.get("date_header", ""), NOW) or NOW
    assert case["seconds"] == retry_after.seconds(value, now)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("86401", 86_400.0),
        ("9" * 400, 86_400.0),
        ("Fri, 31 Dec 2100 23:59:59 GMT", 86_400.0),
        (" 30\t", 30.0),
        ("٣", None),
        ("+3", None),
        ("3, 4", None),
        ("1e3", None),
    ],
)
def test_capped_and_strict(value: str, seconds: float | None) -> None:
    assert seconds == retry_after.seconds(value, NOW)
