import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine.web.rules import LIMIT_BYTES, LONGEST_DELAY_S, Rules, path_of
from tests.conformance import CONFORMANCE, needs_conformance

ROBOTS = CONFORMANCE / "robots"

#: RFC 9309 2.2.2 compares after percent-encoding both sides; Google's parser does not encode the URL.
DISPUTED_LINES = {419, 430, 441}


def vectors(name: str) -> Any:
    path = ROBOTS / name
    return json.loads(path.read_text()) if path.exists() else {}


def body_of(robots: Any) -> bytes:
    return base64.b64decode(robots["b64"]) if isinstance(robots, dict) else robots.encode()


@needs_conformance
def test_rows_of_google() -> None:
    rows = vectors("google_robots_cases.json")
    assert 145 == len(rows)
    wrong = [
        row for row in rows if row["allow"] != Rules.parse(body_of(row["robots"]), row["agent"]).allows(row["url"])
    ]
    assert [] == [row for row in wrong if row["core"]]
    assert DISPUTED_LINES == {row["line"] for row in wrong}
    assert all(row["disputed"] for row in wrong)


@needs_conformance
def test_paths_of_google() -> None:
    for case in vectors("google_robots_facts.json")["path_params_query"]:
        assert case["path"] == path_of(case["url"]), case["url"]


@needs_conformance
def test_sitemaps_of_google() -> None:
    for case in vectors("google_robots_facts.json")["sitemaps"]:
        assert tuple(case["sitemaps"]) == Rules.parse(case["robots"].encode(), "foo").sitemaps


def rfc_example(name: str) -> bytes:
    path = ROBOTS / "rfc9309" / f"rfc9309-example-{name}-robots.txt"
    alone = ROBOTS / "rfc9309" / f"rfc9309-example-{name}.txt"
    return (path if path.exists() else alone).read_bytes()


@needs_conformance
@pytest.mark.parametrize(
    ("example", "agent", "path", "allowed"),
    [
        ("longest-match", "foobot", "/example/page/", True),
        ("longest-match", "foobot", "/example/page/disallowed.gif", False),
        ("longest-match", "foobot", "/example/page/other.gif", True),
        ("rule-group-merging", "ExampleBot", "/foo", False),
        ("rule-group-merging", "ExampleBot", "/bar", False),
        ("rule-group-merging", "examplebot", "/baz", False),
        ("rule-group-merging", "ExampleBot", "/quux", True),
        ("rule-group-merging", "BazBot", "/foo", True),
        ("rule-group-merging", "BazBot", "/baz", False),
        ("rule-group-merging", "other", "/bar", False),
        ("rule-group-merging", "other", "/baz", True),
        ("simple", "other", "/a.gif", False),
        ("simple", "other", "/a.gif?x", True),
        ("simple", "other", "/example/", False),
        ("simple", "other", "/publications/", True),
        ("simple", "foobot", "/example/page.html", True),
        ("simple", "foobot", "/example/allowed.gif", True),
        ("simple", "foobot", "/", False),
        ("simple", "bazbot", "/example/page.html", False),
        ("simple", "bazbot", "/", True),
        ("simple", "quxbot", "/example/page.html", True),
    ],
)
def test_examples_of_the_standard(example: str, agent: str, path: str, allowed: bool) -> None:
    assert allowed == Rules.parse(rfc_example(example), agent).allows(f"https://www.example.com{path}")


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/", "/x", True),
        ("/a", "/A", False),
        ("/*", "/x", True),
        ("*", "/x", True),
        ("/a*b*c", "/aXbYcZ", True),
        ("/a*b*c$", "/aXbYcZ", False),
        ("/a*b*c$", "/aXbcc", True),
        ("/a*a$", "/a", False),
        ("/a*a$", "/aa", True),
        ("/a$", "/a", True),
        ("/a$", "/ab", False),
        ("/a$b", "/a$b", True),
        ("/a*$", "/abc", True),
        ("/**a", "/xxa", True),
        ("$", "/", False),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html", True),
        ("/path/foo-%24", "/path/foo-$", True),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz", True),
        ("/%e3%83%84", "/%E3%83%84", True),
        ("/ツ", "/%E3%83%84", True),
        ("/a<b|c", "/a%3Cb%7Cc", True),
        ("/a%7bb", "/a{b", True),
        ("/x?u=https://a.example", "/x?u=https%3A%2F%2Fa.example", True),
        ("/x?u=https%3a%2f%2fa.example", "/x?u=https://a.example", True),
        ("/x?a=b%26c", "/x?a=b&c", False),
        ("/a%3Ab", "/a:b", False),
        ("/a%2fb", "/a/b", False),
        ("/a%2fb", "/a%2Fb", True),
        ("/a b", "/a%20b", True),
        ("\u00a0/a\u2002 \u200b", "/a", True),
        ("/a\u00e0", "/a%C3%A0", True),
        ("/a\u00e0", "/a", False),
        ("x", "/x", False),
        ("/robots.txt", "/robots.txt", False),
    ],
)
def test_patterns(pattern: str, path: str, matches: bool) -> None:
    rules = Rules.parse(f"user-agent: *\ndisallow: {pattern}\n".encode(), "combine")
    assert (not matches) == rules.allows(f"http://a.example{path}")


