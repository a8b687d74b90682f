"""Which types are read, which answers are waited for, and what is recorded of the others."""

from __future__ import annotations

import pytest

from combine.config import Page
from combine.page.lesson import learn, links_of, targets
from combine.page.mime import is_read, is_wanted
from formats import jcf
from formats.hrf import Harvest
from formats.wir import Link, record


@pytest.mark.parametrize(
    ("essence", "expected"),
    [
        ("text/html", True),
        ("application/xhtml+xml", True),
        ("application/rss+xml", True),
        ("application/xml", True),
        ("text/plain", True),
        ("text/markdown", True),
        ("text/css", False),
        ("text/javascript", False),
        ("image/svg+xml", False),
        ("image/png", False),
        ("application/pdf", False),
        ("application/octet-stream", False),
    ],
)
def test_what_is_read(essence: str, expected: bool) -> None:
    assert expected == is_read(essence)


@pytest.mark.parametrize(
    ("content_types", "more", "expected"),
    [
        ([], (), True),
        (["nonsense"], (), True),
        (["*/*"], (), True),
        (["unknown/unknown"], (), True),
        (["TEXT/HTML; charset=x"], (), True),
        (["image/png"], (), False),
        (["image/png"], ("image/*",), True),
        (["image/png"], ("image/gif", "Image/PNG"), True),
        (["application/pdf"], ("image/*",), False),
        (["image/png", "text/html"], (), True),
    ],
)
def test_what_is_waited_for(content_types: list[str], more: tuple[str, ...], expected: bool) -> None:
    assert expected == is_wanted(content_types, more)


@pytest.mark.parametrize(
    ("fields", "size"), [("Content-Length: 123\r\n", "123"), ("", ""), ("Content-Length: many\r\n", "")]
)
def test_an_answer_that_nobody_read_is_recorded_by_its_facts(fields: str, size: str) -> None:
    header = f"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n{fields}\r\n".encode()
    job = jcf.job(URL="https://example.org/a.png", FETCH=1)
    harvest = Harvest(job, "ok", "2026-05-01T00:00:00.000Z", header=header, extra=(("Unread", "type"),))
    lesson = learn(harvest, ("", 0, 0), lambda _: None, Page()).settle(None, 0.0, "1")
    assert lesson.record is not None
    assert ("image/png", size, "200", "") == tuple(
        lesson.record.get(name) for name in ("type", "size", "status", "body_digest")
    )


LINKS = [
    Link("img", "https://example.org/a.png", "", ""),
    Link("a", "https://example.org/a.png", "", ""),
    Link("a", "https://example.org/b", "", ""),
    Link("script", "https://example.org/c.js", "", ""),
    Link("link", "https://example.org/d.css", "alternate stylesheet", ""),
    Link("link", "https://example.org/e", "next", ""),
    Link("video", "https://example.org/f", "", ""),
]


@pytest.mark.parametrize(
    ("has_requisites", "expected"),
    [
        (False, {"a.png": "", "b": ""}),
        (True, {"a.png": "requisite", "b": "", "c.js": "requisite", "d.css": "requisite"}),
    ],
)
def test_what_a_page_is_made_of_is_offered_where_it_is_wished(has_requisites: bool, expected: dict[str, str]) -> None:
    held = record([("link", "\t".join((link.kind, link.url, link.rel, link.text))) for link in LINKS])
    found = targets(jcf.job(URL="https://example.org/"), links_of(held, has_requisites), 100)
    assert expected == {url.rpartition("/")[2]: way for url, way in found.items()}


def test_what_the_visit_keeps_fits_into_a_line_whatever_the_header_says() -> None:
    long = "h" * 40_000
    header = f'HTTP/1.1 200 OK\r\nContent-Type: text/{long}\r\nETag: "{long}"\r\nLast-Modified: {long}\r\n\r\n'
    job = jcf.job(URL="http://a.example/", FETCH=1)
    harvest = Harvest(job=job, outcome="ok", fetched="2026-11-30T12:00:00.000Z", header=header.encode(), body=b"words")
    lesson = learn(harvest, ("", 0, 0), lambda url: None, Page()).settle(None, 0.0, "test")
    assert len(jcf.dump(lesson.stored())) < 3_000
