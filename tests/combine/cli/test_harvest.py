"""harvest from its options to its exit code, with daemons that say what a test wants."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from combine.cli import harvest, main, peers, plan, run, started, units
from combine.cli.run import Bounds
from combine.cli.seeds import Wish, parse
from combine.cli.session import Session
from combine.config import Harvest, Settings
from combine.errors import EXIT_FINDING, RESTORE, RetryLater
from combine.ipc.client import Client
from combine.ipc.message import Message, message
from combine.keep.home import Home, is_home
from combine.schedule.clock import epoch_of
from formats import wir
from formats.jcf import Job, job
from tests.combine.cli.conftest import Desk
from tests.combine.cli.fakes import ok, stat

Run = Callable[..., Result]
Put = Callable[..., wir.Record]

A = "http://127.0.0.21:8000/"
LOCAL = ("--allow-private", "127.0.0.21")


@pytest.fixture
def ready(desk: Desk) -> Desk:
    """A scheduler that takes seeds and is done after three looks."""
    desk.scheduler["STAT"] = [ok(stat()), ok(stat(QUEUED=1, NEXT=0)), ok(stat(FETCHED=1, NEXT=0)), ok(stat(DEAD=2))]
    desk.scheduler["ADD"] = [ok(text="1 new=1 known=0 outside=0 refused=0")]
    desk.scheduler["WHY"] = lambda lines: ok(
        job(URL=lines[0].url, SITE="x", STATE="unknown", REASON="nothing is known")
    )
    return desk


def test_a_harvest_from_start_to_end(combine: Run, ready: Desk, put: Put, home: Home) -> None:
    put(A)
    result = combine("harvest", A, *LOCAL, "--tag", "t", "-l", "3", "--exclude", "x")
    assert 0 == result.exit_code, result.stderr
    assert "" == result.stdout
    assert {("cabin", os.getpid()), ("hdb", os.getpid()), ("harvester", os.getpid())} == {
        (unit, owner) for unit, _, owner in ready.started
    }
    overrides = ("harvest.allow_private=127.0.0.21", "scheduler.standing=false")
    assert {overrides} == {started for _, started, _ in ready.started}
    assert ["cabin", "hdb", "harvester"] == ready.stopped
    seed = ready.asked.lines("ADD")[0]
    assert (A, "host", "3", "x", "t", "auto") == tuple(
        seed.get(name) for name in ("URL", "SCOPE", "MAXDEPTH", "EXCLUDE", "TAG", "DELAY")
    )
    assert "" == seed.get("LIMIT") == seed.get("SINCE")
    said = result.stderr.splitlines()
    assert [line.split()[0] for line in said[:6]] == ["home", "seeds", "scope", "delay", "agent", "robots"]
    assert f"1 record in {home.path}/hdb; this run: 2 given up" in said[-1]


def test_the_report_as_json(combine: Run, ready: Desk, put: Put, home: Home) -> None:
    put(A)
    report = json.loads(combine("harvest", A, *LOCAL, "--json", "-q").stdout)
    assert (0, 1, str(home.path), 0) == (report["code"], report["records"], report["home"], report["left"])


@pytest.mark.parametrize(
    ("state", "records"), [({}, 938_000), ({"FETCHED": 1, "NEXT": 900}, 1)], ids=["all are told", "one is under way"]
)
def test_records_are_counted_by_idbd_once_it_has_heard_of_all(
    combine: Run, ready: Desk, put: Put, state: dict[str, int], records: int
) -> None:
    put(A)
    ready.scheduler["STAT"] = [ok(stat(**state))]
    ready.idbd["STAT"] = [ok(job(NAME="idbd", RECORDS=938_000))]
    assert records == json.loads(combine("harvest", A, *LOCAL, "--json", "-q").stdout)["records"]


def test_outcomes_are_counted_from_the_start_of_the_run(combine: Run, ready: Desk, put: Put) -> None:
    put(A)
    ready.scheduler["STAT"] = [ok(stat(OK=10, GONE=1)), ok(stat(OK=15, GONE=1, DENIED=2))]
    report = json.loads(combine("harvest", A, *LOCAL, "--json", "-q").stdout)
    assert {"ok": 5, "gone": 0, "denied": 2, "dead": 0} == report["counts"]


def test_a_home_is_made(tmp_path: Path, ready: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "scheduler", lambda _: Client(ready.home.socket("scheduler"), "scheduler"))
    monkeypatch.setattr(
        units, "begin_unit", lambda _, *more, **forks: ready.begin_unit(ready.home.path, *more, **forks)
    )
    result = CliRunner().invoke(main, ["--home", str(tmp_path / "new"), "harvest", A, *LOCAL])
    assert 1 == result.exit_code
    assert is_home(tmp_path / "new")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "name a URL"),
        (("mailto:x@y",), 2, "only http and https"),
        (("http://a b/",), 2, "holds no blanks"),
        (("",), 2, "it is empty"),
        (("http://127.0.0.1/",), 78, 'harvest.allow_private = ["127.0.0.1"]'),
        ((A, *LOCAL, "--same-host", "--same-domain"), 2, "cannot be combined"),
        ((A, *LOCAL, "--include", "("), 2, "no regular expression"),
        ((A, *LOCAL, "--time", "soon"), 2, "no length of time"),
        ((A, *LOCAL, "--limit", "0"), 2, "--limit"),
        ((A, *LOCAL, "--set", "no=1"), 78, "section.key=value"),
        ((A, "--allow-private", "10.0.0.0/99"), 78, "no network"),
    ],
)
def test_what_cannot_begin_begins_nothing(
    combine: Run, desk: Desk, words: tuple[str, ...], code: int, said: str
) -> None:
    result = combine("harvest", *words)
    assert (code, "") == (result.exit_code, result.stdout)
    assert said in result.stderr
    assert 1 == result.stderr.count("\n")
    assert [] == desk.started


def test_a_dry_run_says_and_does_nothing(desk: Desk, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--home", str(tmp_path / "no"), "harvest", "a.org", "--dry-run", "--limit", "5"])
    assert 0 == result.exit_code
    assert "5 pages in this run" in result.stderr
    assert ([], False) == (desk.started, (tmp_path / "no").exists())


def test_a_paused_gate_is_said_at_once(combine: Run, ready: Desk) -> None:
    ready.scheduler["STAT"] = [ok(stat(GATE="paused"))]
    result = combine("harvest", A, *LOCAL)
    assert 75 == result.exit_code
    assert "the gate is paused: combine open opens it" in result.stderr
    assert [] == ready.asked.lines("ADD")
    assert ["cabin", "hdb"] == ready.stopped  # a harvester before the seeds would take what an earlier run left


def test_what_runs_already_goes_on(combine: Run, ready: Desk, put: Put, home: Home) -> None:
    put(A)
    ready.start_unit(home.path, "cabin")
    ready.start_unit(home.path, "hdb")
    ready.started.clear()
    result = combine("harvest", A, *LOCAL)
    assert ["harvester"] == [unit for unit, _, _ in ready.started] == ready.stopped
    assert "cabin, hdb ran already, with settings of their own" in result.stderr


@pytest.mark.parametrize(("left", "expected"), [("", None), ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z")])
def test_force_takes_up_the_round_that_is_left(
    combine: Run, ready: Desk, put: Put, left: str, expected: str | None
) -> None:
    put(A)
    ready.scheduler["STAT"] = [ok(stat(SINCE=left or None)), ok(stat())]
    assert 0 == combine("harvest", A, *LOCAL, "--force").exit_code
    since = ready.asked.lines("ADD")[0].get("SINCE")
    assert expected is None or expected == since
    assert epoch_of(since) > 0


def test_without_a_contact_public_hosts_get_a_limit(combine: Run, ready: Desk) -> None:
    result = combine("harvest", "a.org")
    seed = ready.asked.lines("ADD")[0]
    assert ("100", "5") == (seed.get("LIMIT"), seed.get("DELAY"))
    assert seed.get("BUDGET")
    assert "[agent]" in result.stderr


def test_at_the_limit_the_rest_is_left(combine: Run, ready: Desk, put: Put) -> None:
    put(A)
    budgets: list[str] = []

    def answer(_: list[Job]) -> object:
        seeds = ready.asked.lines("ADD")
        budgets.append(seeds[0].get("BUDGET") if seeds else "")
        return ok(stat(QUEUED=7), job(BUDGET=budgets[-1], LEFT=0, OUT=0)) if seeds else ok(stat())

    ready.scheduler["STAT"] = answer  # type: ignore[assignment]
    result = combine("harvest", A, *LOCAL, "--limit", "3")
    assert 0 == result.exit_code
    assert "the limit is reached; 7 URLs are left, and the next run goes on" in result.stderr


def test_robots_that_answer_503_end_with_try_later_and_the_reason(combine: Run, ready: Desk) -> None:
    site = job(SITE="127.0.0.21:8000", STATE="blocked", NEXT="900", REASON="robots.txt is unreachable (503)")
    ready.scheduler["STAT"] = [ok(stat()), ok(stat(QUEUED=1, BLOCKED=1, NEXT=900), site)]
    ready.scheduler["WHY"] = [ok(job(URL=A, SITE="x", STATE="queued", REASON="its site rests"))]
    result = combine("harvest", A, *LOCAL, "--wait", "10m")
    assert 75 == result.exit_code
    assert "127.0.0.21:8000 is blocked for 900 s: robots.txt is unreachable (503)" in result.stderr
    assert "the next request may go in 900 s, and --wait is 600 s; 1 URL is left" in result.stderr


def test_a_seed_without_a_record_is_a_finding_with_its_reason(combine: Run, ready: Desk) -> None:
    ready.scheduler["WHY"] = [
        ok(
            job(URL=A, SITE="x", STATE="stored", REASON="it is gone"),
            job(KIND="visit", URL=A, OUTCOME="gone", STATUS="404"),
            job(KIND="event", TIME="t", OUTCOME="gone", STATUS="404"),
        )
    ]
    result = combine("harvest", A, *LOCAL)
    assert 1 == result.exit_code
    assert f"{A} has no record: it is gone (status 404)" in result.stderr


def test_an_exclude_file_that_nobody_can_follow_ends_a_harvest_before_it_begins(
    combine: Run, ready: Desk, home: Home
) -> None:
    home.exclude_file.write_bytes(b"a.example\n\xff")
    result = combine("harvest", A, *LOCAL)
    assert (78, True) == (result.exit_code, "the exclude file is not UTF-8: see its byte 11" in result.stderr)
    assert 0 == combine("harvest", A, *LOCAL, "--dry-run").exit_code
    for words in (("start",), ("restart", "cabin")):
        assert 78 == combine(*words).exit_code
    assert [] == ready.started


def test_a_seed_that_was_refused_is_said(combine: Run, ready: Desk) -> None:
    ready.scheduler["ADD"] = [ok(job(URL=A, REASON="the exclude file forbids it"), text="0 new=0 refused=1")]
    result = combine("harvest", A, *LOCAL)
    assert 1 == result.exit_code
    assert 1 == result.stderr.count(f"{A} was not taken: the exclude file forbids it")
    result = combine("harvest", A, *LOCAL, "--json")
    assert [f"{A} was not taken: the exclude file forbids it"] == json.loads(result.stdout)["missing"]
    assert "said" not in json.loads(result.stdout)


@pytest.mark.parametrize(
    ("target", "words", "code", "said"),
    [
        ("http://www.a.org/", (), 0, ""),
        ("https://a.org/home", (), 0, ""),
        ("http://shop.a.org/", (), 0, ""),
        (
            "http://b.org/x",
            (),
            0,
            "http://a.org/ redirects to http://b.org/x, which is outside its scope: that one page was taken; "
            "to harvest that site: combine harvest http://b.org/",
        ),
        ("http://a.org/y", ("--under", "http://a.org/x"), 0, "outside its scope"),
    ],
)
def test_a_seed_that_redirects(
    combine: Run, ready: Desk, put: Put, target: str, words: tuple[str, ...], code: int, said: str
) -> None:
    put(target)
    ready.scheduler["WHY"] = [
        ok(
            job(URL="http://a.org/", STATE="stored"),
            job(KIND="visit", URL="http://a.org/", OUTCOME="redirect", TO=target),
        )
    ]
    result = combine("harvest", "http://a.org/", *words)
    assert code == result.exit_code
    assert said in result.stderr
    assert bool(said) == ("outside its scope" in result.stderr)


def test_a_seed_without_scheme_is_found_under_http(combine: Run, ready: Desk, put: Put) -> None:
    put("http://a.org/")
    assert 0 == combine("harvest", "a.org").exit_code
    assert [] == ready.asked.lines("WHY")


def test_why_the_http_form_failed_is_told(combine: Run, ready: Desk) -> None:
    def why(lines: list[Job]) -> object:
        url = lines[0].url
        if url.startswith("https:"):
            return ok(job(URL=url, STATE="unknown"))
        return ok(job(URL=url, STATE="dead"), job(KIND="event", TIME="t", OUTCOME="failed", REASON="dns"))

    ready.scheduler["WHY"] = why  # type: ignore[assignment]
    result = combine("harvest", "a.org")
    assert 1 == result.exit_code
    assert "combine: http://a.org/ has no record: it failed (dns)" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_what_was_started(combine: Run, ready: Desk, put: Put, number: signal.Signals) -> None:
    put(A)

    def interrupt(lines: list[Job]) -> object:
        if ready.asked.lines("ADD"):
            os.kill(os.getpid(), number)
        return ok(stat(QUEUED=1, NEXT=0))

    # Whoever runs the tests may have SIGHUP ignored (nohup), which a harvest leaves as it is.
    outside = signal.signal(number, signal.default_int_handler)
    try:
        ready.scheduler["STAT"] = interrupt  # type: ignore[assignment]
        result = combine("harvest", A, *LOCAL)
        assert signal.default_int_handler == signal.getsignal(number)
    finally:
        signal.signal(number, outside)
    assert 130 == result.exit_code
    assert "the same command goes on from here" in result.stderr
    assert ["cabin", "hdb", "harvester"] == ready.stopped


def test_a_second_signal_does_not_wait(home: Home, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    child = os.fork()
    if not child:
        signal.pause()
        os._exit(0)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    desk.alive = {"cabin": child}
    held = started.Started(home)
    held.units.append("cabin")
    monkeypatch.setattr(units, "stop_units", interrupt)
    held.stop()
    assert signal.SIGKILL == os.WTERMSIG(os.waitpid(child, 0)[1])


def test_a_unit_that_was_killed_is_started_again(home: Home, desk: Desk) -> None:
    said: list[str] = []
    with started.Started(home) as held:
        held.need("cabin", "hdb")
        home.status_file("hdb").touch()
        desk.alive.pop("hdb")
        held.revive(said.append)
        assert ["cabin", "hdb", "hdb"] == [unit for unit, _, _ in desk.started]
    assert ["combine: the keepalive of hdb is gone; starting it again"] == said


def test_a_unit_that_is_killed_before_the_seeds_are_taken_is_started_again(
    combine: Run, ready: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(_: object) -> Message:
        if len(ready.started) > 2:
            return ok(text="1 new=1")
        ready.home.status_file("hdb").touch()
        ready.alive.pop("hdb", None)
        return message("RETRY", text="idbd does not answer")

    monkeypatch.setattr(run, "LOOK_LATER_S", 0.0)
    ready.scheduler["ADD"] = add
    said = combine("harvest", A, *LOCAL).stderr
    assert "combine: the keepalive of hdb is gone; starting it again" in said
    assert ["cabin", "hdb", "hdb", "harvester"] == [unit for unit, _, _ in ready.started]


def test_a_unit_that_ran_before_and_stops_is_replaced(home: Home, desk: Desk) -> None:
    desk.start_unit(home.path, "cabin")
    said: list[str] = []
    with started.Started(home) as held:
        held.need("cabin")
        desk.alive.pop("cabin")
        held.revive(said.append)
    assert ["combine: cabin was stopped; this run goes on with one of its own"] == said
    assert ["cabin"] == desk.stopped


def test_a_unit_that_another_command_started_a_moment_before_is_left_to_it(
    home: Home, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(path: Path, unit: str, *_: object, **__: object) -> units.Beginning:
        desk.alive[unit] = 1
        return units.Beginning(path, unit, EXIT_FINDING)

    said: list[str] = []
    with started.Started(home) as held:
        with monkeypatch.context() as patch:
            patch.setattr(units, "begin_unit", begin)
            assert ["cabin", "hdb"] == held.need("cabin", "hdb")
        desk.alive.pop("cabin")
        held.revive(said.append)
    assert ["combine: cabin was stopped; this run goes on with one of its own"] == said
    assert (["cabin"], {"hdb": 1}) == (desk.stopped, desk.alive)


def test_what_the_next_unit_needs_is_loaded_while_the_others_start(
    home: Home, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def step(name: str, answer: object, *_: object, **__: object) -> object:
        done.append(name)
        return answer

    for name, answer in (("begin_unit", units.Beginning(home.path, "cabin")), ("preload", None), ("await_unit", 0)):
        monkeypatch.setattr(units, name, partial(step, name, answer))
    with started.Started(home) as held:
        held.need("cabin", next_unit="harvester")
        held.need("cabin")
    assert ["begin_unit", "preload", "await_unit", "begin_unit", "await_unit"] == done


def test_what_cannot_be_loaded_beforehand_is_left_to_its_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "UNITS", {"odd": ("nobody",)})
    units.preload("odd")


def test_whoever_stops_the_daemons_ends_the_harvest(home: Home, desk: Desk) -> None:
    with started.Started(home) as held:
        held.need("cabin")
        desk.alive.pop("cabin")
        with pytest.raises(RetryLater, match="was stopped from outside"):
            held.revive(lambda _: None)


def test_a_unit_that_does_not_start_ends_it_with_its_code(
    combine: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "begin_unit", lambda home, unit, *_, **__: units.Beginning(home, unit, 78))
    result = combine("harvest", A, *LOCAL)
    assert 78 == result.exit_code
    assert "could not be started" in result.stderr


def test_a_unit_that_waits_in_vain_ends_it_with_the_reason(
    combine: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "unfit", lambda _, unit: "idbd: its table is damaged" if unit == "hdb" else "")
    result = combine("harvest", A, *LOCAL)
    assert 78 == result.exit_code
    assert "combine: hdb could not be started: idbd: its table is damaged" in result.stderr


def test_what_must_be_mended_ends_a_harvest_that_is_under_way(
    home: Home, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started.Started(home) as held:
        held.need("cabin")
        held.revive(lambda _: None)
        monkeypatch.setattr(units, "unfit", lambda _, unit: "it is damaged")
        with pytest.raises(started.NotStarted, match="cabin cannot go on: it is damaged") as end:
            held.revive(lambda _: None)
    assert 78 == end.value.exit_code
    assert ["cabin"] == desk.stopped


def test_what_holds_a_harvest_up_is_said_once_where_it_lasts(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def status(note: str) -> list[dict[str, object]]:
        return [{"children": [{"name": "harvester-1", "note": note}, {"name": "parser-1", "note": "batch 7"}]}]

    full = "waits: a harvest cannot be written: No space left on device"
    said: list[str] = []
    held = started.Started(home)
    for note, looks in (("waits: briefly", 4), ("", 9), (full, 12), ("", 1), (full, 4)):
        monkeypatch.setattr(units, "read_status", lambda _, note=note: status(note))
        for _ in range(looks):
            held.tell_waits(said.append)
    assert [f"combine: harvester-1 {full}"] == said


def test_a_question_to_a_daemon_that_meets_damage_waits_for_its_end(
    home: Home, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ["", "", f"x is damaged: {RESTORE}"]
    held = started.Started(home)
    held.need("cabin")
    monkeypatch.setattr(started, "_LOOK_S", 0.0)
    monkeypatch.setattr(units, "unfit", lambda _, unit: said.pop(0))
    with pytest.raises(started.NotStarted, match="cabin cannot go on: x is damaged"):
        held.__exit__(RetryLater, RetryLater(f"scheduler: x is damaged: {RESTORE}"), None)
    assert ["cabin"] == desk.stopped


def test_the_agent_is_what_sites_see() -> None:
    from combine.cli.plan import agent

    assert agent(Settings()).startswith("combine/1 combine-system/")


def test_of_many_sentences_ten_are_said(combine: Run, ready: Desk) -> None:
    ready.scheduler["ADD"] = [ok(text="15 new=15")]
    seeds = "".join(f"{A}{number}\n" for number in range(15))
    result = combine("harvest", "-i", "-", *LOCAL, input=seeds)
    assert 1 == result.exit_code
    assert 10 == result.stderr.count("has no record")
    assert "combine: and 5 more" in result.stderr


def test_a_seed_that_is_still_queued_is_no_finding_yet(combine: Run, ready: Desk) -> None:
    ready.scheduler["WHY"] = [ok(job(URL=A, SITE="x", STATE="queued"))]
    assert 0 == combine("harvest", A, *LOCAL).exit_code


def test_redirects_are_followed_to_the_end(combine: Run, ready: Desk, put: Put) -> None:
    put("http://a.org/3")
    hops = {"http://a.org/": "http://a.org/2", "http://a.org/2": "http://a.org/3"}

    def why(lines: list[Job]) -> Message:
        url = lines[0].url
        return ok(job(URL=url, STATE="stored"), job(KIND="visit", URL=url, OUTCOME="redirect", TO=hops[url]))

    ready.scheduler["WHY"] = why
    assert 0 == combine("harvest", "http://a.org/").exit_code


def test_in_a_thread_there_are_no_signals_to_hear(home: Home, ready: Desk, put: Put) -> None:
    put(A)
    made = plan.make([parse(A)], Wish(), Settings(harvest=Harvest(allow_private=("127.0.0.21",))))
    with ThreadPoolExecutor(1) as pool:
        report = pool.submit(harvest.harvest, home, made, Bounds("run"), Session(quiet=True)).result()
    assert (0, 1) == (report.code, report.records)


def test_under_nohup_the_end_of_the_terminal_means_nothing(combine: Run, ready: Desk, put: Put) -> None:
    put(A)

    def hang_up(_: list[Job]) -> Message:
        os.kill(os.getpid(), signal.SIGHUP)
        return ok(stat())

    ready.scheduler["STAT"] = hang_up
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert 0 == combine("harvest", A, *LOCAL).exit_code
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("left", "since"),
    [
        ("", "2026-11-30T08:00:00.250Z"),
        ("2026-11-30T07:00:00Z", "2026-11-30T07:00:00Z"),
        ("2026-11-30T08:00:00Z", "2026-11-30T08:00:00Z"),
        ("2026-11-30T09:00:00Z", "2026-11-30T08:00:00.250Z"),  # the clock was set back
    ],
)
def test_an_interrupted_round_is_taken_up_unless_it_begins_in_the_future(left: str, since: str) -> None:
    assert since == harvest.begin_of_round("2026-11-30T08:00:00.250Z", left)
    assert "" == harvest.begin_of_round("", left)
