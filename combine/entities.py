"""Entities of XML, which mean nothing here: what a document declares is never expanded, and never becomes an address.

A reference to an entity that XML itself does not have is replaced by one character that nobody writes, so that whoever
reads the text knows that a part of it is missing. A bare `&`, as in a query that nobody escaped, is escaped: a parser
would end at it, or lose it. This module never does I/O.
"""

from __future__ import annotations

import re

#: Stands where something is that cannot be told; of Unicode's private ones, allowed in XML.
UNKNOWN = "\uf8fe"

_DOCTYPE = re.compile(rb"<!DOCTYPE.*?\]\s*>", re.DOTALL | re.IGNORECASE)

#: In CDATA all is as it is written. XML's own five are passed over at once.
_AMPERSAND = re.compile(
    rb"(<!\[CDATA\[.*?(?:\]\]>|\Z))|(&+)(?!(?:amp|lt|gt|quot|apos);)(?:(#?[\w.:\x80-\xff-]{1,64});)?", re.DOTALL
)
_NUMBER = re.compile(rb"#(?:([0-9]{1,10})|x([0-9A-Fa-f]{1,8}))")

#: Written as a number, which is the same in all encodings.
_MARK = b"&#%d;" % ord(UNKNOWN)


def without_declarations(body: bytes) -> bytes:
    """XML without a document type that declares entities; nothing where it cannot be cut out."""
    if b"<!ENTITY" not in body:
        return body
    # What is left of a declaration stands outside the document type, where it declares nothing.
    body = _DOCTYPE.sub(b"", body, count=1)
    return b"" if b"<!DOCTYPE" in body else body


def tamed(piece: bytes) -> bytes:
    """XML, or a piece of it that ends with a tag, without references to entities that are not XML's."""
    return _AMPERSAND.sub(_told, piece) if b"&" in piece else piece


def _told(match: re.Match[bytes]) -> bytes:
    if match[1]:
        return match[1]
    bare, name = match[2], match[3]
    if not name:
        return b"&amp;" * len(bare)
    kept = b"&%b;" % name if _is_character(name) else _MARK
    return b"&amp;" * (len(bare) - 1) + kept


def _is_character(name: bytes) -> bool:
    """Whether a reference is the number of a character that XML 1.0 (2.2) allows."""
    match = _NUMBER.fullmatch(name)
    if match is None:
        return False
    code = int(match[1]) if match[1] else int(match[2], 16)
    return code in (9, 10, 13) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000
