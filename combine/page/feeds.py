"""XML: feeds and other documents, read for title, text and references, never for entities, DTDs or the network.

RSS and Atom are read as their readers do; any other XML gives its character data as text. Damage is passed over as far
as the parser can. This module never does I/O.
"""

from __future__ import annotations

from lxml import etree

from combine.entities import UNKNOWN, tamed, without_declarations
from combine.page.html import Document, Reference

#: Elements whose content starts a line of text of its own.
_ITEMS = frozenset({"title", "description", "summary", "content", "encoded", "subtitle", "author", "name"})


def read_xml(source: bytes) -> Document:
    """Read an XML document from its bytes in UTF-8; what is no XML at all has no text."""
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
    for element in root.iter(etree.Element):
        name = str(element.tag).rpartition("}")[2]  # a QName would refuse the names that recovery lets through
        text = _line(element.text)
        if name == "title" and document.title is None and text:
            document.title = text
        if href := _reference(name, element):
            document.references.append(Reference("a", href, _line(element.get("rel")), _line(element.get("title"))))
        elif text:
            lines.append(text)
        if tail := _line(element.tail):
            lines.append(tail)
    document.text = "\n".join(lines)
    document.language = str(root.get("{http://www.w3.org/XML/1998/namespace}lang") or "")
    return document


def _line(text: object) -> str:
    """Text in one line, without what could not be told."""
    return " ".join(str(text or "").replace(UNKNOWN, "").split())


def _reference(name: str, element: etree._Element) -> str:
    """The reference that an element of RSS or Atom is, "" if none; an address of which a part is unknown is none."""
    href = ""
    if name == "link":
        text = " ".join((element.text or "").split())
        href = str(element.get("href") or "") or (text if text.startswith(("http://", "https://")) else "")
    elif name == "enclosure":
        href = str(element.get("url") or "")
    return "" if UNKNOWN in href else href
