"""Sitemaps in every form, broken ones, and those that are meant to harm."""

from __future__ import annotations

import gzip
import resource
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine.web import sitemaps
from combine.web.sitemaps import Sitemap, moment, parse

XML = b'<?xml version="1.0" encoding="UTF-8"?>\n'
BASE = "http://a.example/dir/s.xml"
ONE = b"<urlset><url><loc>http://a.example/1</loc></url></urlset>"
URLS = (("http://a.example/1", ""),)


A = "http://a.example"


def urlset(inside: bytes) -> bytes:
    return b"<urlset xmlns:x='x'>" + inside + b"</urlset>"


@pytest.mark.parametrize(
    ("body", "urls"),
    [
        (XML + ONE, ["/1"]),
        (b"\n \n" + XML + ONE, ["/1"]),
        (b"\xef\xbb\xbf" + XML + ONE, ["/1"]),
        (ONE.decode().encode("utf-16"), ["/1"]),
        (('<?xml version="1.0" encoding="UTF-16"?>' + ONE.decode()).encode("utf-16-be"), ["/1"]),
        (gzip.compress(ONE), ["/1"]),
        (gzip.compress(gzip.compress(ONE)), ["/1"]),
        (gzip.compress(ONE[:40]) + gzip.compress(ONE[40:]), ["/1"]),
        (ONE.replace(b"<", b"<u:").replace(b"<u:/", b"</u:"), ["/1"]),
        (ONE.replace(b"urlset>", b"urlset xmlns='made-up'>", 1), ["/1"]),
        (b"<URLSET><URL><LOC>/1</LOC></URL></URLSET>", ["/1"]),
        (urlset(b"<url><loc>\n 1\n2 </loc></url>"), ["/dir/12"]),
        (urlset(b"<url><x:image><x:loc>/i.png</x:loc></x:image><loc>/1</loc></url>"), ["/1"]),
        (urlset(b'<url><loc>/1</loc><x:link rel="alternate" href="/de"/></url>'), ["/1"]),
        (urlset(b"<url><loc>/?a=1&b=2&amp;c=&#51;&d</loc></url>"), ["/?a=1&b=2&c=3&d"]),
        (urlset(b"<url><loc><![CDATA[/?a&b]]></loc></url>"), ["/?a&b"]),
        (urlset(b"<url><loc>/?a&&&b=1</loc></url><url><loc>/?a&copy=2</loc></url>"), ["/?a&&&b=1", "/?a&copy=2"]),
        # What an entity stands for is not told, so that what is left is no address of the site's.
        (urlset(b"<url><loc>/&b;</loc></url><url><loc>/?a&copy;=1</loc></url><url><loc>/1</loc></url>"), ["/1"]),
        (urlset(b"<url><loc>/&#0;</loc></url><url><loc>/&#xD800;</loc></url><url><loc>/&#1_0;</loc></url>"), []),
        (urlset(b"<url><loc>/&#x31;</loc><lastmod>2020&b;</lastmod></url>"), ["/1"]),
        (b"<rss><item><link>/&b;</link><guid>http://a.example/1</guid></item>", ["/1"]),
        (
            b'<feed><entry><link href="/&b;"/></entry><entry><link href="/?&amp;&#38;=&#x31;"/></entry></feed>',
            ["/?&&=1"],
        ),
        (b"<?xml version='1.0' encoding='latin1'?>" + urlset(b"<url><loc>/\xe9&b;</loc></url>"), []),
        (urlset(b"<url><loc/></url><url/><url><loc>mailto:x</loc></url>"), []),
        (b"<urlset><url><loc>/1</loc><url><loc>/2</loc></url>", ["/1", "/2"]),
        (b"<urlset><url><loc>/1</loc></url><url><loc>/unended", ["/1"]),
        (urlset(b"<url><loc>" + b"x" * 5000 + b"</loc></url><url><loc>/1</loc></url>"), ["/1"]),
        (urlset(b"<url><loc>/\xc3\xa9\xe9</loc></url>"), ["/%C3%A9%EF%BF%BD"]),
        (b"<?xml version='1.0' encoding='latin1'?>" + urlset(b"<url><loc>/\xe9</loc></url>"), ["/%C3%A9"]),
        (b"<?xml version='1.0' encoding='made-up'?>" + ONE, ["/1"]),
        (
            b"<rss><channel><link>/</link><image><url>/logo.png</url></image><item><link>/1</link>"
            b"<guid>/g</guid></item><item><guid>http://a.example/2</guid></item><item><guid>some id</guid></item>",
            ["/1", "/2"],
        ),
        (b'<rdf:RDF xmlns:rdf="r"><item><link>/1</link></item></rdf:RDF>', ["/1"]),
        (
            b'<feed xmlns="http://www.w3.org/2005/Atom"><link href="/"/><entry><link rel="self" href="/self"/>'
            b'<link href="/1"/><link rel="alternate" href="/de"/></entry>'
            b'<entry><link rel="enclosure" href="/2"/></entry></feed>',
            ["/1", "/2"],
        ),
        (
            b'<feed xml:base="/b/"><entry xml:base="c/"><link href="1"/></entry><entry><link href="2"/></entry>'
            b'<entry xml:base="http://[bad"><link href="3"/><link href="/no"/></entry></feed>',
            ["/b/c/1", "/b/2", "/b/3"],
        ),
        (b"\xef\xbb\xbfhttp://a.example/1\r\n\r\n# not\r\n/rel\rhttp://a.example/2 \n", ["/1", "/2"]),
        ("http://a.example/1\n".encode("utf-16"), ["/1"]),
        (b"<!doctype html><title>Not found</title><a href=x>y</a>", []),
        (b"", []),
        (b"\x1f\x8b", []),
        (b"\x89PNG\r\n\x1a\n\0\0", []),
    ],
)
def test_forms(body: bytes, urls: list[str]) -> None:
    found = parse(body, BASE)
    assert [A + url for url in urls] == [url for url, _ in found.urls]
    assert ((), "") == (found.sitemaps, found.truncated)


