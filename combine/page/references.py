"""References that stand in other places than a plain attribute: srcset, meta refresh, the Link header, running text.

Each function reads a value as its standard says and gives back references as they are written. Values that no standard
allows give nothing. This module never does I/O.
"""

from __future__ import annotations

import re

from combine.page.labels import query_bytes
from combine.urls import resolve

#: WHATWG HTML, "shared declarative refresh steps": digits, a separator, then perhaps `url=`, perhaps quotes.
_REFRESH = re.compile(
    r"""[\t\n\f\r ]*(?:([0-9]+)|(?=\.))[0-9.]*(?:(?=[;,\t\n\f\r ])[\t\n\f\r ]*[;,]?[\t\n\f\r ]*(.*))?""", re.DOTALL
)
_REFRESH_URL = re.compile(r"""[Uu][Rr][Ll][\t\n\f\r ]*=[\t\n\f\r ]*(.*)""", re.DOTALL)
_LINE_ENDS = dict.fromkeys(map(ord, "\t\n\r"))
_CANDIDATE = re.compile(r"[\t\n\f\r ,]*([^\t\n\f\r ]+)([^,(]*(?:\([^)]*\)?[^,(]*)*)")
_DESCRIPTOR = re.compile(r"(?:[^\t\n\f\r (]|\([^)]*\)?)+")
_SIZE = re.compile("0*[1-9][0-9]*")
#: A number as HTML has it; of the negative ones only zero.
_DENSITY = re.compile(r"(?:(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)|-(?:0+(?:\.0+)?|\.0+))(?:[eE][+-]?[0-9]+)?")
_TEXT_URL = re.compile(r"""https?://[^\s<>"'`\\^{|}\x00-\x20]+""", re.IGNORECASE)
#: One link of a Link header: its target, and its parameters up to the next comma outside quotes.
_LINK = re.compile(r'[\s,]*+<([^>]*)>((?:[^",]|"(?:[^"\\]|\\.)*+(?:"|\Z))*+)', re.DOTALL)
_LINK_PARAMETER = re.compile(r';\s*([^\s=;"]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*+)"?|([^;"\s]*)))?', re.DOTALL)
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)
_FOLD = re.compile(r"\r?\n[ \t]+")
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_NOT_PLAIN = re.compile("[^\x00-\x0d\x10-\x1a\x1c-\x7f]+")  # what ISO-2022-JP does not write as it is
#: How a byte stands in a query (URL standard: the special-query percent-encode set).
_IN_QUERY = [f"%{byte:02X}" if byte < 0x21 or byte > 0x7E or byte in b"\"#'<>" else chr(byte) for byte in range(256)]
_PUNCTUATION = ".,;:!?*_~"
_CLOSING = {")": "(", "]": "["}


def candidates(srcset: str) -> list[str]:
    """The addresses in a srcset attribute, but for those that a browser drops for what stands behind them."""
    found = []
    at = 0
    while match := _CANDIDATE.match(srcset, at):
        href, descriptors = match[1], match[2]
        at = match.end()
        if href.endswith(","):
            # A comma right after the address ends this candidate: it has no descriptors.
            at = match.end(1)
            href, descriptors = href.rstrip(","), ""
        if href and (not descriptors or _are_descriptors(descriptors)):
            found.append(href)
    return found


def _are_descriptors(text: str) -> bool:
    """Whether they go together (HTML, 4.8.4.3.10): a density alone, or a width, with or without a height."""
    kinds = set()
    for descriptor in _DESCRIPTOR.findall(text):
        kind = descriptor[-1]
        size = {"x": _DENSITY, "w": _SIZE, "h": _SIZE}.get(kind)
        if kind in kinds or size is None or not size.fullmatch(descriptor[:-1]):
            return False
        kinds.add(kind)
    return kinds in ({"x"}, {"w"}, {"w", "h"}, set())


def refresh(content: str) -> tuple[int, str] | None:
    """Seconds and reference of a meta refresh, "" for the page itself; None where it is not one."""
    match = _REFRESH.fullmatch(content)
    if match is None:
        return None
    # More digits than that are for ever, and Python refuses to read thousands of them.
    seconds, rest = int((match[1] or "0")[:12]), match[2] or ""
    url = _REFRESH_URL.match(rest)
    reference = url[1] if url else rest
    if url or rest:
        quote = reference[:1]
        if quote and quote in "\"'":
            reference = reference[1:].partition(quote)[0]
    # What a URL parser would leave out anyway.
    return seconds, reference.translate(_LINE_ENDS).strip(" \f")


def link_header(value: str, page: str = "") -> list[tuple[str, str]]:
    """The targets in a Link header (RFC 8288), each with one relation type; "" where it names none.

    With the URL of the `page`, a link that is anchored elsewhere has no relation: it speaks of another page (3.2).
    """
    found: list[tuple[str, str]] = []
    value = _FOLD.sub("", value)
    at = 0
    while match := _LINK.match(value, at):
        at = match.end()
        parameters: dict[str, str] = {}
        for name, quoted, token in _LINK_PARAMETER.findall(match[2]):
            parameters.setdefault(name.lower(), _QUOTED_PAIR.sub(r"\1", quoted) or token)  # the first counts (3.3)
        rel = parameters.get("rel", "")
        if page and "anchor" in parameters and (resolve(page, parameters["anchor"]) or "").partition("#")[0] != page:
            rel = ""
        found.extend((match[1].strip(), word) for word in rel.split() or [""])
    return found


def in_encoding(reference: str, encoding: str) -> str:
    """A reference with its query as a page in this encoding means it: URLs carry bytes, and those are the page's.

    What the encoding does not have is a number, as in forms (URL standard, 5.2: percent-encode after encoding).
    """
    head, mark, rest = reference.partition("?")
    written = _NOT_PLAIN if encoding == "ISO-2022-JP" else _NOT_ASCII
    if not mark or "#" in head or not written.search(rest):
        return reference
    query, hash_mark, fragment = rest.partition("#")
    query = written.sub(lambda run: "".join([_IN_QUERY[byte] for byte in query_bytes(run[0], encoding)]), query)
    return head + mark + query + hash_mark + fragment


def urls_in(text: str, limit: int) -> list[str]:
    """The http(s) URLs written out in a plain text, at most so many; punctuation after a URL is not part of it."""
    found = []
    for match in _TEXT_URL.finditer(text):
        found.append(_trimmed(match[0]))
        if len(found) == limit:
            break
    return found


def _trimmed(url: str) -> str:
    """The URL without the punctuation after it; a closing bracket belongs to it only if it was opened in it."""
    excess = {closing: url.count(closing) - url.count(opening) for closing, opening in _CLOSING.items()}
    end = len(url)
    while end:
        last = url[end - 1]
        if excess.get(last, 0) > 0:
            excess[last] -= 1
        elif last not in _PUNCTUATION:
            break
        end -= 1
    return url[:end]
