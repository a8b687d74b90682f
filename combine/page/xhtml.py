"""XHTML served as such, written as HTML: what the reader of HTML would misread in it.

To a browser `application/xhtml+xml` is XML: `<script/>` is empty there, in HTML all that follows would be script; CDATA
is text there, in HTML a comment; a document type may declare entities. All else is read as HTML, since many such pages
are none that XML could read: browsers refuse those, we do not. This module never does I/O.
"""

from __future__ import annotations

import re

#: Elements that HTML itself has empty.
_EMPTY = frozenset(
    {
        *(b"area", b"base", b"br", b"col", b"embed", b"hr", b"img", b"input", b"link", b"meta", b"source", b"track"),
        *(b"wbr", b"frame", b"param", b"basefont", b"bgsound", b"keygen"),
    }
)

#: A comment or an instruction, which stay; CDATA; a tag that ends itself. No `<` stands in a value of XML, and so no
#: look goes further than to the next one.
_PARTS = re.compile(
    rb"""<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<!\[CDATA\[(.*?)(?:\]\]>|\Z)"""
    rb"""|<([A-Za-z][^\s<>/"']*+)((?:[^<>/"']|"[^"<]*+"|'[^'<]*+'|/(?!>))*+)/>""",
    re.DOTALL,
)
#: Without quotes, which XML demands, the slash is one of the last value.
_ENDED = re.compile(rb"(?:\A|[\s\"'])\Z")
_DECLARING = re.compile(rb"\A((?:\s|<\?.*?\?>|<!--.*?-->)*+)<!DOCTYPE[^<>\[]*+\[.*?\]\s*>", re.DOTALL | re.IGNORECASE)


def as_html(source: bytes) -> bytes:
    """The source of a page in XHTML, in UTF-8, as that of one in HTML."""
    return _PARTS.sub(_part, _DECLARING.sub(rb"\1<!DOCTYPE html>", source, count=1))


def _part(match: re.Match[bytes]) -> bytes:
    text, name, attributes = match.groups()
    if text is not None:
        return text.replace(b"&", b"&amp;").replace(b"<", b"&lt;")
    if name is None or name.lower() in _EMPTY or not _ENDED.search(attributes):
        return match[0]
    if name.lower() == b"plaintext":  # in HTML nothing ends it
        return b""
    return b"<%b%b></%b>" % (name, attributes, name)
