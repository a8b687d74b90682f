"""Harvests among the hostile: pages that kill parsers, strangers at the sockets, letters that command terminals."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from formats import hrf, jcf
from tests.system.harness import Harness, Web, until

pytestmark = pytest.mark.system

Webs = Callable[..., Web]
Homes = Callable[..., Harness]

#: Misnested elements that every reader of HTML must mend, some nine seconds of it: far above what a page may take here.
POISON = b"<!doctype html><title>Poison</title>" + b"<b><p>" * 1_600_000

#: A page may take one second of CPU time; what died is replaced at once.
STRICT = "workers = 2\n[page]\nworkers = 1\ncpu_s = 1\n[supervise]\nback_off_s = 0.05\ncrash_loop = 1000\n"


def put(web_root: Path, name: str, content: bytes) -> None:
    """Put a page beside the others, and a link to it on the index."""
    (web_root / name).write_bytes(content)
    index = web_root / "index.html"
    index.write_bytes(index.read_bytes().replace(b"<ul>", b"<ul><li><a href=" + name.encode() + b">More</a>", 1))


def test_a_poison_page_costs_its_parsers_and_nothing_else(webs: Webs, homes: Homes, place: Path) -> None:
    web, home = webs(12), homes(STRICT)
    put(place / "site-0", "poison.html", POISON)
    home.run("harvest", web.url("/index.html"), "--delay", "0")
    assert 12 == len(home.urls())
    (harvest,) = (home.home / "hrf" / "bad").glob("*.hrf")
    assert web.url("/poison.html") == hrf.parse(harvest.read_bytes()).job.url
    assert "three parsers" in jcf.parse(harvest.with_suffix(".jcf").read_bytes()).get("REASON")
    assert '"dead"' in home.run("why", web.url("/poison.html"), "--json", code=None).stdout
    assert 1 == sum(entry["path"] == "/poison.html" for entry in web.requests())
    assert [] == [left for left in home.leftovers() if "/bad/" not in left]


def test_idle_and_slow_connections_stop_nothing(webs: Webs, homes: Homes) -> None:
    web, home = webs(40, "--delay", "0.02"), homes("workers = 2\n")
    with home.harvest(web.url("/index.html"), "--delay", "0") as running, ExitStack() as held:
        until(lambda: len(web.requests()) > 3, "pages are asked for")
        for number in range(1_000):
            end = held.enter_context(socket.socket(socket.AF_UNIX))
            end.settimeout(5)
            name = ("scheduler", "idbd")[number % 2]
            with suppress(BlockingIOError, ConnectionError, BrokenPipeError, TimeoutError):
                end.connect(str(home.home / "run" / f"{name}.sock"))
                end.sendall(b"ADD 3\nJCF/0.0 URL=" if number % 3 else b"")
        home.finish(running)
    assert 40 == len(home.urls())
    assert [] == home.leftovers()


KNOCK = """import os, socket, sys
os.setgid(65534); os.setuid(65534)
end = socket.socket(socket.AF_UNIX); end.settimeout(5); end.connect(sys.argv[1])
try:
    end.sendall(b"STAT 0\\n")
    print(end.recv(100))
except ConnectionError:
    print(b"")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else for a moment")
def test_another_user_is_turned_away(webs: Webs, homes: Homes, place: Path) -> None:
    web, home = webs(30, "--delay", "0.05"), homes()
    with home.harvest(web.url("/index.html"), "--delay", "0") as running:
        until(lambda: len(web.requests()) > 3, "pages are asked for")
        sockets = [home.home / "run" / f"{name}.sock" for name in ("scheduler", "idbd")]
        for path in (place, home.home, home.home / "run"):
            path.chmod(0o755)
        for path in sockets:
            knock = [sys.executable, "-S", "-c", KNOCK, str(path)]
            assert subprocess.run(knock, capture_output=True, check=False).returncode != 0, (
                "the socket's mode lets him in"
            )
            path.chmod(0o777)
            said = subprocess.run(knock, capture_output=True, check=True).stdout
            assert b"b''\n" == said
        home.finish(running)
    assert 30 == len(home.urls())


def test_no_letter_of_a_page_commands_the_terminal_or_forges_a_line_of_the_log(
    webs: Webs, homes: Homes, place: Path
) -> None:
    web, home = webs(5), homes()
    title = "a\x1b]0;owned\x07\x1b[2Jb\u202ec\x9b31m&#10;2026-11-30T12:00:00.000Z forged&#x1b;[31m"
    put(place / "site-0", "evil.html", f"<!doctype html><meta charset=utf-8><title>{title}</title><p>{title}".encode())
    put(
        place / "site-0",
        "lines.html",
        b"<a href='x%0d%0aforged: 1'>n</a><a href='y\x1b[31m'>e</a><a href='../../etc'>p</a>",
    )
    home.run("harvest", web.url("/index.html"), "--delay", "0")
    url = web.url("/evil.html")
    for words in (("show", url), ("list",), ("why", url), ("export", "--format", "csv"), ("log",)):
        said = home.run(*words, code=None)
        assert set() == {letter for letter in said.stdout + said.stderr if letter in "\x1b\x07\x9b\r"}, words
    for path in (home.home / "log").rglob("*"):
        if path.is_file():
            assert not any(
                line.startswith(("forged", "2026-11-30T12:00:00.000Z forged")) for line in path.read_text().split("\n")
            )
    for key in ("../../etc/passwd", "..", "/etc/passwd", "%2e%2e"):
        assert "root:" not in home.run("show", key, code=None).stdout
