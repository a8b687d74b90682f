"""JCF, the Job Control Format: one line that says what to ask for, why and how.

    record    = "JCF/0.0" 1*( SP parameter )
    parameter = name "=" DQUOTE value DQUOTE
    name      = letter *( letter / digit )        ; case-insensitive, written in upper case
    value     = *( any character but LF CR TAB DQUOTE )

The line is UTF-8 and at most LINE_BYTES long. Everything that the daemons say to one another is lines of JCF, so this is the one
codec and the one target for fuzzing. Historical lines (Combine 1.x) end in a blank and hold raw ampersands; both are read.
Parameters in URL_VALUED, and those that this module does not know, stand as they are. In the others the five characters that
a value may not hold (and the percent sign that names them) are percent-encoded. This module never does I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

VERSION = "JCF/0.0"

#: Bytes a line, without its LF. The longest URL (2,048) twice, a long ETag and the rest fit many times; nginx takes 8 KiB.
LINE_BYTES = 16 * 1024

#: Their values are URLs, normalised, which never hold a quote or a control character.
URL_VALUED = frozenset({"URL", "VIA", "SEED", "ELSE", "TO", "FALLBACK"})

#: Their values may be any text: encoded when written, decoded when read.
ENCODED = frozenset(
    "TAG FOR SCOPE INCLUDE EXCLUDE LIMIT ETAG LMOD TYP REASON SINCE FTIME DIGEST SAME EVENT NAME STATE "
    "SCOPES BATCH GATE VALUE DETAIL".split()
)

_PARAMETER = re.compile(r' +([A-Za-z][A-Za-z0-9]*)="([^"\n\r\t]*)"')
_HEX = {"%22": '"', "%25": "%", "%0D": "\r", "%0A": "\n", "%09": "\t"}
_ENCODED_CHARACTER = re.compile("%(?:22|25|0[DA9])", re.IGNORECASE)
_UNSAFE = str.maketrans({character: code for code, character in _HEX.items()})
_NEVER = re.compile('[\n\r\t"]')


class RecordError(ValueError):
    """Bytes are not a record of their format; the text says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Job:
    """One JCF line: its parameters by upper-case name, in the order of the line.

    Values are decoded text. A missing parameter reads as "" through `get` and as None through the typed properties.
    """

    params: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str, default: str = "") -> str:
        """The value of a parameter, or `default` where the line has none."""
        return self.params.get(name, default)

    def number(self, name: str, default: int = 0) -> int:
        """The whole number in a parameter; raises RecordError where it is not one."""
        value = self.params.get(name)
        if value is None or value == "":
            return default
        if not (value.isascii() and value.lstrip("-").isdigit() and len(value) < 20):
            raise RecordError(f"{name}={value[:40]!r} is not a whole number")
        return int(value)

    def seconds(self, name: str, default: float = 0.0) -> float:
        """The seconds in a parameter, never negative, at most a year; raises RecordError where it is no number."""
        value = self.params.get(name)
        if value is None or value == "":
            return default
        if not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", value):
            raise RecordError(f"{name}={value[:40]!r} is not a number of seconds")
        return min(float(value), 366 * 86400.0)

    @property
    def url(self) -> str:
        """The URL, or "" in a line that is not a job."""
        return self.params.get("URL", "")

    @property
    def kind(self) -> str:
        """`page` unless the line says otherwise."""
        return self.params.get("KIND", "page")

    @property
    def fetch(self) -> int:
        """The fetch number, 0 where the job was never handed out."""
        return self.number("FETCH")

    def having(self, **changes: str | int | float | None) -> Job:
        """The same line with parameters set (a value), or left out (None)."""
        params = dict(self.params)
        for name, value in changes.items():
            if value is None:
                params.pop(name, None)
            else:
                params[name] = str(value)
        return Job(params)

    def without(self, names: Iterable[str]) -> Job:
        """The same line without these parameters."""
        left_out = frozenset(names)
        return Job({name: value for name, value in self.params.items() if name not in left_out})


def job(**params: str | int | float | None) -> Job:
    """A line from keyword arguments; None leaves a parameter out."""
    return Job({name: str(value) for name, value in params.items() if value is not None})


def parse(line: bytes) -> Job:
    """Read one line, with or without its LF; raises RecordError where it is not JCF."""
    if len(line) > LINE_BYTES + 1:
        raise RecordError(f"a JCF line of {len(line)} bytes is over the limit of {LINE_BYTES}")
    try:
        text = line.removesuffix(b"\n").decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"byte {error.start} of the JCF line is not UTF-8") from None
    return parse_text(text)


def parse_text(text: str) -> Job:
    """Read one line already decoded, without LF; raises RecordError where it is not JCF."""
    if not text.startswith(VERSION):
        raise RecordError(f"a JCF line starts with {VERSION!r}, not with {text[:20]!r}")
    params: dict[str, str] = {}
    end = len(VERSION)
    while match := _PARAMETER.match(text, end):
        name = match[1].upper()
        if name in params:
            raise RecordError(f"the JCF parameter {name} is given twice")
        value = match[2]
        if "%" in value and name in ENCODED:
            value = _ENCODED_CHARACTER.sub(lambda code: _HEX[code[0].upper()], value)
        params[name] = value
        end = match.end()
    if text[end:].strip(" ") or not params:
        raise RecordError(f"after character {end} of the JCF line NAME=\"value\" is expected, not {text[end : end + 30]!r}")
    return Job(params)


def dump(value: Job) -> bytes:
    """Write one line without its LF; raises RecordError for what no line can hold."""
    line = dump_text(value).encode("utf-8", "strict")
    if len(line) > LINE_BYTES:
        raise RecordError(f"a JCF line of {len(line)} bytes is over the limit of {LINE_BYTES}")
    return line


def dump_text(value: Job) -> str:
    """Write one line as text; raises RecordError for what no line can hold."""
    if not value.params:
        raise RecordError("a JCF line has at least one parameter")
    parts = [VERSION]
    for name, text in value.params.items():
        if name in ENCODED:
            text = text.translate(_UNSAFE)
        elif _NEVER.search(text):
            raise RecordError(f"the JCF parameter {name} cannot hold a quote, tab or line end: {text[:60]!r}")
        parts.append(f'{name}="{text}"')
    return " ".join(parts)
