"""What is reserved stays out of exports, by purpose; and the page for the people of a site."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from click.testing import Result

from formats import wir

Run = Callable[..., Result]
Put = Callable[..., wir.Record]

FREE, TDM, NOAI = (f"http://a.org/{name}" for name in ("free", "tdm", "noai"))


@pytest.fixture
def three(put: Put) -> None:
    put(FREE, title="Free")
    put(TDM, title="Reserved", right=wir.join(("tdm-reservation", "1", "header")))
    put(NOAI, title="Also", right=wir.join(("noai", "noai", "meta")))


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("purpose", "more", "urls", "said"),
    [
        ("search", (), {FREE, TDM, NOAI}, ""),
        ("archive", (), {FREE, TDM, NOAI}, ""),
        ("research", (), {FREE, NOAI}, "1 page reserved from the purpose research (1 by tdm-reservation) is left out"),
        ("ai", (), {FREE}, "2 pages reserved from the purpose ai"),
        ("ai", ("--include-reserved", "--because", "we asked"), {FREE, TDM, NOAI}, "are in, because we asked"),
    ],
)
def test_exports_leave_out_what_is_reserved(
    combine: Run, purpose: str, more: tuple[str, ...], urls: set[str], said: str
) -> None:
    result = combine("export", "--set", f"rights.purpose={purpose}", *more)
    assert urls == {json.loads(line)["url"] for line in result.stdout.splitlines()}
    assert said in result.stderr
    assert 0 == result.exit_code


@pytest.mark.parametrize(
    ("given", "missing"), [(["--include-reserved"], "--because"), (["--because", "we asked"], "--include-reserved")]
)
def test_reserved_pages_and_a_reason_go_together(combine: Run, given: list[str], missing: str) -> None:
    result = combine("export", *given)
    assert 2 == result.exit_code
    assert missing in result.stderr


def test_an_unknown_purpose_is_refused(combine: Run) -> None:
    result = combine("export", "--set", "rights.purpose=profit")
    assert 78 == result.exit_code
    assert 'rights.purpose is "search", "archive", "research" or "ai"' in result.stderr


def test_the_page_for_the_people_of_a_site(combine: Run) -> None:
    said = ("agent.name=robo", "agent.email=us@example.org", "rights.purpose=research")
    result = combine("agent-page", *(word for value in said for word in ("--set", value)))
    assert 0 == result.exit_code, result.stderr
    for text in ("User-agent: robo", "Disallow: /", "us@example.org", "research", "requests a day", "Crawl-delay"):
        assert text in result.stdout
    HTMLParser().feed(result.stdout)


def test_the_page_needs_somebody_to_write_to(combine: Run) -> None:
    result = combine("agent-page")
    assert 78 == result.exit_code
    assert "agent.email" in result.stderr
