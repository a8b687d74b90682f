"""add, why, site: what the scheduler is asked, and how its answers are shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from combine.ipc.message import Message
from combine.keep.home import Home
from combine.urls import record_id
from combine.web.robots import Copy, RobotsStore
from formats import wir
from formats.jcf import Job, job
from tests.combine.cli.conftest import Desk
from tests.combine.cli.fakes import ok

Run = Callable[..., Result]
Put = Callable[..., wir.Record]

A = "http://a.org/x"


def test_add_puts_seeds_and_jcf_lines(combine: Run, desk: Desk) -> None:
    desk.scheduler["ADD"] = [ok(text="2 new=2 known=0 outside=0 refused=0")]
    result = combine(
        "add",
        "a.org",
        "-l",
        "2",
        "--same-domain",
        "-w",
        "3",
        "--tag",
        "t",
        "-i",
        "-",
        input='JCF/0.0 URL="http://b.org/" MAXDEPTH="0"\n',
    )
    assert 0 == result.exit_code
    assert "2 new in the queue, 0 known" in result.stderr
    first, second = desk.asked.lines("ADD")
    assert {
        "URL": "https://a.org/",
        "ELSE": "http://a.org/",
        "SCOPE": "domain",
        "MAXDEPTH": "2",
        "DELAY": "3",
        "TAG": "t",
    } == dict(first.params)
    assert ("http://b.org/", "0", "domain") == (second.url, second.get("MAXDEPTH"), second.get("SCOPE"))


def test_a_question_starts_what_it_needs_and_stops_it(combine: Run, desk: Desk) -> None:
    desk.scheduler["ADD"] = [ok(text="1 new=1")]
    combine("add", "a.org")
    assert ["cabin", "hdb"] == [unit for unit, _, _ in desk.started]
    assert ["cabin", "hdb"] == desk.stopped
    desk.alive = {"cabin": 1, "hdb": 1, "harvester": 1}
    combine("add", "a.org")
    assert 2 == len(desk.started) == len(desk.stopped)


def test_add_says_what_was_refused(combine: Run, desk: Desk) -> None:
    desk.scheduler["ADD"] = [
        ok(job(URL="https://a.org/", REASON="the exclude file forbids it"), text="0 new=0 refused=1")
    ]
    result = combine("add", "a.org")
    assert 1 == result.exit_code
    assert "https://a.org/ was not taken: the exclude file forbids it" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a URL"),
        (("mailto:x@y",), "only http"),
        (("a.org", "--same-domain", "--under", "a.org/x"), "cannot be combined"),
        (("a.org", "--include", "("), "no regular expression"),
    ],
)
def test_add_refuses_before_anything_starts(combine: Run, desk: Desk, words: tuple[str, ...], said: str) -> None:
    result = combine("add", *words)
    assert 2 == result.exit_code
    assert said in result.stderr
    assert [] == desk.started


def test_a_file_of_seeds(combine: Run, desk: Desk, tmp_path: Path) -> None:
    desk.scheduler["ADD"] = [ok(text="1 new=1")]
    (tmp_path / "list").write_text("# seeds\nhttp://a.org/\n")
    assert 0 == combine("add", "-i", tmp_path / "list", "-q").exit_code
    assert 2 == combine("add", "-i", tmp_path / "none").exit_code


GONE = (
    job(URL=A, SITE="a.org", STATE="stored", REASON="it is gone (404)", SEED="http://a.org/"),
    job(KIND="visit", URL=A, OUTCOME="gone", STATUS="404", DUE="2026-12-30T00:00:00Z"),
    job(KIND="event", TIME="2026-11-29T00:00:00Z", OUTCOME="failed", REASON="timeout"),
    job(KIND="event", TIME="2026-11-30T00:00:00Z", OUTCOME="gone", STATUS="404"),
)


def test_why_tells_a_dead_link(combine: Run, desk: Desk) -> None:
    desk.scheduler["WHY"] = [ok(*GONE)]
    found = json.loads(combine("why", A, "--json").stdout)
    assert [A, "stored", "a.org", "it is gone (404)", None] == [
        found[name] for name in ("url", "state", "site", "reason", "record")
    ]
    assert {"outcome": "gone", "status": 404, "due": "2026-12-30T00:00:00Z"} == found["visit"]
    assert [
        {"time": "2026-11-29T00:00:00Z", "outcome": "failed", "reason": "timeout"},
        {"time": "2026-11-30T00:00:00Z", "outcome": "gone", "status": 404},
    ] == found["events"]
    told = combine("why", A).stdout
    assert "reason  it is gone (404)" in told
    assert "2026-11-30T00:00:00Z  gone  404" in told


def test_why_of_an_unknown_url_has_no_visit(combine: Run, desk: Desk) -> None:
    desk.scheduler["WHY"] = [ok(job(URL=A, SITE="a.org", STATE="unknown", REASON="no seed was ever given"))]
    found = json.loads(combine("why", A, "--json").stdout)
    assert ("unknown", None, []) == (found["state"], found["visit"], found["events"])


def test_why_without_a_scheme_finds_what_http_has(combine: Run, desk: Desk) -> None:
    def answer(lines: list[Job]) -> Message:
        return ok(job(URL=lines[0].url, STATE="unknown" if lines[0].url.startswith("https") else "dead"))

    desk.scheduler["WHY"] = answer
    assert ["http://a.org/", "dead"] == [
        json.loads(combine("why", "a.org", "--json").stdout)[name] for name in ("url", "state")
    ]


def test_why_by_id_needs_a_record(combine: Run, desk: Desk, put: Put) -> None:
    assert 1 == combine("why", record_id(A)).exit_code
    put(A)
    desk.scheduler["WHY"] = [ok(*GONE)]
    assert json.loads(combine("why", record_id(A), "--json").stdout)["record"].endswith(record_id(A))
    assert A == desk.asked.lines("WHY")[0].url


SITE = job(SITE="a.org:8080", STATE="waiting", DELAY="5", NEXT="2.5", QUEUED="3", REQUESTS="7")


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("a.org:8080",), {"SITE": "a.org:8080"}),
        (("http://a.org:8080/x",), {"SITE": "a.org:8080"}),
        (("a.org:80", "--block"), {"SITE": "a.org", "BLOCK": "1"}),
        (("a.org", "--unblock"), {"SITE": "a.org", "BLOCK": "0"}),
        (("a.org", "--delay", "2"), {"SITE": "a.org", "DELAY": "2"}),
    ],
)
def test_site_asks_and_changes(combine: Run, desk: Desk, words: tuple[str, ...], asked: dict[str, str]) -> None:
    desk.scheduler["SITE"] = [ok(SITE)]
    desk.idbd["SITE"] = [ok()]
    assert 0 == combine("site", *words).exit_code
    assert asked == dict(desk.asked.lines("SITE")[0].params)


def test_site_says_requests_gaps_robots_and_next_time(combine: Run, desk: Desk, home: Home) -> None:
    desk.scheduler["SITE"] = [ok(SITE)]
    desk.idbd["SITE"] = [ok(job(SITE="a.org:8080", LAST="2026-11-30T00:00:00Z", REQUESTS="70"))]
    RobotsStore(home.robots).save(Copy("http://a.org:8080", 503, 1000.0, 2000.0, down=1000.0, failures=1))
    found = json.loads(combine("site", "a.org:8080", "--json").stdout)
    assert ("waiting", "5", "2.5", 7) == (found["state"], found["delay"], found["next"], found["requests"])
    assert {"last": "2026-11-30T00:00:00Z", "requests": 70} == found["visited"]
    assert [("http://a.org:8080", 503, "1970-01-01T00:16:40Z")] == [
        (fact["origin"], fact["status"], fact["unreachable_since"]) for fact in found["robots"]
    ]
    told = combine("site", "a.org:8080").stdout
    assert "robots    origin http://a.org:8080, status 503" in told


def test_site_that_nobody_knows(combine: Run, desk: Desk) -> None:
    desk.scheduler["SITE"] = [ok()]
    result = combine("site", "a.org")
    assert 1 == result.exit_code
    assert "nothing is known of it" in result.stderr
    assert 2 == combine("site", "a.org", "--block", "--unblock").exit_code
