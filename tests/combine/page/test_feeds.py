"""XML that is hardly any is read as far as it goes; XML that attacks its reader gets nothing."""

from __future__ import annotations

import pytest

from combine.page.feeds import read_xml

LAUGHS = b"".join(b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 10))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (b"<rss><title>T</title><a:b:c>kept</a:b:c></rss>", "T\nkept"),
        (b"<rss>C<pontent-Type: x>kept</rss>", "C\nkept"),
        (b"<a><!DOCTYPE", ""),
        (b"", ""),
        (b"\0\0", ""),
        (b'<!DOCTYPE a [<!ENTITY l0 "lol">' + LAUGHS + b"]><a>before &l9; after</a>", "before"),
        (b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>before &x;</a>', "before"),
        (b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/x.dtd"><a>text</a>', "text"),
        (b"<a>" * 100_000, ""),
    ],
)
def test_hostile_xml(source: bytes, text: str) -> None:
    found = read_xml(source).text
    assert found.startswith(text)
    assert "lol" not in found
    assert "root:" not in found
    assert len(found) < 1_000


DECLARED = b'<!DOCTYPE rss [<!ENTITY b "boom"><!ENTITY c "&b;&b;">]>'


@pytest.mark.parametrize("start", [b"", DECLARED])
def test_an_address_with_an_entity_is_none(start: bytes) -> None:
    found = read_xml(
        start + b"<rss><title>T&b;U &amp; &#86;</title><item><link>http://h.example/&b;x</link></item>"
        b"<item><link>http://h.example/?a=1&amp;b=2</link></item><item><link>http://h.example/?a=1&b=2</link></item>"
        b'<link href="http://h.example/&c;"/><enclosure url="http://h.example/&b;"/><link href="/&#51;" rel="&b;"/>'
        b"<p>left&c;right</p><link>http://h.example/<![CDATA[&b;]]></link></rss>",
    )
    assert ["http://h.example/?a=1&b=2", "http://h.example/?a=1&b=2", "/3", "http://h.example/&b;"] == [
        reference.href for reference in found.references
    ]
    assert "TU & V" == found.title
    assert "leftright" in found.text
    assert "boom" not in repr(found)


ATOM = '<feed xmlns="http://www.w3.org/2005/Atom">{}</feed>'
RSS = "<rss><channel>{}</channel></rss>"


@pytest.mark.parametrize(
    ("source", "title", "hrefs", "text"),
    [
        (RSS.format("<title>A &lt;b&gt;bold&lt;/b&gt; &amp;amp; B</title>"), "A bold & B", [], "A bold & B"),
        (RSS.format("<title>1 &lt; 2 &amp; 3</title>"), "1 < 2 & 3", [], "1 < 2 & 3"),
        (RSS.format("<title>&lt;img src='i'&gt;</title><title>B</title>"), "B", ["i"], "B"),
        (ATOM.format("<title>1 &lt;b&gt; 2</title>"), "1 <b> 2", [], "1 <b> 2"),
        (ATOM.format("<title type='html'>A &lt;i&gt;B&lt;/i&gt;</title>"), "A B", [], "A B"),
        (ATOM.format("<title type='xhtml'><div>A <b>B</b></div></title>"), "A B", [], "A\nB"),
        (ATOM.format("<content type='xhtml'><p>x <a href='/y'>z</a></p></content>"), None, ["/y"], "x\nz"),
        (
            RSS.format("<item><description>x &lt;a href='/y'&gt;z&lt;/a&gt;&lt;p&gt;w</description></item>"),
            None,
            ["/y"],
            "x z\nw",
        ),
        (
            RSS.format("<item><link> posts/1 </link></item><item><link>no address</link></item>"),
            None,
            ["posts/1"],
            None,
        ),
        (
            RSS.format("<item><guid>http://a.example/1</guid><guid>tag:1</guid></item>"),
            None,
            ["http://a.example/1"],
            None,
        ),
        (
            RSS.format("<item><guid isPermaLink='false'>http://a.example/1</guid></item>"),
            None,
            [],
            "http://a.example/1",
        ),
        ("<book><title>The &lt;b&gt; element</title><link>no</link></book>", "The <b> element", [], None),
    ],
)
def test_feeds_hold_html(source: str, title: str | None, hrefs: list[str], text: str | None) -> None:
    found = read_xml(source.encode())
    assert title == found.title
    assert hrefs == [reference.href for reference in found.references]
    assert text is None or text == found.text


def test_a_feed_of_scraps_is_read_in_a_bounded_time() -> None:
    found = read_xml(RSS.format("<title>&lt;a href=x&gt;</title>" * 20_000).encode())
    assert 2_000 == len(found.references)


ENTRY = '<entry xml:base="{}"><link href="one"/><content type="html">&lt;a href="two"&gt;2&lt;/a&gt;</content></entry>'


@pytest.mark.parametrize(
    ("root", "entry", "hrefs"),
    [
        ("", "below/", ["http://a.example/f/below/one", "http://a.example/f/below/two"]),
        ("/top/", "below/", ["http://a.example/top/below/one", "http://a.example/top/below/two"]),
        ("http://b.example/x", "", ["http://b.example/one", "http://b.example/two"]),
        ("http://b.example/x", "http://[bad", ["http://b.example/one", "http://b.example/two"]),
        ("http://b.example/" + "x" * 3000 + "/", "", ["one", "two"]),
        ("http://b.example/&unknown;/", "", []),
        ("", "", ["one", "two"]),
    ],
)
def test_references_of_feeds_are_resolved_against_xml_base(root: str, entry: str, hrefs: list[str]) -> None:
    source = f'<feed xmlns="http://www.w3.org/2005/Atom" xml:base="{root}">{ENTRY.format(entry)}</feed>'
    found = read_xml(source.encode(), "http://a.example/f/feed")
    assert hrefs == [reference.href for reference in found.references]


def test_a_base_counts_in_feeds_only() -> None:
    assert ["x"] == [reference.href for reference in read_xml(b'<d xml:base="/b/"><a href="x"/></d>').references]
