"""Whole harvests with faults: kills, stops, and everything killed at once; the store is that of a harvest without."""

from __future__ import annotations

import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.site.checker import violations
from tests.system import sites
from tests.system.harness import DEADLINE_S, Harness, Web, until

pytestmark = pytest.mark.system

Webs = Callable[..., Web]
Homes = Callable[..., Harness]

PAGES = 150

TWO = "workers = 2\n"

#: Silence is punished fast, so that a stopped worker does not hold a test up; elsewhere that would be a fault.
IMPATIENT = f"{TWO}[supervise]\nping_s = 0.3\nsilence_s = 3.0\nparser_silence_s = 3.0\n"


@pytest.fixture(scope="module")
def fault_free() -> Iterator[dict[str, str]]:
    """The records of a harvest that nothing happens to."""
    with tempfile.TemporaryDirectory(prefix="cmb", ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        sites.make(place / "site", PAGES)
        with (
            closing(Web(place / "site", place / "log.jsonl")) as web,
            closing(Harness(place / "h", TWO)) as home,
        ):
            home.run("harvest", web.url("/index.html"))
            yield home.records(web)


def check(
    web: Web, home: Harness, expected: dict[str, str], faults: int, delay_s: float = 0.0, abandoned: int = 0
) -> None:
    """The store is as without faults, nothing is left over, and no page was asked too often or too soon."""
    records = home.records(web)
    assert set(expected) == set(records)
    assert expected == records
    assert [] == home.leftovers()
    counts = Counter(entry["path"] for entry in web.requests() if entry["path"] != "/robots.txt")
    assert {} == {path: count for path, count in counts.items() if count > 1 + faults}
    # The one exception of politeness: a request that ended with its harvester, on which the server still works.
    found = violations(web.requests(), delay_s)
    assert len(found) <= abandoned, found
    assert all(violation.gap_s < 0 for violation in found), found


@pytest.mark.parametrize("name", ["scheduler", "idbd", "logd", "harvester", "parser"])
def test_one_daemon_is_killed(webs: Webs, homes: Homes, fault_free: dict[str, str], name: str) -> None:
    web, home = webs(PAGES, "--delay", "0.02"), homes(TWO)
    with home.harvest(web.url("/index.html"), "--delay", "0") as running:
        for part in (1, 2):
            until(lambda part=part: len(web.requests()) > part * PAGES // 4, "pages are asked for")  # type: ignore[misc]
            home.kill(name)
        home.finish(running)
    check(web, home, fault_free, faults=2, abandoned=2 if name == "harvester" else 0)


def test_everything_is_killed_and_the_same_command_goes_on(
    webs: Webs, homes: Homes, fault_free: dict[str, str]
) -> None:
    web, home = webs(PAGES, "--delay", "0.02"), homes(TWO)
    for part in (1, 2):
        with home.harvest(web.url("/index.html"), "--delay", "0") as running:
            until(lambda part=part: len(web.requests()) > part * PAGES // 4, "pages are asked for")  # type: ignore[misc]
            home.kill_all()
            running.wait(timeout=DEADLINE_S)
        until(lambda: not home.processes(), "all are gone")
    home.run("harvest", web.url("/index.html"), "--delay", "0")
    check(web, home, fault_free, faults=2, abandoned=2)


@pytest.mark.parametrize("name", ["harvester", "parser", "scheduler"])
def test_a_stopped_process_is_replaced(webs: Webs, homes: Homes, fault_free: dict[str, str], name: str) -> None:
    web, home = webs(PAGES, "--delay", "0.03"), homes(IMPATIENT)
    with home.harvest(web.url("/index.html"), "--delay", "0") as running:
        until(lambda: len(web.requests()) > PAGES // 4, "pages are asked for")
        pid = home.kill(name, signal.SIGSTOP)
        until(lambda: not Path(f"/proc/{pid}").exists(), f"{name} is ended")
        home.finish(running)
    check(web, home, fault_free, faults=1, abandoned=1 if name == "harvester" else 0)


def test_politeness_outlives_kills(webs: Webs, homes: Homes) -> None:
    delay_s = 0.3
    three = [webs(30, bind=f"127.0.0.{last}") for last in (35, 36, 37)]
    home = homes("workers = 4\n[supervise]\nback_off_s = 0.05\n")
    with home.harvest(*(web.url("/index.html") for web in three), "--delay", str(delay_s)) as running:
        for name in ("harvester", "scheduler", "harvester", "idbd", "parser"):
            seen = sum(len(web.requests()) for web in three)
            until(lambda seen=seen: sum(len(web.requests()) for web in three) > seen + 3, "pages are asked for")  # type: ignore[misc]
            home.kill(name)
        home.finish(running)
    for web in three:
        assert {web.url(path) for path in sites.within(30, 9)} <= home.urls()
        assert [] == violations(web.requests(), delay_s)


def test_the_harvest_ends_cleanly_at_ctrl_c_and_goes_on_later(
    webs: Webs, homes: Homes, fault_free: dict[str, str]
) -> None:
    web, home = webs(PAGES, "--delay", "0.02"), homes(TWO)
    with home.harvest(web.url("/index.html"), "--delay", "0") as running:
        until(lambda: len(web.requests()) > PAGES // 3, "pages are asked for")
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=DEADLINE_S)
        assert [] == home.processes()
    home.run("harvest", web.url("/index.html"), "--delay", "0")
    check(web, home, fault_free, faults=1)