@pytest.mark.parametrize(
    ("robots", "delay"),
    [
        ("user-agent: *\ncrawl-delay: 5", 5.0),
        ("user-agent: *\nCrawl-Delay: 0.5 # slow", 0.5),
        ("user-agent: *\ncrawl-delay: 0,5", 0.5),
        ("user-agent: *\ncrawl-delay: .5", 0.5),
        ("user-agent: *\ncrawl-delay: .", None),
        ("user-agent: *\ncrawl-delay: 10s", 10.0),
        ("user-agent: *\ncrawl-delay: 86400", 86_400.0),
        ("user-agent: *\ncrawl-delay: 99999999999999999999", LONGEST_DELAY_S),
        ("user-agent: *\ncrawl-delay: -1", None),
        ("user-agent: *\ncrawl-delay: inf", None),
        ("user-agent: *\ncrawl-delay:", None),
        ("crawl-delay: 7", None),
        ("user-agent: other\ncrawl-delay: 7", None),
        ("user-agent: *\ncrawl-delay: 3\n\nuser-agent: combine\ncrawl-delay: 7", 7.0),
        ("user-agent: *\ncrawl-delay: 3\n\nuser-agent: combine\ndisallow:", None),
        ("user-agent: combine\ncrawl-delay: 3\ndisallow: /a\n\nuser-agent: combine\ncrawl-delay: 7", 7.0),
        ("user-agent: combine\ncrawl-delay: 3\nuser-agent: other\ncrawl-delay: 7", 3.0),
        ("user-agent: other\ncrawl-delay: 3\nuser-agent: combine\ncrawl-delay: 7", 7.0),
        ("user-agent: other\nuser-agent: combine\ncrawl-delay: 3\ncrawl-delay: 7", 7.0),
        ("user-agent: *\ncrawl-delay: 3\nuser-agent: other\ncrawl-delay: 7\nuser-agent: third\ndisallow: /", 3.0),
    ],
)
def test_crawl_delay(robots: str, delay: float | None) -> None:
    assert delay == Rules.parse(robots.encode(), "combine").crawl_delay


def test_a_crawl_delay_does_not_end_a_list_of_agents() -> None:
    rules = Rules.parse(b"user-agent: combine\ncrawl-delay: 3\nuser-agent: other\ndisallow: /a\n", "combine")
    assert not rules.allows("http://a.example/a")


@pytest.mark.parametrize(
    ("line", "agent", "is_named"),
    [
        ("user-agent: bot2", "bot2", True),
        ("user-agent: BOT2/1.0 (said so)", "bot2", True),
        ("user-agent: bot1", "bot2", False),
        ("user-agent: bot", "bot2", False),
        ("user-agent: bot23", "bot2", False),
        ("user-agent: bot2-news", "bot2", False),
        ("user-agent: bot2", "bot", True),  # as Google reads the line: a token ends at the digit
        ("user-agent: unic\u00f6de", "unic\u00f6de", True),
        ("user-agent: unic\u00f6de", "unic\u00f6", False),
        ("user-agent: two words", "two words", False),
        ("user agent combine", "combine", True),
        ("user-agent combine", "combine", True),
        ("User_agent: combine", "combine", True),
        ("useg-agent: combine", "combine", True),
    ],
)
def test_agents(line: str, agent: str, is_named: bool) -> None:
    rules = Rules.parse(f"user-agent: *\ndisallow: /all\n\n{line}\ndisallow: /named\n".encode(), agent)
    assert (not is_named) == rules.allows("http://a.example/named")


