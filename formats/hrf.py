"""HRF, the Harvested Record Format: what came back for one job, as the harvester leaves it in the spool.

    record   = "HRF/1.0" LF 1*( name ": " value LF ) LF request header body LF
    name     = letter *( letter / digit / "-" )   ; spelled exactly as in HEAD
    value    = *( any character but NUL LF CR )   ; UTF-8

The head is at most HEAD_BYTES long; its lines `Request-Length`, `Header-Length` and `Body-Length` say how many bytes follow.
The body is as received after transfer decoding and before content decoding. Records follow one another in a batch, with
nothing in between. The version is looked at before anything else, so that a newer record is refused by its name and
never half understood. This module never does I/O and never decodes a body.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from mmap import mmap

from formats import jcf
from formats.jcf import Job, RecordError

VERSION = "HRF/1.0"

#: Bytes of the head with its empty line. A JCF line is at most 16 KiB; the rest is for lines that this version does not know.
HEAD_BYTES = 64 * 1024

#: Bytes of the request head and of the response's header, each: sixteen times what a harvester takes (64 KiB), so that
#: a raised setting does not make records that nobody reads.
HEADER_BYTES = 1024 * 1024

#: Bytes of the body: a sitemap may have 50 MiB; above 1 GiB a length is damage and not a page.
BODY_BYTES = 1024 * 1024 * 1024

#: What became of a job, as far as a harvest tells it. A fetch that failed leaves no record.
OUTCOMES = frozenset({"ok", "not-modified", "redirect", "gone", "refused", "denied"})

#: Why a body is not whole, as in WARC-Truncated; "" where it is whole.
TRUNCATIONS = frozenset({"", "length", "time", "disconnect"})

#: The known lines of the head, in the order in which they are written, and what they say.
HEAD: dict[str, str] = {
    "Job": "the job line as it was handed out",
    "Outcome": "what became of it: ok, not-modified, redirect, gone, refused or denied",
    "Protocol": "the protocol of the answer, such as HTTP/1.1",
    "Fetched": "when the answer came, UTC with milliseconds",
    "Elapsed-Ms": "milliseconds from the request to the end of the body",
    "Peer": "address and port that answered",
    "Digest": "sha1: and base32 of the body, as WARC-Payload-Digest",
    "Robots": "obeyed, or why robots.txt was not",
    "Truncated": "length, time or disconnect where the body is not whole",
    "Request-Length": "bytes of the request head",
    "Header-Length": "bytes of the status line and header fields",
    "Body-Length": "bytes of the body",
}

_REQUIRED = ("Job", "Outcome", "Fetched", "Request-Length", "Header-Length", "Body-Length")
_FIRST_LINE = VERSION.encode() + b"\n"
_LINE = re.compile(r"([A-Za-z][A-Za-z0-9-]*): ([^\0\r\n]*)")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_NEVER = re.compile(r"[\0\r\n]")
_FETCHED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_NUMBER = re.compile(r"[0-9]{1,15}")
_STATUS = re.compile(rb"[^ \r\n]+ +([0-9]{3})(?![0-9])")
_BLANK = " \t\r"
_WINDOW_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Harvest:
    """What came back for one job: one record of a batch.

    Invariant: nothing here was interpreted. Request, header and body are the bytes that went over the line.
    """

    job: Job
    outcome: str
    fetched: str
    protocol: str = ""
    elapsed_ms: int = 0
    peer: str = ""
    digest: str = ""
    robots: str = ""
    truncated: str = ""
    request: bytes = b""
    header: bytes = b""
    body: bytes = b""
    extra: tuple[tuple[str, str], ...] = ()
    _fields: list[tuple[str, str]] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def status(self) -> int:
        """The status of the answer, or 0 where there was none."""
        match = _STATUS.match(self.header)
        return int(match[1]) if match else 0

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The header fields in the order received: lower-case name and value, read as Latin-1. Lines without a colon are left out."""
        # Split once and remembered: the parser asks for a dozen fields of each page.
        if self._fields is None:
            object.__setattr__(self, "_fields", _split_fields(self.header))
        return self._fields or []

    def field(self, name: str) -> str:
        """The value of the first header field of this name, or "" where there is none."""
        wanted = name.lower()
        return next((value for known, value in self.fields if known == wanted), "")

    def all(self, name: str) -> list[str]:
        """The values of all header fields of this name, in the order received."""
        wanted = name.lower()
        return [value for known, value in self.fields if known == wanted]


