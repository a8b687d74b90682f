"""MIME types as the WHATWG standard reads them: parsing, several Content-Type fields combined, nosniff.

This module looks at header values only; what a body says of itself is `sniff`'s. It never does I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_BLANK = "\t\n\r "
_HTTP_BLANK = "\t "
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_QUOTABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.|\\\Z)*)("|\Z)', re.DOTALL)
_LIST_ITEM = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*(?:"|\\?\Z))*', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


_HTML = frozenset({"text/html", "application/xhtml+xml"})
#: Text that nobody reads: recorded by its facts.
_UNREAD = frozenset(
    {"text/css", "text/javascript", "text/ecmascript", "text/x-javascript", "text/jscript", "image/svg+xml"}
)
#: What pages are made of.
REQUISITES = ("image/*", "font/*", "text/*", "application/javascript", "application/x-javascript")
#: What servers send who do not know; only the body tells.
_UNKNOWN = frozenset({"unknown/unknown", "application/unknown", "*/*"})


@dataclass(frozen=True, slots=True)
class Mime:
    """A MIME type: essence in lower case, parameters in their order by lower-case name."""

    essence: str
    parameters: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> str:
        """The value of a parameter, or ""."""
        return next((value for known, value in self.parameters if known == name), "")

    def __str__(self) -> str:
        return self.essence + "".join(f";{name}={_as_value(value)}" for name, value in self.parameters)

    @property
    def is_xml(self) -> bool:
        """Whether it is an XML type by its name."""
        return self.essence.endswith("+xml") or self.essence in ("text/xml", "application/xml")


@lru_cache(maxsize=1024)
def parse(text: str) -> Mime | None:
    """Read one MIME type; None where it is not one."""
    text = text.strip(_BLANK)
    head, _, rest = text.partition(";")
    kind, slash, subtype = head.partition("/")
    subtype = subtype.rstrip(_BLANK)
    if not slash or not _TOKEN.fullmatch(kind) or not _TOKEN.fullmatch(subtype):
        return None
    parameters: dict[str, str] = {}
    for name, value in _parameters(rest):
        if name not in parameters and _TOKEN.fullmatch(name) and _QUOTABLE.fullmatch(value):
            parameters[name] = value
    return Mime(f"{kind}/{subtype}".lower(), tuple(parameters.items()))


def combined(content_types: list[str]) -> Mime | None:
    """The one type that several Content-Type fields together mean (Fetch standard); None where none is valid."""
    found: Mime | None = None
    essence = charset = ""
    for value in values_of(content_types):
        mime = parse(value)
        if mime is None or mime.essence == "*/*":
            continue
        found = mime
        if mime.essence != essence:
            essence, charset = mime.essence, mime.get("charset")
        elif mime.get("charset"):
            charset = mime.get("charset")
        elif charset:
            found = Mime(mime.essence, (*mime.parameters, ("charset", charset)))
    return found


def values_of(fields: list[str]) -> list[str]:
    """Split the fields of one name at their commas outside quotes."""
    if not fields:
        return []
    if len(fields) == 1 and "," not in fields[0]:
        return [fields[0].strip(_HTTP_BLANK)]
    text = ", ".join(fields)
    values = []
    at = 0
    while True:
        match = _LIST_ITEM.match(text, at)
        end = match.end() if match else len(text)
        values.append(text[at:end].strip(_HTTP_BLANK))
        if end >= len(text):
            return values
        at = end + 1


def is_read(essence: str) -> bool:
    """Whether a reader takes bodies of this type apart: HTML, XML and text, but no styles, scripts and drawings."""
    if essence in _UNREAD:
        return False
    return essence in _HTML or essence.startswith("text/") or essence.endswith(("/xml", "+xml"))


def is_wanted(content_types: list[str], more: tuple[str, ...] = ()) -> bool:
    """Whether a body is worth having: of a type that is read, that `more` names (`image/*`), or that is unknown."""
    mime = combined(content_types)
    if mime is None or mime.essence in _UNKNOWN or is_read(mime.essence):
        return True
    family = mime.essence.partition("/")[0] + "/*"
    return any(name.lower() in (mime.essence, family) for name in more)


def is_nosniff(fields: list[str]) -> bool:
    """Tell whether X-Content-Type-Options forbids to look at the body."""
    return bool(fields) and values_of(fields)[0].lower() == "nosniff"


def _parameters(rest: str) -> list[tuple[str, str]]:
    found = []
    at = 0
    while at < len(rest):
        while at < len(rest) and rest[at] in _BLANK:
            at += 1
        end = at
        while end < len(rest) and rest[end] not in ";=":
            end += 1
        name = rest[at:end].lower()
        if end >= len(rest):
            break
        at = end + 1
        if rest[end] == ";":
            continue
        if quoted := _QUOTED.match(rest, at):
            # What stands between the closing quote and the next semicolon is ignored.
            value = _ESCAPED.sub(r"\1", quoted[1])
            at = rest.find(";", quoted.end()) + 1 or len(rest)
            found.append((name, value))
            continue
        end = rest.find(";", at)
        end = len(rest) if end < 0 else end
        if value := rest[at:end].rstrip(_BLANK):
            found.append((name, value))
        at = end + 1
    return found


def _as_value(value: str) -> str:
    if _TOKEN.fullmatch(value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
