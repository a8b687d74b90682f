"""Ask for one URL, once, at the address that the lease names, and say what came of it.

Theory of operation. One session of aiohttp serves all sites of a harvester. The scheduler resolves names; the lease
carries the address, and three places see to it that nothing else is spoken to: `fetch` judges the address, the resolver
hands out only the leased one, and the socket factory (which aiohttp calls for literal addresses too) makes sockets only
to addresses of fetches under way. A kept connection is used again only if its other end is the leased address. Nothing
is followed and nothing is tried again: each request counts for politeness, so the harvester decides about it. The
network's failures are outcomes in `Fetched`, never exceptions; only cancellation leaves `fetch` otherwise.

Limits. The status line and the fields are written anew from what the parser read: blanks around values and folded lines
are lost, and so are lines that were no fields (see `head`).
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType

import aiohttp
from aiohttp.client_reqrep import ClientResponse
from yarl import URL

from combine import __version__
from combine.config import Settings
from combine.web.addresses import Allowed, Refused, canonical
from combine.web.answer import after, base32, field_of, header_of, location_of, request_of, types_of, utc
from combine.web.body import Body, read_body
from combine.web.challenge import is_challenge
from combine.web.connection import SOURCE, Lease, Leases, OtherPeer, Protocol
from combine.web.credentials import CookieFault, Credentials
from combine.web.faults import reason_of
from formats.hrf import Harvest
from formats.jcf import Job

#: Seconds an idle connection is kept: less than the 5 s of Apache and Node, so that a request seldom meets a closing
#: one.
KEEP_S = 4.0

#: Bytes of the shortest field: with `header_bytes` it bounds how many there can be.
FIELD_BYTES = 4

#: Bytes read of an answer that leaves no harvest, so that its connection can be kept.
UNKEPT_BYTES = 64 * 1024

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CODINGS = "gzip, deflate, br, zstd"

_FAILED = frozenset({408, 425, 429})
_GONE = frozenset({404, 410})
_REDIRECT = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
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
        self._leases = Leases()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Fetcher:
        """Open the session; it belongs to the running loop."""
        limits = self._limits
        connector = aiohttp.TCPConnector(
            limit=0,
            use_dns_cache=False,
            resolver=self._leases,
            socket_factory=self._leases.make_socket,
            happy_eyeballs_delay=None,
            keepalive_timeout=KEEP_S,
            ssl=ssl.create_default_context(),
        )
        # There is no parameter for it; a test sees to it that the attribute is still used.
        vars(connector)["_factory"] = partial(Protocol, loop=asyncio.get_running_loop())
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers=self._headers(),
            request_class=self._leases.request_class(),
            timeout=aiohttp.ClientTimeout(
                total=limits.fetch_s, sock_connect=limits.connect_s, sock_read=limits.first_byte_s
            ),
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=limits.header_bytes // FIELD_BYTES,
        )
        # aiohttp asks again by itself where a kept connection died; a request that the site may have seen is ours to
        # count.
        self._session._retry_connection = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def fetch(
        self, job: Job, address: str, *, robots: str, head_only: bool = False, body_limit: int | None = None
    ) -> Fetched:
        """Ask exactly once for the job's URL at `address`.

        `robots` says how robots.txt was heeded and goes into the harvest.
        """
        asking = _Asking(job, robots, time.time(), time.monotonic())
        try:
            url = URL(job.url, encoded=True)
            host, port = url.raw_host or "", url.port or 0
            if not host or url.scheme not in ("http", "https"):
                raise ValueError("no host")
        except (ValueError, TypeError) as error:
            return asking.refused("url", f"this URL cannot be asked for: {error}")
        if not address:
            return asking.failed("dns", f"{host} has no address")
        address = canonical(address)
        try:
            self._allowed.check(host, address)
        except Refused as refusal:
            return asking.refused("address", str(refusal))
        lease = self._leases.enter(host, port, address)
        try:
            SOURCE.set(self._credentials.source(job.url))
            return await self._ask(asking, url, lease, head_only, self._body_limit(job, body_limit))
        finally:
            self._leases.leave(lease)

    async def _ask(self, asking: _Asking, url: URL, lease: Lease, head_only: bool, body_limit: int) -> Fetched:
        method = "HEAD" if head_only else "GET"
        assert self._session is not None
        response: ClientResponse | None = None
        rule = self._settings.site_rule(lease.host) if url.scheme == "https" else None
        if accepted := rule is not None and rule.tls == "accept":
            assert rule is not None
            asking.tls = f"accepted because {rule.because}"
        try:
            headers = _conditions(asking.job) | self._credentials.headers(asking.job.url)
            ask = partial(self._session.request, method, url, headers=headers, allow_redirects=False, ssl=not accepted)
            try:
                response = await ask()
            except OtherPeer:
                # Nothing was sent, and that connection is closed: a new one goes to the leased address.
                response = await ask()
            return await self._read(asking, response, lease, body_limit)
        except CookieFault as fault:
            return asking.failed("cookies", str(fault))
        except (aiohttp.ClientError, OSError, ValueError, Refused, OtherPeer) as error:
            reason, detail = reason_of(error)
            if reason in ("address", "url"):
                return asking.refused(reason, detail)
            failed = asking.failed(reason, detail, peer=lease.peer)
            return replace(failed, is_stale=reason == "reset" and lease.is_kept)
        finally:
            if response is not None:
                response.release()

    async def _read(self, asking: _Asking, response: ClientResponse, lease: Lease, body_limit: int) -> Fetched:
        header = header_of(response)
        if len(header) > self._limits.header_bytes:
            return asking.failed("http", f"the header is over {self._limits.header_bytes} bytes", peer=lease.peer)
        location = location_of(response)
        conditional = (
            "If-None-Match" in response.request_info.headers or "If-Modified-Since" in response.request_info.headers
        )
        outcome = outcome_of(response.status, bool(location), conditional)
        if outcome == "failed":
            body = await read_body(response, min(body_limit, UNKEPT_BYTES), self._limits.slowest_bytes_s)
            if asking.job.kind != "robots" and _is_challenge(response, header, body):
                return asking.challenged(response, header, body, lease.peer)
            after_s = after(response)
            detail = f"the answer was {response.status}"
            return asking.failed("status", detail, status=response.status, after_s=after_s, peer=lease.peer)
        if outcome == "ok" and asking.job.kind == "page" and not self._is_wanted(asking.job, types_of(response)):
            response.close()
            return asking.unread(response, header, lease.peer)
        spill = self._spill_path if asking.job.kind != "robots" else None
        body = await read_body(
            response, body_limit, self._limits.slowest_bytes_s, spill=spill, spill_bytes=self._limits.spill_bytes
        )
        if body.truncated in ("time", "disconnect") and not body.length:
            reason = "timeout" if body.truncated == "time" else "reset"
            return asking.failed(reason, "the body never came", status=response.status, peer=lease.peer)
        if asking.job.kind != "robots" and _is_challenge(response, header, body):
            return asking.challenged(response, header, body, lease.peer)
        return asking.answered(outcome, response, header, body, location, lease.peer)

    def _body_limit(self, job: Job, body_limit: int | None) -> int:
        limit = self._limits.body_bytes if body_limit is None else body_limit
        if job.kind == "sitemap":
            return max(limit, self._limits.sitemap_bytes)
        return min(limit, self._settings.politeness.robots_bytes) if job.kind == "robots" else limit

    def _spill_path(self) -> Path:
        self._spilled += 1
        return self._spill_dir / f"{self._prefix}.{self._spilled}"

    def _headers(self) -> dict[str, str]:
        agent = self._settings.agent
        contact = f" (+{agent.url})" if agent.url else ""
        headers = {
            "User-Agent": f"{agent.name}/1{contact} combine-system/{__version__}",
            "Accept": ACCEPT,
            "Accept-Encoding": CODINGS,
        }
        if agent.email:
            headers["From"] = agent.email
        return headers


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


@dataclass(slots=True)
class _Asking:
    """One call of `fetch`: what it began with, and the three ways in which it ends."""

    job: Job
    robots: str
    began: float
    began_monotonic: float
    tls: str = ""  # why a certificate was not verified

    def answered(
        self, outcome: str, response: ClientResponse, header: bytes, body: Body, location: str, peer: str
    ) -> Fetched:
        took_ms = self._took_ms()
        version = response.version
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
            request=request_of(response),
            header=header,
            body=body.data,
            tls=self.tls,
        )
        return Fetched(
            outcome=outcome,
            status=response.status,
            reason="status" if outcome == "refused" else "",
            harvest=harvest,
            body_path=body.path,
            body_length=body.length,
            location=location if outcome == "redirect" else "",
            after_s=after(response) if response.status >= 300 else None,
            took_ms=took_ms,
            ended=boottime(),
            peer=peer,
        )

    def challenged(self, response: ClientResponse, header: bytes, body: Body, peer: str) -> Fetched:
        """The site wants to see a person: that is a refusal, whatever the status says of later."""
        fetched = self.answered("refused", response, header, body, "", peer)
        assert fetched.harvest is not None
        return replace(fetched, reason="challenge", harvest=replace(fetched.harvest, extra=(("Challenge", "yes"),)))

    def unread(self, response: ClientResponse, header: bytes, peer: str) -> Fetched:
        """A body that nobody reads was not waited for: what the header says is kept."""
        fetched = self.answered("ok", response, header, Body(b"", 0, b""), "", peer)
        assert fetched.harvest is not None
        facts = replace(fetched.harvest, digest="", extra=(("Unread", "type"),))
        return replace(fetched, harvest=facts, is_unread=True)

    def failed(
        self, reason: str, detail: str, *, status: int = 0, after_s: float | None = None, peer: str = ""
    ) -> Fetched:
        return Fetched(
            outcome="failed",
            status=status,
            reason=reason,
            detail=detail,
            after_s=after_s,
            took_ms=self._took_ms(),
            ended=boottime(),
            peer=peer,
        )

    def refused(self, reason: str, detail: str) -> Fetched:
        harvest = Harvest(job=self.job, outcome="refused", fetched=utc(self.began), robots=self.robots)
        return Fetched(
            outcome="refused", reason=reason, detail=detail, harvest=harvest, took_ms=self._took_ms(), ended=boottime()
        )

    def _took_ms(self) -> int:
        return int((time.monotonic() - self.began_monotonic) * 1000)


def _is_challenge(response: ClientResponse, header: bytes, body: Body) -> bool:
    return is_challenge(response.status, header, body.data, field_of(response, "Content-Encoding"))


def _conditions(job: Job) -> dict[str, str]:
    headers = {}
    if job.kind == "robots":
        headers["Accept-Encoding"] = "identity"  # it is kept as received, for people to read
    if (etag := job.get("ETAG")) and etag.isascii() and etag.isprintable():
        headers["If-None-Match"] = etag
    if (modified := job.get("LMOD")) and modified.isascii() and modified.isprintable():
        headers["If-Modified-Since"] = modified
    return headers


def boottime() -> float:
    """Seconds since the machine started, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
