"""A harvest of the mock web with all faults switched on at once: all that can be had, and no site asked rudely."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.site import oddities, wild
from tests.site.checker import violations
from tests.system.harness import Harness, Web

pytestmark = pytest.mark.system

Webs = Callable[..., Web]
Homes = Callable[..., Harness]

SETTINGS = """workers = 2
body_bytes = 500000
first_byte_s = 1.5
fetch_s = 4.0
[politeness]
tries = 2
tries_s = 0.0
retry_base = 1.1
[page]
workers = 2
decoded_bytes = 2000000
[traps]
urls = 4
same_run = 4
"""

#: What stands at robots.txt, the pages of three that may be had, and the least delay.
ROBOTS = [
    ("User-agent: *\nDisallow: /page-3\nCrawl-delay: 0.3", {"index", "page-2"}, 0.3),
    ("User-agent: *\nDisallow: /\nUser-agent: combine\nAllow: /\nDisallow: /page-2", {"index", "page-3"}, 0.1),
    ("404", {"index", "page-2", "page-3"}, 0.1),
    ("slow:0.5", {"index", "page-2", "page-3"}, 0.1),
    ("redirect:/moved.txt", {"index", "page-3"}, 0.1),
    ("redirect:ELSEWHERE/moved.txt", {"index", "page-3"}, 0.1),
    ("503", set[str](), 0.1),
    ("429", set[str](), 0.1),
    ("reset", set[str](), 0.1),
]

#: URLs that a trap would have led on to, and what it is called.
BEYOND = {
    "/_/calendar/2099/01/": "calendar",
    "/_/session?sid=zyxwvu9999999999": "session id",
    f"/_/deeper/{'a/b/' * 9}": "repeated segments",
    "/_/filter?f=1&f=2&f=1&f=2&f=1&f=2": "growing query",
    "/_/same/999": "same content",
}


@pytest.fixture
def tame(webs: Webs) -> list[tuple[Web, set[str], float]]:
    """Sites whose pages are good, and whose robots.txt is one of many kinds."""
    elsewhere = webs(1, bind="127.0.1.1")
    made = []
    for number, (robots, pages, delay_s) in enumerate(ROBOTS, 2):
        web = webs(3, "--robots", robots.replace("ELSEWHERE", elsewhere.url("")), bind=f"127.0.1.{number}")
        made.append((web, {web.url(f"/{name}.html") for name in pages}, delay_s))
    for web in (elsewhere, *(web for web, _, _ in made)):
        (web.root / "moved.txt").write_text("User-agent: *\nDisallow: /page-2\n")
    return made


def test_all_faults_at_once(webs: Webs, homes: Homes, tame: list[tuple[Web, set[str], float]]) -> None:
    web, home = webs(1, bind="127.0.1.99"), homes(SETTINGS)
    wild.lay(web.root)
    odd = webs(1, bind="127.0.1.98")
    (odd.root / "index.html").write_bytes(wild.linking("Index", *map(oddities.path_of, oddities.ODD)))
    seeds = [web.url("/index.html"), odd.url("/index.html"), *(site.url("/index.html") for site, _, _ in tame)]
    ended = home.run("harvest", *seeds, "--delay", "0.1", "--wait", "15", code=None, timeout_s=300)
    assert 75 == ended.returncode, ended.stderr  # the sites whose robots.txt cannot be read wait on
    lines = home.run("export", "--format", "jsonl").stdout.split("\n")
    records = {row["url"]: row for row in map(json.loads, filter(None, lines))}
    found = set(records)

    for site, pages, delay_s in tame:
        assert pages == {url for url in found if url.startswith(site.url(""))}, site.requests()
        assert [] == violations(site.requests(), delay_s)
        if not pages:
            assert {"/robots.txt"} == {entry["path"] for entry in site.requests()}

    assert {} == odd_ones(odd, records)
    assert [] == violations(odd.requests(), 0.1)
    assert {"/_/odd/1.0?" + landing for landing in oddities.LANDINGS} <= {entry["path"] for entry in odd.requests()}

    wanted = {page.path for page in wild.EXPECTED if page.has_record} | {"/index.html"}
    got = {url.removeprefix(web.url("")) for url in found if url.startswith(web.url(""))}
    trapped = {path for path in got if path.startswith(tuple(start.rstrip("1") for start in wild.TRAPS))}
    trapped |= {path for path in got if path.startswith("/_/calendar/")}
    assert wanted == got - trapped
    for start, most in wild.TRAPS.items():
        met = [path for path in trapped if path.split("/")[2].split("?")[0] == start.split("/")[2].split("?")[0]]
        assert 1 <= len(met) <= most, met
    assert [] == violations(web.requests(), 0.1, abandoned=wild.GIVEN_UP)
    assert [] == home.leftovers()

    for page in wild.EXPECTED:
        if page.text:
            text = records[web.url(page.path)]["text"]
            assert page.text in text, page.path
            assert len(text) < 3_000_000
    for path, trap in BEYOND.items():
        why = json.loads(home.run("why", web.url(path), "--json").stdout)
        assert f"a trap ({trap})" in why["reason"]
    chain = {entry["path"] for entry in web.requests() if entry["path"].startswith("/_/chain/long/")}
    assert {f"/_/chain/long/{left}" for left in range(2, 13)} == chain  # ten hops and no more
    why = json.loads(home.run("why", web.url("/_/challenge/503"), "--json").stdout)
    assert "challenge" in why["reason"]


def odd_ones(web: Web, records: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What is not as it should be of the pages that are odd as a whole."""
    wrong = {}
    for name, odd in oddities.ODD.items():
        record = records.get(web.url(oddities.path_of(name)))
        if (record is None) != (odd.text is None):
            wrong[name] = "it has no record" if record is None else "it has a record"
        elif record is not None and (odd.text or "", odd.truncated) != (
            record.get("text", ""),
            record.get("truncated", ""),
        ):
            wrong[name] = f"{record.get('text')!r}, {record.get('truncated')!r}"
    return wrong
