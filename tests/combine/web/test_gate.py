import asyncio
import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from combine.config import Agent, Settings, SiteRule
from combine.web.addresses import Allowed
from combine.web.fetch import Fetched, Fetcher
from combine.web.gate import REMEMBERED, Permission, RobotsKeeper, answer_of
from combine.web.robots import RobotsStore
from formats.hrf import Harvest
from formats.jcf import Job, job
from tests.site.server import Server

NOW = 1_764_500_000.0
SETTINGS = Settings(agent=Agent("combine"))
RULES = b"user-agent: *\ndisallow: /private\ncrawl-delay: 7\nsitemap: http://a.example/s.xml\n"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Web:
    """Answers by URL, and what was asked."""

    def __init__(self, **answers: Fetched) -> None:
        self.answers: dict[str, Fetched] = answers
        self.asked: list[str] = []

    async def ask(self, asked: Job, address: str) -> Fetched:
        assert "192.0.2.1" == address
        assert "robots" == asked.kind
        self.asked.append(asked.url)
        return self.answers.get(asked.url, found(404, outcome="gone"))


def found(status: int, body: bytes = b"", *fields: str, outcome: str = "ok", truncated: str = "") -> Fetched:
    header = "\r\n".join([f"HTTP/1.1 {status} X", *fields, "", ""]).encode()
    harvest = Harvest(
        job(URL="http://a.example/robots.txt"),
        outcome,
        "2026-11-30T08:00:00.000Z",
        header=header,
        body=body,
        truncated=truncated,
    )
    return Fetched(outcome, status, harvest=harvest, body_length=len(body))


def moved(to: str) -> Fetched:
    return replace(found(301, outcome="redirect"), location=to)


def failed(reason: str, status: int = 0, after_s: float | None = None) -> Fetched:
    return Fetched("failed", status, reason, after_s=after_s)


def keeper(tmp_path: Path, clock: Clock, settings: Settings = SETTINGS) -> RobotsKeeper:
    return RobotsKeeper(settings, RobotsStore(tmp_path), clock)


def ask(gate: RobotsKeeper, web: Web, url: str) -> Permission:
    return asyncio.run(gate.permission(job(URL=url, LEASE=4), "192.0.2.1", web.ask))


def test_asks_once_and_remembers(tmp_path: Path) -> None:
    clock = Clock()
    gate = keeper(tmp_path, clock)
    web = Web()
    web.answers["http://a.example/robots.txt"] = found(200, RULES)
    first = ask(gate, web, "http://a.example/public")
    assert first == Permission(
        allowed=True, crawl_delay=7.0, sitemaps=("http://a.example/s.xml",), requests_made=1, retry_s=0.0
    )
    second = ask(gate, web, "http://a.example/private/x")
    assert (False, True, 0) == (second.allowed, second.denied, second.requests_made)
    again = ask(keeper(tmp_path, clock), web, "http://a.example/private/x")
    assert (True, 0) == (again.denied, again.requests_made), "a new process reads the disk"
    assert ["http://a.example/robots.txt"] == web.asked
    clock.now += 86_400
    web.answers["http://a.example/robots.txt"] = found(200, b"")
    changed = ask(gate, web, "http://a.example/private/x")
    assert (True, True, 1) == (changed.allowed, changed.changed, changed.requests_made)
    assert not ask(gate, web, "http://a.example/private/x").changed


def test_what_is_said_of_the_use_of_some_paths_is_said_of_their_pages_alone(tmp_path: Path) -> None:
    web, gate = Web(), keeper(tmp_path, Clock())
    web.answers["http://a.example/robots.txt"] = found(200, b"User-agent: *\nContent-Usage: /art/ train-ai=n\nAllow: /")
    said = [ask(gate, web, f"http://a.example/{path}").signals for path in ("", "x", "art/1", "y", "art/2")]
    art = (("content-usage", "/art/ train-ai=n", "robots.txt"),)
    assert [(), (), art, (), art] == said


def test_each_scheme_and_port_has_its_own_file(tmp_path: Path) -> None:
    web = Web()
    gate = keeper(tmp_path, Clock())
    for url in ("http://a.example/", "https://a.example/", "http://a.example:8080/", "http://a.example/x"):
        assert ask(gate, web, url).allowed
    assert ["http://a.example", "https://a.example", "http://a.example:8080"] == [
        url.removesuffix("/robots.txt") for url in web.asked
    ]


