"""The set of records depends on no order: whatever comes first, whoever dies, it is what breadth-first search gives."""

from __future__ import annotations

import random
from collections import deque

import pytest

from combine.schedule import sites
from combine.schedule.leases import Holder
from combine.schedule.scope import Scope, seed_rule
from combine.urls import host_of, registrable_domain
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.world import Page, Web, World, always

HOSTS = ("a.example", "b.example", "www.a.example")


def random_web(chance: random.Random) -> dict[str, Page]:
    """Some pages on some hosts, which link to one another as it comes."""
    urls = [f"http://{chance.choice(HOSTS)}/{number}" for number in range(chance.randint(3, 14))]
    pages = {}
    for url in urls:
        links = tuple(dict.fromkeys(chance.choices(urls, k=chance.randint(0, 3))))
        outcome = chance.choice(("ok", "ok", "ok", "ok", "gone", "redirect"))
        if outcome == "redirect":
            pages[url] = Page((), outcome, chance.choice(urls))
        else:
            pages[url] = Page(links if outcome == "ok" else (), outcome, failures=chance.choice((0, 0, 0, 1)))
    return pages


def random_seeds(chance: random.Random, pages: dict[str, Page]) -> list[Job]:
    """ADD lines of seeds, some of them the same seed, wider."""
    urls = list(pages)
    chosen = chance.choices(urls, k=chance.randint(1, 3))
    lines = []
    for url in (*chosen, *chance.choices(chosen, k=chance.randint(0, 2))):
        scope = chance.choice(("host", "host", "domain", f"under:{url[:-1]}"))
        depth = chance.choice((None, 0, 1, 2, 3, 4))
        lines.append(jcf.job(URL=url, SCOPE=scope, MAXDEPTH=depth))
    return lines


def expected(pages: dict[str, Page], seeds: list[Job]) -> set[str]:
    """The records that breadth-first search from each seed, as it is in the end, comes by."""
    depths: dict[str, float] = {}
    scopes: dict[str, Scope] = {}
    for line in seeds:
        depth = float(line.get("MAXDEPTH", "inf"))
        depths[line.url] = max(depth, depths.get(line.url, 0.0))
        scopes[line.url] = scopes.get(line.url, Scope(())).widened([seed_rule(line.get("SCOPE"), line.url)])
    found: set[str] = set()
    for seed, most in depths.items():
        found |= reached(pages, seed, with_redirects(pages, seed, scopes[seed]), most)
    return {url for url in found if pages[url].outcome == "ok"}


def with_redirects(pages: dict[str, Page], seed: str, scope: Scope) -> Scope:
    """The scope and the hosts in the seed's domain that the seed redirects to."""
    seen, url = {seed}, pages[seed].to
    while url and url not in seen:
        if not scope.admits(url) and registrable_domain(host_of(url)) == registrable_domain(host_of(seed)):
            scope = scope.widened([seed_rule("host", url)])
        seen.add(url)
        url = pages[url].to
    return scope


def reached(pages: dict[str, Page], seed: str, scope: Scope, most: float) -> set[str]:
    """The URLs that breadth-first search comes by from one seed."""
    best = {seed: 0}
    waiting = deque([seed])
    while waiting:
        url = waiting.popleft()
        page = pages[url]
        steps = [(target, 1) for target in page.links] + ([(page.to, 0)] if page.to else [])
        for target, hops in steps:
            depth = best[url] + hops
            is_one_page = hops == 0 and best[url] == 0  # where a seed redirects to
            if depth <= most and (scope.admits(target) or is_one_page) and depth < best.get(target, 10**6):
                best[target] = depth
                waiting.append(target)
    return set(best)


def step(web: Web, chance: random.Random, holders: list[Holder], waiting: list[Job], faults: float) -> None:
    """Somebody does one thing."""
    world = web.world
    world.clock.sleep(chance.choice((0.0, 0.01, 0.5)))
    number = chance.random()
    if number < 0.05 and waiting:
        line = waiting.pop(0)
        world.insist(lambda: world.add(line))
    elif number < 0.45:
        web.harvest(chance.choice(holders), dies=chance.random() < faults)
    elif number < 0.70:
        web.parse(chance.randrange(100))
    elif number < 0.80:
        web.sync()
    elif number < 0.88:
        world.tell()
    elif number < 0.98:
        web.relink()
    elif chance.random() < faults * 5:
        web.kill(chance.choice(holders))


def harvest(number: int, faults: float) -> None:
    chance = random.Random(number)
    pages = random_web(chance)
    seeds = random_seeds(chance, pages)
    world = World(listed=always, seed=number)
    world.crashes = lambda: chance.random() < faults
    web = Web(world, pages)
    holders = [Holder(pid, pid) for pid in range(101, 101 + chance.randint(1, 3))]
    waiting = list(seeds)
    for _ in range(chance.randint(20, 400)):
        step(web, chance, holders, waiting, faults)
    for line in waiting:
        world.insist(lambda line=line: world.add(line))  # type: ignore[misc]
    web.finish(holders)
    assert expected(pages, seeds) == set(web.records), number
    assert {url: 0 for url in web.records} == {url: 1 - int(world.visit(url).get("RECORD")) for url in web.records}
    for url, count in web.asked.items():
        assert count <= 1 + pages[url].failures + world.faults, (number, url)
    if not faults:
        assert {url: 1 + pages[url].failures for url in web.asked} == web.asked
    world.close()


@pytest.mark.parametrize("start", range(0, 100, 50))
def test_the_records_depend_on_no_order(start: int) -> None:
    for number in range(start, start + 50):
        harvest(number, 0.0)


@pytest.mark.parametrize("start", range(1000, 1100, 50))
def test_the_records_depend_on_no_fault(start: int) -> None:
    for number in range(start, start + 50):
        harvest(number, 0.04)


def test_the_records_do_not_depend_on_who_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "AWAKE", 1)
    for number in range(2000, 2040):
        harvest(number, 0.04)
