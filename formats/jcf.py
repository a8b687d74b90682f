"""JCF, the Job Control Format: one line that says what to ask for, why and how.

    record    = "JCF/0.0" 1*( SP parameter )
    parameter = name "=" DQUOTE value DQUOTE
    name      = letter *( letter / digit )        ; case-insensitive, written in upper case
    value     = *( any character but LF CR TAB DQUOTE )

The line is UTF-8 and at most LINE_BYTES long. Everything that the daemons say to one another is lines of JCF, so this
is the one codec and the one target for fuzzing. Historical lines (Combine 1.x) end in a blank and hold raw ampersands;
both are read, and so are repeated blanks and names in lower case.

The values of URL_VALUED stand as they are, and so do those of names that this module does not know: nobody can say here
what a per cent sign means in them. In ENCODED the four characters that a value may not hold, and the per cent sign that
names them, are percent-encoded. Other per cent signs are read as they stand. This module never does I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

VERSION = "JCF/0.0"

#: Bytes a line, without its LF. The longest URL (2,048) fits four times, with a long ETag; nginx takes lines of 8 KiB.
LINE_BYTES = 16 * 1024

#: Every parameter that has a meaning, and what it says. docs/formats.md gives the same in groups.
PARAMETERS: dict[str, str] = {
    # In a job.
    "URL": "the URL, normalised; required in a job",
    "HDB": "historical: where the record goes; kept and passed on",
    "KIND": "kind of job: page (where it is absent), robots, sitemap or relink; kind of line in an answer of WHY",
    "FOR": "in a robots job: the site that waits for it",
    "SEED": "the seed that the job descends from",
    "TAG": "the seed's tag, inherited by links",
    "VIA": "the page on which the URL was found",
    "DEPTH": "fewest known hops from a seed",
    "HOPS": "redirects so far",
    "PRIO": "priority, from 0 (first) to 9",
    "SINCE": "due if the last visit is older than this time, UTC; inherited by links",
    "CHANGED": "due if the last visit is older than this time, UTC, when the page changed as a sitemap says",
    "REQUISITE": "1: an image, style or script of the page in VIA",
    # In the ADD of a seed.
    "SCOPE": "host, domain or under:PREFIX: how far links are followed",
    "MAXDEPTH": "how many hops from the seed links are followed",
    "INCLUDE": "regular expression that a URL must match",
    "EXCLUDE": "regular expression that a URL must not match",
    "HOSTS": "in a lease, where hosts alone decide what is in scope: host:NAME or domain:NAME, with blanks between",
    "REQUISITES": "1: images, styles and scripts of the pages are taken, too; also in a lease",
    "LIMIT": "how many pages the seeds of a run may take together",
    "BUDGET": "name of the run's page budget",
    "LEFT": "pages left in the budget",
    "REFUSALS": "how often in a row a site has refused",
    "ROOM": "requests and bytes that the budget of a site's day still allows, with a blank between",
    "OUT": "pages of the budget that are handed out now",
    "ELSE": "URL to try instead when https fails for a seed that was given without a scheme",
    # In a lease.
    "FETCH": "fetch number of this hand-out",
    "LEASE": "number of the lease",
    "ADDR": "address to connect to",
    "DELAY": "seconds between requests, or auto; in DONE the crawl-delay of robots.txt",
    "NRT": "tries so far",
    "FTIME": "time of the last visit that left a record, UTC",
    "ETAG": "ETag of the last visit that left a record, with its quotes",
    "LMOD": "Last-Modified of the last visit that left a record, as received",
    "TYP": "MIME type of the last visit that left a record",
    # In DONE and STORED, in answers and events.
    "OUTCOME": "what became of the job: ok, not-modified, redirect, gone, refused, denied or failed",
    "STATUS": "status of the HTTP answer",
    "REASON": "why, in a word or a sentence",
    "AFTER": "seconds of Retry-After",
    "END": "1: the lease is over",
    "ASKED": "requests made for the job, robots.txt included, where it was not one",
    "TOOK": "milliseconds from the request to the end of the body",
    "SIZE": "bytes of the body as received",
    "BATCH": "name of the batch file that holds the harvest",
    "DUE": "when the URL is next due, UTC; in an answer of STAT, the sites that are due",
    "EVERY": "in a visit: seconds between two visits, where they follow how often the page changes",
    "DIGEST": "digest of the visible text",
    "ROBOTS": "changed: a new robots.txt differs from the last",
    "TO": "target of a redirect",
    "RECORD": "1: a record of the URL stands in the store",
    # In the other requests and answers.
    "SITE": "a site",
    "SITES": "how many sites to hand out at most; in an answer of STAT, the sites that have a visit",
    "WAIT": "seconds to hold the request at most",
    "SAME": "another URL with the same text",
    "GONE": "since when the page has been gone, UTC; in an answer of STAT, how many were",
    "HOLD": "1: the removal is held back",
    "SCOPES": "pairs scope:hops-left that the URL was offered with",
    "EVENTS": "the last outcomes of a URL",
    "BEFORE": "only visits that are due before this time, UTC",
    "COUNT": "how many",
    "LAST": "when it was last asked, UTC",
    "NEXT": "seconds until it may be asked",
    "HOLDER": "process that holds the lease",
    "BLOCK": "1: leave the site alone, 0: no longer",
    "REQUESTS": "requests to the site so far",
    "FAILURES": "failed requests in a row",
    "GATE": "open or paused",
    "STATE": "state of a row, a site or a process",
    "TIME": "when it happened, UTC",
    # Counters in answers of STAT.
    "NAME": "name of the daemon, the process or the setting",
    "QUEUED": "rows queued",
    "LEASED": "rows leased",
    "FETCHED": "rows fetched and not yet stored; in the facts of a robots.txt, when it was last asked for, UTC",
    "DEAD": "rows dead",
    "UNRESOLVED": "sites whose name is not resolved",
    "WAITING": "sites that wait for their delay",
    "LEASEDSITES": "sites leased",
    "BLOCKED": "sites blocked",
    "PAGES": "pages in the last minute",
    "BYTES": "bytes in the last minute",
    "IDLE": "seconds since an outcome other than failed was committed",
    "STALLED": "why nothing is handed out, in a sentence",
    "URLS": "URLs that have a visit",
    "RECORDS": "URLs that have a record",
    "HELD": "removals held back",
    "OK": "pages stored",
    "UNCHANGED": "pages found unchanged",
    "REDIRECTED": "URLs that redirect",
    "REFUSED": "URLs refused",
    "DENIED": "URLs denied",
    "FAILED": "fetches that failed",
    "PUBLIC": "rows queued of public hosts",
    # In the facts beside a robots.txt.
    "EXPIRES": "until when nobody asks again, UTC",
    "GOOD": "when its rules were last read, UTC",
    "OPEN": "when it was last found missing, UTC",
    "DOWN": "since when it is unreachable, UTC",
    # In the facts beside a harvest in bad/.
    "OFFSET": "byte of the batch at which the harvest starts",
    "AT": "when it was put there, UTC",
    # In events.
    "EVENT": "what happened",
    "VALUE": "to what it was set",
    "DETAIL": "more about it, in a sentence",
}

#: Their values are URLs, normalised, which never hold a quote or a control character. They stand as they are.
URL_VALUED = frozenset(("URL", "VIA", "SEED", "ELSE", "TO", "SAME"))

#: Their values may be any text: encoded when written, decoded when read. HDB has come and gone as it stands since 1.x.
ENCODED = frozenset(PARAMETERS) - URL_VALUED - {"HDB"}

_NAME = re.compile("[A-Z][A-Z0-9]*")
_READ_NAME = re.compile(" +([A-Za-z][A-Za-z0-9]*)=")
_WRITTEN = {f" {name}=": name for name in PARAMETERS}
_CODES = {"%22": '"', "%25": "%", "%0D": "\r", "%0A": "\n", "%09": "\t"}
_CODE = re.compile("%(?:22|25|0[DA9])", re.IGNORECASE)
_ENCODE = str.maketrans({character: code for code, character in _CODES.items()})
_SPECIAL = re.compile('[%\n\r\t"]')
_NEVER = re.compile('[\n\r\t"]')
_WHOLE = re.compile("-?[0-9]{1,18}")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_YEAR_S = 366 * 86400.0


class RecordError(ValueError):
    """Bytes are not a record of their format; the text says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Job:
    """One JCF line: its parameters by upper-case name, in the order of the line.

    Values are decoded text. A missing parameter reads as "" through `get` and `url`, and as the default elsewhere.
    """

    params: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str, default: str = "") -> str:
        """The value of a parameter, or `default` where the line has none."""
        return self.params.get(name, default)

    def number(self, name: str, default: int = 0) -> int:
        """The whole number in a parameter, `default` where there is none; raises RecordError where it is not one."""
        value = self.params.get(name)
        if not value:
            return default
        # Nearly all are short and plain, and need no look by an expression.
        if not (value.isdecimal() and value.isascii() and len(value) <= 18) and not _WHOLE.fullmatch(value):
            raise RecordError(f"{name}={value[:40]!r} is not a whole number")
        return int(value)

    def seconds(self, name: str, default: float = 0.0) -> float:
        """The seconds in a parameter, never negative, at most a year; raises RecordError where it is no number."""
        value = self.params.get(name)
        if not value:
            return default
        if not _SECONDS.fullmatch(value):
            raise RecordError(f"{name}={value[:40]!r} is not a number of seconds")
        return min(float(value), _YEAR_S)

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
    line = line.removesuffix(b"\n")
    if len(line) > LINE_BYTES:
        raise RecordError(f"a JCF line of {len(line)} bytes is over the limit of {LINE_BYTES}")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"byte {error.start} of the JCF line is not UTF-8") from None
    return parse_text(text)


