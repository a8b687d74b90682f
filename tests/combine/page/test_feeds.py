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
