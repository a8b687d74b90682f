"""References in other places than plain attributes: srcset, meta refresh, the Link header, running text."""

from __future__ import annotations

import json

import pytest

from combine.page.labels import encoding_for
from combine.page.references import candidates, in_encoding, link_header, refresh, urls_in
from combine.urls import resolve
from tests.conformance import CONFORMANCE, needs_conformance


@pytest.mark.parametrize(
    ("srcset", "expected"),
    [
        ("", []),
        ("a", ["a"]),
        ("a 1x, b 2x", ["a", "b"]),
        ("a, b", ["a", "b"]),
        (" ,, a 100w , b", ["a", "b"]),
        ("a,b 1x", ["a,b"]),
        ("data:x,y 1x, b", ["data:x,y", "b"]),
        ("a 1x (x, y), b", ["b"]),
        ("a (, b", []),
        ("a 100w 50h, b 50h 100w", ["a", "b"]),
        ("a 0x, b .5x, c 1.5e1x, d -0x", ["a", "b", "c", "d"]),
        ("a 1x 2x, b 1w 1x, c 1w 1w, d 1h, e 0w, f 1.0w, g -1x, h 1.x, i 1X, j +1x, k foo, l 1h 1x", []),
    ],
)
def test_srcset(srcset: str, expected: list[str]) -> None:
    assert expected == candidates(srcset)


@needs_conformance
def test_refresh_vectors() -> None:
    wrong = []
    for row in json.loads((CONFORMANCE / "html" / "wpt_meta_refresh.json").read_text()):
        expected = row["refresh"] and (row["refresh"]["seconds"], row["refresh"]["url"])
        if expected != refresh(row["content"]):
            wrong.append((row, refresh(row["content"])))
    assert [] == wrong


def test_a_refresh_in_ages_is_read() -> None:
    assert (10**12 - 1, "x") == refresh("9" * 10_000 + ";url=x")


#: Headers whose expected links were changed by the recorded test after parsing.
CHANGED_AFTERWARDS = {'<https://example.org/>; rel="start"'}


@needs_conformance
def test_link_header_vectors() -> None:
    wrong = []
    for row in json.loads((CONFORMANCE / "http" / "link_header.json").read_text()):
        expected = [(link["uri"], link.get("rel", "")) for link in row["links"]]
        if expected != link_header(row["header"]):
            wrong.append(row["header"])
    assert CHANGED_AFTERWARDS == set(wrong)


def test_what_is_quoted_in_a_link_header() -> None:
    assert [("a", 'x"y'), ("a", "z")] == link_header(r'<a>; title="<b>; rel=no, \" "; rel="x\"y z"; rel=no')


@pytest.mark.parametrize(
    "value", ["", "nonsense", "<", "<a", "<a>;", '<a>;rel="', "<a>,<", "," * 50_000, '<a>;"\\' * 9999]
)
def test_broken_link_headers_are_passed_over(value: str) -> None:
    assert all(isinstance(uri, str) for uri, _ in link_header(value))


@needs_conformance
def test_queries_in_the_encoding_of_the_page() -> None:
    rows = json.loads((CONFORMANCE / "url" / "wpt_percent-encoding.json").read_text())
    wrong = []
    for row in rows:
        for label, expected in row["output"].items() if isinstance(row, dict) else ():
            if f"http://a.example/?{expected}" != resolve(
                "", in_encoding("http://a.example/?" + row["input"], encoding_for(label))
            ):
                wrong.append((row["input"], label))
    assert [] == wrong


@pytest.mark.parametrize(
    ("reference", "encoding", "expected"),
    [
        ("/é?é#é", "windows-1252", "/é?%E9#é"),
        ("?a=é&b='é", "ISO-8859-2", "?a=%E9&b='%E9"),
        ("?€", "GBK", "?%80"),
        ("?\U00020000", "GBK", "?%26%23131072%3B"),
        ("?あ", "Shift_JIS", "?%82%A0"),
        ("?あ", "UTF-16LE", "?%E3%81%82"),
        ("?あ\ud800", "replacement", "?%E3%81%82?"),
        ("?\uf780", "x-user-defined", "?%80"),
        ("é#?é", "windows-1252", "é#?é"),
        ("é", "windows-1252", "é"),
        ("?\x81é", "windows-1252", "?%81%E9"),
    ],
)
def test_references_in_an_encoding(reference: str, encoding: str, expected: str) -> None:
    assert expected == in_encoding(reference, encoding)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see http://example.org/a.", ["http://example.org/a"]),
        ("(https://example.org/a_(b)), and", ["https://example.org/a_(b)"]),
        ("http://example.org/" + ")" * 50_000, ["http://example.org/"]),
        ("<https://example.org/>", ["https://example.org/"]),
        ("HTTP://Example.org/x?y#z!", ["HTTP://Example.org/x?y#z"]),
        ("ftp://example.org mailto:x nothing", []),
        ('"http://a.example/","http://b.example/"', ["http://a.example/", "http://b.example/"]),
    ],
)
def test_urls_in_text(text: str, expected: list[str]) -> None:
    assert expected == urls_in(text, 10)


def test_urls_in_text_are_bounded() -> None:
    assert 3 == len(urls_in("http://example.org/ " * 9, 3))


@pytest.mark.parametrize(
    ("anchor", "rel"),
    [("", "canonical"), ("#part", "canonical"), ("/p", "canonical"), ("/q", ""), ("http://b/p", ""), ("http://[", "")],
)
def test_a_link_that_is_anchored_elsewhere_says_nothing_of_the_page(anchor: str, rel: str) -> None:
    value = f'<c>; anchor="{anchor}"; rel=canonical; anchor=no'
    assert [("c", rel)] == link_header(value, "http://a/p")
    assert [("c", "canonical")] == link_header(value)
