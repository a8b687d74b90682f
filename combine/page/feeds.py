"""XML: feeds and other documents, read for title, text and references, never for entities, DTDs or the network.

RSS and Atom are read as their readers do: what they hold of HTML, escaped or not, gives its text and its references.
Any other XML gives its character data as text. Damage is passed over as far as the parser can. This module never does
I/O.
"""

from __future__ import annotations

import re
from itertools import islice

from lxml import etree

from combine.entities import UNKNOWN, tamed, without_declarations
from combine.page.html import Document, Reference, read
from combine.urls import LIMIT_BYTES, resolve

_FEEDS = frozenset({"rss", "RDF", "feed", "channel"})
#: Elements that may hold HTML, escaped.
_HOLDING = frozenset({"title", "description", "summary", "content", "encoded", "subtitle", "tagline"})
_ATOM = ("http://www.w3.org/2005/Atom", "http://purl.org/atom/ns#")
_XML = "{http://www.w3.org/XML/1998/namespace}"
_MARKUP = re.compile(r"<[A-Za-z/!][^<>]*>|&#?[A-Za-z0-9]+;")
#: Where the text of a link is an address, be it a relative one.
_LINKING = frozenset({"channel", "item", "image", "entry", "feed"})
_WEB = ("http://", "https://")

#: Elements of one document whose escaped HTML is read; feeds have some hundreds.
_READ = 2_000

#: Characters of a piece of a link's text, and pieces.
_LINK_CHARACTERS, _LINK_PIECES = 500, 20

#: Nesting of such HTML, as of a page.
_DEPTH = 512


def read_xml(source: bytes, url: str = "") -> Document:
    """Read an XML document from its bytes in UTF-8; what is no XML at all has no text.

    References of a feed below an xml:base (RFC 4287, 2) are resolved against it, and so they are absolute if `url` is.
    """
    document = Document()
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, recover=True, remove_comments=True
    )
    try:
        root = etree.fromstring(tamed(without_declarations(source)), parser)
    except (etree.XMLSyntaxError, ValueError, LookupError):
        return document
    if root is None:
        return document
    lines = []
    escaped = 0 if _local(root) in _FEEDS else _READ
    bases = _Bases(url) if not escaped and b"xml:base" in source else None
    for element in root.iter(etree.Element):
        namespace, name = str(element.tag).rpartition("}")[0], _local(element)
        text = _line(element.text)
        is_html = bool(text) and escaped < _READ and name in _HOLDING and _is_escaped(element, namespace[1:])
        if is_html:
            escaped += 1
            inside = read(text.encode("utf-8", "replace"), _DEPTH)
            text = inside.text
            document.references.extend(bases.applied(element, inside.references) if bases else inside.references)
        if name == "title" and document.title is None:
            document.title = _line(text if is_html or not len(element) else "".join(element.itertext())) or None
        if href := _reference(name, element):
            reference = Reference("a", href, _line(element.get("rel")), _title(name, element))
            document.references.extend(bases.applied(element, [reference]) if bases else [reference])
        if text and (not href or name == "a"):
            lines.append(text)
        if tail := _line(element.tail):
            lines.append(tail)
    document.text = "\n".join(lines)
    document.language = str(root.get(f"{_XML}lang") or "")
    return document


class _Bases:
    """The bases in force in a document with xml:base; what no URL comes of changes nothing, nor does a huge one."""

    def __init__(self, url: str) -> None:
        self._url = url

    def applied(self, element: etree._Element, references: list[Reference]) -> list[Reference]:
        """The references that an element holds, resolved against its base if it has one."""
        written = [base for above in (element, *element.iterancestors()) if (base := above.get(f"{_XML}base"))]
        if any(UNKNOWN in one for one in written):
            return []
        written = [one for one in written if len(one) <= LIMIT_BYTES]
        base = self._url
        for one in reversed(written):
            base = resolve(base, one.strip()) or base
        if not written or not base:
            return references
        return [reference._replace(href=resolve(base, reference.href) or reference.href) for reference in references]


def _local(element: etree._Element) -> str:
    # A QName would refuse the names that recovery lets through.
    return str(element.tag).rpartition("}")[2]


def _line(text: object) -> str:
    """Text in one line, without what could not be told."""
    return " ".join(str(text or "").replace(UNKNOWN, "").split())


def _is_escaped(element: etree._Element, namespace: str) -> bool:
    """Whether the text of an element is HTML: as Atom says of it, or as it looks in RSS, which says nothing."""
    if namespace in _ATOM:
        return element.get("type") in ("html", "text/html") or element.get("mode") == "escaped"
    return bool(_MARKUP.search(element.text or ""))


def _title(name: str, element: etree._Element) -> str:
    if name != "a":
        return _line(element.get("title"))
    # Those that nest would each hold the text of all inside.
    return _line("".join(piece[:_LINK_CHARACTERS] for piece in islice(element.itertext(), _LINK_PIECES)))


def _reference(name: str, element: etree._Element) -> str:
    """The reference that an element of RSS or Atom is, "" if none; an address of which a part is unknown is none."""
    href = ""
    text = (element.text or "").strip()
    if name == "link":
        parent = element.getparent()
        is_address = parent is not None and _local(parent) in _LINKING and " " not in text
        href = str(element.get("href") or "") or (text if is_address or text.startswith(_WEB) else "")
    elif name == "guid":
        href = text if text.startswith(_WEB) and element.get("isPermaLink") != "false" else ""
    elif name == "a":
        href = str(element.get("href") or "")
    elif name == "enclosure":
        href = str(element.get("url") or "")
    return "" if UNKNOWN in href else href
