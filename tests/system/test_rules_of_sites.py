"""Site rules, budgets and exclusions in whole harvests of a pretended internet, where nobody is a listed host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from formats.wir import parse
from tests.site.checker import violations
from tests.site.wild import linking
from tests.system.harness import Harness, Web

pytestmark = pytest.mark.system

Webs = Callable[..., Web]
Homes = Callable[..., Harness]
Names = Callable[[dict[str, object]], object]

SETTINGS = """
[agent]
email = "us@example.org"
[politeness]
address_delay_s = 0.0
[[site]]
match = "few.example"
requests_day = 4
[[site]]
match = "heavy.example"
bytes_day = 30000
[[site]]
match = ".shut.example"
blocked = true
[[site]]
match = "open.example"
robots = "ignore"
because = "they asked us to"
[[site]]
match = "slow.example"
delay = 0.5
[[site]]
match = "flat.example"
depth = 1
"""

EXCLUDE = """
HOST: ^stranger
.evil.example
odd.example:PORT/no
URL: /page-[45]
"""


@pytest.mark.usefixtures("_at_noon")  # a budget is one of a day
def test_rules_budgets_and_exclusions(webs: Webs, homes: Homes, names: Names) -> None:
    web, home = webs(6, "--robots", "User-agent: *\nDisallow: /page-3\n", bind="127.33.3.1"), homes(SETTINGS)
    port = web.address.rpartition(":")[2]
    for number in range(8):
        (web.root / f"big{number}.html").write_bytes(linking("Big", text=f"word{number} " * 2000))
    (web.root / "heavy.html").write_bytes(linking("Heavy", *(f"big{number}.html" for number in range(8))))
    (web.root / "no").mkdir()
    (web.root / "no" / "a.html").write_bytes(linking("No"))
    (web.root / "start.html").write_bytes(linking("Start", "index.html", "/no/a.html"))
    hosts = ("few", "heavy", "shut", "www.shut", "open", "slow", "flat", "stranger7", "www.evil", "odd")
    names({f"{host}.example": ["45.33.3.1"] for host in hosts})
    (home.home / "exclude").write_text(EXCLUDE.replace("PORT", port))
    starts = {"heavy": "/heavy.html", "odd": "/start.html", "flat": "/start.html"}
    seeds = [f"http://{host}.example:{port}{starts.get(host, '/index.html')}" for host in hosts]
    said = home.run("harvest", *seeds, "--delay", "0.1", "--wait", "10", code=75).stderr

    asked = {host: [e["path"] for e in web.requests() if e["host"].startswith(f"{host}.")] for host in hosts}
    assert (4, 5) == (len(asked["few"]), len(asked["heavy"])), asked  # robots.txt, the index and three long pages
    assert [[]] * 4 == [asked[host] for host in ("shut", "www.shut", "stranger7", "www.evil")]
    assert ("/robots.txt" in asked["odd"], "/robots.txt" in asked["open"]) == (True, False)
    assert {"/robots.txt", "/start.html", "/index.html", "/no/a.html"} == set(asked["flat"])
    assert not {"/no/a.html", "/page-3.html", "/page-4.html", "/page-5.html"} & set(asked["odd"])
    assert {"/page-2.html", "/page-3.html", "/page-6.html"} < set(asked["open"])
    assert [] == violations(web.requests(), 0.1)
    assert [] == violations([entry for entry in web.requests() if entry["host"].startswith("slow.")], 0.5)
    assert "few.example" in said
    assert "asked for 4 pages" in said
    assert 2 <= said.count("a site rule blocks its host")
    record = parse(home.run("show", f"http://open.example:{port}/page-3.html").stdout.encode())
    assert "ignored because they asked us to" == record.get("robots_txt")
    events = "".join(path.read_text() for path in (home.home / "log").rglob("*") if path.is_file())
    assert "robots.txt ignored because they asked us to" in events
