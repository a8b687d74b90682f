"""The command check: how the harvest judges a case, for people to try it on cases of their own.

JSON lines come on stdin, and each is answered by one JSON line on stdout, in order. A case that cannot be taken is
answered by what is wrong with it, and the next one is taken. What can be read at once is answered at once, so that it
serves in a pipe as well as in a conversation. Nothing is fetched and nothing is stored.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import IO, Any

import click
import orjson

from combine.cli.session import Session, command
from combine.config import Settings, load
from combine.http_dates import http_date
from combine.page import references
from combine.page.directives import robots
from combine.page.encoding import to_text
from combine.page.extract import extract
from combine.page.mime import combined
from combine.page.sniff import sniff
from combine.urls import BadURL, normalise, resolve
from combine.web import retry_after, sitemaps
from combine.web.rules import Rules
from formats import jcf
from formats.hrf import Harvest

#: Bytes of a line: a sitemap of 50 MiB in base64 fits.
LINE_BYTES = 80 * 1024 * 1024

#: Bytes read at a time.
_READ_BYTES = 1024 * 1024

_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_IN_A_FIELD = re.compile("[\r\n\0]")
#: An agent written out, as in `Bot/1.0 (+https://example.org)` or `Mozilla/5.0 (compatible; Bot/1.0)`.
_WRITTEN_OUT = re.compile(r"(?:Mozilla/[^()]*\(compatible; *)?([^\s/;()]+) */", re.IGNORECASE)
_HTML = ("text/html", "application/xhtml+xml")


class _Untakable(ValueError):
    """A case lacks something, or holds what it may not; the message is for its author."""


class Case:
    """One case: values by name, each read as the type it must have; raises _Untakable for any other."""

    def __init__(self, values: dict[str, Any], settings: Settings) -> None:
        self._values = values
        self.settings = settings

    def text(self, name: str, default: str | None = None) -> str:
        """A text; null and an absent one are the default."""
        value = self._values.get(name)
        if value is None:
            value = default
        if not isinstance(value, str):
            raise _Untakable(f"{name} is a text" if name in self._values else f"there is no {name}")
        return _whole(value)

    def texts(self, name: str) -> list[str]:
        """A list of texts; one alone is a list of one."""
        value = self._values.get(name)
        value = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise _Untakable(f"{name} is a list of texts")
        return [_whole(text) for text in value]

    def body(self, name: str) -> bytes:
        """Bytes written in base64."""
        try:
            return base64.b64decode(self.text(name), validate=True)
        except (binascii.Error, ValueError) as error:
            raise _Untakable(f"{name} is not base64: {error}" if name in self._values else str(error)) from None

    def truth(self, name: str) -> bool:
        """True or false; false where it is absent."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, bool):
            raise _Untakable(f"{name} is true or false")
        return bool(value)

    def moment(self, name: str) -> float:
        """A time in epoch seconds or as an HTTP date; this moment where it is absent."""
        value = self._values.get(name)
        if value is None:
            return time.time()
        if isinstance(value, str):
            value = http_date(value, time.time())
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e11 < value < 1e11:
            raise _Untakable(f"{name} is a time in epoch seconds")
        return float(value)


