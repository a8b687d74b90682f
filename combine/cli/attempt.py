"""The command try.

Ask for one page as a harvest would, and print the record it would make. Stores nothing, follows nothing.

It is polite as a harvester is: robots.txt is asked first, the site's delay lies between the two requests, and where a
scheduler runs, the site is leased from it, so that nobody else asks it meanwhile.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import click

from combine import __version__, urls
from combine.cli import peers, plan
from combine.cli.screen import put_bytes, put_json, say
from combine.cli.seeds import Seed, Wish, parse
from combine.cli.session import Session, command
from combine.config import Settings
from combine.errors import EXIT_DONE, EXIT_FINDING, EXIT_TRY_LATER, ConfigError, RetryLater
from combine.keep.home import Home, is_home
from combine.page.lesson import Lesson, learn
from combine.page.mime import is_wanted
from combine.schedule.names import look_up
from combine.schedule.scope import Scope, seed_rule
from combine.status import running
from combine.web.addresses import Allowed, Refused
from combine.web.fetch import Fetched, Fetcher
from combine.web.gate import Permission, RobotsKeeper
from combine.web.lease import SITE_FAILURES, Lease, Spacing, Tools, Unasked, Worker
from combine.web.robots import Copy, RobotsStore
from formats import jcf, wir
from formats.jcf import Job

#: Seconds that `try` waits for the lease of a site that another has.
_LEASE_WAIT_S = 20


@dataclass(slots=True)
class Attempt:
    """What came of one try; the harvester's reports end here. `facts` are said, `lesson` is what the page taught."""

    agent: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    got: Fetched | None = None
    permission: Permission | None = None
    lesson: Lesson | None = None
    code: int = EXIT_FINDING

    @property
    def is_unreached(self) -> bool:
        """Whether the site did not answer at all: neither for its robots.txt nor for the page."""
        if self.got is not None:
            return self.got.reason in SITE_FAILURES
        return any(f"({failure})" in text for _, text in self.facts for failure in SITE_FAILURES)

    async def fetched(self, job: Job, fetched: Fetched, permission: Permission) -> None:
        """The page was asked for."""
        body = fetched.body_path.read_bytes() if fetched.body_path else None
        if body is not None and fetched.harvest is not None:
            fetched = replace(fetched, harvest=replace(fetched.harvest, body=body))
        self.got, self.permission = fetched, permission

    async def denied(self, job: Job, permission: Permission, requests: int) -> None:
        """robots.txt forbids the page."""
        self.permission = permission
        self.facts.append(("robots", f"robots.txt forbids {job.url} to {self.agent}"))

    def unasked(self, job: Job, why: Unasked) -> None:
        """The page was not asked for."""
        if why.reason:
            self.code = EXIT_TRY_LATER
            self.facts.append(("robots", f"{why.reason}; again in {why.after_s:.0f} s"))

    def answered(self, job: Job, is_kept: bool, requests: int) -> None:
        """A robots job is done; `try` has none."""

    async def sitemaps(self, job: Job, permission: Permission) -> None:
        """robots.txt names sitemaps, which are not read here."""
        self.facts.append(("sitemap", " ".join(permission.sitemaps[:10])))

    async def errand(self, url: str, origin: str, hops: int) -> None:
        """The robots.txt lies on another site, which is not asked here."""
        self.facts.append(
            ("robots", f"the robots.txt of {origin} is redirected to another site, {url}, which try does not ask")
        )

    def ended(self, lease: Lease) -> None:
        """Nothing more is asked."""


class _Unsaved(RobotsStore):
    """The home's copies of robots.txt, to which nothing is added."""

    def save(self, copy: Copy) -> None:
        """Keep nothing."""


@command("try", json=True, settings=True)
@click.argument("url")
@click.option(
    "--allow-private", metavar="HOST", multiple=True, help="A private host, address or network that may be asked."
)
def try_command(session: Session, url: str, allow_private: tuple[str, ...]) -> int:
    """Ask for one page and print the record it would make; store nothing.

    What robots.txt, scope, type and the request say goes to stderr. Redirects are told and not followed.
    """
    seed = parse(url)
    session.overrides += tuple(f"harvest.allow_private={host}" for host in allow_private)
    where = session.where()
    home = session.home(write=False) if is_home(where) else None
    settings = session.settings(where)
    plan.make([seed], Wish(), settings)
    attempt = attempt_seed(seed, settings, home)
    session.say("\n".join(f"{name:<8}{text}" for name, text in attempt.facts))
    record = attempt.lesson.record if attempt.lesson else None
    if record is not None:
        if session.json:
            put_json(wir.as_json(record))
        else:
            put_bytes(wir.dump(record))
    return attempt.code


