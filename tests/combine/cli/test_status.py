"""status and log: what is known, and what is said to be unknown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from combine.cli import status
from combine.keep.home import Home
from formats import wir
from formats.jcf import job
from tests.combine.cli.conftest import Desk
from tests.combine.cli.fakes import ok, stat

Run = Callable[..., Result]
Put = Callable[..., wir.Record]


def _children(desk: Desk) -> list[dict[str, Any]]:
    child = {
        "name": "scheduler",
        "pid": 7,
        "since": "2026-11-30T00:00:00Z",
        "restarts": 2,
        "state": "running",
        "note": "",
        "last_exit": "SIGKILL: silent for 10 s",
    }
    away = {**child, "name": "idbd", "state": "crash loop", "note": "the disk is full"}
    units = {"cabin": child, "hdb": away}
    return [{"unit": unit, "pid": 1, "since": "", "children": [units[unit]]} for unit in desk.alive]


@pytest.fixture
def running(desk: Desk, home: Home, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A cabin and an hdb that run."""
    monkeypatch.setattr(status, "read_status", lambda _: _children(desk))
    site = job(SITE="a.org", STATE="blocked", NEXT="30", REASON="robots.txt answers 503")
    first = stat(
        QUEUED=5, LEASED=1, FETCHED=2, DEAD=3, WAITING=1, LEASEDSITES=4, BLOCKED=1, PAGES=120, BYTES=6000, NEXT="1.5"
    )
    desk.scheduler["STAT"] = [ok(first, job(BUDGET="r", LEFT=1, OUT=0), site)]
    desk.idbd["STAT"] = [ok(job(NAME="idbd", RECORDS=938_000))]
    desk.start_unit(home.path, "cabin")
    desk.start_unit(home.path, "hdb")
    return desk


@pytest.mark.usefixtures("running")
def test_status_as_json_has_the_shape_that_others_rely_on(combine: Run, put: Put) -> None:
    put("http://a.org/")
    seen = json.loads(combine("status", "--json").stdout)
    assert "open" == seen["gate"]
    assert {"queued": 5, "leased": 1, "fetched": 2, "dead": 3} == seen["jobs"]
    assert {"unresolved": 0, "waiting": 1, "due": 0, "leased": 4, "blocked": 1} == seen["sites"]
    assert 938_000 == seen["records"]
    assert {"new": 0, "cur": 0, "bad": 0} == seen["spool"]
    assert {"pages": 2.0, "bytes": 100} == seen["rates"]
    assert ["scheduler", "idbd"] == [child["name"] for child in seen["daemons"]]
    assert {"unit", "name", "pid", "since", "restarts", "state", "note", "last_exit"} == set(seen["daemons"][0])
    assert [{"site": "a.org", "state": "blocked", "next_s": 30.0, "reason": "robots.txt answers 503"}] == seen["waits"]


def test_what_holds_a_process_up_is_why_nothing_goes_on(
    combine: Run, running: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(combine("status", "--json").stdout)["stalled"] is None
    seen = _children(running)
    seen[0]["children"][0]["note"] = "waits: the disk is too full for one page"
    monkeypatch.setattr(status, "read_status", lambda _: seen)
    said = "scheduler waits: the disk is too full for one page"
    assert said == json.loads(combine("status", "--json").stdout)["stalled"]
    assert f"stalled  {said}\n" in combine("status").stdout


@pytest.mark.usefixtures("running")
def test_status_for_people_names_what_happened(combine: Run) -> None:
    told = combine("status").stdout
    for said in (
        "runs     cabin, hdb",
        "5 queued, 1 leased",
        "a.org  blocked, 30 s: robots.txt answers 503",
        "2 restarts  running  after SIGKILL: silent for 10 s",
        "crash loop  the disk is full",
    ):
        assert said in told


@pytest.mark.usefixtures("desk")
def test_what_does_not_run_is_unknown_and_not_guessed(combine: Run, put: Put) -> None:
    put("http://a.org/")
    seen = json.loads(combine("status", "--json").stdout)
    assert (None, 1, []) == (seen["gate"], seen["records"], seen["daemons"])
    assert {None} == {*seen["jobs"].values(), *seen["sites"].values(), *seen["rates"].values()}
    result = combine("status")
    assert 0 == result.exit_code
    assert "nothing; combine start" in result.stdout


def test_a_silent_scheduler_is_said(combine: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.alive = {"cabin": 1}
    monkeypatch.setattr(status, "read_status", lambda _: _children(desk))
    assert "the scheduler does not answer" in combine("status").stdout


@pytest.mark.usefixtures("running")
def test_watch_looks_again_until_ctrl_c(combine: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", wait)
    result = combine("status", "--watch")
    assert 130 == result.exit_code
    assert 3 == result.stdout.count("gate ")


def test_log_prints_the_last_events_of_all_files(combine: Run, home: Home) -> None:
    for day, lines in ((1, "1 a\n2 b\n"), (2, "3 c\n4 d\n")):
        path = home.log / f"events-2026-11-0{day}.log"
        path.write_text(lines)
    (home.log / "cabin.out").write_text("not an event\n")
    assert "2 b\n3 c\n4 d\n" == combine("log", "-n", "3").stdout
    assert "1 a\n2 b\n3 c\n4 d\n" == combine("log", "--all").stdout
    assert "" == combine("log", "-n", "0").stdout
