"""What style sheets refer to, and where that is looked for."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine.config import Page as Limits
from combine.page.extract import extract
from combine.page.styles import of_page, of_sheet
from formats import jcf
from formats.hrf import Harvest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a{background:url(x.png)}b{c:URL( \"y z.png\" )}d{e:url('x.png')}", ["x.png", "y z.png"]),
        ("@import 'a.css';@IMPORT \"b.css\" screen;@import url(c.css);", ["a.css", "b.css", "c.css"]),
        ("@font-face{src:url(a.woff2)format('woff2'),url(b.woff)}", ["a.woff2", "b.woff"]),
        ("/* url(no) */ '/* url(no)' \"url(no)\" url(yes) /* url(no)", ["yes"]),
        ("@namespace svg url(http://no.example/);a{b:url(yes)}", ["yes"]),
        ("myurl(no) -url(no) @importx 'no' url(no no) url() url(\"\")", []),
        (r"url(a\)b) url(y\65 s) url('\000041\'') url(\d800x)", ["a)b", "yes", "A'", "\ufffdx"]),
        ("url(unended", ["unended"]),
        ('url("unended', ["unended"]),
        ('url("no\n) url(yes)', ["yes"]),
        ("", []),
    ],
)
def test_references_of_a_sheet(text: str, expected: list[str]) -> None:
    assert expected == of_sheet(text)


def test_references_of_a_page() -> None:
    page = (
        "<STYLE>a{b:url(é.png)}</STYLE><p style='b:url(&quot;q.png&quot;)' class=style>url(no)</p>"
        "<!-- <style>url(no)</style> --><script>'<style>url(no)</style>'</script>"
    )
    assert ["é.png", "q.png"] == of_page(page.encode())
    assert [] == of_page(b"<p>url(no)")


@given(st.text(alphabet="url('\")\\/*@import \nax"))
def test_anything_is_read(text: str) -> None:
    assert all(of_sheet(text))


@pytest.mark.parametrize(
    "text", ["url(", "url( ", "url('", 'url(\\"', "\\", '"', "/*", "@import ", "url(x", "@import '\\"]
)
def test_hostile_sheets_cost_little(text: str) -> None:
    started = time.process_time()
    of_sheet(text * (1_000_000 // len(text)))
    of_sheet("url(" + text * 100_000)
    assert 3.0 > time.process_time() - started


@pytest.mark.parametrize(
    ("type_", "body", "wished", "expected"),
    [
        ("text/html", b"<base href=/d/><style>a{b:url(x.png)}</style>", "1", {"http://a.example/d/x.png"}),
        ("text/html", b"<style>a{b:url(x.png)}</style>", None, set()),
        ("text/css", b"@import 'y.css';a{b:url(data:image/png;base64,AA==)}", "1", {"http://a.example/s/y.css"}),
        ("text/plain", b"url(x.png)", "1", set()),
        ("image/png", b"\x89PNG\r\n\x1a\nurl(x.png)", "1", set()),
    ],
)
def test_they_are_links_of_their_kind_where_they_are_wished(
    type_: str, body: bytes, wished: str | None, expected: set[str]
) -> None:
    url = "http://a.example/s/t"
    header = f"HTTP/1.1 200 OK\r\nContent-Type: {type_}\r\n\r\n".encode()
    job = jcf.job(URL=url, FETCH=1, REQUISITES=wished)
    page = extract(Harvest(job, "ok", "2026-05-01T00:00:00.000Z", header=header, body=body), url, Limits())
    assert expected == {link.url for link in page.links if link.kind == "style"}
