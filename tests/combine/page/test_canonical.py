"""rel=canonical where it is honoured: the page has no record, and leads to the other one."""

from __future__ import annotations

import pytest

from combine.config import Page
from combine.page.fate import REMOVE
from combine.page.lesson import WRITE, learn
from formats import jcf
from formats.hrf import Harvest
from formats.wir import Record, record

URL = "https://example.org/a"
OLD = record([("id", "x"), ("url", URL), ("checked", "2026-01-01T00:00:00Z")])


def page(canonical: str, header: str = "") -> Harvest:
    body = (
        f"<title>A</title><link rel=canonical href='{canonical}'><a href=/b>b</a>" if canonical else "<a href=/b>b</a>"
    )
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{header}\r\n".encode()
    job = jcf.job(URL=URL, FETCH=3, SEED=URL)
    return Harvest(job, "ok", "2026-05-01T00:00:00.000Z", header=head, body=body.encode())


@pytest.mark.parametrize(
    ("canonical", "header", "expected"),
    [
        ("/b", "", "https://example.org/b"),
        ("https://EXAMPLE.org:443/a#x", "", ""),
        ("", "", ""),
        ("mailto:x", "", ""),
        ("", 'Link: </c>; rel="canonical"\r\n', "https://example.org/c"),
    ],
)
def test_which_url_is_meant(canonical: str, header: str, expected: str) -> None:
    assert expected == learn(page(canonical, header), ("", 0, 0), lambda _: None, Page()).canonical


@pytest.mark.parametrize(("previous", "action"), [(None, "keep"), (OLD, REMOVE)])
def test_a_page_that_yields(previous: Record | None, action: str) -> None:
    lesson = learn(page("/c"), ("", 0, 0), lambda _: previous, Page()).yielding()
    settled = lesson.settle(None, 1e9, "1")
    assert (action, None) == (settled.action, settled.record)
    assert {("a", "https://example.org/b")} == {(link.kind, link.url) for link in settled.links}
    stored = settled.stored()
    assert ("redirect", "canonical", "https://example.org/c", "") == tuple(
        stored.get(name) for name in ("OUTCOME", "REASON", "TO", "RECORD")
    )


def test_else_it_has_a_record_that_says_so() -> None:
    settled = learn(page("/c"), ("", 0, 0), lambda _: None, Page()).settle(None, 1e9, "1")
    assert WRITE == settled.action
    assert settled.record is not None
    assert "https://example.org/c" == settled.record.get("canonical")