def dump(value: Harvest) -> bytes:
    """Write one whole record; raises RecordError for what no record can hold."""
    return b"".join((head(value, len(value.body)), value.body, b"\n"))


def head(value: Harvest, body_length: int) -> bytes:
    """Write everything before the body, which lies elsewhere and is followed by LF; raises RecordError as `dump`."""
    known = {
        "Job": jcf.dump_text(value.job),
        "Outcome": value.outcome,
        "Protocol": value.protocol,
        "Fetched": value.fetched,
        "Elapsed-Ms": str(value.elapsed_ms),
        "Peer": value.peer,
        "Digest": value.digest,
        "Robots": value.robots,
        "Truncated": value.truncated,
    }
    lengths = {
        "Request-Length": str(len(value.request)),
        "Header-Length": str(len(value.header)),
        "Body-Length": str(body_length),
    }
    _check(known | lengths, 0)
    lines = [VERSION, *(f"{name}: {text}" for name, text in known.items() if text)]
    for name, text in value.extra:
        if name in HEAD or not _NAME.fullmatch(name):
            raise RecordError(f"{name[:60]!r} is not a name for a further line of an HRF head")
        lines.append(f"{name}: {text}")
    lines.extend(f"{name}: {text}" for name, text in lengths.items())
    for line in lines:
        if _NEVER.search(line):
            raise RecordError(f"a line of an HRF head cannot hold a line end or NUL: {line[:60]!r}")
    try:
        raw = "\n".join(lines).encode("utf-8") + b"\n\n"
    except UnicodeEncodeError as error:
        raise RecordError(f"character {error.start} of the HRF head cannot be written in UTF-8") from None
    if len(raw) > HEAD_BYTES:
        raise RecordError(f"an HRF head of {len(raw)} bytes is over the limit of {HEAD_BYTES}")
    return b"".join((raw, value.request, value.header))


def parse(data: bytes) -> Harvest:
    """Read exactly one record; raises RecordError where the bytes are anything else."""
    value, end = parse_at(data, 0)
    if end != len(data):
        raise RecordError(f"byte {end}: {len(data) - end} bytes follow the HRF record")
    return value


def parse_at(data: bytes | memoryview | mmap, offset: int) -> tuple[Harvest, int]:
    """Read the record that starts at `offset`; answer it and the offset of its end. Raises RecordError, naming the byte."""
    lines, extra, start = _read_head(data, offset)
    for name in _REQUIRED:
        if name not in lines:
            raise RecordError(f"byte {offset}: the HRF head has no line {name}")
    _check(lines, offset)
    header_at = start + int(lines["Request-Length"])
    body_at = header_at + int(lines["Header-Length"])
    end = body_at + int(lines["Body-Length"])
    if end >= len(data):
        raise RecordError(f"byte {len(data)}: the HRF record ends too soon, its end is at byte {end + 1}")
    if data[end : end + 1] != b"\n":
        raise RecordError(f"byte {end}: the line end that closes an HRF record is missing")
    value = Harvest(
        job=_parse_job(lines["Job"], offset),
        outcome=lines["Outcome"],
        fetched=lines["Fetched"],
        protocol=lines.get("Protocol", ""),
        elapsed_ms=int(lines.get("Elapsed-Ms", "0")),
        peer=lines.get("Peer", ""),
        digest=lines.get("Digest", ""),
        robots=lines.get("Robots", ""),
        truncated=lines.get("Truncated", ""),
        request=bytes(data[start:header_at]),
        header=bytes(data[header_at:body_at]),
        body=bytes(data[body_at:end]),
        extra=tuple(extra),
    )
    return value, end + 1


def scan(data: bytes | memoryview | mmap) -> Iterator[tuple[int, int, Harvest]]:
    """Read a batch record by record: offset, length, harvest. Raises RecordError at the first that is damaged."""
    offset = 0
    while offset < len(data):
        value, end = parse_at(data, offset)
        yield offset, end - offset, value
        offset = end