@pytest.mark.parametrize("key", ["Desallow:", "dissalow:", "Dis-allow :", "disallow"])
def test_misspelled_rules_forbid(key: str) -> None:
    assert not Rules.parse(f"user-agent: *\n{key} /a\n".encode(), "combine").allows("http://a.example/a")


@pytest.mark.parametrize(
    "line", ["sitemap: https://a.example/s", "Sitemap https://a.example/s", "SITEMAP :https://a.example/s"]
)
def test_a_sitemap_with_or_without_its_colon(line: str) -> None:
    assert ("https://a.example/s",) == Rules.parse(line.encode(), "combine").sitemaps


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_marks_and_line_ends(mark: bytes, end: bytes) -> None:
    robots = mark + end.join([b"User-agent: combine", b"Disallow: /a", b"Sitemap: http://a.example/s.xml"])
    rules = Rules.parse(robots, "combine")
    assert not rules.allows("http://a.example/a")
    assert ("http://a.example/s.xml",) == rules.sitemaps


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_with_a_mark(encoding: str) -> None:
    text = "User-agent: *\nDisallow: /ä\n"
    mark = {"utf-16": "", "utf-16-le": "\ufeff", "utf-16-be": "\ufeff"}[encoding]
    assert not Rules.parse((mark + text).encode(encoding), "combine").allows("http://a.example/%C3%A4")


def test_read_to_the_limit_and_not_to_half_a_line() -> None:
    head = b"user-agent: *\ndisallow: /first\n"
    filler = b"#" * (LIMIT_BYTES - len(head) - len(b"\ndisallow: /"))
    rules = Rules.parse(head + filler + b"\ndisallow: /last\ndisallow: /later\n", "combine")
    assert not rules.allows("http://a.example/first")
    assert rules.allows("http://a.example/last")
    assert rules.allows("http://a.example/other")


def test_a_sitemap_in_other_letters() -> None:
    assert ("https://a.example/\u30c6.xml",) == Rules.parse(
        "sitemap: https://a.example/\u30c6.xml".encode(), "x"
    ).sitemaps


def test_repeated_sitemaps_are_told_once() -> None:
    robots = b"sitemap: http://a.example/1\nSite-Map: http://a.example/2\nsitemap: http://a.example/1\n"
    assert ("http://a.example/1", "http://a.example/2") == Rules.parse(robots, "combine").sitemaps


def test_hostile_patterns_take_little_time() -> None:
    rules = Rules.parse(b"user-agent: *\ndisallow: /" + b"*a" * 5000 + b"$\n", "combine")
    assert rules.allows("http://a.example/" + "a" * 2000 + "b")


@given(st.binary(max_size=300), st.text(max_size=30), st.text(max_size=60))
def test_never_raises(body: bytes, agent: str, url: str) -> None:
    rules = Rules.parse(b"user-agent: *\nallow: " + body, agent)
    assert rules.allows(url) in (True, False)
    Rules.parse(body, agent)


@given(st.from_regex(r"/[a-c*]{0,8}\$?", fullmatch=True), st.from_regex(r"/[a-c]{0,8}", fullmatch=True))
def test_matches_as_the_plain_definition_does(pattern: str, path: str) -> None:
    import re

    to_end = pattern.endswith("$")
    meaning = ".*".join(re.escape(piece) for piece in pattern.removesuffix("$").split("*")) + ("$" if to_end else "")
    expected = re.match(meaning, path) is None
    assert expected == Rules.parse(f"user-agent: *\ndisallow: {pattern}".encode(), "x").allows(
        f"http://a.example{path}"
    )


@pytest.mark.parametrize("pattern", ["/caf\u00e9", "/caf%c3%a9", "/caf%C3%A9"])
@pytest.mark.parametrize("path", ["/caf\u00e9/x", "/caf%c3%a9/x", "/caf%C3%A9"])
def test_a_letter_means_the_same_in_rule_and_url_however_it_is_written(pattern: str, path: str) -> None:
    rules = Rules.parse(f"user-agent: *\ndisallow: {pattern}\n".encode(), "combine")
    assert not rules.allows(f"https://example.org{path}")
    assert rules.allows("https://example.org/caf%E9/x")
