"""The keeper of robots.txt in a harvester: says whether a job may be asked for, and asks for the file when that is due.

Every request it needs goes through the harvester's own `ask`, which paces it under the lease of the site: robots.txt
counts as a request like any other. Redirects are followed here while they stay on the site. Where one leads to another
site, that site must be leased before it is asked; the permission then names the URL, and the harvester makes a `robots`
job of it, whose answer `fetch_for` (or `keep_for`) writes as the copy of the origin that waits for it.

Invariant: what is remembered in memory was read from, or written to, the store; so nothing is lost with the process.
"""

from __future__ import annotations

import time
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from combine.config import Settings
from combine.urls import BadURL, host_of, normalise, resolve, site_of
from combine.web.fetch import Fetched
from combine.web.policies import FILES, Policies, Signal
from combine.web.robots import Answer, Copy, RobotsStore, Verdict, judge, origin_of, standing
from combine.web.rules import LIMIT_BYTES, Rules
from formats import jcf
from formats.jcf import Job

#: Redirects followed for one robots.txt; RFC 9309 2.3.1.2 asks for at least five.
HOPS = 5

#: Origins whose rules a harvester remembers: ten times the sites it works on at once.
REMEMBERED = 1000

#: How a harvest says that robots.txt was heeded.
OBEYED = "obeyed"

Ask = Callable[[Job, str], Awaitable[Fetched]]


@dataclass(frozen=True, slots=True)
class Permission:
    """The answer for one job. One of `allowed`, `denied`, `closed` holds, or `redirect` says who is asked first."""

    allowed: bool = False
    denied: bool = False  # robots.txt forbids this URL
    closed: bool = False  # robots.txt is unreachable: again in `retry_s`
    robots: str = OBEYED  # what goes into the harvest
    crawl_delay: float | None = None
    sitemaps: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ()  # what robots.txt, and files beside it, say of the page's use
    requests_made: int = 0
    retry_s: float = 0.0
    changed: bool = False
    redirect: tuple[str, int] | None = None  # URL on another site, hops so far
    reason: str = ""  # of `closed`: what came instead of the file
    detail: str = ""  # of `closed`: what failed, in a sentence


@dataclass(slots=True)
class _Known:
    verdict: Verdict
    rules: Rules
    usual: dict[bool, Permission] = field(default_factory=dict)  # by whether a URL is allowed


