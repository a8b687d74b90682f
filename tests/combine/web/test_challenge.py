"""Challenges are told from pages about challenges."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from pathlib import Path

import brotli
import pytest
import zstandard

from combine.config import Settings
from combine.web.addresses import Allowed
from combine.web.challenge import is_challenge
from combine.web.fetch import Fetched, Fetcher
from formats.jcf import job
from tests.site.behaviours import answer
from tests.site.server import Server

MOMENT = b"<html><head><title>Just a moment...</title></head><body><script>window._cf_chl_opt={}</script>"
CAPTCHA = b"<form><div class='g-recaptcha' data-sitekey=x></div></form>"


@pytest.mark.parametrize(
    ("status", "header", "body", "coding", "expected"),
    [
        (403, b"", MOMENT, "", True),
        (503, b"", MOMENT, "", True),
        (503, b"", gzip.compress(MOMENT), "gzip", True),
        (503, b"", gzip.compress(MOMENT)[:-9], "x-gzip", True),
        (403, b"", zlib.compress(CAPTCHA), "deflate", True),
        (403, b"", brotli.compress(MOMENT), "br", True),
        (403, b"", brotli.compress(MOMENT + b"x" * 500_000), " BR ", True),
        (429, b"", zstandard.compress(MOMENT), "zstd", True),
        (429, b"", gzip.compress(brotli.compress(MOMENT)), "br, gzip", True),
        (403, b"", gzip.compress(b" " * 5_000_000 + MOMENT), "gzip", False),
        (403, b"", brotli.compress(b"<title>Forbidden</title>"), "br", False),
        (403, b"", MOMENT, "br", True),  # a coding that the server names and did not use
        (403, b"", b"damaged", "zstd", False),
        (403, b"HTTP/1.1 403 X\r\nCf-Mitigated: challenge\r\n\r\n", b"", "br", True),
        (403, b"", CAPTCHA, "", True),
        (200, b"", MOMENT, "", False),
        (404, b"", CAPTCHA, "", False),
        (503, b"", b"<title>Down for maintenance</title>", "", False),
        (403, b"", b"<title>Forbidden</title><p>What is a captcha?", "", False),
        (403, b"", b"\x1f\x8bdamaged", "gzip", False),
        (403, b"", b"x" * 70_000 + MOMENT, "", False),
    ],
)
def test_what_is_a_challenge(status: int, header: bytes, body: bytes, coding: str, expected: bool) -> None:
    assert expected == is_challenge(status, header, body, coding)


@pytest.mark.parametrize(
    ("status", "body", "kind", "outcome", "reason"),
    [
        (403, MOMENT, "page", "refused", "challenge"),
        (503, MOMENT, "page", "refused", "challenge"),
        (503, MOMENT, "robots", "failed", "status"),
        (503, b"later", "page", "failed", "status"),
        (403, b"no", "page", "refused", "status"),
    ],
)
def test_a_challenge_is_a_refusal(
    tmp_path: Path, status: int, body: bytes, kind: str, outcome: str, reason: str
) -> None:
    async def run() -> Fetched:
        pages = {"/x": answer(status, body, "Content-Type: text/html")}
        async with Server(pages=pages) as site, Fetcher(Settings(), Allowed(["127.0.0.0/8"]), tmp_path) as fetcher:
            asked = job(URL=site.url("/x"), FETCH=1, KIND=kind)
            return await fetcher.fetch(asked, site.bind, robots="obeyed")

    got = asyncio.run(run())
    assert (outcome, reason) == (got.outcome, got.reason)
    marks = () if got.harvest is None else got.harvest.extra
    assert (reason == "challenge") == (("Challenge", "yes") in marks)
