"""What a harvest is about to do, and what it refuses to begin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from combine.cli import plan
from combine.cli.seeds import Seed, Wish, parse
from combine.config import Agent, Harvest, Settings, SiteRule
from combine.errors import ConfigError

KNOWN = Settings(agent=Agent(url="https://us.example/"))
MAP = {"KIND": "sitemap"}


def _allowing(*entries: str) -> Settings:
    return Settings(harvest=Harvest(allow_private=entries))


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1",
        "http://0x7f.1/",
        "http://2130706433/",
        "localhost:8000",
        "http://a.localhost/",
        "[::1]",
        "10.1.2.3",
        "169.254.169.254",
    ],
)
def test_a_private_seed_is_refused_with_the_line_to_set(url: str) -> None:
    with pytest.raises(ConfigError, match=r"harvest.allow_private = \["):
        plan.make([parse(url)], Wish(), KNOWN)


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("127.0.0.21:8000", "127.0.0.0/8"),
        ("localhost", "localhost"),
        ("localhost", "127.0.0.1"),
        ("[::1]", "::1"),
        ("intra", "intra"),
    ],
)
def test_a_listed_private_seed_needs_no_contact(url: str, entry: str) -> None:
    made = plan.make([parse(url)], Wish(delay="auto"), _allowing(entry))
    assert not made.is_limited
    assert None is made.wish.limit
    assert "none: these are listed private hosts" == dict(plan.describe(made, _allowing(entry)))["delay"]


@pytest.mark.parametrize(
    ("wish", "limit", "delay"),
    [
        (Wish(delay="auto"), 100, "5"),
        (Wish(delay="0"), 100, "5"),
        (Wish(delay="9"), 100, "9"),
        (Wish(limit=7), 7, "5"),
        (Wish(limit=700), 100, "5"),
    ],
)
def test_without_a_contact_public_hosts_are_spared(wish: Wish, limit: int, delay: str) -> None:
    made = plan.make([parse("a.org")], wish, Settings())
    assert (True, limit, delay) == (made.is_limited, made.wish.limit, made.wish.delay)
    assert "[agent]" in dict(plan.describe(made, Settings()))[""]


def test_with_a_contact_the_wish_stands() -> None:
    made = plan.make([parse("a.org")], Wish(delay="0"), KNOWN)
    assert (False, None, "0") == (made.is_limited, made.wish.limit, made.wish.delay)


def test_the_plan_is_said_in_full() -> None:
    settings = replace(KNOWN, site=(SiteRule("b.org", robots="ignore", because="it is ours"),))
    seeds = [parse(text) for text in ("www.a.org", "b.org", "c.org", "d.org")]
    made = plan.make(seeds, Wish("domain", 2, ("/x",), ("/y",), delay="3", limit=50), settings)
    said = dict(plan.describe(made, settings))
    assert "https://www.a.org/ https://b.org/ https://c.org/ and 1 more" == said["seeds"]
    assert (
        "the domains of a.org, b.org, c.org and 1 more, at most 2 links from a seed, only /x, not /y" == said["scope"]
    )
    assert said["delay"].startswith("3 s after each request")
    assert said["agent"].startswith("combine/1 (+https://us.example/) combine-system/")
    assert "obeyed, but ignored on b.org (because it is ours)" == said["robots"]
    assert "50 pages in this run; the next run goes on" == said["limit"]


@pytest.mark.parametrize(
    ("scope", "seeds", "said"),
    [
        ("under:https://a.org/x/", ["https://a.org/x/", "https://a.org/x/y"], None),
        ("under:https://a.org/x", ["http://a.org/x?y"], None),
        (
            "under:https://a.org/x",
            ["https://a.org/xy"],
            "not under https://a.org/x: https://a.org/xy; taken as one page, and",
        ),
        (
            "under:https://a.org/x/",
            ["https://a.org/", "https://b.org/"],
            "https://a.org/ and 1 more; taken as one page each, and",
        ),
        ("host", ["https://a.org/"], None),
    ],
)
def test_seeds_that_are_not_under_the_prefix_are_said(scope: str, seeds: list[str], said: str | None) -> None:
    made = plan.make([Seed(url) for url in seeds], Wish(scope), KNOWN)
    sentence = dict(plan.describe(made, KNOWN)).get("")
    assert (said is None) is (sentence is None)
    assert (said or "") in (sentence or "")
    named = plan.outside(
        [Seed("https://c.org/", params={"SCOPE": "host"}), Seed("https://d.org/m", params=MAP)], made.wish
    )
    assert [] == named


@pytest.mark.parametrize(
    ("scope", "said"),
    [("host", "the host a.org, any depth"), ("under:https://a.org/x/", "URLs under https://a.org/x/, any depth")],
)
def test_the_scope_is_said(scope: str, said: str) -> None:
    made = plan.make([Seed("https://a.org/")], Wish(scope), KNOWN)
    assert said == dict(plan.describe(made, KNOWN))["scope"]
    assert dict(plan.describe(made, KNOWN))["delay"].startswith("as the site answers: from 5 s, never under 1 s")