def test_a_certificate_that_is_not_accepted_is_told_with_its_sentence(tmp_path: Path) -> None:
    web = Web()
    web.answers["https://a.example/robots.txt"] = Fetched("failed", reason="tls", detail="it is self-signed")
    got = ask(keeper(tmp_path, Clock()), web, "https://a.example/")
    assert (True, "tls", "it is self-signed") == (got.closed, got.reason, got.detail)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (failed("status", 503), "503"),
        (failed("status", 429, 600.0), "429"),
        (failed("timeout"), "timeout"),
        (failed("tls"), "tls"),
        (failed("reset", 200), "reset"),
        (found(200, RULES, truncated="disconnect"), "reset"),
        (found(200, b"nonsense", "Content-Encoding: gzip"), "http"),
        (found(200, b"nonsense", "Content-Encoding: br"), "http"),
        (Fetched("refused", 0, "address", harvest=found(0).harvest), "address"),
    ],
)
def test_closed_while_unreachable(answer: Fetched, reason: str, tmp_path: Path) -> None:
    clock = Clock()
    gate = keeper(tmp_path, clock)
    web = Web()
    web.answers["http://a.example/robots.txt"] = answer
    got = ask(gate, web, "http://a.example/")
    assert (True, False, False, 1) == (got.closed, got.allowed, got.denied, got.requests_made)
    assert reason == got.reason
    assert (answer.after_s or 30.0) == got.retry_s
    assert 0 == ask(gate, web, "http://a.example/").requests_made, "it is not asked again at once"
    clock.now += got.retry_s
    web.answers["http://a.example/robots.txt"] = found(200, RULES)
    assert ask(gate, web, "http://a.example/").allowed


def test_the_last_good_copy_serves(tmp_path: Path) -> None:
    clock = Clock()
    gate = keeper(tmp_path, clock)
    web = Web()
    web.answers["http://a.example/robots.txt"] = found(200, RULES)
    ask(gate, web, "http://a.example/")
    web.answers["http://a.example/robots.txt"] = failed("status", 503)
    clock.now += 86_401
    got = ask(gate, web, "http://a.example/private")
    assert (True, False, 1) == (got.denied, got.changed, got.requests_made)
    assert ask(gate, web, "http://a.example/public").allowed
    assert 2 == len(web.asked)


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP"])
def test_a_file_that_came_compressed(coding: str, tmp_path: Path) -> None:
    web = Web()
    web.answers["http://a.example/robots.txt"] = found(200, gzip.compress(RULES), f"Content-Encoding: {coding}")
    assert ask(keeper(tmp_path, Clock()), web, "http://a.example/private").denied


def test_redirects_on_the_site_are_followed(tmp_path: Path) -> None:
    web = Web()
    web.answers |= {
        "http://a.example/robots.txt": moved("https://a.example/robots.txt"),
        "https://a.example/robots.txt": moved("/r"),
        "https://a.example/r": found(200, RULES),
    }
    got = ask(keeper(tmp_path, Clock()), web, "http://a.example/private")
    assert (True, 3) == (got.denied, got.requests_made)
    copy = RobotsStore(tmp_path).load("http://a.example")
    assert copy is not None
    assert ("https://a.example/r", 2) == (copy.to, copy.hops)


@pytest.mark.parametrize(("hops", "closed"), [(5, False), (6, True)])
def test_five_redirects_and_no_more(hops: int, closed: bool, tmp_path: Path) -> None:
    web = Web()
    web.answers["http://a.example/robots.txt"] = moved("/1")
    web.answers |= {f"http://a.example/{n}": moved(f"/{n + 1}") for n in range(1, hops)}
    web.answers[f"http://a.example/{hops}"] = found(200, b"")
    got = ask(keeper(tmp_path, Clock()), web, "http://a.example/x")
    assert (closed, 6) == (got.closed, got.requests_made)


@pytest.mark.parametrize("to", ["", "http://", "mailto:x@a.example", "ftp://a.example/robots.txt"])
def test_a_redirect_to_nowhere_closes(to: str, tmp_path: Path) -> None:
    web = Web()
    web.answers["http://a.example/robots.txt"] = moved(to)
    web.answers["http://a.example/"] = found(404, outcome="gone")
    got = ask(keeper(tmp_path, Clock()), web, "http://a.example/x")
    assert got.closed


