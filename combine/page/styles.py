"""What style sheets refer to: `url(...)` and `@import`, told as CSS Syntax (level 3) does, without a tree of them.

Comments and strings are passed over, escapes undone, namespaces left out, since they are names that nobody fetches.
This module never does I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser

#: Characters of a style sheet that are read, and references that are taken of it.
LIMIT_CHARACTERS = 1024 * 1024
LIMIT_REFERENCES = 1000

_STRING = r"""(?:"((?:\\.|[^"\\\n\r\f])*+)(?:"|\Z)|'((?:\\.|[^'\\\n\r\f])*+)(?:'|\Z))"""
_TOKEN = re.compile(
    rf"""/\*.*?(?:\*/|\Z)
      | (?<![\w-])@namespace\b[^;{{}}]*+
      | (?<![\w-])@import(?![\w-])\s*+{_STRING}
      | (?<![\w-])url\(\s*+(?:{_STRING}|((?:\\[0-9a-f]{{1,6}}\s?|\\[^\n\r\f]|[^"'()\\\s])++)\s*+(?:\)|\Z))
      | "(?:\\.|[^"\\\n\r\f])*+"? | '(?:\\.|[^'\\\n\r\f])*+'?""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})(?:\r\n|\s)?|(\r\n|[\n\r\f])|(.))", re.DOTALL | re.IGNORECASE)


def of_sheet(text: str) -> list[str]:
    """The references of a style sheet, each once, as they are meant."""
    found: dict[str, None] = {}
    for reference in _references(text[:LIMIT_CHARACTERS]):
        if len(found) >= LIMIT_REFERENCES:
            break
        found[reference] = None
    return list(found)


def of_page(source: bytes) -> list[str]:
    """The references in the style elements and attributes of an HTML page, given in UTF-8."""
    if b"style" not in source and b"STYLE" not in source.upper():
        return []
    tree = LexborHTMLParser(source)
    sheets = [node.text() for node in tree.css("style")]
    sheets += [node.attributes.get("style") or "" for node in tree.css("[style]")]
    return of_sheet("\n".join(sheets))


def _references(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        value = next((group for group in match.groups() if group), "")
        if value and (reference := _ESCAPE.sub(_character, value).strip()):
            yield reference


def _character(match: re.Match[str]) -> str:
    if match[1]:
        code = int(match[1], 16)
        return chr(code) if 0 < code < 0xD800 or 0xDFFF < code < 0x110000 else "\ufffd"
    return match[3] or ""
