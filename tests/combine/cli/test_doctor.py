"""doctor: each fault of a home is found and comes with its remedy."""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from combine.cli import doctor, systemd
from combine.config import Settings
from combine.keep.home import Home
from tests.combine.cli.conftest import Desk
from tests.combine.cli.fakes import ok

Run = Callable[..., Result]
Levels = dict[str, str]


@pytest.fixture
def well(home: Home) -> None:
    home.config_file.write_text('[agent]\nurl = "https://us.example/"\n[harvest]\nsites = 10\n')


def _levels(result: Result) -> Levels:
    worst: Levels = {}
    for found in json.loads(result.stdout):
        if worst.get(found["what"], "ok") == "ok":
            worst[found["what"]] = found["level"]
    return worst


@pytest.mark.usefixtures("well")
def test_a_home_that_is_well(combine: Run) -> None:
    result = combine("doctor", "--json")
    assert {"ok"} == set(_levels(result).values())
    assert 0 == result.exit_code
    assert "ok    home: " in combine("doctor").stdout
    assert "" == combine("doctor", "-q").stdout


def test_each_fault_is_named(combine: Run, home: Home) -> None:
    (home.spool_bad / "x-1.hrf").write_bytes(b"")
    os.utime(home.log, (4e9, 4e9))
    levels = _levels(combine("doctor", "--json", "--set", "harvest.sites=100000000"))
    assert ("warn", "warn", "warn", "fail") == tuple(levels[what] for what in ("agent", "spool", "open files", "clock"))
    assert 1 == combine("doctor").exit_code


def test_a_slip_in_the_settings_and_no_home(combine: Run, home: Home) -> None:
    home.config_file.write_text("[no]\n")
    home.format_file.unlink()
    result = combine("doctor", "--json")
    assert ("fail", "fail", 78) == (_levels(result)["settings"], _levels(result)["home"], result.exit_code)


@pytest.mark.usefixtures("well")
def test_no_home_yet_is_a_hint_and_another_place_a_fault(combine: Run, tmp_path: Path) -> None:
    result = combine("--home", str(tmp_path / "none"), "doctor", "--json")
    assert ("warn", 1) == (_levels(result)["home"], result.exit_code)
    assert f"combine init {tmp_path / 'none'}" in result.stdout
    assert f"the defaults: no {tmp_path / 'none' / 'combine.toml'}" in result.stdout
    assert not (tmp_path / "none").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    result = combine("--home", str(tmp_path / "full"), "doctor", "--json")
    assert ("fail", 78) == (_levels(result)["home"], result.exit_code)


def test_batches_that_nobody_parses(combine: Run, home: Home) -> None:
    (home.spool_new / "x.hrf").write_bytes(b"")
    assert "warn" == _levels(combine("doctor", "--json"))["spool"]


@pytest.fixture
def running(desk: Desk, home: Home, monkeypatch: pytest.MonkeyPatch) -> Desk:
    children: list[dict[str, Any]] = [
        {"name": "idbd", "state": "running"},
        {"name": "parser-1", "state": "crash loop", "note": "", "last_exit": "exit 70"},
    ]
    monkeypatch.setattr(doctor, "running", lambda _: dict(desk.alive))
    monkeypatch.setattr(doctor, "read_status", lambda _: [{"unit": "hdb", "version": "0.0.9", "children": children}])
    desk.scheduler["PING"] = [ok()]
    desk.idbd["PING"] = [ok()]
    desk.start_unit(home.path, "cabin")
    desk.start_unit(home.path, "hdb")
    return desk


@pytest.mark.usefixtures("well")
def test_what_runs_is_asked(combine: Run, home: Home, running: Desk) -> None:
    logd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    logd.bind(str(home.socket("logd")))
    found = json.loads(combine("doctor", "--json").stdout)
    logd.close()
    told = {f"{line['level']} {line['what']}": line["sentence"] for line in found}
    warned = [line["sentence"] for line in found if line["level"] == "warn" and line["what"] == "units"]
    assert warned[0].endswith("combine start harvester")
    assert warned[1].startswith("hdb is of version 0.0.9")
    assert warned[1].endswith("combine restart hdb")
    assert "parser-1 is crash loop (exit 70)" in told["fail units"]
    assert {"ok scheduler", "ok idbd", "ok logd"} <= set(told)
    running.daemons["scheduler"].close()
    assert "fail" == _levels(combine("doctor", "--json"))["scheduler"]


@pytest.mark.usefixtures("well")
def test_a_daemon_without_its_keepalive(combine: Run, home: Home, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.start_unit(home.path, "cabin")
    monkeypatch.setattr(doctor, "holder", lambda path: 77 if path.stem == "scheduler" else 0)
    told = combine("doctor").stdout
    assert "fail  scheduler: it runs without its keepalive: stop process 77" in told


@pytest.mark.parametrize(
    ("version", "bounds", "fits"),
    [
        ("3.14.5", "<4,>=3.12", True),
        ("3.9", ">=3.12,<4", False),
        ("4.0", "<4,>=3", False),
        ("1.0.post1", ">=1", True),
        ("2", "", True),
    ],
)
def test_versions(version: str, bounds: str, fits: bool) -> None:
    assert fits is doctor.within(version, bounds)


def test_libraries_that_are_missing_or_old(monkeypatch: pytest.MonkeyPatch) -> None:
    meta = importlib.metadata
    monkeypatch.setattr(
        meta,
        "requires",
        lambda _: ["click>=99", "no-such-thing-here>=1", "nor-this>=1; os_name == 'x'", "pytest>=99; extra == 'dev'"],
    )
    found = list(doctor._libraries())
    assert ["warn", "fail", "ok", "ok"] == [line.level for line in found]

    def absent(_: str) -> list[str]:
        raise meta.PackageNotFoundError

    monkeypatch.setattr(meta, "requires", absent)
    assert ["warn"] == [line.level for line in doctor._libraries()]


def test_the_services_of_systemd(monkeypatch: pytest.MonkeyPatch, home: Home) -> None:
    monkeypatch.setattr(systemd, "runs", lambda _: True)
    states = {"cabin": "active", "hdb": "failed", "harvester": "inactive"}
    monkeypatch.setattr(systemd, "state", states.__getitem__)
    assert ["ok", "fail", "warn"] == [line.level for line in doctor._services(home, Settings())]
