"""try: one page of a server on loopback, asked politely, and nothing stored."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import Result

from combine.cli import attempt
from combine.keep.home import Home
from formats import wir
from formats.jcf import job
from tests.combine.cli.conftest import Desk
from tests.combine.cli.fakes import ok

Run = Callable[..., Result]

PAGES: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/robots.txt": (200, {}, b"User-agent: *\nDisallow: /private\n"),
    "/": (200, {"Content-Type": "text/html"}, b"<title>Home</title><a href=/x>x</a><a href=http://b.org/>b</a>"),
    "/big": (200, {"Content-Type": "text/html"}, b"<title>Big</title>" + b"<p>word " * 60_000),
    "/moved": (301, {"Location": "http://b.org/"}, b""),
    "/noindex": (200, {"Content-Type": "text/html", "X-Robots-Tag": "noindex"}, b"<title>No</title>"),
    "/broken": (503, {}, b""),
}


class _Site(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        status, fields, body = PAGES.get(self.path, (404, {}, b"nothing"))
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def site() -> Iterator[str]:
    """A server, as its root URL."""
    _Site.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def attempted(combine: Run, site: str) -> Callable[..., Result]:
    """Try a path of the site."""
    return lambda path, *words: combine("try", site + path, "--allow-private", "127.0.0.1", *words)


def test_the_record_goes_to_stdout_and_nothing_is_stored(attempted: Run, home: Home, site: str) -> None:
    before = sorted(home.path.rglob("*"))
    result = attempted("/")
    assert 0 == result.exit_code, result.stderr
    record = wir.parse(result.stdout_bytes)
    assert (f"{site}/", "Home") == (record.url, record.get("title"))
    assert ["/robots.txt", "/"] == _Site.asked
    assert before == sorted(home.path.rglob("*"))
    for said in (
        "robots  obeyed",
        "fetch   ok, status 200",
        "type    text/html",
        "links   2 would be offered, 1 of them on this host",
    ):
        assert said in result.stderr
    assert "Home" == json.loads(attempted("/", "--json").stdout)["title"]


def test_a_body_that_was_spilled_is_read(attempted: Run) -> None:
    assert "Big" == wir.parse(attempted("/big").stdout_bytes).get("title")


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/private", 1, "robots.txt forbids"),
        ("/none", 1, "gone, status 404"),
        ("/moved", 1, "redirects to http://b.org/, which is outside its scope; try follows nothing"),
        ("/noindex", 1, "refused: noindex"),
        ("/broken", 75, "failed, status 503"),
    ],
)
def test_what_leaves_no_record_says_why(attempted: Run, path: str, code: int, said: str) -> None:
    result = attempted(path)
    assert (code, "") == (result.exit_code, result.stdout)
    assert said in result.stderr


def test_robots_that_cannot_be_read_is_not_now(attempted: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAGES, "/robots.txt", (503, {}, b""))
    result = attempted("/")
    assert 75 == result.exit_code
    assert "robots.txt cannot be read" in result.stderr
    assert ["/robots.txt"] == _Site.asked


def test_robots_on_another_site_is_not_asked(attempted: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAGES, "/robots.txt", (302, {"Location": "http://b.org/robots.txt"}, b""))
    result = attempted("/")
    assert 1 == result.exit_code
    assert "is redirected to another site, http://b.org/robots.txt" in result.stderr


def test_without_a_scheme_http_is_tried_where_https_fails(combine: Run, site: str) -> None:
    result = combine("try", site.removeprefix("http://"), "--allow-private", "127.0.0.1")
    assert 0 == result.exit_code, result.stderr
    assert f"trying {site}/" in result.stderr


def test_a_private_address_is_refused(combine: Run, site: str) -> None:
    result = combine("try", site)
    assert 78 == result.exit_code
    assert "harvest.allow_private" in result.stderr
    assert [] == _Site.asked


def test_where_a_scheduler_runs_the_site_is_leased(
    attempted: Run, desk: Desk, home: Home, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "running", lambda _: dict(desk.alive))
    name = site.removeprefix("http://")
    desk.scheduler["TAKE"] = [ok(job(SITE=name, LEASE=7, DELAY=0)), ok()]
    desk.scheduler["DONE"] = [ok()]
    desk.start_unit(home.path, "cabin")
    assert 0 == attempted("/").exit_code
    assert name == desk.asked.lines("TAKE")[0].get("SITE")
    assert {"LEASE": "7", "END": "1"} == dict(desk.asked.lines("DONE")[0].params)
    result = attempted("/")
    assert 75 == result.exit_code
    assert f"{name} may not be asked now" in result.stderr
