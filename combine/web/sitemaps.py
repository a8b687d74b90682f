"""Read sitemaps in every form that sites publish: XML urlset and index, RSS, Atom, plain text, each also in gzip.

What the bytes are decides, not their name or type. Elements count by their local names, since half the world writes
the wrong namespace; a `loc` counts only as the child of a `url` or `sitemap`, so that the addresses of images and films
in the extensions are none of pages. An address is given as it is written, and resolved only where it is relative.

Hostile input costs no more than the limits: no tree is built, entities that a document declares mean nothing, nothing
is loaded from anywhere. Damage ends the reading and keeps what came before.
This module never does I/O; which addresses are in scope, and which sitemaps were read already, is the caller's to know.
"""

from __future__ import annotations

import re
import zlib
from calendar import timegm
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from lxml import etree

from combine.entities import UNKNOWN, tamed, without_declarations
from combine.urls import resolve
from combine.zones import numbered

#: Bytes of an unpacked sitemap that are read, and URLs that are taken: the limits of sitemaps.org.
LIMIT_BYTES = 50 * 1024 * 1024
LIMIT_URLS = 50_000

#: Characters of one address; twice what sitemaps.org allows, for a relative one may grow.
_ADDRESS_CHARACTERS = 4096

#: Packed twice is seen in the wild (a .gz file served with a coding, too); more is a toy.
_LAYERS = 3

#: Bytes given to the parser at a time, so that the limits end the reading soon.
_STEP_BYTES = 256 * 1024

#: Elements read of one document: 20 for each URL, as a page in many languages has them. They take 4 s.
_ELEMENTS = 1_000_000

#: Nesting of elements; feeds have six.
_DEPTH = 100

#: Bytes without any end of a tag that are no document: the parser would hold them all, and their attributes.
_TAG_BYTES = 1024 * 1024

_BLANK = b" \t\r\n\f\v\0"
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_LINE_ENDS = dict.fromkeys(map(ord, "\t\r\n"))
_LINE = re.compile("[^\r\n]+")
_SCHEME = re.compile("https?://", re.IGNORECASE)
_DECLARATION = re.compile(r"\A\s*<\?xml.*?\?>", re.DOTALL)
_IN_UTF8 = re.compile(rb"(?!<\?xml[^>]*encoding)|<\?xml[^>]*encoding\s*=\s*[\"']utf-?8", re.IGNORECASE)
_YEAR_OR_MONTH = re.compile(r"[0-9]{4}(?:-[0-9]{2})?", re.ASCII)
_BEFORE_OFFSET = re.compile(r"\s+(?=[+-][0-9:]+\Z)")
#: Elements that hold one address each; where that may stand, and where its time, best first.
_ENTRIES = frozenset({"url", "sitemap", "item", "entry"})
_KINDS = ("loc", "alternate", "link", "guid", "other")
_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_TIMES = ("lastmod", "updated", "modified", "pubdate", "date", "published", "issued")


@dataclass(frozen=True, slots=True)
class Sitemap:
    """What one sitemap lists: pages with the time of their last change as written (""), and further sitemaps."""

    urls: tuple[tuple[str, str], ...] = ()
    sitemaps: tuple[str, ...] = ()
    truncated: str = ""  # `length`: a limit ended it


def parse(body: bytes, url: str = "", limit_bytes: int = LIMIT_BYTES, limit_urls: int = LIMIT_URLS) -> Sitemap:
    """Read a sitemap that lay at `url`; what is none lists nothing."""
    body, cut = _unpacked(body, limit_bytes)
    urls: list[tuple[str, str]] = []
    sitemaps: list[str] = []
    for is_sitemap, address, time in _entries(body, url):
        if len(urls) + len(sitemaps) >= limit_urls:
            cut = True
            break
        if target := _absolute(address, url):
            if is_sitemap:
                sitemaps.append(target)
            else:
                urls.append((target, time))
    return Sitemap(tuple(urls), tuple(sitemaps), "length" if cut else "")