def _whole(text: str) -> str:
    """The text as a USVString: lone surrogates, which JSON can write, are no characters."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _robots(case: Case) -> dict[str, Any]:
    rules = _rules(case.body("robots_b64"), _token(case.text("agent", "")))
    return {
        "allow": rules.allows(case.text("url")),
        "delay": rules.crawl_delay,
        "sitemaps": list(rules.sitemaps),
    }


@lru_cache(maxsize=32)
def _rules(body: bytes, agent: str) -> Rules:
    return Rules.parse(body, agent)


def _token(agent: str) -> str:
    """The product token of an agent that may be written out."""
    match = _WRITTEN_OUT.match(agent)
    return match[1] if match else agent


def _robots_tag(case: Case) -> dict[str, Any]:
    found = robots([], case.texts("values"), _token(case.text("agent", "")), case.moment("now"))
    return {"noindex": found.noindex, "nofollow": found.nofollow, "noarchive": found.noarchive}


def _url(case: Case) -> dict[str, Any]:
    href = resolve(case.text("base", ""), case.text("url"))
    try:
        options = case.settings.urls.options()
        normal = None if href is None else normalise(href, case.settings.scheduler.url_bytes, options)
    except BadURL:
        normal = None
    return {"href": href, "normal": normal}


def _type(case: Case) -> dict[str, Any]:
    found = sniff(case.body("body_b64"), case.texts("content_types"), case.truth("nosniff"))
    return {"type": found.type, "binary": found.binary}


def _encoding(case: Case) -> dict[str, Any]:
    body, content_types = case.body("body_b64"), case.texts("content_type")
    supplied = combined(content_types)
    # Without a type it is read as the page that it would be in a browser, unless it says that it is XML.
    essence = supplied.essence if supplied else sniff(body, [], nosniff=False).type
    is_html = essence in _HTML or (supplied is None and essence != "text/xml")
    found = to_text(body, supplied.get("charset") if supplied else "", is_html)
    return {"encoding": found.encoding, "text": found.text}


def _page(case: Case) -> dict[str, Any]:
    url = case.text("url", "")
    page = extract(_harvest(url, case.body("body_b64"), case.texts("content_type")), url, case.settings.page)
    return {
        "title": page.title,
        "headings": page.headings,
        "links": [(link.kind, link.url, link.text) for link in page.links],
        "meta": page.metas,
        "text": page.text,
        "encoding": page.charset,
        "type": page.type,
    }


def _harvest(url: str, body: bytes, content_types: list[str]) -> Harvest:
    """The harvest of an answer with this body, and with no other field than its type."""
    fields = "".join(f"Content-Type: {_NOT_IN_A_FIELD.sub(' ', value)}\r\n" for value in content_types)
    header = f"HTTP/1.1 200 OK\r\n{fields}\r\n".encode("latin-1", "replace")
    return Harvest(jcf.job(), outcome="ok", fetched="1970-01-01T00:00:00.000Z", header=header, body=body)


def _sitemap(case: Case) -> dict[str, Any]:
    found = sitemaps.parse(case.body("body_b64"), case.text("url", ""))
    return {"urls": [(loc, lastmod or None) for loc, lastmod in found.urls], "sitemaps": found.sitemaps}


def _date(case: Case) -> dict[str, Any]:
    return {"epoch": http_date(case.text("value", ""), case.moment("now"))}


def _retry_after(case: Case) -> dict[str, Any]:
    return {"seconds": retry_after.seconds(case.text("value", ""), case.moment("now"))}


def _refresh(case: Case) -> dict[str, Any]:
    found = references.refresh(case.text("value", ""))
    if found is None:
        return {"seconds": None, "url": None}
    base = case.text("base", "")
    return {"seconds": found[0], "url": resolve(base, found[1]) if base else found[1]}


def _link_header(case: Case) -> dict[str, Any]:
    base = case.text("base", "")
    links = []
    for uri, rel in references.link_header(case.text("value", "")):
        target = resolve(base, uri) if base else uri
        if target is not None:
            links.append((target, rel))
    return {"links": links}


KINDS: dict[str, Callable[[Case], dict[str, Any]]] = {
    "robots": _robots,
    "robots-tag": _robots_tag,
    "url": _url,
    "type": _type,
    "encoding": _encoding,
    "page": _page,
    "sitemap": _sitemap,
    "date": _date,
    "retry-after": _retry_after,
    "refresh": _refresh,
    "link-header": _link_header,
}


def answer(kind: str, line: bytes, settings: Settings) -> bytes:
    """The answer to one line, without its line end."""
    try:
        values = _read(line)
        if not isinstance(values, dict):
            raise _Untakable("a case is a JSON object")
        found = KINDS[kind](Case(values, settings))
    except _Untakable as error:
        found = {"error": str(error)}
    except Exception as error:  # one case must not cost the others their answers
        found = {"error": f"this case cannot be judged: {type(error).__name__}: {error}"}
    return _written(found)


def _read(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass
    try:
        # It takes what the fast reader refuses and Python writes: lone surrogates, and texts in other encodings.
        return json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise _Untakable(f"this is not JSON: {error}") from None


def _written(found: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(found)
    except TypeError:
        return json.dumps(found).encode()


def lines(stream: IO[bytes]) -> Iterator[list[bytes | None]]:
    """The lines of a stream, those together that came together; None for one that is too long."""
    rest = bytearray()
    is_cut = False
    while chunk := _some(stream):
        start = len(rest)
        rest += chunk
        if rest.find(b"\n", start) < 0:
            if len(rest) > LINE_BYTES:
                is_cut = True
                rest.clear()
            continue
        *whole, last = bytes(rest).split(b"\n")
        yield [None if (is_cut and not number) or len(line) > LINE_BYTES else line for number, line in enumerate(whole)]
        is_cut = False
        rest = bytearray(last)
    if rest or is_cut:
        yield [None if is_cut else bytes(rest)]


def _some(stream: IO[bytes]) -> bytes:
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    return read(_READ_BYTES)


@command("check", settings=True)
@click.argument("kind", type=click.Choice(list(KINDS)), metavar="KIND")
def check_command(session: Session, kind: str) -> None:
    """Judge cases of your own, a JSON line each, as the harvest would.

    KIND is robots, robots-tag, url, type, encoding, page, sitemap, date, retry-after, refresh or link-header.
    """
    settings = load(session.where(), session.overrides)
    too_long = _written({"error": f"a line has at most {LINE_BYTES} bytes"})
    out = sys.stdout.buffer
    for together in lines(sys.stdin.buffer):
        for line in together:
            out.write((too_long if line is None else answer(kind, line, settings)) + b"\n")
        out.flush()