def test_a_redirect_to_another_site_needs_its_lease(tmp_path: Path) -> None:
    clock = Clock()
    gate = keeper(tmp_path, clock)
    web = Web()
    web.answers |= {
        "http://a.example/robots.txt": moved("/r"),
        "http://a.example/r": moved("http://www.a.example/robots.txt"),
        "http://www.a.example/robots.txt": moved("/there"),
        "http://www.a.example/there": found(200, RULES),
    }
    got = ask(gate, web, "http://a.example/private")
    assert got == Permission(requests_made=2, redirect=("http://www.a.example/robots.txt", 2))
    assert RobotsStore(tmp_path).load("http://a.example") is None
    assert got.redirect is not None
    errand = job(URL=got.redirect[0], KIND="robots", FOR="http://a.example", HOPS=got.redirect[1])
    kept = asyncio.run(keeper(tmp_path, clock).fetch_for(errand, "192.0.2.1", web.ask))
    assert (True, 2, None) == (kept.allowed, kept.requests_made, kept.redirect)
    assert ask(gate, web, "http://a.example/private").denied
    assert 4 == len(web.asked)


def test_a_robots_job_may_be_sent_on_until_its_hops_are_used_up(tmp_path: Path) -> None:
    gate = keeper(tmp_path, Clock())
    web = Web()
    web.answers["http://b.example/robots.txt"] = moved("http://c.example/robots.txt")
    errand = job(URL="http://b.example/robots.txt", KIND="robots", FOR="http://a.example", HOPS=4)
    on = asyncio.run(gate.fetch_for(errand, "192.0.2.1", web.ask))
    assert ("http://c.example/robots.txt", 5) == on.redirect
    end = asyncio.run(gate.fetch_for(errand.having(HOPS=5), "192.0.2.1", web.ask))
    assert (None, True) == (end.redirect, end.closed)


def test_keep_for(tmp_path: Path) -> None:
    gate = keeper(tmp_path, Clock())
    assert "rules" == gate.keep_for("http://a.example", found(200, RULES)).state
    assert ask(gate, Web(), "http://a.example/private").denied


def test_a_rule_of_the_operator_may_ignore_robots(tmp_path: Path) -> None:
    rule = SiteRule(match="a.example", robots="ignore", because="it is ours")
    gate = keeper(tmp_path, Clock(), replace(SETTINGS, site=(rule,)))
    web = Web()
    web.answers["http://b.example/robots.txt"] = found(200, RULES)
    got = ask(gate, web, "http://a.example/private")
    assert (True, "ignored because it is ours", []) == (got.allowed, got.robots, web.asked)
    assert "obeyed" == ask(gate, web, "http://b.example/private").robots


def test_memory_is_bounded(tmp_path: Path) -> None:
    gate = keeper(tmp_path, Clock())
    for number in range(REMEMBERED + 5):
        gate.keep_for(f"http://h{number}.example", found(404, outcome="gone"))
    assert REMEMBERED == len(gate._known)


def test_answer_of_refused_statuses() -> None:
    assert 403 == answer_of(found(403, b"", outcome="refused")).status


@pytest.mark.parametrize(
    ("robots", "state"),
    [
        ("user-agent: combine\ndisallow: /", "denied"),
        ("404", "allowed"),
        ("503", "closed"),
        ("429", "closed"),
        ("reset", "closed"),
        ("redirect:/_/status/404", "allowed"),
        ("redirect:/_/chain/-1", "closed"),
        ("slow:5", "closed"),
    ],
)
def test_against_the_mock_web(robots: str, state: str, tmp_path: Path) -> None:
    settings = replace(SETTINGS, harvest=replace(SETTINGS.harvest, first_byte_s=0.2))

    async def run() -> Permission:
        async with (
            Server(robots=robots) as site,
            Fetcher(settings, Allowed(["127.0.0.1"]), tmp_path) as fetcher,
        ):

            async def go(asked: Job, address: str) -> Fetched:
                return await fetcher.fetch(asked, address, robots="obeyed")

            gate = RobotsKeeper(settings, RobotsStore(tmp_path))
            return await gate.permission(job(URL=site.url("/x")), "127.0.0.1", go)

    got = asyncio.run(run())
    assert getattr(got, state), got
