"""HRF, the Harvested Record Format: what came back for one job, as the harvester leaves it in the spool.

    record   = "HRF/1.0" LF 1*( name ": " value LF ) LF request header body LF
    name     = letter *( letter / digit / "-" )   ; spelled exactly as in HEAD
    value    = *( any character but LF CR )       ; UTF-8

The head is at most HEAD_BYTES long; its lines `Request-Length`, `Header-Length` and `Body-Length` say how many bytes
follow. The body is as received after transfer decoding and before content decoding. Records follow one another in a
batch, with nothing in between. The version is looked at before anything else, so that a newer record is refused by its
name and never half understood. This module never does I/O and never decodes a body.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from mmap import mmap

from formats import jcf
from formats.jcf import Job, RecordError

VERSION = "HRF/1.0"

#: Bytes of the head with its empty line. A JCF line is at most 16 KiB; the rest is for lines that are not known here.
HEAD_BYTES = 64 * 1024

#: Bytes of the request head and of the response's header, each: sixteen times what a harvester takes (64 KiB), so that
#: a raised setting does not make records that nobody reads.
HEADER_BYTES = 1024 * 1024

#: Bytes of the body: a sitemap may have 50 MiB; above 1 GiB a length is damage and not a page.
BODY_BYTES = 1024 * 1024 * 1024

#: What became of a job, as far as a harvest tells it. A fetch that failed leaves no record.
OUTCOMES = frozenset(("ok", "not-modified", "redirect", "gone", "refused", "denied"))

#: Why a body is not whole, as in WARC-Truncated; "" where it is whole.
TRUNCATIONS = frozenset(("", "length", "time", "disconnect"))

#: The known lines of the head, in the order in which they are written, and what they say.
HEAD: dict[str, str] = {
    "Job": "the job line as it was handed out",
    "Outcome": "what became of it: ok, not-modified, redirect, gone, refused or denied",
    "Protocol": "protocol of the answer, such as HTTP/1.1",
    "Fetched": "when the answer came, UTC with milliseconds",
    "Elapsed-Ms": "milliseconds from the request to the end of the body",
    "Peer": "address and port that answered",
    "Digest": "sha1: and base32 of the body, as WARC-Payload-Digest",
    "Robots": "obeyed, or why robots.txt was not",
    "Tls": "why the server's certificate was not verified",
    "Truncated": "length, time or disconnect, where the body is not whole",
    "Request-Length": "bytes of the request head",
    "Header-Length": "bytes of the status line and header fields",
    "Body-Length": "bytes of the body",
}

#: Lines whose values are whole numbers, and the most they may say. Ten digits of milliseconds are months.
NUMBERS: dict[str, int] = {
    "Elapsed-Ms": 9_999_999_999,
    "Request-Length": HEADER_BYTES,
    "Header-Length": HEADER_BYTES,
    "Body-Length": BODY_BYTES,
}

_REQUIRED = frozenset(("Job", "Outcome", "Fetched", "Request-Length", "Header-Length", "Body-Length"))
_FIRST_LINE = VERSION.encode() + b"\n"
_OTHER_VERSION = re.compile(r"HRF/[0-9.]{1,10}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_LINE_END = re.compile(r"[\r\n]")
_FETCHED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_DIGITS = 15
_STATUS = re.compile(rb"[^ \r\n]+ +([0-9]{3})(?![0-9])")
_FOLD = re.compile(r"\r?\n[ \t]+")
_BLANK = " \t\r"

#: Bytes that are looked at first for the end of a head. Nearly every head is shorter.
_WINDOW_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Harvest:
    """What came back for one job: one record of a batch.

    Invariant: nothing here was interpreted. Request, header and body are the bytes that went over the line; `extra`
    holds the lines of the head that this version does not know.
    """

    job: Job
    outcome: str
    fetched: str
    protocol: str = ""
    elapsed_ms: int = 0
    peer: str = ""
    digest: str = ""
    robots: str = ""
    tls: str = ""
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
        """The header fields in the order received: name in lower case, value read as Latin-1."""
        # Split once and remembered: the parser asks for a dozen fields of each page.
        split = self._fields
        if split is None:
            split = _split_fields(self.header)
            object.__setattr__(self, "_fields", split)
        return split

    def field(self, name: str) -> str:
        """The value of the first header field of this name, or "" where there is none."""
        wanted = name.lower()
        for known, value in self.fields:
            if known == wanted:
                return value
        return ""

    def all(self, name: str) -> list[str]:
        """The values of all header fields of this name, in the order received."""
        wanted = name.lower()
        return [value for known, value in self.fields if known == wanted]


def dump(value: Harvest) -> bytes:
    """Write one whole record; raises RecordError for what no record can hold."""
    return b"".join((head(value, len(value.body)), value.body, b"\n"))


def head(value: Harvest, body_length: int) -> bytes:
    """Write everything before a body that lies elsewhere; an LF must follow that body. Raises RecordError as `dump`."""
    # Unknown lines go before the three lengths, so that these always close a head.
    rows = [
        VERSION,
        f"Job: {jcf.dump(value.job).decode()}",
        f"Outcome: {value.outcome}",
        f"Protocol: {value.protocol}" if value.protocol else "",
        f"Fetched: {value.fetched}",
        f"Elapsed-Ms: {value.elapsed_ms}",
        f"Peer: {value.peer}" if value.peer else "",
        f"Digest: {value.digest}" if value.digest else "",
        f"Robots: {value.robots}" if value.robots else "",
        f"Tls: {value.tls}" if value.tls else "",
        f"Truncated: {value.truncated}" if value.truncated else "",
        *[f"{name}: {text}" for name, text in value.extra],
        f"Request-Length: {len(value.request)}",
        f"Header-Length: {len(value.header)}",
        f"Body-Length: {body_length}",
    ]
    lines = [row for row in rows if row]
    text = "\n".join(lines)
    if fault := _fault_of(value, body_length) or _fault_of_extra(value.extra) or _fault_of_lines(text, lines):
        raise RecordError(fault)
    try:
        raw = text.encode("utf-8") + b"\n\n"
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
    """Read the record that starts at `offset`: the harvest and where it ends. Raises RecordError, naming the byte."""
    lines, extra, request_at = _read_head(data, offset)
    header_at = request_at + int(lines["Request-Length"])
    body_at = header_at + int(lines["Header-Length"])
    end = body_at + int(lines["Body-Length"])
    if end >= len(data):
        raise RecordError(f"byte {len(data)}: the HRF record that goes on to byte {end} is cut off here")
    if data[end : end + 1] != b"\n":
        raise RecordError(f"byte {end}: the line end that closes an HRF record is missing")
    value = Harvest(
        job=_read_job(lines["Job"], offset),
        outcome=lines["Outcome"],
        fetched=lines["Fetched"],
        protocol=lines.get("Protocol", ""),
        elapsed_ms=int(lines.get("Elapsed-Ms", "0")),
        peer=lines.get("Peer", ""),
        digest=lines.get("Digest", ""),
        robots=lines.get("Robots", ""),
        tls=lines.get("Tls", ""),
        truncated=lines.get("Truncated", ""),
        request=bytes(data[request_at:header_at]),
        header=bytes(data[header_at:body_at]),
        body=bytes(data[body_at:end]),
        extra=extra,
    )
    return value, end + 1


def scan(data: bytes | memoryview | mmap) -> Iterator[tuple[int, int, Harvest]]:
    """Read a batch record by record: offset, length, harvest. Raises RecordError at the first that is damaged."""
    offset = 0
    while offset < len(data):
        value, end = parse_at(data, offset)
        yield offset, end - offset, value
        offset = end


def _read_head(data: bytes | memoryview | mmap, offset: int) -> tuple[dict[str, str], tuple[tuple[str, str], ...], int]:
    """The known lines by name, the unknown ones in order, and where the request starts."""
    raw = _cut_head(data, offset)
    try:
        rows = raw.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise RecordError(f"byte {offset + error.start}: the HRF head is not UTF-8") from None
    lines: dict[str, str] = {}
    extra: list[tuple[str, str]] = []
    for place in range(1, len(rows)):
        name, separator, value = rows[place].partition(": ")
        if name in lines or not separator or "\r" in value:
            raise _bad_row(rows, place, offset)
        if name in HEAD:
            lines[name] = value
        elif _NAME.fullmatch(name):
            extra.append((name, value))
        else:
            raise _bad_row(rows, place, offset)
    if fault := _fault(lines):
        raise RecordError(f"byte {offset}: {fault}")
    return lines, tuple(extra), offset + len(raw) + 2


def _cut_head(data: bytes | memoryview | mmap, offset: int) -> bytes:
    """The head at `offset` without the two line ends that close it."""
    first = bytes(data[offset : offset + 40])
    if not first.startswith(_FIRST_LINE):
        line = first.split(b"\n")[0].decode("latin-1")
        if _OTHER_VERSION.fullmatch(line) and line != VERSION:
            raise RecordError(f"byte {offset}: {line} is not read here, only {VERSION}")
        raise RecordError(f"byte {offset}: an HRF record starts with the line {VERSION!r}, not with {line!r}")
    for size in (_WINDOW_BYTES, HEAD_BYTES):
        window = bytes(data[offset : offset + size])
        end = window.find(b"\n\n")
        if end >= 0:
            return window[:end]
    if len(window) < HEAD_BYTES:
        raise RecordError(f"byte {offset + len(window)}: the HRF record is cut off within its head")
    raise RecordError(f"byte {offset}: the HRF head is over the limit of {HEAD_BYTES} bytes")


def _bad_row(rows: list[str], place: int, offset: int) -> RecordError:
    at = offset + sum(len(row.encode()) + 1 for row in rows[:place])
    return RecordError(
        f"byte {at}: a line of an HRF head is 'Name: value', each known one once, not {rows[place][:60]!r}"
    )


def _fault(lines: Mapping[str, str]) -> str:
    """What is wrong with the known lines of a head; "" if nothing."""
    missing = _REQUIRED - lines.keys()
    if missing:
        return f"the HRF head has no line {min(missing)}"
    if lines["Outcome"] not in OUTCOMES:
        return f"Outcome {lines['Outcome'][:40]!r} is not one of {', '.join(sorted(OUTCOMES))}"
    if not _FETCHED.fullmatch(lines["Fetched"]):
        return f"Fetched {lines['Fetched'][:40]!r} is not a time like 2026-11-30T08:00:00.123Z"
    if lines.get("Truncated", "") not in TRUNCATIONS:
        return f"Truncated {lines['Truncated'][:40]!r} is not length, time or disconnect"
    for name, most in NUMBERS.items():
        text = lines.get(name, "0")
        if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) <= most):
            return f"{name} {text[:40]!r} is not a whole number up to {most}"
    return ""


def _fault_of(value: Harvest, body_length: int) -> str:
    """What no head can say of a harvest; "" if nothing."""
    numbers = (value.elapsed_ms, len(value.request), len(value.header), body_length)
    is_said = value.outcome in OUTCOMES and value.truncated in TRUNCATIONS and _FETCHED.fullmatch(value.fetched)
    if is_said and all([0 <= number <= most for number, most in zip(numbers, NUMBERS.values(), strict=True)]):
        return ""
    said = {"Job": "", "Outcome": value.outcome, "Fetched": value.fetched, "Truncated": value.truncated}
    return _fault(said | {name: str(number) for name, number in zip(NUMBERS, numbers, strict=True)})


def _fault_of_extra(extra: tuple[tuple[str, str], ...]) -> str:
    for name, _ in extra:
        if name in HEAD or not _NAME.fullmatch(name):
            return f"{name[:60]!r} is not a name for a further line of an HRF head"
    return ""


def _fault_of_lines(text: str, lines: list[str]) -> str:
    """Which of the lines, that are joined in `text`, holds a line end; "" if none."""
    if "\r" not in text and text.count("\n") == len(lines) - 1:
        return ""
    return f"a line of an HRF head cannot hold a line end: {next(filter(_LINE_END.search, lines))[:60]!r}"


def _read_job(line: str, offset: int) -> Job:
    try:
        return jcf.parse(line.encode())
    except RecordError as error:
        raise RecordError(f"byte {offset}: in the line Job: {error}") from None


def _split_fields(header: bytes) -> list[tuple[str, str]]:
    """Header fields of a response; a line that starts with a blank goes on with the one before it (RFC 9112, 5.2)."""
    text = header.decode("latin-1")
    if "\n " in text or "\n\t" in text:
        text = _FOLD.sub(" ", text)
    pairs: list[tuple[str, str]] = []
    for line in text.split("\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            pairs.append((name.strip(_BLANK).lower(), value.strip(_BLANK)))
    return pairs
