"""Signals about rights: recorded word for word, and binding by purpose."""

from __future__ import annotations

import pytest

from combine.page.rights import reserved, rights
from formats import jcf
from formats.hrf import Harvest


def test_signals_are_recorded_word_for_word() -> None:
    header = (
        b"HTTP/1.1 200 OK\r\nX-Robots-Tag: noai, noindex\r\ntdm-reservation: 1\r\nContent-Signal: ai-train=no\r\n\r\n"
    )
    said = (("Right", "content-usage\ttrain-ai=n\trobots.txt"), ("Right", "damaged"), ("Other", "a\tb\tc"))
    harvest = Harvest(jcf.job(URL="http://a.example/"), "ok", "2026-05-01T00:00:00.000Z", header=header, extra=said)
    metas = [("robots", "NOML"), ("tdm-policy", "https://a.example/policy")]
    assert (
        ("noai", "noai, noindex", "header"),
        ("tdm-reservation", "1", "header"),
        ("content-signal", "ai-train=no", "header"),
        ("noml", "NOML", "meta"),
        ("tdm-policy", "https://a.example/policy", "meta"),
        ("content-usage", "train-ai=n", "robots.txt"),
    ) == rights(harvest, metas)


TDMREP = "/.well-known/tdmrep.json"


@pytest.mark.parametrize(
    ("signals", "research", "ai"),
    [
        ([], "", ""),
        ([("tdm-reservation", "1", "header")], "tdm-reservation", "tdm-reservation"),
        ([("tdm-reservation", "0", "header"), ("tdm-reservation", "1", "meta")], "", ""),
        ([("tdm-reservation", "0", TDMREP), ("tdm-reservation", "1", "meta")], *["tdm-reservation"] * 2),
        ([("tdm-reservation", "1", TDMREP)], *["tdm-reservation"] * 2),
        ([("noai", "noai", "meta")], "", "noai"),
        ([("noimageai", "noimageai", "header")], "", "noimageai"),
        ([("noml", "noml", "header")], "", "noml"),
        ([("content-signal", "search=yes, ai-train=no", "robots.txt")], "", "content-signal"),
        ([("content-signal", "search=yes,ai-train=yes", "robots.txt")], "", ""),
        ([("content-usage", "tdm=n", "robots.txt")], "content-usage", "content-usage"),
        ([("content-usage", "/art/ train-ai=n", "robots.txt")], "", "content-usage"),
        ([("ai.txt", "disallow", "/ai.txt")], "", "ai.txt"),
        ([("license", "https://a.example/license.xml", "robots.txt")], "", ""),
        ([("tdm-reservation",), ("content-signal", "", "header")], "", ""),
    ],
)
def test_signals_bind_by_purpose(signals: list[tuple[str, ...]], research: str, ai: str) -> None:
    assert (research, ai, "", "") == tuple(
        reserved(signals, purpose) for purpose in ("research", "ai", "search", "archive")
    )
