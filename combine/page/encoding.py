"""Bytes to text, as the HTML standard says: byte order mark, header, prescan of the first 1,024 bytes, then detection.

A declaration further on is honoured too, as browsers do when their parser comes to it. What nothing declares is UTF-8
if it can be read so; plain ASCII is windows-1252, the standard's fallback; for the rest a detector judges by the bytes.
Unreadable bytes become U+FFFD: a page is never lost for its charset, and the text never holds a lone surrogate.
This module never does I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from combine.page.detection import detected
from combine.page.labels import decode, encoding_for

#: Bytes in which a page must declare its encoding; browsers stop there too.
PRESCAN_BYTES = 1024

#: Bytes in which a late declaration is looked for; a page that holds it back longer has been read by then.
LATE_BYTES = 64 * 1024

_FALLBACK = "windows-1252"

_BOMS = ((b"\xef\xbb\xbf", "UTF-8"), (b"\xfe\xff", "UTF-16BE"), (b"\xff\xfe", "UTF-16LE"))
_CHARSET_WORD = re.compile(rb"charset", re.IGNORECASE)
_STARTS_TAG = re.compile(rb"<(?:(!--)|(meta)(?=[\t\n\f\r /])|/?[a-z]|([!/?]))", re.IGNORECASE)
_TAG_NAME_END = re.compile(rb"[\t\n\f\r >]")
_ATTRIBUTE = re.compile(
    rb"[\t\n\f\r /]*(?:(>)|([^\t\n\f\r />][^\t\n\f\r />=]*)"
    rb"(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:\"([^\"]*)\"|'([^']*)'|(?![\"'])([^\t\n\f\r >]*))|(?![\t\n\f\r ]*+=)))"
)
#: Where the first has no name, none has.
_CONTENT_CHARSET = re.compile(
    r"charset[\t\n\f\r ]*=[\t\n\f\r ]*+(?:\"([^\"]*)\"|'([^']*)'|(?![\"'])([^\t\n\f\r ;]*)|)", re.IGNORECASE
)
_LATE = re.compile(rb"<meta[^<>]*charset", re.IGNORECASE)
_XML_START = re.compile(rb"[\t\n\r ]*<\?xml[\t\n\r ]")
_XML_DECLARATION = re.compile(rb"<\?xml[^>]*?encoding[\x00-\x20]*=[\x00-\x20]*(?:\"([^\"]*)\"|'([^']*)')[^>]*>")


@dataclass(frozen=True, slots=True)
class Text:
    """A decoded body and the WHATWG name of the encoding it was read in, or IANA's of one that was proven."""

    text: str
    encoding: str


def to_text(body: bytes, http_charset: str, is_html: bool) -> Text:
    """Decode a body; anything gives a text."""
    encoding, skip = encoding_of(body, http_charset, is_html)
    return Text(decode(body[skip:] if skip else body, encoding), encoding)


def encoding_of(body: bytes, http_charset: str, is_html: bool, is_xml: bool = False) -> tuple[str, int]:
    """The encoding of a body, and how many bytes of byte order mark it starts with; XHTML may be HTML and XML."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return name, len(mark)
    if http_charset and (name := encoding_for(http_charset)):
        return name, 0
    head = body[:PRESCAN_BYTES]
    if (is_html and (name := prescan(head))) or (name := _xml_encoding(head)):
        return name, 0
    # Only a page that may declare something late gets the long look.
    may_declare = is_html and len(body) > PRESCAN_BYTES and _LATE.search(body, PRESCAN_BYTES - 100, LATE_BYTES)
    if may_declare and (name := prescan(body[:LATE_BYTES])):
        return name, 0
    if (is_xml or (not is_html and _XML_START.match(body))) and body.isascii():
        return "UTF-8", 0  # XML 1.0, 4.3.3: what declares nothing else; the other fallback is of HTML
    return _undeclared(body), 0


def prescan(head: bytes) -> str:
    """The encoding that the first bytes of a page declare in a meta element, "" if none (HTML standard, 13.2.3.2)."""
    if not _CHARSET_WORD.search(head):
        return ""
    at = 0
    while match := _STARTS_TAG.search(head, at):
        if match[1]:
            # The dashes that open a comment may be those that close it.
            end = head.find(b"-->", match.start() + 2)
            at = end + 3
        elif match[3]:
            end = head.find(b">", match.start())
            at = end + 1
        else:
            attributes, end, at = _attributes(head, match.end() if match[2] else _name_end(head, match.end()))
            if match[2] and end >= 0 and (found := _declared(attributes)):
                return found
        if end < 0:
            return ""
    return ""


def _name_end(head: bytes, at: int) -> int:
    match = _TAG_NAME_END.search(head, at)
    return match.start() if match else len(head)


def _attributes(head: bytes, at: int) -> tuple[dict[str, str], int, int]:
    """The attributes of a tag, the first of each name; -1 in the middle where the bytes end within the tag."""
    found: dict[str, str] = {}
    while (match := _ATTRIBUTE.match(head, at)) and match.end() < len(head) + bool(match[1]):
        at = match.end()
        if match[1]:
            return found, at, at
        value = match[3] if match[3] is not None else match[4] if match[4] is not None else match[5] or b""
        found.setdefault(match[2].decode("latin-1").lower(), value.decode("latin-1").lower())
    return found, -1, at


def _declared(attributes: dict[str, str]) -> str:
    """The encoding that a meta element declares."""
    name = ""
    if "charset" in attributes:
        name = encoding_for(attributes["charset"])
    elif attributes.get("http-equiv") == "content-type":
        name = content_charset(attributes.get("content", ""))
    # A page whose ASCII can be read is not in UTF-16, whatever it says.
    if name in ("UTF-16BE", "UTF-16LE"):
        return "UTF-8"
    return "windows-1252" if name == "x-user-defined" else name


def content_charset(content: str) -> str:
    """The encoding that a Content-Type in a meta element names, "" if none or unknown."""
    match = _CONTENT_CHARSET.search(content)
    return encoding_for(match[1] or match[2] or match[3] or "") if match else ""


def _xml_encoding(head: bytes) -> str:
    if head.startswith(b"<\x00?\x00x\x00"):
        return "UTF-16LE"
    if head.startswith(b"\x00<\x00?\x00x"):
        return "UTF-16BE"
    match = _XML_DECLARATION.match(head)
    if match is None:
        return ""
    name = encoding_for((match[1] or match[2] or b"").decode("latin-1"))
    return "UTF-8" if name in ("UTF-16BE", "UTF-16LE") else name


def _undeclared(body: bytes) -> str:
    if body.isascii() and b"\x1b" not in body and b"\x00" not in body:
        return _FALLBACK
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        # A body cut at a limit may end within a character.
        if error.start < len(body) - 3 or error.reason != "unexpected end of data":
            return detected(body) or _FALLBACK
    return (detected(body) or _FALLBACK) if b"\x00" in body or b"\x1b" in body else "UTF-8"