def moment(time: str) -> int | None:
    """The epoch time of a lastmod (W3C) or a feed's date; None where it cannot be read. Without a zone it is UTC."""
    if _YEAR_OR_MONTH.fullmatch(time):
        time = (time + "-01-01")[:10]
    try:
        time = numbered(time)
        is_iso = time[:4].isdigit()
        parsed = datetime.fromisoformat(_BEFORE_OFFSET.sub("", time)) if is_iso else parsedate_to_datetime(time)
        if parsed.tzinfo is None:
            parsed = parsed.replace(tzinfo=UTC)
        return timegm(parsed.utctimetuple())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _unpacked(body: bytes, limit_bytes: int) -> tuple[bytes, bool]:
    """The body without its gzip layers, as far as it can be read, and whether the limit cut it."""
    for _ in range(_LAYERS):
        if not body.startswith(b"\x1f\x8b"):
            break
        body = b"".join(_inflated(body, limit_bytes))
    return body[:limit_bytes], len(body) > limit_bytes


def _inflated(body: bytes, limit_bytes: int) -> Iterator[bytes]:
    """The members of a gzip file, up to damage or to just over the limit."""
    left = limit_bytes + 1
    while body.startswith(b"\x1f\x8b") and left > 0:
        engine = zlib.decompressobj(zlib.MAX_WBITS | 16)
        start = 0
        # By pieces: what comes before damage in the same call would be lost.
        while start < len(body) and left > 0 and not engine.eof:
            piece = engine.unconsumed_tail + body[start : start + 1024]
            start += 1024
            try:
                found = engine.decompress(piece, left)
            except zlib.error:
                return
            left -= len(found)
            yield found
        body = engine.unused_data + body[start:]


def _entries(body: bytes, url: str) -> Iterator[tuple[bool, str, str]]:
    """Each entry: whether it is a further sitemap, its address, its time."""
    start = body[:1024].lstrip(_BLANK)
    for mark, _ in _MARKS:
        start = start.removeprefix(mark).lstrip(_BLANK)
    return _of_xml(_tamed(body), url) if start.startswith(b"<") else _of_text(body)


def _of_text(body: bytes) -> Iterator[tuple[bool, str, str]]:
    encoding = next((encoding for mark, encoding in _MARKS if body.startswith(mark)), "utf-8")
    for match in _LINE.finditer(body.decode(encoding, "replace").lstrip("\ufeff")):
        line = match[0].strip()
        if _SCHEME.match(line):
            yield False, line, ""