def parse_text(text: str) -> Job:
    """Read one line already decoded, without LF; raises RecordError where it is not JCF."""
    if not text.startswith(VERSION):
        raise RecordError(f"a JCF line starts with {VERSION!r}, not with {text[:20]!r}")
    if "\n" in text or "\r" in text or "\t" in text:
        raise RecordError("a JCF line cannot hold a line end or a tab")
    # Names and values take turns between the quotes. This is three times as fast as matching the grammar.
    parts = text[len(VERSION) :].split('"')
    end = len(parts) - 1
    params: dict[str, str] = {}
    for place in range(0, end - 1, 2):
        name = _WRITTEN.get(parts[place]) or _read_name(parts, place)
        if name in params:
            raise RecordError(f"the JCF parameter {name} is given twice")
        value = parts[place + 1]
        if "%" in value and name in ENCODED:
            value = _CODE.sub(_decode, value)
        params[name] = value
    if end % 2 or end == 0 or parts[end].strip(" "):
        raise _expected(parts, end - end % 2)
    return Job(params)


def dump(value: Job) -> bytes:
    """Write one line without its LF; raises RecordError for what no line can hold."""
    try:
        line = dump_text(value).encode("utf-8")
    except UnicodeEncodeError as error:
        raise RecordError(f"character {error.start} of the JCF line cannot be written in UTF-8") from None
    if len(line) > LINE_BYTES:
        raise RecordError(f"a JCF line of {len(line)} bytes is over the limit of {LINE_BYTES}")
    return line