def _read_head(data: bytes | memoryview | mmap, offset: int) -> tuple[dict[str, str], list[tuple[str, str]], int]:
    """The known lines by name, the unknown ones in order, and where the request starts."""
    raw = _cut_head(data, offset)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"byte {offset + error.start}: the HRF head is not UTF-8") from None
    lines: dict[str, str] = {}
    extra: list[tuple[str, str]] = []
    for line in text.split("\n")[1:]:
        match = _LINE.fullmatch(line)
        if match is None:
            at = offset + len(text[: text.find("\n" + line)].encode()) + 1
            raise RecordError(f"byte {at}: a line of an HRF head is 'Name: value', not {line[:40]!r}")
        name, value = match.groups()
        if name not in HEAD:
            extra.append((name, value))
        elif name in lines:
            raise RecordError(f"byte {offset}: the HRF head has the line {name} twice")
        else:
            lines[name] = value
    return lines, extra, offset + len(raw) + 2


def _cut_head(data: bytes | memoryview | mmap, offset: int) -> bytes:
    """The head at `offset` without the two line ends that close it."""
    first = bytes(data[offset : offset + 40])
    if not first.startswith(_FIRST_LINE):
        line = first.split(b"\n")[0].decode("latin-1")
        if re.fullmatch(r"HRF/[0-9.]+", line) and line != VERSION:
            raise RecordError(f"byte {offset}: {line} is not read here, only {VERSION}")
        raise RecordError(f"byte {offset}: an HRF record starts with the line {VERSION!r}, not with {line!r}")
    for size in (_WINDOW_BYTES, HEAD_BYTES):
        window = bytes(data[offset : offset + size])
        end = window.find(b"\n\n")
        if end >= 0:
            return window[:end]
    if len(window) < HEAD_BYTES:
        raise RecordError(f"byte {offset + len(window)}: the HRF record ends within its head")
    raise RecordError(f"byte {offset}: the HRF head is over the limit of {HEAD_BYTES} bytes")


def _check(lines: dict[str, str], offset: int) -> None:
    """Raise RecordError for a value that its line cannot have."""
    where = f"byte {offset}: " if offset else ""
    if lines["Outcome"] not in OUTCOMES:
        raise RecordError(f"{where}{lines['Outcome'][:40]!r} is not an outcome of a harvest")
    if not _FETCHED.fullmatch(lines["Fetched"]):
        raise RecordError(f"{where}{lines['Fetched'][:40]!r} is not a time like 2026-11-30T08:00:00.123Z")
    if lines.get("Truncated", "") not in TRUNCATIONS:
        raise RecordError(f"{where}{lines['Truncated'][:40]!r} is not a reason why a body is not whole")
    for name, most in _NUMBERS.items():
        text = lines.get(name, "0")
        if not _NUMBER.fullmatch(text) or int(text) > most:
            raise RecordError(f"{where}{name} {text[:40]!r} is not a whole number up to {most}")


#: A fetch is over in minutes; ten digits of milliseconds are months.
_NUMBERS = {
    "Elapsed-Ms": 9_999_999_999,
    "Request-Length": HEADER_BYTES,
    "Header-Length": HEADER_BYTES,
    "Body-Length": BODY_BYTES,
}


def _parse_job(line: str, offset: int) -> Job:
    try:
        return jcf.parse_text(line)
    except RecordError as error:
        raise RecordError(f"byte {offset}: in the line Job: {error}") from None


def _split_fields(header: bytes) -> list[tuple[str, str]]:
    """Header fields of a response; a line that starts with a blank goes on with the one before it (RFC 9112, 5.2)."""
    pairs: list[tuple[str, str]] = []
    for line in header.decode("latin-1").split("\n")[1:]:
        if line[:1] in (" ", "\t") and pairs:
            name, value = pairs[-1]
            pairs[-1] = (name, (value + " " + line.strip(_BLANK)).strip())
            continue
        name, colon, value = line.partition(":")
        if colon:
            pairs.append((name.strip(_BLANK).lower(), value.strip(_BLANK)))
    return pairs