class RobotsKeeper:
    """The permissions of one harvester process, a bounded memory over the store that all processes share."""

    def __init__(self, settings: Settings, store: RobotsStore, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._policies = Policies(settings, store, clock)

    async def permission(self, job: Job, address: str, ask: Ask) -> Permission:
        """Say whether the job may be asked for, asking for robots.txt first where that is due."""
        url = job.url
        rule = self._settings.site_rule(host_of(url)) if self._settings.site else None
        if rule is not None and rule.robots == "ignore":
            return Permission(allowed=True, robots=f"ignored because {rule.because}")
        origin = origin_of(url)
        known = self._remembered(origin)
        if known is not None:
            return self._usual(known, url)
        first = jcf.job(URL=f"{origin}/robots.txt", KIND="robots", LEASE=job.params.get("LEASE"), ADDR=address)
        answer, asked = await self._follow(first, 0, address, ask)
        if isinstance(answer, tuple):
            return Permission(requests_made=asked, redirect=answer)
        known = self._judge(origin, answer)
        return self._permission(known, url, asked, known.verdict.changed, answer)

    async def with_policies(self, job: Job, permission: Permission, address: str, ask: Ask) -> Permission:
        """The permission, and what other files of the site say of the page's use.

        They are asked for here where that is due: at the pace that the permission asks for, so it comes first.
        """
        if not permission.allowed or job.kind != "page" or self._settings.rights.purpose not in FILES:
            return permission
        known = self._remembered(origin_of(job.url)) if permission.robots == OBEYED else None
        if known is None:
            return permission

        async def follow(asked_for: Job) -> Answer | tuple[str, int]:
            answer, _ = await self._follow(asked_for.having(ADDR=address), 0, address, ask)
            return answer

        found = await self._policies.of(job, known.rules, follow)
        return replace(permission, signals=(*permission.signals, *found))

    async def fetch_for(self, job: Job, address: str, ask: Ask) -> Permission:
        """Do a `robots` job: ask for its URL, follow redirects on its site, and keep the answer as the copy of FOR.

        The permission is that of FOR's front page; `redirect` means that yet another site must be asked, and nothing
        was kept.
        """
        answer, asked = await self._follow(job, job.number("HOPS"), address, ask)
        if isinstance(answer, tuple):
            return Permission(requests_made=asked, redirect=answer)
        origin = job.get("FOR")
        known = self._judge(origin, answer)
        return self._permission(known, f"{origin}/", asked, known.verdict.changed, answer)

    def keep_for(self, origin: str, fetched: Fetched, hops: int = 0, to: str = "") -> Verdict:
        """Judge what came of asking for the robots.txt of `origin` and keep it as its copy, in memory and on disk."""
        return self._judge(origin, answer_of(fetched, hops, to)).verdict

    def _remembered(self, origin: str) -> _Known | None:
        now = self._clock()
        known = self._known.get(origin)
        if known is not None and now < known.verdict.until:
            self._known.move_to_end(origin)
            return known
        copy = self._store.load(origin)
        verdict = standing(copy, now, self._settings.politeness) if copy is not None else None
        return self._remember(origin, verdict) if verdict is not None else None

    def _judge(self, origin: str, answer: Answer) -> _Known:
        before: Copy | None = self._store.load(origin)
        copy, verdict = judge(before, origin, answer, self._clock(), self._settings.politeness)
        self._store.save(copy)
        return self._remember(origin, verdict)

    def _remember(self, origin: str, verdict: Verdict) -> _Known:
        known = _Known(verdict, Rules.parse(verdict.body, self._settings.agent.name))
        self._known[origin] = known
        self._known.move_to_end(origin)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return known

    def _usual(self, known: _Known, url: str) -> Permission:
        """What is remembered says of a URL.

        How long an unreadable file is left alone changes with each second, and signals about use may with each path.
        """
        if known.verdict.state == "closed" or known.rules.has_signals_by_path:
            return self._permission(known, url)
        allowed = known.verdict.state == "open" or known.rules.allows(url)
        found = known.usual.get(allowed)
        if found is None:
            found = known.usual[allowed] = self._permission(known, url)
        return found

    def _permission(
        self, known: _Known, url: str, asked: int = 0, changed: bool = False, answer: Answer | None = None
    ) -> Permission:
        state = known.verdict.state
        allowed = state == "open" or (state == "rules" and known.rules.allows(url))
        return Permission(
            allowed=allowed,
            denied=state == "rules" and not allowed,
            closed=state == "closed",
            crawl_delay=known.rules.crawl_delay,
            sitemaps=known.rules.sitemaps,
            signals=tuple((name, value, "robots.txt") for name, value in known.rules.signals_of(url)),
            requests_made=asked,
            retry_s=max(known.verdict.until - self._clock(), 1.0) if state == "closed" else 0.0,
            changed=changed,
            reason=known.verdict.fault,
            detail=answer.detail if answer is not None and answer.reason != "status" and state == "closed" else "",
        )

    async def _follow(self, job: Job, hops: int, address: str, ask: Ask) -> tuple[Answer | tuple[str, int], int]:
        asked = 0
        while True:
            fetched = await ask(job, address)
            asked += 1
            if fetched.outcome != "redirect":
                return answer_of(fetched, hops, job.url if hops else ""), asked
            hops += 1
            target = _target(job.url, fetched.location)
            if target is None or hops > HOPS:
                detail = "its redirect leads nowhere" if target is None else f"it redirects more than {HOPS} times"
                return Answer(fetched.status, reason="redirect", hops=hops, to=target or "", detail=detail), asked
            if site_of(target) != site_of(job.url):
                return (target, hops), asked
            job = job.having(URL=target)


def answer_of(fetched: Fetched, hops: int = 0, to: str = "") -> Answer:
    """What a request for robots.txt brought. A body that cannot be read, or broke off, is as good as none."""
    # A status is no answer where the rest of it never came.
    came = fetched.outcome != "failed" or fetched.reason == "status"
    status, body, reason = fetched.status if came else 0, b"", fetched.reason
    cache_control = ""
    if fetched.harvest is not None and 200 <= status < 300:
        harvest = fetched.harvest
        cache_control = ",".join(harvest.all("cache-control"))
        coding = harvest.field("content-encoding").strip().lower()
        decoded = _decoded(harvest.body, coding)
        if decoded is None or harvest.truncated in ("time", "disconnect"):
            status, reason = 0, "http" if decoded is None else "reset"
        else:
            body = decoded
    return Answer(status, body, reason, cache_control, fetched.after_s, to, hops, fetched.detail)


def _target(base: str, location: str) -> str | None:
    target = resolve(base, location)
    try:
        return normalise(target) if target is not None else None
    except BadURL:
        return None


def _decoded(body: bytes, coding: str) -> bytes | None:
    # It was asked for without coding; some servers compress all the same, and gzip is the one they then take.
    if coding in ("", "identity"):
        return body
    if coding not in ("gzip", "x-gzip", "deflate"):
        return None
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, LIMIT_BYTES)
    except zlib.error:
        return None
