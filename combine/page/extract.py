"""From a harvest to a page: what it is, what it says, where it points. Never fetches, never fails for the bytes' sake.

The steps, each in a module of its own: undo the content coding, tell the type, read the text, take it apart by type. A
page that no reader is made for has its facts only. Links are absolute, without fragments, each kind and URL once; kinds
that a browser would not load (`mailto:`, `javascript:`, `data:`) are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from combine.codings import decode
from combine.config import Page as Limits
from combine.http_dates import http_date
from combine.page import dates, language, styles
from combine.page.directives import SILENT, Robots, robots
from combine.page.encoding import encoding_of
from combine.page.feeds import read_xml
from combine.page.html import Document, Reference, measured, read
from combine.page.labels import decode as decode_text
from combine.page.labels import encoding_for
from combine.page.mime import is_nosniff, is_read
from combine.page.references import in_encoding, link_header, refresh, urls_in
from combine.page.rights import rights
from combine.page.sniff import Sniffed, sniff
from combine.page.xhtml import as_html
from combine.urls import of_bytes, resolve, targets_of
from formats.hrf import Harvest
from formats.wir import Link

#: Makes a link of its columns in half the time of a call of its class.
_link: Callable[[tuple[str, str, str, str]], Link] = partial(tuple.__new__, Link)

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_PUBLISHED = (
    *("article:published_time", "datepublished", "dc.date", "dcterms.created", "dc.date.issued", "dcterms.issued"),
    *("citation_publication_date", "date", "pubdate"),
)


@dataclass(frozen=True, slots=True)
class Page:
    """What one harvest says of its page. Times are epoch seconds, None where nothing is said."""

    url: str
    type: str
    charset: str = ""
    parsable: bool = False  # a reader took it apart; else it has facts only
    title: str = ""
    metas: tuple[tuple[str, str], ...] = ()
    headings: tuple[tuple[int, str], ...] = ()
    links: tuple[Link, ...] = ()
    text: str = ""
    words: int = 0
    text_digest: str = ""
    canonical: str = ""
    robots: Robots = SILENT
    rights: tuple[tuple[str, str, str], ...] = ()
    language: str = ""
    language_declared: str = ""
    published: int | None = None
    modified: int | None = None
    expires: int | None = None
    truncated: str = ""


def extract(harvest: Harvest, url: str, limits: Limits, agent: str = "") -> Page:
    """Read a harvest; `agent` is the name by which a page may speak to us alone."""
    decoded = decode(harvest.body, harvest.all("content-encoding"), limits.decoded_bytes, limits.ratio)
    nosniff = is_nosniff(harvest.all("x-content-type-options"))
    sniffed = sniff(decoded.body, harvest.all("content-type"), nosniff)
    document, charset = _document(decoded.body, sniffed, url, limits)
    found = document or Document()
    if harvest.job.get("REQUISITES"):
        found.references += _of_styles(decoded.body, sniffed, charset)
    fetched = _epoch(harvest.fetched)
    tags = harvest.all("x-robots-tag")
    title = found.title or ""
    declared = _declared_language(harvest, found)
    links, canonical = _links(harvest, url, found, charset if sniffed.type in _HTML else "", limits.links)
    words, bare = found.measure or measured(found.text)
    text_digest = digest(bare, title) if found.text else digest(measured(url + sniffed.type).bare, "")
    return Page(
        url=url,
        type=sniffed.type,
        charset=charset,
        parsable=document is not None,
        title=title,
        metas=tuple(found.metas),
        headings=tuple(found.headings),
        links=links,
        text=found.text,
        words=words,
        text_digest=text_digest,
        canonical=canonical,
        robots=robots(found.metas, tags, agent, fetched) if found.metas or tags else SILENT,
        rights=rights(harvest, found.metas),
        language=language.judged(found.text, declared),
        language_declared=declared,
        published=_published(found.metas),
        modified=http_date(harvest.field("last-modified"), fetched),
        expires=http_date(harvest.field("expires"), fetched),
        truncated=harvest.truncated or decoded.truncated,
    )


def digest(bare: bytes, title: str) -> str:
    """The MD5 of text and title without white space, in upper-case hex: as Combine has made it since 3.5."""
    found = hashlib.md5(bare, usedforsecurity=False)
    found.update(measured(title).bare)
    return found.hexdigest().upper()


def _document(body: bytes, sniffed: Sniffed, url: str, limits: Limits) -> tuple[Document | None, str]:
    """The body taken apart by the reader for its type, and its encoding; None where there is no such reader."""
    kind = sniffed.type
    if sniffed.binary or not is_read(kind):
        return None, ""
    is_html, is_xml = kind in _HTML, kind.endswith(("/xml", "+xml"))
    encoding, skip = encoding_of(body, sniffed.charset, is_html, is_xml)
    if is_html:
        source = _as_utf8(body, encoding, skip)
        return read(as_html(source) if is_xml else source, limits.depth), encoding
    if is_xml:
        return read_xml(_as_utf8(body, encoding, skip), url), encoding
    text = "\n".join(decode_text(body[skip:], encoding).split("\r\n")).replace("\r", "\n").strip()
    found = [Reference("text", href) for href in urls_in(text, limits.links)]
    return Document(text=text, references=found), encoding


def _of_styles(body: bytes, sniffed: Sniffed, charset: str) -> list[Reference]:
    """What the styles of a page refer to, or a style sheet; only where a harvest wishes what pages are made of."""
    hrefs = []
    if sniffed.type == "text/css":
        hrefs = styles.of_sheet(decode_text(body, encoding_for(sniffed.charset) or "UTF-8"))
    elif sniffed.type in _HTML and charset:
        hrefs = styles.of_page(_as_utf8(body, charset, 0))
    return [Reference("style", href) for href in hrefs]


def _as_utf8(body: bytes, encoding: str, skip: int) -> bytes:
    """The body in UTF-8: itself, where it is so already."""
    if encoding == "UTF-8" or (encoding == "windows-1252" and body.isascii()):
        source = body[skip:] if skip else body
        try:
            source.decode("utf-8")
        except UnicodeDecodeError:
            return source.decode("utf-8", "replace").encode()
        return source
    return decode_text(body[skip:], encoding).encode("utf-8", "replace")


def _links(harvest: Harvest, url: str, document: Document, charset: str, limit: int) -> tuple[tuple[Link, ...], str]:
    """The links of header and page in this order, and the canonical URL."""
    found: dict[tuple[str, str], Link] = {}
    base = url if document.base is None else _base(url, document.base)
    _resolve(_of_header(harvest, url), url, found, limit)
    of_page = len(found)
    refreshes = (refresh(content) for name, content in document.equivalents if name == "refresh")
    document.references.extend(Reference("refresh", target[1]) for target in refreshes if target and target[1])
    references = document.references
    if charset not in ("", "UTF-8"):
        references = [reference._replace(href=in_encoding(reference.href, charset)) for reference in references]
    if base is not url and (page := _page(base)) != _page(resolve("", url) or url):
        # `#x` is a place in that page, not in this one.
        references = [link._replace(href=page) if link.href[:1] == "#" else link for link in references]
    _resolve(references, base, found, limit)
    links = tuple(found.values())
    # What the page itself says of its canonical URL goes before what its header says.
    canonical = [place for place, link in enumerate(links) if link.kind == "link" and "canonical" in link.rel.split()]
    first = min(canonical, key=lambda place: place < of_page, default=None)
    return links, "" if first is None else links[first].url


def _base(url: str, written: str) -> str:
    """The URL that references are resolved against (HTML 4.2.3): what a base element says, if it may say that."""
    base = resolve(url, written)
    return url if base is None or base.startswith(("data:", "javascript:")) else base


def _page(url: str) -> str:
    return url.partition("#")[0]


def _resolve(references: list[Reference], base: str, found: dict[tuple[str, str], Link], limit: int) -> None:
    """Add the references that lead to http(s), each kind and URL once."""
    targets = targets_of(base, [reference.href for reference in references])
    for (kind, _, rel, text), target in zip(references, targets, strict=True):
        if not target or (place := (kind, target)) in found:
            continue
        if len(found) >= limit:
            return
        found[place] = _link((kind, target, " ".join(rel.lower().split()) if rel else "", text))


def _of_header(harvest: Harvest, url: str) -> list[Reference]:
    """The references in the header fields: they are resolved against the URL, never against a base element."""
    found = []
    if 300 <= harvest.status < 400 and (location := harvest.field("location")):
        found.append(Reference("redirect", of_bytes(location.encode("latin-1", "replace"))))
    if (target := refresh(harvest.field("refresh"))) and target[1]:
        found.append(Reference("refresh", target[1]))
    for value in harvest.all("link"):
        found.extend(Reference("link", href, rel) for href, rel in link_header(value, url))
    return found


def _declared_language(harvest: Harvest, document: Document) -> str:
    equivalents = (content for name, content in document.equivalents if name == "content-language")
    metas = (content for name, content in document.metas if name in ("dc.language", "dcterms.language", "language"))
    for value in (document.language, next(equivalents, ""), harvest.field("content-language"), next(metas, "")):
        if found := language.tag(value):
            return found
    return ""


def _published(metas: list[tuple[str, str]]) -> int | None:
    if not metas:
        return None
    known = dict(reversed(metas))
    values = (known[name] for name in _PUBLISHED if name in known)
    return next((moment for value in values if (moment := dates.page_date(value)) is not None), None)


def _epoch(fetched: str) -> float | None:
    try:
        return datetime.fromisoformat(fetched).timestamp()  # strptime takes 12 µs, this 0.3
    except ValueError:
        return None
