"""Whole harvests without faults: every page once, again, by force, and ring by ring."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Callable

import pytest

from tests.site.checker import violations
from tests.system import sites
from tests.system.harness import Harness, Web

pytestmark = pytest.mark.system

Webs = Callable[..., Web]
Homes = Callable[..., Harness]


def asked(web: Web, since: int = 0) -> Counter[str]:
    """How often each page was asked for, robots.txt left out."""
    return Counter(entry["path"] for entry in web.requests()[since:] if entry["path"] != "/robots.txt")


def test_every_page_has_one_record_and_is_asked_once(webs: Webs, homes: Homes) -> None:
    web, home = webs(60), homes()
    said = home.run("harvest", web.url("/index.html"), "--delay", "0").stderr
    pages = {web.url(path) for path in sites.within(60, 99)}
    assert pages == home.urls(), said
    assert [] == home.leftovers()
    for url in pages:
        name = hashlib.md5(url.encode()).hexdigest()
        assert (home.home / "hdb" / name[:2] / name[2:4] / name).is_file()
    dead = {f"/dead-{number}.html" for number in range(3)}
    assert dict.fromkeys(sites.within(60, 99) | dead, 1) == dict(asked(web))
    why = json.loads(home.run("why", web.url("/dead-1.html"), "--json").stdout)
    assert ("stored", ["gone"]) == (why["state"], [event["outcome"] for event in why["events"]])


def test_again_asks_nothing_and_force_asks_each_page_once(webs: Webs, homes: Homes) -> None:
    web, home = webs(30), homes()
    home.run("harvest", web.url("/index.html"))
    before = len(web.requests())
    home.run("harvest", web.url("/index.html"))
    assert {} == dict(asked(web, before))
    records = home.records(web)
    home.run("harvest", web.url("/index.html"), "--force")
    again = [entry for entry in web.requests()[before:] if entry["path"] in sites.within(30, 99)]
    assert dict.fromkeys(sites.within(30, 99), 1) == dict(Counter(entry["path"] for entry in again))
    assert {304} == {entry["status"] for entry in again}
    assert records == home.records(web)


@pytest.mark.parametrize("workers", [1, 4])
def test_rings_grow_and_equal_a_fresh_harvest(webs: Webs, homes: Homes, workers: int) -> None:
    web, home = webs(60), homes(f"workers = {workers}\n")
    for depth in (1, 2, 3):
        before = len(web.requests())
        home.run("harvest", web.url("/index.html"), "--depth", str(depth))
        ring = sites.within(60, depth) - (sites.within(60, depth - 1) if depth > 1 else set())
        assert {web.url(path) for path in sites.within(60, depth)} == home.urls()
        news = {path for path in asked(web, before) if not path.startswith("/dead")}
        assert ring == news
        assert {1} == set(asked(web, before).values())


def test_three_sites_are_each_asked_politely(webs: Webs, homes: Homes) -> None:
    three = [webs(12, bind=f"127.0.0.{last}") for last in (32, 33, 34)]
    home = homes("workers = 3\n")
    home.run("harvest", *(web.url("/index.html") for web in three), "--delay", "0.2")
    assert 36 == len(home.urls())
    for web in three:
        assert [] == violations(web.requests(), 0.2)


def test_a_site_whose_robots_txt_fails_waits_and_is_not_asked(webs: Webs, homes: Homes) -> None:
    web, home = webs(5, "--robots", "503"), homes()
    ended = home.run("harvest", web.url("/index.html"), "--wait", "1", code=75)
    assert "robots.txt" in ended.stderr
    assert {} == dict(asked(web))
    assert set() == home.urls()


def test_a_limit_leaves_the_rest_for_the_next_run(webs: Webs, homes: Homes) -> None:
    web, home = webs(30), homes()
    home.run("harvest", web.url("/index.html"), "--limit", "10")
    assert 10 == len(home.urls())
    home.run("harvest", web.url("/index.html"))
    assert 30 == len(home.urls())
    assert {1} == set(asked(web).values())


def test_a_paused_gate_is_said_at_once(webs: Webs, homes: Homes) -> None:
    web, home = webs(5), homes()
    home.run("start")
    home.run("pause")
    ended = home.run("harvest", web.url("/index.html"), code=75)
    assert "paused" in ended.stderr
    home.run("open")
    home.run("harvest", web.url("/index.html"))
    assert 5 == len(home.urls())
    home.run("stop")
    assert [] == home.processes()


def test_exports_hold_every_record(webs: Webs, homes: Homes) -> None:
    web, home = webs(20), homes()
    home.run("harvest", web.url("/index.html"))
    rows = [json.loads(line) for line in home.run("export", "--format", "jsonl").stdout.split("\n") if line]
    assert 20 == len(rows)
    assert all(isinstance(row["title"], str) and isinstance(row["links"], list) for row in rows)
    table = list(csv.DictReader(home.run("export", "--format", "csv").stdout.splitlines(keepends=True)))
    assert sorted(row["url"] for row in rows) == sorted(row["url"] for row in table)
