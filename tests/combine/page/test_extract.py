"""From a harvest to a page: what each part says, and that nothing fails for the bytes' sake."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine.config import Page as Limits
from combine.page import language
from combine.page.directives import Robots, robots
from combine.page.extract import Page, digest, extract
from combine.page.html import measured
from formats.hrf import Harvest
from formats.jcf import job
from formats.wir import Link

URL = "http://example.org/dir/page.html?q"
ENGLISH = "The harvester asks for one page after another, and it never asks a site too soon or twice at once. "
HTML = "Content-Type: text/html"


def harvest(body: bytes | str, *fields: str, status: int = 200, outcome: str = "ok") -> Harvest:
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status} X", *fields, ""))
    return Harvest(
        job=job(URL=URL, FETCH=7, DEPTH=2, SEED="http://example.org/", VIA="http://example.org/v", ETAG='"x"'),
        outcome=outcome,
        fetched="2026-11-30T08:00:00.123Z",
        digest="sha1:AAAA",
        header=head.encode("latin-1"),
        body=body.encode() if isinstance(body, str) else body,
    )


def page_of(body: bytes | str, *fields: str, agent: str = "") -> Page:
    return extract(harvest(body, *(fields or (HTML,))), URL, Limits(), agent)


def links_of(body: str, *fields: str) -> list[tuple[str, str]]:
    return [(link.kind, link.url) for link in page_of(body, *fields).links]


@pytest.mark.parametrize(
    ("html", "links"),
    [
        ("<a href=a>1</a><a href=/b>2</a>", [("a", "http://example.org/dir/a"), ("a", "http://example.org/b")]),
        ("<a href=a#x>1</a><a href=a>2</a><img src=a>", [(k, "http://example.org/dir/a") for k in ("a", "img")]),
        ("<a href=//Other.example:80>1</a>", [("a", "http://other.example/")]),
        ("<a href=#x>1</a><a href='mailto:x@y'>2</a><a href=' javascript:x'>3</a><a href=data:,x>4</a>", []),
        ("<a href='http://[/'>1</a><a href='http://a b/'>2</a>", []),
        ("<a href>1</a>", [("a", URL)]),
        ("<base href=/b/><a href=a>1</a>", [("a", "http://example.org/b/a")]),
        ("<base href=http://b.example/x/><a href=a>1</a>", [("a", "http://b.example/x/a")]),
        ("<base href='http://['><a href=a>1</a>", [("a", "http://example.org/dir/a")]),
        ("<base href='data:,x'><a href=a>1</a>", [("a", "http://example.org/dir/a")]),
        ("<base href=' javascript:x'><a href=a>1</a>", [("a", "http://example.org/dir/a")]),
        ("<base href='ftp://b.example/'><a href=a>1</a><a href=#x>2</a><a href=//c.example/>3</a>", []),
        ("<base href='mailto:x'><a href=a>1</a><a href=http://c.example/>2</a>", [("a", "http://c.example/")]),
        # A place in a page is one in the page of the base.
        ("<base href=/b/#x><a href=#x>1</a><a href=#y>2</a><a href=../b/>3</a>", [("a", "http://example.org/b/")]),
        ("<a href=#x>1</a><a href=#y>2</a><base href=http://b.example/>", [("a", "http://b.example/")]),
        ("<base href=''><a href=#x>1</a><area href=#x>", []),
        ("<base href=#z><a href=#x>1</a>", []),
        ("<base href=?b><a href=#x>1</a>", [("a", "http://example.org/dir/page.html?b")]),
        ("<base href=/b/><area href=#x><a>1</a><a href>2</a>", [(k, "http://example.org/b/") for k in ("area", "a")]),
        ("<meta http-equiv=refresh content='3; url=/r'>", [("refresh", "http://example.org/r")]),
        ("<meta http-equiv=refresh content='3'>", []),
    ],
)
def test_links(html: str, links: list[tuple[str, str]]) -> None:
    assert links == links_of(html)


@pytest.mark.parametrize("url", [f"{URL}#here", URL.replace("http://example", "HTTP://Example")])
def test_a_place_in_the_page_itself_is_no_link_however_its_url_is_written(url: str) -> None:
    for base in ("", "<base href=''>", "<base href=#x>"):
        assert () == extract(harvest(f"{base}<a href=#y>", HTML), url, Limits()).links


def test_links_of_header_fields_are_not_moved_by_a_base_element() -> None:
    assert [
        ("link", "http://example.org/dir/n"),
        ("a", "http://b.example/a"),
    ] == links_of("<base href=http://b.example/><a href=a>", HTML, 'Link: <n>; rel="next"')
    assert [("refresh", "http://example.org/x")] == links_of("", HTML, "Refresh: 0; url=/x")


def test_a_redirect_is_a_link() -> None:
    moved = harvest("", "Location: ../new", status=301, outcome="redirect")
    assert (Link("redirect", "http://example.org/new", "", ""),) == extract(moved, URL, Limits()).links


def test_links_are_bounded() -> None:
    many = "".join(f"<a href={n}>" for n in range(100))
    assert 7 == len(extract(harvest(many, HTML), URL, Limits(links=7)).links)


def test_rel_is_kept() -> None:
    (link,) = page_of("<a href=a rel='UGC  nofollow'>t</a>").links
    assert Link("a", "http://example.org/dir/a", "ugc nofollow", "t") == link


@pytest.mark.parametrize(
    ("body", "fields", "canonical"),
    [
        ("<link rel=canonical href=/c#x>", (HTML,), "http://example.org/c"),
        ("<link rel='canonical' href=/c>", (HTML, "Link: </h>; rel=canonical"), "http://example.org/c"),
        ("", (HTML, "Link: </h>; rel=canonical"), "http://example.org/h"),
        ("<a rel=canonical href=/c>", (HTML,), ""),
    ],
)
def test_canonical(body: str, fields: tuple[str, ...], canonical: str) -> None:
    assert canonical == page_of(body, *fields).canonical


@pytest.mark.parametrize(
    ("content_type", "body", "parsable", "text"),
    [
        ("text/html", "<p>a", True, "a"),
        ("application/xhtml+xml", "<p>a</p>", True, "a"),
        ("text/plain", "a\r\nb http://example.org/x.", True, "a\nb http://example.org/x."),
        ("text/x-python", "import this\n", True, "import this"),
        ("text/csv", "a,b", True, "a,b"),
        ("application/rss+xml", "<rss><title>T</title><link>http://a.example/</link></rss>", True, "T"),
        ("text/xml", "<a>x<b>y</b>z", True, "x\ny\nz"),
        ("text/xml", "no xml", True, ""),
        ("text/css", "a{}", False, ""),
        ("text/javascript", "x()", False, ""),
        ("application/json", "{}", False, ""),
        ("image/png", "x", False, ""),
        ("application/pdf", "%PDF-", False, ""),
        ("text/html", b"a\x00\xff", False, ""),
        ("", "plain words", True, "plain words"),
    ],
)
def test_types(content_type: str, body: bytes | str, parsable: bool, text: str) -> None:
    page = page_of(body, f"Content-Type: {content_type}")
    assert (parsable, text) == (page.parsable, page.text)


def test_urls_in_plain_text_are_links_of_their_own_kind() -> None:
    assert [("text", "http://a.example/")] == links_of("x http://a.example", "Content-Type: text/plain")


def test_feed_links_are_followed_and_entities_are_not() -> None:
    feed = (
        '<!DOCTYPE feed [<!ENTITY x SYSTEM "file:///etc/passwd"><!ENTITY y "yy"><!ENTITY z "&y;&y;&y;">]>'
        "<feed xmlns='http://www.w3.org/2005/Atom'><title>T</title><entry><link href='e' title='E'/>"
        "<summary>s&x;</summary></entry></feed>"
    )
    page = page_of(feed, "Content-Type: application/atom+xml")
    assert "T" == page.title
    assert (Link("a", "http://example.org/dir/e", "", "E"),) == page.links
    assert "root:" not in page.text


def test_a_coded_body_is_decoded_within_the_limits() -> None:
    page = page_of(gzip.compress(b"<title>T</title>"), HTML, "Content-Encoding: gzip")
    assert "T" == page.title
    bomb = gzip.compress(b"x" * 10_000_000)
    cut = extract(harvest(bomb, HTML, "Content-Encoding: gzip"), URL, Limits(decoded_bytes=5000))
    assert ("length", 5000) == (cut.truncated, len(cut.text))


def test_bytes_that_are_not_in_the_declared_encoding_are_replaced() -> None:
    page = page_of(b"<title>caf\xe9</title>", "Content-Type: text/html; charset=utf-8")
    assert ("caf\ufffd", "UTF-8", True) == (page.title, page.charset, page.parsable)


@pytest.mark.parametrize(
    ("html", "fields", "declared"),
    [
        ("<html lang=de_at>", (), "de-AT"),
        ("<meta http-equiv=content-language content='fr, en'>", (), "fr"),
        ("", ("Content-Language: sl, en",), "sl"),
        ("<meta name=dc.language content=zh-hant>", (), "zh-Hant"),
        ("<html lang='English language'>", (), ""),
    ],
)
def test_declared_language(html: str, fields: tuple[str, ...], declared: str) -> None:
    assert declared == page_of(html, HTML, *fields).language_declared


SWEDISH = (
    "Sju hus, en buss och 412 000 saker att låna. Alla får komma in, sätta sig och läsa. Lånekort behövs bara när du "
    "vill ta med något hem, och kortet kostar ingenting. Personalen talar svenska, engelska, arabiska och tyska. "
)
MENU = (
    "Home. Opening hours. Branches. Events and exhibitions. Collections. Services for readers. News of the library. "
    "About us and our history. Contact the county library on the market square by telephone. "
)


@pytest.mark.parametrize(
    ("kind", "body", "charset"),
    [
        ("application/xhtml+xml", b"<title>a</title>", "UTF-8"),  # XML 1.0, 4.3.3
        ("application/xhtml+xml", b'<meta charset="iso-8859-2"><title>a</title>', "ISO-8859-2"),
        ("application/rss+xml", b"<rss><channel><title>a</title></channel></rss>", "UTF-8"),
        ("text/html", b"<title>a</title>", "windows-1252"),
    ],
)
def test_the_charset_of_what_declares_none_and_is_ascii(kind: str, body: bytes, charset: str) -> None:
    assert charset == page_of(body, f"Content-Type: {kind}").charset


@pytest.mark.parametrize(
    ("text", "declared", "expected"),
    [
        ("12", "fr", "fr"),
        ("", "", ""),
        (SWEDISH, "en", "sv"),
        (SWEDISH, "", "sv"),
        (SWEDISH[:150], "en", "en"),  # so little does not speak against the page
        (SWEDISH[:150], "", "sv"),
        (MENU + SWEDISH, "sv-SE", "sv-SE"),
        (SWEDISH, "sv-SE", "sv-SE"),  # as much of it as is said, however long the text
        (SWEDISH * 4, "sv-SE", "sv-SE"),
        (SWEDISH + MENU, "en", "en"),
        (SWEDISH * 2 + MENU[:60], "en", "sv"),
        (MENU + SWEDISH, "de", "en"),
        (MENU + SWEDISH * 4, "sv", "sv"),  # so long that one look at a part of it does
        (MENU + SWEDISH * 4, "fi", "sv"),
        ("\x00\x01\x02" * 100, "", ""),
        ("\x00\x01\x02" * 100, "de", "de"),
    ],
)
def test_language_is_the_declared_one_unless_the_text_is_plainly_in_another(
    text: str, declared: str, expected: str
) -> None:
    assert expected == language.judged(text, declared)


def test_what_stands_in_angle_brackets_is_text() -> None:
    german = "Das ist ein deutscher Satz, der hier steht, und er handelt von Wasser und Land"
    assert "de" == language.judged(
        f"It is short, and it is about the sea. <{german}, und von Bergen> {german[:40]}", ""
    )


def test_a_page_of_the_demonstration_is_in_the_language_it_declares() -> None:
    page = Path(__file__).parents[3] / "bench" / "demo_site" / "sv" / "index.html"
    assert "sv" == page_of(page.read_text()).language


def test_times() -> None:
    page = page_of(
        "<meta property=article:published_time content=2024-05-06T07:08:09Z>",
        HTML,
        "Last-Modified: Wed, 11 Dec 2024 23:20:57 GMT",
        "Expires: 0",
    )
    assert (1714979289, 1733959257, None) == (page.published, page.modified, page.expires)


NOTHING = Robots()


@pytest.mark.parametrize(
    ("metas", "tags", "flags"),
    [
        ([], [], (False, False, False)),
        (["NoIndex"], [], (True, False, False)),
        (["index, nofollow"], [], (False, True, False)),
        (["none"], [], (True, True, False)),
        (["noarchive"], [], (False, False, True)),
        (["all"], ["noindex, nofollow"], (True, True, False)),
        ([], ["noindex", "nofollow"], (True, True, False)),
        ([], ["otherbot: noindex"], (False, False, False)),
        ([], ["otherbot: noindex, combine: nofollow"], (False, True, False)),
        ([], ["Combine: noindex"], (True, False, False)),
        ([], ["nofollow, otherbot: noindex, none"], (False, True, False)),
        ([], ["unavailable_after: Wed, 25 Nov 2026 15:00:00 GMT"], (True, False, False)),
        ([], ["unavailable_after: 25 Jun 2010 15:00:00 PST"], (True, False, False)),
        ([], ["unavailable_after: Friday, 25-Jun-10 15:00:00 PST, noarchive"], (True, False, True)),
        ([], ["unavailable_after: 25 Jun 2010 PST"], (True, False, False)),
        ([], ["unavailable_after: 2030-01-01, nofollow"], (False, True, False)),
        ([], ["unavailable_after: June 25, 2010, nofollow"], (True, True, False)),
        ([], ["unavailable_after: 30 Nov 2026 00:52:00 PST"], (False, False, False)),  # eight hours from now
        ([], ["unavailable_after: Mon, 30 Nov 2026 00:52 GMT"], (True, False, False)),
        # It is 00:53 in UTC.
        ([], ["unavailable_after: 30 Nov 2026 01:50:00 CET"], (True, False, False)),
        ([], ["unavailable_after: 30 Nov 2026 02:00:00 CET"], (False, False, False)),
        ([], ["unavailable_after: 30 Nov 2026 02:50:00 cest"], (True, False, False)),
        ([], ["unavailable_after: Monday, 30-Nov-26 03:00:00 EET"], (False, False, False)),
        ([], ["unavailable_after: 2026-11-29 19:50:00 EST"], (True, False, False)),
        ([], ["unavailable_after: 2026-11-29T20:00:00 EST"], (False, False, False)),
        ([], ["unavailable_after: 30 Nov 2026 00:50:00 XYZ"], (True, False, False)),
        ([], ["unavailable_after: 99 Foo 2010 99:99"], (False, False, False)),
        ([], ["combine: otherbot: noindex"], (False, False, False)),
        ([], ["otherbot: combine: noindex"], (True, False, False)),
        (["noindex;nofollow"], [], (True, True, False)),
        ([], ["max-snippet: 20, noarchive"], (False, False, True)),
        ([], ["", ",", ":"], (False, False, False)),
    ],
)
def test_robots(metas: list[str], tags: list[str], flags: tuple[bool, bool, bool]) -> None:
    found = robots([("robots", content) for content in metas], tags, "combine", now=1796000000.0)
    assert flags == (found.noindex, found.nofollow, found.noarchive)


def test_a_meta_for_the_agent_alone() -> None:
    assert page_of("<meta name=combine content=noindex>", agent="Combine").robots.noindex
    assert not page_of("<meta name=combine content=noindex>").robots.noindex


def test_rights_are_recorded_word_for_word() -> None:
    page = page_of(
        "<meta name=robots content='noai, noindex'><meta name=tdm-policy content=http://example.org/p>",
        HTML,
        "X-Robots-Tag: noimageai",
        "TDM-Reservation: 1",
        "Content-Usage: train-ai=n",
    )
    assert (
        ("noimageai", "noimageai", "header"),
        ("tdm-reservation", "1", "header"),
        ("content-usage", "train-ai=n", "header"),
        ("noai", "noai, noindex", "meta"),
        ("tdm-policy", "http://example.org/p", "meta"),
    ) == page.rights


def test_digest_is_that_of_the_original() -> None:
    assert "4A71E83AE8E353A06D19FACB2EC4A3F6" == digest(measured("My text in record").bare, "A title string")
    assert "F619D8E87F5AFC7C2F75A5C7062C67DF" == digest(measured("My new text in record").bare, "A title string")


def test_pages_without_text_have_a_digest_of_their_own() -> None:
    image = page_of(b"\x89PNG\r\n\x1a\n", "Content-Type: image/png")
    assert digest(measured(URL + "image/png").bare, "") == image.text_digest


@given(st.binary(max_size=400), st.sampled_from(["text/html", "text/xml", "text/plain", "", "x"]))
def test_any_bytes_are_a_page(body: bytes, content_type: str) -> None:
    page = page_of(body, f"Content-Type: {content_type}", "Content-Encoding: gzip, br", "Link: <x>;rel", "Refresh: 1;")
    assert page.text_digest
    assert page.text.encode("utf-8").decode("utf-8") == page.text


@given(st.text(alphabet="<>/=\"' abdiptrlhef#&;!-\x00\x0c", max_size=200))
def test_any_markup_is_a_page(markup: str) -> None:
    page = page_of("<a href=x>" + markup)
    assert all(link.url.startswith("http") for link in page.links)


def test_queries_are_written_in_the_encoding_of_the_page() -> None:
    page = "<a href='/é?q=é'>1</a><a href='?q=š'>2</a><a href='/x#é'>3</a>".encode("latin-1", "xmlcharrefreplace")
    links = page_of(page, "Content-Type: text/html; charset=iso-8859-1").links
    found = [link.url.removeprefix("http://example.org") for link in links]
    assert ["/%C3%A9?q=%E9", "/dir/page.html?q=%9A", "/x"] == found
    plain = page_of(b"see http://a.example/?\xe9", "Content-Type: text/plain; charset=iso-8859-1")
    assert ["http://a.example/?%C3%A9"] == [link.url for link in plain.links]