def attempt_seed(seed: Seed, settings: Settings, home: Home | None = None) -> Attempt:
    """Try a URL, and its http form where https cannot be reached.

    Raises RetryLater where its site may not be asked now.
    """
    attempt = attempt_url(seed.url, settings, home)
    if seed.fallback and attempt.is_unreached:
        say(f"combine: {seed.url} cannot be reached; trying {seed.fallback}")
        return attempt_url(seed.fallback, settings, home)
    return attempt


def attempt_url(url: str, settings: Settings, home: Home | None = None) -> Attempt:
    """Try one URL.

    Raises RetryLater where its site may not be asked now, ConfigError where its address may not be asked.
    """
    attempt = Attempt(settings.agent.name)
    with _leased(home, url, settings) as delay_s:
        asyncio.run(_ask(url, delay_s, settings, home, attempt))
    if attempt.got is not None and attempt.permission is not None:
        _learn(attempt, url, settings)
    return attempt


@contextmanager
def _leased(home: Home | None, url: str, settings: Settings) -> Iterator[float]:
    """Hold the lease of a URL's site where a scheduler runs; gives the seconds between requests."""
    if home is None or "cabin" not in running(home.path):
        allowed = Allowed(settings.harvest.allow_private)
        yield 0.0 if plan.is_listed(url, allowed) else settings.politeness.auto_floor_s
        return
    site = urls.site_of(url)
    with peers.scheduler(home) as client:
        leases = client.call("TAKE", [jcf.job(SITE=site, WAIT=_LEASE_WAIT_S)])
        if not leases:
            raise RetryLater(f"{site} may not be asked now; combine site {site} says why")
        try:
            yield leases[0].seconds("DELAY")
        finally:
            client.call("DONE", [jcf.job(LEASE=leases[0].get("LEASE"), END="1")])


async def _ask(url: str, delay_s: float, settings: Settings, home: Home | None, attempt: Attempt) -> None:
    allowed = Allowed(settings.harvest.allow_private)
    answer = await look_up(urls.host_of(url), lambda host, address: _refusal(allowed, host, address))
    if answer.is_refused:
        raise ConfigError(answer.reason)
    if not answer.address:
        attempt.code = EXIT_TRY_LATER
        attempt.facts.append(("fetch", answer.reason))
        return
    job = jcf.job(URL=url, ADDR=answer.address)
    with tempfile.TemporaryDirectory(prefix="combine-try-") as place:
        keeper = RobotsKeeper(settings, _Unsaved(home.robots if home else Path(place)))
        is_read = partial(_is_wanted, settings)
        async with Fetcher(settings, allowed, Path(place), is_wanted=is_read) as fetcher:
            tools = Tools(settings, fetcher, keeper, Spacing(settings, allowed), attempt, lambda: False)
            await Worker(Lease(0, answer.address, delay_s, [job]), tools).run()


def _is_wanted(settings: Settings, job: Job, content_types: list[str]) -> bool:
    return is_wanted(content_types, settings.harvest.types)


def _refusal(allowed: Allowed, host: str, address: str) -> str:
    try:
        allowed.check(host.strip("[]"), address)
    except Refused as refused:
        return str(refused)
    return ""


def _learn(attempt: Attempt, url: str, settings: Settings) -> None:
    """Put into the attempt what the answer says, as a parser would read it."""
    got, permission = attempt.got, attempt.permission
    assert got is not None
    assert permission is not None
    status = f"status {got.status}, " if got.status else ""
    attempt.facts.append(("robots", permission.robots + _crawl_delay(permission)))
    attempt.facts.append(
        ("fetch", f"{got.outcome}, {status}{got.body_length:,} bytes in {got.took_ms} ms from {got.peer}")
    )
    if got.harvest is None:
        attempt.code = EXIT_TRY_LATER if got.outcome == "failed" else EXIT_FINDING
        attempt.facts.append(("reason", got.detail or got.reason))
        return
    lesson = learn(got.harvest, ("", 0, 0), lambda _: None, settings.page).settle(None, 0.0, __version__)
    attempt.lesson = lesson
    if lesson.target:
        attempt.facts.append(("scope", _redirect(url, lesson.target)))
    if lesson.record is not None:
        attempt.code = EXIT_DONE
        attempt.facts.append(("type", lesson.record.get("type") or "unknown"))
        attempt.facts.append(("links", _links(url, lesson)))
    elif lesson.reason:
        attempt.facts.append(("reason", f"{lesson.outcome}: {lesson.reason}"))


def _crawl_delay(permission: Permission) -> str:
    return f", Crawl-delay {permission.crawl_delay:g} s" if permission.crawl_delay else ""


def _redirect(url: str, target: str) -> str:
    inside = Scope((seed_rule("host", url),)).admits(target)
    return f"{url} redirects to {target}, which is {'in' if inside else 'outside'} its scope; try follows nothing"


def _links(url: str, lesson: Lesson) -> str:
    scope = Scope((seed_rule("host", url),))
    inside = sum(1 for link in lesson.links if scope.admits(link.url))
    return f"{len(lesson.links):,} would be offered, {inside:,} of them on this host"
