"""Ask for one URL, once, at the address that the lease names, and say what came of it.

Theory of operation. The scheduler resolves names; the lease carries the address, which is judged here and becomes part
of the `Place` to which a connection belongs, so that nothing else can be spoken to. A host that is an address must be
that very address. Nothing is followed and nothing is tried again: each request counts for politeness, so the harvester
decides about it. The network's failures are outcomes in `Fetched`, never exceptions; only cancellation leaves `fetch`
otherwise.

Limits. The status line and the fields are written anew from what the parser read: blanks around values and folded lines
are lost, and so are lines that were no fields (see `head`).
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from combine import __version__
from combine.config import Settings
from combine.web.addresses import Allowed, Refused, canonical
from combine.web.aiohttp_parts import ClientError, HttpProcessingError, RawResponseMessage
from combine.web.answer import after, base32, field_of, header_of, location_of, types_of, utc
from combine.web.body import Body, read_body
from combine.web.challenge import is_challenge
from combine.web.connection import Connections, Place, Protocol, Unconnected
from combine.web.credentials import CookieFault, Credentials
from combine.web.faults import reason_of
from formats.hrf import Harvest
from formats.jcf import Job

#: Bytes read of an answer that leaves no harvest, so that its connection can be kept.
UNKEPT_BYTES = 64 * 1024

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CODINGS = "gzip, deflate, br, zstd"

_FAILED = frozenset({408, 425, 429})
_GONE = frozenset({404, 410})
_REDIRECT = frozenset({301, 302, 303, 307, 308})


@dataclass(slots=True)
class Fetched:
    """What came of one request.

    `harvest` is None where it failed; a spilled body lies in `body_path` and not in the harvest.
    """

    outcome: str
    status: int = 0
    reason: str = ""  # one word: connect timeout tls reset http dns address url status
    detail: str = ""  # a sentence for people
    harvest: Harvest | None = None
    body_path: Path | None = None
    body_length: int = 0
    location: str = ""  # of a redirect, as received
    after_s: float | None = None  # from Retry-After
    took_ms: int = 0
    ended: float = 0.0  # CLOCK_BOOTTIME: politeness counts from here
    peer: str = ""
    is_unread: bool = False  # nobody reads its type, so it was closed after the header
    requests: int = 1  # made for this job, those for robots.txt included
    is_stale: bool = False  # a kept connection was closed before a byte of the answer came


class Fetcher:
    """A harvester's one HTTP client.

    Invariant: it holds a socket only to addresses that `fetch` was given and `allowed` permits.
    """

    def __init__(
        self,
        settings: Settings,
        allowed: Allowed,
        spill_dir: Path,
        prefix: str = "body",
        is_wanted: Callable[[Job, list[str]], bool] = lambda job, content_types: True,
        home: Path = Path(),
    ) -> None:
        self._is_wanted = is_wanted
        self._credentials = Credentials(settings, home)
        self._settings = settings
        self._limits = settings.harvest
        self._allowed = allowed
        self._spill_dir = spill_dir
        self._prefix = prefix
        self._spilled = 0
        self._connections = Connections(self._limits)
        self._asked: set[tuple[str, int]] = set()
        self._fields = self._standing_fields()

    async def __aenter__(self) -> Fetcher:
        """Begin; connections belong to the running loop."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        self._connections.close()

    async def fetch(
        self, job: Job, address: str, *, robots: str, head_only: bool = False, body_limit: int | None = None
    ) -> Fetched:
        """Ask exactly once for the job's URL at `address`.

        `robots` says how robots.txt was heeded and goes into the harvest.
        """
        asking = _Asking(job, robots, time.time(), time.monotonic())
        try:
            origin, path = _parts(job.url)
            if not address:
                return asking.failed("dns", f"{origin.host} has no address")
            asking.place = self._place(job.url, origin, canonical(address))
        except (ValueError, Refused) as error:
            return asking.refused(*(reason_of(error) if isinstance(error, Refused) else ("url", f"{error}")))
        self._tell_accepted(asking)
        at = origin.host, origin.port
        assert at not in self._asked, f"{origin.host}:{origin.port} is being asked already"
        self._asked.add(at)
        try:
            return await self._ask(asking, origin, path, head_only, self._body_limit(job, body_limit))
        finally:
            self._asked.remove(at)

    def _place(self, url: str, origin: _Origin, address: str) -> Place:
        """Where the request goes; raises Refused where it may not."""
        if origin.literal and origin.literal != address:
            raise Refused(f"{origin.literal} is not the address that was leased")
        self._allowed.check(origin.host, address)
        source = self._credentials.source(url)
        rule = self._settings.site_rule(origin.host) if origin.is_tls and self._settings.site else None
        return Place(
            origin.is_tls, origin.host, origin.port, address, source, rule is not None and rule.tls == "accept"
        )

    def _tell_accepted(self, asking: _Asking) -> None:
        if asking.place.is_accepted and (rule := self._settings.site_rule(asking.place.host)) is not None:
            asking.tls = f"accepted because {rule.because}"

    async def _ask(self, asking: _Asking, origin: _Origin, path: str, head_only: bool, body_limit: int) -> Fetched:
        connection: Protocol | None = None
        is_kept = False
        try:
            method = "HEAD" if head_only else "GET"
            asking.request, sent = self._request(asking.job, f"{method} {path} HTTP/1.1\r\nHost: {origin.field}\r\n")
            connection = await self._connections.take(asking.place)
            is_kept, left_s = connection.is_used, self._limits.fetch_s - (time.monotonic() - asking.began_monotonic)
            connection.ask(sent, head_only, left_s)
            return await self._read(asking, connection, body_limit)
        except CookieFault as fault:
            return asking.failed("cookies", str(fault))
        except (ClientError, HttpProcessingError, OSError, ValueError, Unconnected) as error:
            failed = asking.failed(*reason_of(error))
            is_stale = failed.reason == "reset" and is_kept and connection is not None and connection.is_silent
            return replace(failed, is_stale=True) if is_stale else failed
        finally:
            if connection is not None:
                self._connections.give(asking.place, connection)

    async def _read(self, asking: _Asking, connection: Protocol, body_limit: int) -> Fetched:
        head, content = await connection.read()
        while 100 <= head.code <= 199 and head.code != 101:
            head, content = await connection.read()
        header = header_of(head)
        if len(header) > self._limits.header_bytes:
            return asking.failed("http", f"the header is over {self._limits.header_bytes} bytes")
        location = location_of(head)
        outcome = outcome_of(head.code, bool(location), asking.is_conditional)
        if outcome == "failed":
            body = await read_body(content, min(body_limit, UNKEPT_BYTES), self._limits.slowest_bytes_s)
            if asking.job.kind != "robots" and _is_challenge(head, header, body):
                return asking.challenged(head, header, body)
            return asking.failed("status", f"the answer was {head.code}", status=head.code, after_s=after(head))
        if outcome == "ok" and asking.job.kind == "page" and not self._is_wanted(asking.job, types_of(head)):
            connection.force_close()
            return asking.unread(head, header)
        spill = self._spill_path if asking.job.kind != "robots" else None
        body = await read_body(
            content, body_limit, self._limits.slowest_bytes_s, spill=spill, spill_bytes=self._limits.spill_bytes
        )
        if body.truncated in ("time", "disconnect") and not body.length:
            reason = "timeout" if body.truncated == "time" else "reset"
            return asking.failed(reason, "the body never came", status=head.code)
        if asking.job.kind != "robots" and _is_challenge(head, header, body):
            return asking.challenged(head, header, body)
        return asking.answered(outcome, head, header, body, location)

    def _body_limit(self, job: Job, body_limit: int | None) -> int:
        limit = self._limits.body_bytes if body_limit is None else body_limit
        if job.kind == "sitemap":
            return max(limit, self._limits.sitemap_bytes)
        return min(limit, self._settings.politeness.robots_bytes) if job.kind == "robots" else limit

    def _spill_path(self) -> Path:
        self._spilled += 1
        return self._spill_dir / f"{self._prefix}.{self._spilled}"

    def _standing_fields(self) -> tuple[str, str]:
        """The fields of every request: up to Accept, and those after Accept-Encoding."""
        agent = self._settings.agent
        contact = f" (+{agent.url})" if agent.url else ""
        named = f"User-Agent: {agent.name}/1{contact} combine-system/{__version__}\r\nAccept: {ACCEPT}\r\n"
        return named, f"From: {agent.email}\r\n" if agent.email else ""

    def _request(self, job: Job, first: str) -> tuple[bytes, bytes]:
        """The head of a request, without secrets as it is kept, and as it is sent; raises CookieFault, ValueError."""
        # robots.txt is kept as received, for people to read.
        coding = "identity" if job.kind == "robots" else CODINGS
        named, mail = self._fields
        lines = f"{first}{named}Accept-Encoding: {coding}\r\n{mail}"
        for name, value in _conditions(job):
            lines += f"{name}: {value}\r\n"
        kept = f"{lines}\r\n".encode()
        secrets = self._credentials.headers(job.url)
        if not secrets:
            return kept, kept
        if any("\r" in value or "\n" in value for value in secrets.values()):
            raise ValueError("a credential holds a line end")
        lines += "".join(f"{name}: {value}\r\n" for name, value in secrets.items())
        return kept, f"{lines}\r\n".encode()


