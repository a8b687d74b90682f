"""XML: feeds and other documents, read for title, text and references, never for entities, DTDs or the network.

RSS and Atom are read as their readers do; any other XML gives its character data as text. Damage is passed over as far
as the parser can. This module never does I/O.
"""

from __future__ import annotations

from lxml import etree

from combine.page.html import Document, Reference

#: Elements whose content starts a line of text of its own.
_ITEMS = frozenset({"title", "description", "summary", "content", "encoded", "subtitle", "author", "name"})


def read_xml(source: bytes, encoding: str) -> Document:
    """Read an XML document from its bytes; what is no XML at all has no text."""
    document = Document()
    parser = etree.XMLParser(
        encoding=encoding, resolve_entities=False, no_network=True, load_dtd=False, recover=True, remove_comments=True
    )
    try:
        root = etree.fromstring(source, parser)
    except (etree.XMLSyntaxError, ValueError, LookupError):
        return document
    if root is None:
        return document
    lines = []
    for element in root.iter(etree.Element):
        name = str(element.tag).rpartition("}")[2]  # a QName would refuse the names that recovery lets through
        text = " ".join((element.text or "").split())
        if name == "title" and document.title is None and text:
            document.title = text
        if href := _reference(name, text, element.attrib):
            document.references.append(
                Reference("a", href, str(element.get("rel") or ""), str(element.get("title") or ""))
            )
        elif text:
            lines.append(text)
        if tail := " ".join((element.tail or "").split()):
            lines.append(tail)
    document.text = "\n".join(lines)
    document.language = str(root.get("{http://www.w3.org/XML/1998/namespace}lang") or "")
    return document


def _reference(name: str, text: str, attributes: etree._Attrib) -> str:
    """The reference that an element of RSS or Atom is, "" if none."""
    if name == "link":
        return str(attributes.get("href") or "") or (text if text.startswith(("http://", "https://")) else "")
    return str(attributes.get("url") or "") if name == "enclosure" else ""
