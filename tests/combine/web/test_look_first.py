"""Names that promise nothing to read get a HEAD first, and a GET only where that says so or says nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from combine.config import Settings
from combine.site_rules import SiteRule
from combine.urls import extension_of
from combine.web.addresses import Allowed
from combine.web.fetch import Fetched
from combine.web.gate import Permission
from combine.web.lease import Lease, Spacing, Tools, Worker
from formats import jcf
from formats.jcf import Job


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/a.PNG?b=c.gif", "png"),
        ("https://example.org/a.tar.gz", "gz"),
        ("https://example.org", ""),
        ("https://example.org/.htaccess", ""),
        ("https://example.org/a.d/b", ""),
        ("https://example.org/a.", ""),
    ],
)
def test_the_ending_of_a_name(url: str, expected: str) -> None:
    assert expected == extension_of(url)


class Fake:
    """A gate that allows all, a fetcher with the answers of a test, and one who is told."""

    def __init__(self, *answers: Fetched) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.told: list[Fetched] = []

    async def permission(self, *_: object) -> Permission:
        return Permission(allowed=True)

    async def with_policies(self, job: Job, permission: Permission, *_: object) -> Permission:
        return permission

    async def fetch(self, job: Job, address: str, *, robots: str, head_only: bool) -> Fetched:
        self.asked.append("HEAD" if head_only else "GET")
        return self.answers.pop(0)

    async def fetched(self, job: Job, fetched: Fetched, permission: Permission) -> None:
        self.told.append(fetched)

    def unasked(self, *_: object) -> None: ...

    def ended(self, _: object) -> None: ...


OK, UNREAD = Fetched("ok", 200), Fetched("ok", 200, is_unread=True)
IMAGE: dict[str, Any] = {"URL": "http://127.0.0.1/a.gif"}


@pytest.mark.parametrize(
    ("job", "answers", "asked"),
    [
        (IMAGE, [UNREAD], ["HEAD"]),
        (IMAGE, [OK, OK], ["HEAD", "GET"]),
        (IMAGE, [Fetched("redirect", 301)], ["HEAD"]),
        (IMAGE, [Fetched("not-modified", 304)], ["HEAD"]),
        (IMAGE, [Fetched("gone", 404), OK], ["HEAD", "GET"]),
        (IMAGE, [Fetched("refused", 405), OK], ["HEAD", "GET"]),
        (IMAGE, [Fetched("failed", 501, "status"), OK], ["HEAD", "GET"]),
        (IMAGE, [Fetched("failed", 0, "connect")], ["HEAD"]),
        (IMAGE, [Fetched("failed", 503, "status")], ["HEAD"]),
        ({**IMAGE, "REQUISITES": "1"}, [OK], ["GET"]),
        ({**IMAGE, "KIND": "sitemap"}, [OK], ["GET"]),
        ({"URL": "http://127.0.0.1/a.html"}, [OK], ["GET"]),
    ],
)
def test_head_first(job: dict[str, Any], answers: list[Fetched], asked: list[str]) -> None:
    fake: Any = Fake(*answers)
    settings, allowed = Settings(), Allowed(["127.0.0.0/8"])
    tools = Tools(settings, fake, fake, Spacing(settings, allowed), fake, lambda: False)
    asyncio.run(Worker(Lease(1, "127.0.0.1", 0.0, [jcf.job(FETCH=1, LEASE=1, **job)]), tools).run())
    assert asked == fake.asked
    assert [len(asked)] == [told.requests for told in fake.told]


@pytest.mark.parametrize(
    ("size", "took_ms", "rate", "after_s"),
    [(10_000, 1000, 1000, 9.0), (10_000, 1000, None, None), (10_000, 20_000, 1000, None), (100, 0, 1000, 0.1)],
)
def test_a_long_answer_lets_a_slow_site_rest(size: int, took_ms: int, rate: int | None, after_s: float | None) -> None:
    fake: Any = Fake(Fetched("ok", 200, body_length=size, took_ms=took_ms))
    settings, allowed = Settings(site=(SiteRule("127.0.0.1", bytes_s=rate),)), Allowed(["127.0.0.0/8"])
    tools = Tools(settings, fake, fake, Spacing(settings, allowed), fake, lambda: False)
    job = jcf.job(URL="http://127.0.0.1/", FETCH=1, LEASE=1)
    asyncio.run(Worker(Lease(1, "127.0.0.1", 0.0, [job]), tools).run())
    assert [after_s] == [told.after_s for told in fake.told]