def _tamed(body: bytes) -> bytes:
    """The XML without what its parser dies of or must not see: blanks before it, declarations of entities."""
    if body.startswith((b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<")):
        # Two bytes a character: read here, so that what follows holds for it too.
        encoding = "utf-16-be" if body.startswith((b"\xfe\xff", b"\0<")) else "utf-16-le"
        text = body.decode(encoding, "replace").lstrip("\ufeff")
        body = _DECLARATION.sub("", text, count=1).encode("utf-8", "replace")
    body = body.lstrip(_BLANK).removeprefix(b"\xef\xbb\xbf").lstrip(_BLANK)
    if _IN_UTF8.match(body):
        body = body.decode("utf-8", "replace").encode()
    return without_declarations(body)


def _pieces(body: bytes) -> Iterator[bytes]:
    """The XML in pieces that end where a tag does, up to where there is no tag any more."""
    start = 0
    while start < len(body):
        end = body.find(b">", min(start + _STEP_BYTES, len(body) - 1), start + _STEP_BYTES + _TAG_BYTES) + 1
        if not end:
            end = body.rfind(b">", start, start + _STEP_BYTES) + 1
        if not end:
            return
        yield tamed(body[start:end])
        start = end


def _of_xml(body: bytes, url: str) -> Iterator[tuple[bool, str, str]]:
    reader = _Reader(url)
    target: Any = reader  # the parser's types ask for methods that it does not
    parser = etree.XMLParser(
        target=target, recover=True, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    try:
        for piece in _pieces(body):
            parser.feed(piece)
            yield from reader.taken()
            if not reader.is_sane:
                break
        parser.close()
    except (etree.XMLSyntaxError, etree.ParserError, ValueError, LookupError):
        pass
    yield from reader.taken()


class _Reader:
    """Takes the parser's events and keeps the entry at hand only: there is no tree that could grow."""

    def __init__(self, url: str) -> None:
        self._elements = 0
        self._path: list[str] = []
        self._url = url
        self._bases: list[tuple[int, str]] = []  # the elements with an xml:base (RFC 4287, 2) that are open: at, base
        self._entry = ""
        self._found: list[tuple[bool, str, str]] = []
        self._addresses: dict[str, str] = {}
        self._times: dict[str, str] = {}
        self._text: list[str] = []
        self._characters = 0

    def taken(self) -> list[tuple[bool, str, str]]:
        """The entries that ended since the last call."""
        found, self._found = self._found, []
        return found

    @property
    def is_sane(self) -> bool:
        """Whether this still looks like a list of pages."""
        return self._elements <= _ELEMENTS and len(self._path) <= _DEPTH

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        self._elements += 1
        name = _local(tag)
        if attributes and (base := _known(attributes.get(_BASE, ""))) and len(base) <= _ADDRESS_CHARACTERS:
            self._bases.append((len(self._path), resolve(self._base, base) or self._base))
        if name in _ENTRIES and self._entry in ("", name):
            # One that begins within its like ends that.
            self._end_entry()
            self._entry = name
        elif name == "link" and self._path and self._path[-1] == self._entry and (href := _href(attributes)):
            rel = attributes.get("rel", "alternate").strip().lower()
            self._addresses.setdefault("alternate" if rel == "alternate" else "other", self._based(href))
        self._path.append(name)
        self._text, self._characters = [], 0

    def data(self, text: str) -> None:
        """Take character data; more than an address has is none."""
        self._characters += len(text)
        if self._characters <= _ADDRESS_CHARACTERS:
            self._text.append(text)

    def end(self, tag: str) -> None:
        """End an element."""
        if not self._path:
            return
        name = self._path.pop()
        text, self._text = self._ended_text(), []
        if name == self._entry:
            self._end_entry()
        elif text and self._path and self._path[-1] == self._entry:
            if name in _TIMES:
                self._times.setdefault(name, text)
            elif name in _KINDS and (name != "guid" or _SCHEME.match(text)):
                self._addresses.setdefault(name, self._based(text))
        if self._bases and self._bases[-1][0] == len(self._path):
            self._bases.pop()

    @property
    def _base(self) -> str:
        return self._bases[-1][1] if self._bases else self._url

    def _based(self, address: str) -> str:
        """An address that is relative to a base of the document, resolved against it; any other as it is written."""
        if not self._bases or _SCHEME.match(address):
            return address
        return resolve(self._base, address) or address

    def _end_entry(self) -> None:
        if address := next((self._addresses[kind] for kind in _KINDS if kind in self._addresses), ""):
            time = next((self._times[kind] for kind in _TIMES if kind in self._times), "")
            self._found.append((self._entry == "sitemap", address, time))
        self._addresses, self._times = {}, {}
        self._entry = ""

    def _ended_text(self) -> str:
        if self._characters > _ADDRESS_CHARACTERS:
            return ""
        return _known("".join(self._text))

    def close(self) -> None:
        """End the document."""


def _local(tag: str) -> str:
    name = tag.rpartition("}")[2].rpartition(":")[2]
    return name if name.islower() else name.lower()


def _href(attributes: dict[str, str]) -> str:
    # The parser leaves an ampersand in an attribute as this number, for whoever would expand entities after it.
    href = _known(attributes.get("href", "").replace("&#38;", "&"))
    return href if len(href) <= _ADDRESS_CHARACTERS else ""


def _known(text: str) -> str:
    """The text in one line; "" where a part of it is an entity: what is left of an address would be another one."""
    return "" if UNKNOWN in text else text.translate(_LINE_ENDS).strip()


def _absolute(address: str, base: str) -> str:
    """The address as it is written where it is absolute, else resolved; "" where it leads to no page."""
    if _SCHEME.match(address):
        return address
    target = resolve(base, address) if base else None
    return target if target and _SCHEME.match(target) else ""
