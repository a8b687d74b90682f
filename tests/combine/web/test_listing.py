"""Sitemap jobs: which are made of a robots.txt, and what a fetched sitemap offers."""

from __future__ import annotations

import pytest

from combine.web.announcements import Announcements
from combine.web.gate import Permission
from combine.web.listing import read
from formats import jcf
from formats.hrf import Harvest

PAGE = jcf.job(URL="https://example.org/a", SEED="https://example.org/", DEPTH=4, SINCE="2026-01-01T00:00:00Z")
MAP = jcf.job(URL="https://example.org/map.xml", KIND="sitemap", SEED="https://example.org/", FETCH=7, DEPTH=1)

URLSET = b"""<urlset><url><loc>https://example.org/a#x</loc><lastmod>2026-02-03</lastmod></url>
<url><loc>/b</loc></url><url><loc>mailto:x</loc></url><url><loc>https://example.org/a</loc></url></urlset>"""
INDEX = b"""<sitemapindex><sitemap><loc>https://example.org/2.xml</loc></sitemap>
<sitemap><loc>https://example.org/map.xml</loc></sitemap></sitemapindex>"""


def harvest(body: bytes, outcome: str = "ok", header: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> Harvest:
    return Harvest(MAP, outcome, "2026-05-01T00:00:00.000Z", header=header, body=body)


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (("https://cdn.example.net/map.xml",), ["https://cdn.example.net/map.xml"]),
        (("/map.xml", "map.xml", "/map.xml#x"), ["https://example.org/map.xml"]),
        (("ftp://example.org/map.xml", "http://", "https://"), []),
    ],
)
def test_robots_txt_names_sitemaps(named: tuple[str, ...], expected: list[str]) -> None:
    lines = Announcements().of(PAGE, Permission(allowed=True, sitemaps=named))
    assert expected == [line.url for line in lines]
    for line in lines:
        assert ("sitemap", 0, PAGE.get("SEED"), PAGE.url, PAGE.get("SINCE")) == (
            line.kind, line.number("DEPTH"), line.get("SEED"), line.get("VIA"), line.get("SINCE"),
        )  # fmt: skip


def test_sitemaps_are_named_once_for_each_seed_and_each_fresh_file() -> None:
    now = 0.0
    announcements = Announcements(lambda: now)
    known = Permission(allowed=True, sitemaps=("/map.xml",))
    other = PAGE.having(SEED="https://example.org/other")
    said = [bool(announcements.of(job, known)) for job in (PAGE, PAGE, other, PAGE, other)]
    assert [True, False, True, False, False] == said
    assert announcements.of(PAGE, Permission(allowed=True, sitemaps=("/map.xml",), requests_made=1))
    now = 86_400.0
    assert announcements.of(PAGE, known)


def test_pages_of_a_sitemap_are_one_hop_from_the_seed() -> None:
    found = read(harvest(URLSET), URLSET, 100)
    assert [
        ("https://example.org/a", "page", "1", "2026-02-03T00:00:00Z"),
        ("https://example.org/b", "page", "1", ""),
    ] == [(line.url, line.kind, line.get("DEPTH"), line.get("CHANGED")) for line in found.offers]
    stored = {name: found.stored.get(name) for name in ("URL", "FETCH", "OUTCOME", "STATUS", "RECORD")}
    assert {"URL": MAP.url, "FETCH": "7", "OUTCOME": "ok", "STATUS": "200", "RECORD": ""} == stored


def test_an_index_leads_one_level_down_and_never_to_itself() -> None:
    found = read(harvest(INDEX), INDEX, 100)
    assert [("https://example.org/2.xml", "sitemap", "2")] == [
        (line.url, line.kind, line.get("DEPTH")) for line in found.offers
    ]


def test_a_limit_is_kept() -> None:
    assert 1 == len(read(harvest(URLSET), URLSET, 1).offers)


@pytest.mark.parametrize(
    ("outcome", "header", "offers", "to"),
    [
        ("redirect", b"HTTP/1.1 301 X\r\nLocation: /new.xml\r\n\r\n", 1, "https://example.org/new.xml"),
        ("redirect", b"HTTP/1.1 301 X\r\nLocation: foo:\r\n\r\n", 0, ""),
        ("gone", b"HTTP/1.1 404 X\r\n\r\n", 0, ""),
        ("denied", b"", 0, ""),
    ],
)
def test_other_outcomes_are_said(outcome: str, header: bytes, offers: int, to: str) -> None:
    found = read(harvest(URLSET, outcome, header), URLSET, 100)
    assert (offers, outcome, to) == (len(found.offers), found.stored.get("OUTCOME"), found.stored.get("TO"))
    assert all((line.kind, line.get("HOPS"), line.get("DEPTH")) == ("sitemap", "1", "1") for line in found.offers)
