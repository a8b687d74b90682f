"""Eight harvesters, sites that lead to one another in every way, and kills: no site is asked too soon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.site.checker import violations
from tests.site.wild import linking
from tests.system.harness import Harness, Web, until

pytestmark = pytest.mark.system

DELAY_S = 0.2
PAGES = 6

SETTINGS = """workers = 8
first_byte_s = 1.0
[agent]
email = "us@example.org"
[politeness]
address_delay_s = 0.0
tries_s = 0.0
[supervise]
back_off_s = 0.05
"""

#: Requests that ask the harvester to stay away for a second; a date has whole ones, and so this is two to three.
AWAY = (
    "/_/flaky/503?after=1",
    "/_/flaky/429?after=1",
    "/_/flaky/503?after=date:3",
    "/_/redirect/302?to=/away.html&after=1",
)


class Shops:
    """Sites of one domain at addresses of their own."""

    def __init__(self, webs: Callable[..., Web]) -> None:
        self._webs = webs
        self.by_name: dict[str, Web] = {}

    def open(self, name: str, robots: str, *links: str) -> Web:
        number = len(self.by_name) + 1
        web = self._webs(1, "--robots", robots, bind=f"127.33.2.{number}")
        self.by_name[name] = web
        pages = [f"p{page}.html" for page in range(PAGES)]
        (web.root / "index.html").write_bytes(linking(name, *pages, *links))
        for page in (*pages, "only-by-redirect.html", "only-by-sitemap.html", "away.html"):
            (web.root / page).write_bytes(linking(f"{name} {page}", text=f"This is {page} of {name}."))
        return web

    def url(self, name: str, path: str = "/index.html") -> str:
        return f"http://{name}.shop.co.uk:{self.by_name[name].address.rpartition(':')[2]}{path}"

    def answers(self) -> dict[str, object]:
        return {f"{name}.shop.co.uk": [f"45.33.2.{number}"] for number, name in enumerate(self.by_name, 1)}


def opened(webs: Callable[..., Web]) -> Shops:
    """The sites: each has a robots.txt of its own kind, and all lead to others."""
    shops = Shops(webs)
    shops.open("one", "404", *AWAY)
    there = shops.url("one", "/only-by-redirect.html")
    two = shops.open("two", f"redirect:{shops.url('one', '/rules.txt')}", f"/_/redirect/301?to={there}")
    (shops.by_name["one"].root / "rules.txt").write_text(
        f"User-agent: *\nDisallow: /p3.html\nCrawl-delay: {DELAY_S * 2}"
    )
    shops.open("three", f"Sitemap: {shops.url('two', '/map.txt')}", f"/_/redirect/307?to={there}")
    (two.root / "map.txt").write_text(f"{shops.url('three', '/only-by-sitemap.html')}\n")
    for name, hops in (("five-hops", 3), ("six-hops", 4)):
        chain = f"redirect:{shops.url('one', '/_/redirect/301?to=')}{quote(shops.url('three', f'/_/chain/{hops}'))}"
        shops.open(name, chain)
    shops.open("silent", "hang")
    return shops


def test_no_site_is_asked_too_soon(
    webs: Callable[..., Web], homes: Callable[..., Harness], names: Callable[[dict[str, object]], object]
) -> None:
    shops, home = opened(webs), homes(SETTINGS)
    names(shops.answers())
    seeds = [shops.url(name) for name in shops.by_name]

    def requests() -> list[dict[str, Any]]:
        return [entry for web in shops.by_name.values() for entry in web.requests()]

    with home.harvest(*seeds, "--same-domain", "--delay", str(DELAY_S), "--wait", "10") as running:
        for count, name in ((4, "harvester"), (10, "scheduler"), (16, "harvester"), (22, "parser"), (28, "idbd")):
            until(lambda count=count: len(requests()) >= count, f"{count} requests")  # type: ignore[misc]
            home.kill(name)
        said, _ = running.communicate(timeout=120)
    assert 75 == running.returncode, said

    for name, web in shops.by_name.items():
        delay_s = DELAY_S * 2 if name == "two" else DELAY_S
        found = violations([e for e in web.requests() if e["path"] != "/robots.txt"], delay_s)
        assert [] == [*violations(web.requests(), DELAY_S), *found], name
        for entry, after in zip(web.requests(), web.requests()[1:], strict=False):
            if entry["path"] in AWAY and entry["status"] != 200:
                assert after["start"] - entry["end"] >= 1.0, entry["path"]
    wanted = {
        shops.url(name, f"/p{page}.html") for name in ("one", "two", "three", "five-hops") for page in range(PAGES)
    }
    wanted |= {shops.url(name) for name in ("one", "two", "three", "five-hops")}
    wanted |= {shops.url("one", path) for path in (*AWAY[:3], "/away.html", "/only-by-redirect.html")}
    wanted |= {shops.url("three", "/only-by-sitemap.html")}
    wanted -= {shops.url("two", "/p3.html")}
    assert wanted == home.urls(), said
    for name, why in (("six-hops", "(redirect)"), ("silent", "(timeout)")):
        assert {"/robots.txt"} == {entry["path"] for entry in shops.by_name[name].requests()}
        sentence = said.partition(f"combine: {name}.shop.co.uk")[2].partition("\n")[0]
        assert f"robots.txt cannot be read {why}" in sentence, said
    assert [] == home.leftovers()
