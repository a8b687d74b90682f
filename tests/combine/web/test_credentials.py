"""What site rules send to their hosts, to nobody else, and what is kept of it: nothing."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from combine.config import Settings
from combine.site_rules import SiteRule
from combine.web.addresses import Allowed
from combine.web.credentials import CookieFault, Credentials
from combine.web.fetch import Fetched, Fetcher
from formats import hrf
from formats.jcf import job
from tests.site.server import Server

JAR = (
    "# Netscape HTTP Cookie File\n"
    "127.0.0.1\tFALSE\t/\tFALSE\t0\tsession\tsecretword\n"
    "127.0.0.1\tFALSE\t/other\tFALSE\t0\tpath\tyes\n"
    "127.0.0.1\tFALSE\t/\tTRUE\t0\tsecure\tyes\n"
    "#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t1700000000\texpired\tno\n"
    "\n"
    "example.net\tFALSE\t/\tFALSE\t0\telsewhere\tno\n"
)


def settings(**rule: Any) -> Settings:
    return Settings(site=(SiteRule("127.0.0.1", **rule),))


@pytest.mark.parametrize(
    ("rule", "url", "expected"),
    [
        ({"auth": "me:secretword"}, "http://127.0.0.1/", {"Authorization": "Basic bWU6c2VjcmV0d29yZA=="}),
        ({"auth": "me:secretword"}, "http://127.0.0.2/", {}),
        ({"cookies": "jar"}, "http://127.0.0.1/", {"Cookie": "session=secretword"}),
        ({"cookies": "jar"}, "https://127.0.0.1/other", {"Cookie": "path=yes; session=secretword; secure=yes"}),
        ({"cookies": "jar"}, "http://example.net/", {}),
        ({}, "http://127.0.0.1/", {}),
    ],
)
def test_what_is_sent_where(tmp_path: Path, rule: dict[str, str], url: str, expected: dict[str, str]) -> None:
    (tmp_path / "jar").write_text(JAR)
    assert expected == Credentials(settings(**rule), tmp_path).headers(url)


@pytest.mark.parametrize("content", [None, "secretword", JAR + "secretword\n", "a\t" * 6 + "secretword"])
def test_a_bad_file_of_cookies_is_said_without_what_is_in_it(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "jar").write_text(content)
    with pytest.raises(CookieFault) as caught:
        Credentials(settings(cookies="jar"), tmp_path).headers("http://127.0.0.1/")
    assert "secretword" not in str(caught.value)
    assert "jar" in str(caught.value)


def fetch(home: Path, **rule: Any) -> tuple[Fetched, list[dict[str, Any]]]:
    async def run() -> tuple[Fetched, list[dict[str, Any]]]:
        allowed = Allowed(["127.0.0.0/8"])
        async with Server() as site, Fetcher(settings(**rule), allowed, home, home=home) as fetcher:
            got = await fetcher.fetch(job(URL=site.url("/_/status/200"), FETCH=1), site.bind, robots="obeyed")
            return got, site.requests

    return asyncio.run(run())


def test_secrets_are_sent_and_not_kept(tmp_path: Path) -> None:
    (tmp_path / "jar").write_text(JAR)
    got, requests = fetch(tmp_path, auth="me:secretword", cookies="jar")
    assert ["Basic bWU6c2VjcmV0d29yZA==", "session=secretword"] == [
        requests[0]["fields"].get(name) for name in ("authorization", "cookie")
    ]
    assert got.harvest is not None
    kept = hrf.dump(got.harvest)
    assert b"User-Agent" in kept
    for secret in (b"secretword", base64.b64encode(b"me:secretword"), b"Authorization", b"Cookie"):
        assert secret not in kept


def test_a_site_is_asked_from_the_address_that_its_rule_names(tmp_path: Path) -> None:
    _, requests = fetch(tmp_path, source="127.0.0.77")
    assert "127.0.0.77" in requests[0]["peer"]


def test_without_its_cookies_a_site_is_not_asked(tmp_path: Path) -> None:
    got, requests = fetch(tmp_path, cookies="jar")
    assert ("failed", "cookies", []) == (got.outcome, got.reason, requests)