def test_an_index() -> None:
    body = b"<sitemapindex><sitemap><loc> /s1 </loc><lastmod>2024</lastmod></sitemap><sitemap><loc>/s2</loc></sitemap>"
    assert Sitemap((), (A + "/s1", A + "/s2")) == parse(body, BASE)
    both = urlset(b"<sitemap><loc>/s1</loc></sitemap><url><loc>/1</loc></url>")
    assert Sitemap(URLS, (A + "/s1",)) == parse(both, BASE)


@pytest.mark.parametrize(
    ("body", "time"),
    [
        (b"<url><loc>http://a.example/</loc><lastmod> 2024-05-06 </lastmod></url>", "2024-05-06"),
        (b"<item><link>http://a.example/</link><pubDate>10 Jun 2003</pubDate></item>", "10 Jun 2003"),
        (b"<item><link>http://a.example/</link><dc:date>2001-01-01</dc:date></item>", "2001-01-01"),
        (b"<entry><published>2001</published><link href='http://a.example/'/><updated>2002</updated></entry>", "2002"),
    ],
)  # fmt: skip
def test_times(body: bytes, time: str) -> None:
    assert (("http://a.example/", time),) == parse(b"<r xmlns:dc='d'>" + body + b"</r>").urls


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2024-01-02", 1_704_153_600),
        ("2024-01", 1_704_067_200),
        ("2024", 1_704_067_200),
        ("2024-01-02T03:04:05Z", 1_704_164_645),
        ("2024-01-02T03:04:05.123456789+01:00", 1_704_161_045),
        ("2024-01-02T03:04", 1_704_164_640),
        ("Tue, 10 Jun 2003 04:00:00 GMT", 1_055_217_600),
        ("Tue, 10 Jun 2003 04:00:00 +0200", 1_055_210_400),
        ("Tue, 10 Jun 2003 04:00:00 CEST", 1_055_210_400),
        ("Tue, 10 Jun 2003 04:00 pdt", 1_055_242_800),
        ("Tue, 10 Jun 2003 04:00:00 XYZ", 1_055_217_600),
        ("2024-01-02 03:04:05 CET", 1_704_161_045),
        ("2024-01-02T03:04:05 EST", 1_704_182_645),
        ("2024-01-02 03:04:05 +0100", 1_704_161_045),
        *((bad, None) for bad in ("", "x", "yesterday", "2024-13-01", "9999999", "0001-01-01T00:00+23:59")),
    ],
)
def test_moment(time: str, expected: int | None) -> None:
    assert expected == moment(time)


