"""What operators ask for by rule, and what sites say of the use of their pages, in whole harvests."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from formats.wir import parse
from tests.site.checker import violations
from tests.system.harness import Harness, Web, until

pytestmark = pytest.mark.system

Webs = Callable[..., Web]
Homes = Callable[..., Harness]

AGENT = '[agent]\nurl = "https://example.org/us"\nemail = "us@example.org"\n'


def test_signals_about_use_are_in_the_records_and_bind_by_purpose(webs: Webs, homes: Homes) -> None:
    robots = "User-agent: *\nContent-Signal: search=yes, ai-train=no\nDisallow: /no/"
    web, home = webs(3, "--robots", robots), homes(f'[rights]\npurpose = "ai"\n{AGENT}')
    place = web.root / ".well-known"
    place.mkdir()
    (place / "tdmrep.json").write_text(json.dumps([{"location": "/page-2*", "tdm-reservation": 1}]))
    (web.root / "ai.txt").write_text("User-Agent: *\nDisallow: /page-3\n")
    home.run("harvest", web.url("/index.html"), "--delay", "0.1")
    rights = {
        name: set(parse(home.run("show", web.url(f"/{name}.html")).stdout.encode()).columns("right"))
        for name in ("index", "page-2", "page-3")
    }
    signal = ("content-signal", "search=yes, ai-train=no", "robots.txt")
    assert {signal} == rights["index"]
    assert {signal, ("tdm-reservation", "1", "/.well-known/tdmrep.json")} == rights["page-2"]
    assert {signal, ("ai.txt", "disallow", "/ai.txt")} == rights["page-3"]
    asked = [entry["path"] for entry in web.requests()]
    assert [1, 1, 1] == [asked.count(path) for path in ("/robots.txt", "/.well-known/tdmrep.json", "/ai.txt")]
    assert [] == violations(web.requests(), 0.1)
    export = home.run("export")
    assert ("", True) == (export.stdout, "3 pages reserved from the purpose ai" in export.stderr)
    assert 2 == len(home.run("export", "--set", "rights.purpose=research").stdout.splitlines())


def test_rules_of_a_site_are_in_effect(webs: Webs, homes: Homes) -> None:
    web, other = webs(12, bind="127.0.0.31"), webs(12, bind="127.0.0.32")
    rule = 'depth = 1\nauth = "me:secretword"\ncookies = "jar"\nsource = "127.0.0.77"\nbytes_s = 20000\n'
    home = homes(f'{AGENT}[[site]]\nmatch = "127.0.0.31"\ndelay = 0.1\n{rule}')
    (home.home / "jar").write_text("127.0.0.31\tFALSE\t/\tFALSE\t0\tsession\tsecretcookie\n")
    (home.home / "exclude").write_text("URL: page-3\n")
    home.run("harvest", web.url("/index.html"), other.url("/index.html"), "--delay", "0.1")
    found = home.urls()
    assert {web.url("/index.html"), web.url("/page-2.html")} == {url for url in found if url.startswith(web.url(""))}
    assert {"127.0.0.77"} == {entry["peer"].split("'")[1] for entry in web.requests()}
    assert 5 < len({url for url in found if url.startswith(other.url(""))})
    assert {"127.0.0.1"} == {entry["peer"].split("'")[1] for entry in other.requests()}
    kept = [
        path
        for path in home.home.rglob("*")
        if path.is_file() and path.name not in ("jar", "combine.toml")
        and any(secret in path.read_bytes() for secret in (b"secretword", b"secretcookie", b"bWU6c2VjcmV0d29yZA"))
    ]  # fmt: skip
    assert [] == kept
    assert "secretword" not in home.run("config").stdout + home.run("config", "--json").stdout


def test_outside_its_hours_nothing_is_asked(webs: Webs, homes: Homes) -> None:
    web, home = webs(3), homes()
    hour = (datetime.now(UTC).hour + 12) % 24
    rule = f'match = "127.0.0.31"\nhours = "{hour:02}:00-{hour:02}:01"\n'
    with open(home.home / "combine.toml", "a") as file:
        file.write(f"[[site]]\n{rule}")
    ended = home.run("harvest", web.url("/index.html"), "--wait", "2", code=75)
    assert "at other hours" in ended.stderr
    assert [] == web.requests()


def test_rules_that_change_are_in_effect_after_hup(webs: Webs, homes: Homes) -> None:
    web, home = webs(3), homes(AGENT)
    home.run("start")
    home.run("add", web.url("/index.html"), "--depth", "0", "--delay", "0")
    until(lambda: home.urls(), "the first page is stored")
    with open(home.home / "combine.toml", "a") as file:
        file.write('[[site]]\nmatch = "127.0.0.31"\nhours = "at night"\n')
    keepalive = int((home.home / "run" / "cabin.pid").read_text().split()[0])
    os.kill(keepalive, signal.SIGHUP)
    text = (home.home / "combine.toml").read_text()
    (home.home / "combine.toml").write_text(text.replace('hours = "at night"', "blocked = true"))
    os.kill(keepalive, signal.SIGHUP)

    def is_refused() -> bool:
        return "a site rule blocks its host" in home.run("add", web.url("/page-2.html"), code=None).stderr

    until(is_refused, "the rule blocks the host")
    home.run("stop")