@dataclass(frozen=True, slots=True)
class _Origin:
    """Scheme, host and port of a URL; `literal` where the host is an address, `field` as the request names it."""

    is_tls: bool
    host: str
    port: int
    literal: str
    field: str


#: A host is visible ASCII without the signs that part a URL: to name what it is not takes 3 ms to compile.
_ORIGIN = re.compile(r'(https?)://(\[[0-9A-Fa-f:.]+\]|[!"$-.0-9;->A-Z^-~]+)(?::([0-9]{1,5}))?', re.ASCII)
_PATH = re.compile(r"[!-~]*")


def _parts(url: str) -> tuple[_Origin, str]:
    """The origin of a normalised URL, and what is asked for there; raises ValueError, as a sentence."""
    start = url.find("/", url.find("://") + 3)
    path = url[start:].partition("#")[0] if start >= 0 else "/"
    if not _PATH.fullmatch(path):
        raise ValueError("this URL cannot be asked for: it is not encoded")
    return _origin(url[:start] if start >= 0 else url), path


@lru_cache(maxsize=4096)
def _origin(text: str) -> _Origin:
    match = _ORIGIN.fullmatch(text)
    if match is None:
        raise ValueError("this URL cannot be asked for: no host, or none of http and https")
    scheme, named, port = match[1], match[2], int(match[3] or (443 if match[1] == "https" else 80))
    if not 0 < port <= 65535:
        raise ValueError(f"this URL cannot be asked for: {port} is no port")
    host = named.strip("[]")
    literal = ""
    if ":" in host or host.rstrip(".").rpartition(".")[2].isdigit():
        try:
            literal = canonical(str(ipaddress.ip_address(host)))
        except ValueError:
            raise ValueError(f"this URL cannot be asked for: {host} is no address") from None
    is_usual = port == (443 if scheme == "https" else 80)
    return _Origin(scheme == "https", host, port, literal, named if is_usual else f"{named}:{port}")


