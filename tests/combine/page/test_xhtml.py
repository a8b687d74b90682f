"""XHTML served as such."""

from __future__ import annotations

import time

import pytest

from combine.page.html import read
from combine.page.xhtml import as_html


@pytest.mark.parametrize(
    ("source", "html"),
    [
        (b"<p>a<br/>b<img src='x' />c</p>", b"<p>a<br/>b<img src='x' />c</p>"),
        (b"<script src='x.js'/><p>a</p>", b"<script src='x.js'></script><p>a</p>"),
        (b'<title/><a id="1>2" href="/x/" />b', b'<title></title><a id="1>2" href="/x/" ></a>b'),
        (b"<a href=/x/>b</a>", b"<a href=/x/>b</a>"),  # no XML
        (b"<p><![CDATA[<b> & ]] > c]]></p>", b"<p>&lt;b> &amp; ]] > c</p>"),
        (b"<!-- <script/> --><?x <p/> ?><p/>", b"<!-- <script/> --><?x <p/> ?><p></p>"),
        (b"<![CDATA[<script/>", b"&lt;script/>"),
        (b'<?xml version="1.0"?>\n<!DOCTYPE html [<!ENTITY b "<p/>">]><p>&b;</p>',
         b'<?xml version="1.0"?>\n<!DOCTYPE html><p>&b;</p>'),
        (b"<!DOCTYPE html PUBLIC 'x' 'y'><div/>", b"<!DOCTYPE html PUBLIC 'x' 'y'><div></div>"),
        (b"a<plaintext/>b", b"ab"),  # in HTML nothing would end it
        (b"<!-- <p/>", b"<!-- <p/>"),
        (b"a < b / c <p", b"a < b / c <p"),
        (b"", b""),
    ],
)  # fmt: skip
def test_as_html(source: bytes, html: bytes) -> None:
    assert html == as_html(source)


def test_nothing_after_an_element_that_ends_itself_is_lost() -> None:
    source = b"<head><title/><script src='x'/></head><h1>Hi</h1><textarea/><p>a &b; <![CDATA[<i>]]></p><iframe/>z"
    page = read(as_html(source), 512)
    assert ("", [(1, "Hi")], "Hi\na &b; <i>\nz") == (page.title, page.headings, page.text)


@pytest.mark.parametrize("piece", [b"<a '", b"<![CDATA[", b"<!--", b"<?", b"<!DOCTYPE x [", b"<a/", b"<", b"<a x=\"'"])
def test_hostile_ones_end_soon(piece: bytes) -> None:
    began = time.process_time()
    as_html(piece * (1_000_000 // len(piece)))
    assert time.process_time() - began < 1