def test_limits() -> None:
    assert Sitemap(URLS, (), "length") == parse(ONE.replace(b"</urlset>", ONE + b"</urlset>"), limit_urls=1)
    assert Sitemap(URLS) == parse(ONE, limit_urls=1)
    assert Sitemap(URLS, (), "length") == parse(ONE + b" " * 100, limit_bytes=len(ONE))
    assert Sitemap(URLS, (), "length") == parse(gzip.compress(ONE + b" " * 100), limit_bytes=len(ONE))
    text = b"http://a.example/1\n" * 3
    assert ("length", 2) == (parse(text, limit_urls=2).truncated, len(parse(text, limit_urls=2).urls))


def test_a_damaged_gzip_keeps_what_is_readable() -> None:
    lines = b"".join(b"http://a.example/%d\n" % (number * number) for number in range(5000))
    packed = gzip.compress(lines)
    assert 1000 < len(parse(packed[:-5000]).urls) < 5000
    assert 5000 == len(parse(packed[:-8]).urls)
    damaged = bytearray(packed)
    damaged[-8] ^= 255
    assert len(parse(bytes(damaged)).urls) > 4000


LAUGHS = (
    b'<!DOCTYPE f%s[<!ENTITY a0 "' + b"x" * 1000 + b'">'
    + b"".join(b'<!ENTITY a%d "%s">' % (n + 1, b"&a%d;" % n * 10) for n in range(8))
    + b']><feed><entry><link href="http://a.example/&a8;"/></entry><item><link>http://a.example/&a8;</link></item></feed>'
)  # fmt: skip
SECRET = b'<!DOCTYPE f [<!ENTITY s SYSTEM "%s">]><urlset><url><loc>http://a.example/&s;</loc></url></urlset>'


@pytest.mark.parametrize(
    "outside", [b" ", b' SYSTEM ">" ', b' SYSTEM "http://127.0.0.1:9/x.dtd" ', b" PUBLIC '[' ']>' "]
)
def test_entities_mean_nothing(outside: bytes) -> None:
    for body in (LAUGHS % outside, LAUGHS.replace(b"%s", outside).decode().encode("utf-16")):
        found = parse(body)
        assert all(len(url) < 100 for url, _ in found.urls)
    for place in (b"file:///etc/passwd", b"http://127.0.0.1:9/"):
        assert () == parse(SECRET % place).urls


HOSTILE: dict[str, Callable[[], bytes]] = {
    "deep": lambda: b"<a>" * 1_000_000,
    "deep urls": lambda: b"<urlset>" + b"<url>" * 1_000_000,
    "wide": lambda: b"<urlset><url>" + b"<a/>" * 3_000_000,
    "a long location": lambda: b"<urlset><url><loc>" + b"x" * 20_000_000,
    "many attributes": lambda: b"<a " + b"".join(b'b%d="" ' % number for number in range(300_000)) + b"/>",
    "angles": lambda: b"<" * 20_000_000,
    "ampersands": lambda: b"<" + b"&" * 20_000_000,
    "a bomb": lambda: gzip.compress(bytes(200_000_000), 1),
    "a bomb of lines": lambda: gzip.compress(b"http://a.example/\n" * 5_000_000, 1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_ones_cost_little(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The limits themselves are tried on a tenth, to keep the test short.
    monkeypatch.setattr(sitemaps, "_ELEMENTS", 100_000)
    body = HOSTILE[name]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    parse(body)
    assert 4.0 > time.process_time() - started
    assert 500_000 > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, "KiB"


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"<urlset><url><loc>", XML + b"<rss>", b"\x1f\x8b\x08\0", b"\xff\xfe<\0"]),
)
def test_anything_is_read(body: bytes, start: bytes) -> None:
    assert all(url.lower().startswith("http") for url, _ in parse(start + body, BASE).urls)


@given(st.text(max_size=40))
def test_any_time_is_read_or_not(time: str) -> None:
    assert moment(time) is None or isinstance(moment(time), int)