def dump_text(value: Job) -> str:
    """Write one line as text, of whatever length; raises RecordError for what no line can hold."""
    params = value.params
    if not params:
        raise RecordError("a JCF line has at least one parameter")
    # Most lines hold nothing special, which one look at all their values together tells.
    special = _SPECIAL.search("".join(params.values()))
    parts = [VERSION]
    for name, text in params.items():
        if name not in PARAMETERS and not _NAME.fullmatch(name):
            raise RecordError(f"{name[:40]!r} is not the name of a JCF parameter")
        parts.append(f'{name}="{_encode(name, text) if special and _SPECIAL.search(text) else text}"')
    return " ".join(parts)


def _read_name(parts: list[str], place: int) -> str:
    match = _READ_NAME.fullmatch(parts[place])
    if match is None:
        raise _expected(parts, place)
    return match[1].upper()


def _expected(parts: list[str], place: int) -> RecordError:
    at = len(VERSION) + sum(len(part) + 1 for part in parts[:place])
    found = '"'.join(parts[place:])[:30]
    return RecordError(f'after character {at} of the JCF line NAME="value" is expected, not {found!r}')


def _decode(code: re.Match[str]) -> str:
    return _CODES[code[0].upper()]


def _encode(name: str, text: str) -> str:
    if name in ENCODED:
        return text.translate(_ENCODE)
    if _NEVER.search(text):
        raise RecordError(f"the JCF parameter {name} cannot hold a quote, tab or line end: {text[:60]!r}")
    return text
