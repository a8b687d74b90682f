"""What the tuned peers learn of a page, by lxml directly: the same fields for each, as quick as lxml gives them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urldefrag, urljoin

from lxml import etree, html

#: Elements whose text nobody reads.
UNREAD = ("script", "style", "noscript", "template")

_LINKS = etree.XPath("//a[@href] | //area[@href]")
_METAS = etree.XPath("//meta[@name]")
_HEADINGS = etree.XPath("//h1 | //h2 | //h3 | //h4 | //h5 | //h6")
_PARSER = html.HTMLParser(encoding="utf-8")


def learned(url: str, body: bytes) -> dict[str, Any]:
    """Title, metas, headings, links and text of a page."""
    page = html.document_fromstring(body, parser=_PARSER)
    joined = {href: urldefrag(urljoin(url, href))[0] for href in {node.get("href") for node in _LINKS(page)}}
    record = {
        "url": url,
        "title": page.findtext(".//title") or "",
        "meta": [[node.get("name"), node.get("content")] for node in _METAS(page)],
        "headings": [[node.tag, "".join(node.itertext()).strip()] for node in _HEADINGS(page)],
        "links": [[joined[node.get("href")], node.get("rel"), "".join(node.itertext())] for node in _LINKS(page)],
    }
    for node in page.iter(*UNREAD):
        node.text = None
    body_node = page.find("body")
    words = body_node.itertext() if body_node is not None else ()
    record["text"] = "\n".join(text for piece in words if (text := piece.strip()))
    return record


def host_of(url: str) -> str:
    """Host and port of an absolute URL."""
    return url.partition("://")[2].partition("/")[0]
