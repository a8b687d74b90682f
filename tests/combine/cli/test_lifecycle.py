"""start, stop, restart, config, pause, open."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from combine.cli import lifecycle, systemd, units
from combine.errors import CombineError
from combine.ipc.message import Message, message
from combine.keep.home import Home
from formats.jcf import Job, job
from tests.combine.cli.conftest import Desk
from tests.combine.cli.fakes import ok, stat

Run = Callable[..., Result]


@pytest.fixture
def contact(home: Home) -> None:
    home.config_file.write_text('[agent]\nurl = "https://us.example/"\n[[site]]\nmatch = "a.org"\ndelay = 5\n')


@pytest.mark.usefixtures("contact")
def test_start_starts_all_units_in_order_and_they_stay(combine: Run, desk: Desk) -> None:
    assert 0 == combine("start", "--set", "harvest.sites=7").exit_code
    assert [(unit, ("harvest.sites=7",), 0) for unit in ("cabin", "hdb", "harvester")] == desk.started
    assert [] == desk.stopped


@pytest.mark.usefixtures("contact")
def test_start_and_stop_take_names(combine: Run, desk: Desk) -> None:
    combine("start", "harvester", "cabin")
    assert ["cabin", "harvester"] == [unit for unit, _, _ in desk.started]
    assert "stopped harvester" in combine("stop", "harvester").stderr
    result = combine("stop", "hdb")
    assert 0 == result.exit_code
    assert "nothing of it runs" in result.stderr
    assert 2 == combine("start", "scheduler").exit_code


def test_start_without_contact_is_refused_while_public_hosts_are_queued(combine: Run, desk: Desk) -> None:
    desk.scheduler["STAT"] = [ok(stat(PUBLIC=2, UNRESOLVED=1, QUEUED=9)), ok(stat(PUBLIC=1, QUEUED=9))]
    result = combine("start")
    assert 78 == result.exit_code
    assert "jobs of 1 public site are queued" in result.stderr
    assert "set agent.url or agent.email" in result.stderr
    assert ["cabin"] == [unit for unit, _, _ in desk.started] == desk.stopped


def test_start_without_contact_goes_on_where_only_listed_hosts_are_queued(combine: Run, desk: Desk) -> None:
    desk.scheduler["STAT"] = [ok(stat(PUBLIC=0, QUEUED=9))]
    result = combine("start")
    assert 0 == result.exit_code
    assert ["cabin", "cabin", "hdb", "harvester"] == [unit for unit, _, _ in desk.started]
    assert "[agent]" in result.stderr


def test_start_asks_again_where_another_start_stops_the_scheduler(combine: Run, desk: Desk) -> None:
    answers = iter([message("RETRY", text="it stops"), ok(stat(PUBLIC=0, QUEUED=9))])

    def said(_: list[Job]) -> Message:
        answer = next(answers)
        if answer.word == "RETRY":
            desk.stop_units(desk.home.path, ["cabin"])  # by the other command
        return answer

    desk.scheduler["STAT"] = said
    desk.start_unit(desk.home.path, "cabin")
    desk.started.clear()
    assert 0 == combine("start").exit_code
    assert ["cabin", "cabin", "hdb", "harvester"] == [unit for unit, _, _ in desk.started]
    assert ["cabin", "cabin"] == desk.stopped


def test_restart_keeps_the_number_of_workers(combine: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    children = [{"name": f"parser-{slot}"} for slot in (1, 2, 3)]
    monkeypatch.setattr(
        lifecycle, "read_status", lambda _: [{"unit": "hdb", "children": [{"name": "idbd"}, *children]}]
    )
    asked: list[tuple[Any, ...]] = []

    def start(*words: Any) -> int:
        asked.append(words[1:3])
        return 0

    monkeypatch.setattr(units, "start_unit", start)
    assert 0 == combine("restart").exit_code
    assert 0 == combine("restart", "cabin").exit_code
    assert [("hdb", 3), ("cabin", 0)] == asked
    assert [] == desk.started


@pytest.mark.usefixtures("contact")
def test_config_says_each_value_and_where_it_comes_from(combine: Run) -> None:
    told = combine("config", "--set", "harvest.allow_private=10.0.0.0/8").stdout
    lines = {line.split(" = ")[0]: line for line in told.splitlines()}
    assert 'agent.url = "https://us.example/"' == lines["agent.url"].partition("#")[0].strip()
    assert lines["agent.url"].endswith("# combine.toml")
    assert lines["harvest.allow_private"].endswith("# --set")
    assert lines["scheduler.lease_s"].endswith("# default")
    assert '[[site]] match = "a.org", delay_s = 5.0' in told
    found = json.loads(combine("config", "--json").stdout)
    assert {"key": "agent.url", "value": "https://us.example/", "origin": "combine.toml"} in found["settings"]
    assert "a.org" == found["site"][0]["match"]


def test_config_names_a_slip(combine: Run, home: Home) -> None:
    home.config_file.write_text("[harvest]\nsitez = 3\n")
    result = combine("config")
    assert 78 == result.exit_code
    assert "did you mean 'sites'" in result.stderr


@pytest.mark.parametrize(("word", "state"), [("pause", "paused"), ("open", "open"), ("resume", "open")])
def test_the_gate(combine: Run, desk: Desk, word: str, state: str) -> None:
    desk.scheduler["GATE"] = [ok(job(GATE=state))]
    assert 0 == combine(word).exit_code
    assert state == desk.asked.lines("GATE")[0].get("GATE")
    assert ["cabin"] == desk.stopped


def test_under_systemd_its_units_are_used(
    combine: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch, contact: None
) -> None:
    ordered: list[tuple[str, tuple[str, ...]]] = []
    monkeypatch.setattr(systemd, "runs", lambda _: True)
    monkeypatch.setattr(systemd, "order", lambda verb, units: ordered.append((verb, units)))
    for words in (("start",), ("stop", "hdb"), ("restart", "cabin")):
        assert 0 == combine(*words).exit_code
    assert [("start", ("cabin", "hdb", "harvester")), ("stop", ("hdb",)), ("restart", ("cabin",))] == ordered
    assert [] == desk.started


def test_what_systemctl_says_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, home: Home) -> None:
    program = tmp_path / "systemctl"
    program.write_text("#!/bin/sh\n[ $1 = is-active ] && echo failed\necho denied >&2; exit 4\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "failed" == systemd.state("cabin")
    with pytest.raises(CombineError, match="systemctl stop failed: denied"):
        systemd.order("stop", ("cabin",))
    assert not systemd.runs(home)