def outcome_of(status: int, has_location: bool, conditional: bool) -> str:
    """What an answer with this status is called. A 304 that nobody asked for leaves nothing to keep, so it failed."""
    if 200 <= status < 300:
        return "ok"
    if status == 304:
        return "not-modified" if conditional else "failed"
    if status in _REDIRECT and has_location:
        return "redirect"
    if status in _GONE:
        return "gone"
    if status in _FAILED or not 300 <= status < 500:
        return "failed"
    return "refused"


_NOWHERE = Place(False, "", 0, "")


@dataclass(slots=True)
class _Asking:
    """One call of `fetch`: what it began with, and the three ways in which it ends."""

    job: Job
    robots: str
    began: float
    began_monotonic: float
    tls: str = ""  # why a certificate was not verified
    request: bytes = b""
    place: Place = _NOWHERE

    @property
    def is_conditional(self) -> bool:
        return b"\r\nIf-" in self.request

    def answered(self, outcome: str, head: RawResponseMessage, header: bytes, body: Body, location: str) -> Fetched:
        took_ms = self._took_ms()
        version, peer = head.version, self.place.peer
        harvest = Harvest(
            job=self.job,
            outcome=outcome,
            fetched=utc(self.began),
            protocol=f"HTTP/{version.major}.{version.minor}" if version else "",
            elapsed_ms=took_ms,
            peer=peer,
            digest="sha1:" + base32(body.sha1),
            robots=self.robots,
            truncated=body.truncated,
            request=self.request,
            header=header,
            body=body.data,
            tls=self.tls,
        )
        return Fetched(
            outcome=outcome,
            status=head.code,
            reason="status" if outcome == "refused" else "",
            harvest=harvest,
            body_path=body.path,
            body_length=body.length,
            location=location if outcome == "redirect" else "",
            after_s=after(head) if head.code >= 300 else None,
            took_ms=took_ms,
            ended=boottime(),
            peer=peer,
        )

    def challenged(self, head: RawResponseMessage, header: bytes, body: Body) -> Fetched:
        """The site wants to see a person: that is a refusal, whatever the status says of later."""
        fetched = self.answered("refused", head, header, body, "")
        assert fetched.harvest is not None
        return replace(fetched, reason="challenge", harvest=replace(fetched.harvest, extra=(("Challenge", "yes"),)))

    def unread(self, head: RawResponseMessage, header: bytes) -> Fetched:
        """A body that nobody reads was not waited for: what the header says is kept."""
        fetched = self.answered("ok", head, header, Body(b"", 0, b""), "")
        assert fetched.harvest is not None
        facts = replace(fetched.harvest, digest="", extra=(("Unread", "type"),))
        return replace(fetched, harvest=facts, is_unread=True)

    def failed(self, reason: str, detail: str, *, status: int = 0, after_s: float | None = None) -> Fetched:
        return Fetched(
            outcome="failed",
            status=status,
            reason=reason,
            detail=detail,
            after_s=after_s,
            took_ms=self._took_ms(),
            ended=boottime(),
            peer=self.place.peer if self.place is not _NOWHERE else "",
        )

    def refused(self, reason: str, detail: str) -> Fetched:
        harvest = Harvest(job=self.job, outcome="refused", fetched=utc(self.began), robots=self.robots)
        return Fetched(
            outcome="refused", reason=reason, detail=detail, harvest=harvest, took_ms=self._took_ms(), ended=boottime()
        )

    def _took_ms(self) -> int:
        return int((time.monotonic() - self.began_monotonic) * 1000)


def _is_challenge(head: RawResponseMessage, header: bytes, body: Body) -> bool:
    return is_challenge(head.code, header, body.data, field_of(head, "Content-Encoding"))


def _conditions(job: Job) -> list[tuple[str, str]]:
    fields = []
    if (etag := job.get("ETAG")) and etag.isascii() and etag.isprintable():
        fields.append(("If-None-Match", etag))
    if (modified := job.get("LMOD")) and modified.isascii() and modified.isprintable():
        fields.append(("If-Modified-Since", modified))
    return fields


def boottime() -> float:
    """Seconds since the machine started, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
