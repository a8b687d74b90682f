"""start-* and stop-all as an operator runs them; the daemons are fakes, keepalive is real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from combine.cli import units
from combine.config import load
from combine.errors import EXIT_CONFIG, EXIT_DONE, EXIT_FINDING, EXIT_USAGE
from combine.keep.home import Home
from combine.services import UNITS
from tests.daemons.units import (
    CLONE,
    PATIENCE_S,
    Watch,
    all_running,
    children,
    does,
    environment,
    make_home,
    told,
    until,
)

pytestmark = pytest.mark.system

SCRIPTS = ("start-cabin", "start-hdb", "start-harvester", "stop-all")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home; what still runs on it at the end is stopped."""
    made = make_home(tmp_path)
    yield made
    for pid in units.running(made.path).values():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def _fakes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process starts has fake daemons."""
    monkeypatch.setenv("PYTHONPATH", environment(home)["PYTHONPATH"])


def call(home: Home, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", f"from combine.cli.units import {script} as main; main()"]
    return subprocess.run(
        [*command, "--home", str(home.path), *arguments],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_background_start_returns_when_the_unit_is_ready(home: Home) -> None:
    done = call(home, "start_hdb", "-n", "2")
    assert EXIT_DONE == done.returncode, done.stderr
    found = all_running(home, "hdb")
    assert ["idbd", "parser-1", "parser-2"] == list(found)
    [pid] = units.running(home.path).values()
    assert os.getsid(pid) != os.getsid(0)
    assert "hdb is ready" in (home.log / "hdb.out").read_text()
    watch = Watch([pid, *(child["pid"] for child in found.values())])
    done = call(home, "stop_all")
    assert (EXIT_DONE, "stopped: hdb\n") == (done.returncode, done.stderr)
    assert watch.all_gone(0)
    assert f"nothing runs on {home.path}\n" == call(home, "stop_all").stderr


FORKS = """
import os, signal, sys
from pathlib import Path
signal.signal(signal.SIGCHLD, getattr(signal, sys.argv[2]))
from combine import inherited
from combine.cli import units
inherited.mend()
home = Path(sys.argv[1])
print(units.await_unit(units.begin_unit(home, "cabin", owner=os.getpid(), forks=True), 10.0))
for pid in units.running(home).values():
    print(pid == os.getsid(pid), str(os.getpid()) == Path(f"/proc/{pid}/stat").read_text().split(") ")[1].split()[1])
    print(units.stop_units(home), Path(f"/proc/{pid}").exists())
"""


@pytest.mark.parametrize("handed_on", ["SIG_DFL", "SIG_IGN"])
@pytest.mark.parametrize(
    ("settings", "printed", "said"),
    [("", "0\nTrue True\n['cabin'] False\n", ""), ("nonsense", "78\n", "keepalive: {home}/combine.toml is not TOML")],
    ids=["it works", "it cannot begin"],
)
def test_a_forked_unit_is_a_child_in_a_session_of_its_own_until_it_is_stopped(
    home: Home, settings: str, printed: str, said: str, handed_on: str
) -> None:
    home.config_file.write_text(home.config_file.read_text() + settings)
    command = [sys.executable, "-P", "-c", FORKS, str(home.path), handed_on]
    done = subprocess.run(
        command, env=environment(home), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (printed, True) == (done.stdout, done.stderr.startswith(said.format(home=home.path))), done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("forks", [True, False])
def test_a_start_needs_no_standard_stream(home: Home, closed: str, forks: bool) -> None:
    program = (
        "from combine.cli import units; from combine import inherited; inherited.mend();"
        f"units.await_unit(units.begin_unit(units.Path({str(home.path)!r}), 'cabin', forks={forks}), 10.0)"
    )
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-P", "-c", program]
    subprocess.run(command, env=environment(home), timeout=PATIENCE_S, check=True)
    assert {"logd", "scheduler"} == all_running(home, "cabin").keys()


def test_the_agent_is_asked_for(home: Home) -> None:
    done = call(home, "start_harvester")
    assert "[agent] url and email not set" in done.stderr
    assert 'email = "harvester@example.org"' in done.stderr
    call(home, "stop_all")
    with home.config_file.open("a") as file:
        file.write('[agent]\nurl = "https://example.org/"\nemail = "a@example.org"\n')
    assert "" == call(home, "start_harvester").stderr


def test_a_second_start_says_who_runs_and_changes_nothing(home: Home) -> None:
    call(home, "start_harvester")
    before = all_running(home, "harvester")
    for arguments in ((), ("--foreground",)):
        done = call(home, "start_harvester", *arguments)
        assert EXIT_FINDING == done.returncode
        pid = units.running(home.path)["harvester"]
        assert f"harvester runs already on {home.path} (pid {pid}, since 2" in done.stderr
    assert before == children(home, "harvester")


@pytest.mark.usefixtures("_fakes")
def test_a_start_that_waits_says_what_for_and_goes_on_waiting(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    does(home, "harvester-1", "wait")
    assert EXIT_DONE == units.start_unit(home.path, "harvester")
    assert "not yet ready: harvester-1: waiting for its turn" in capsys.readouterr().err
    does(home, "harvester-1", "")
    all_running(home, "harvester")


@pytest.mark.usefixtures("_fakes")
def test_a_start_that_crashes_says_how(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    does(home, "idbd", "crash")
    assert EXIT_DONE == units.start_unit(home.path, "hdb")
    assert "not yet ready: idbd: exit 70" in capsys.readouterr().err


@pytest.mark.usefixtures("_fakes")
def test_a_unit_with_an_owner_ends_with_it(home: Home) -> None:
    with subprocess.Popen(["sleep", "60"]) as owner:
        assert EXIT_DONE == units.start_unit(home.path, "cabin", owner=owner.pid)
        watch = Watch(child["pid"] for child in all_running(home, "cabin").values())
        owner.kill()
    assert watch.all_gone()
    until(lambda: not units.running(home.path))


@pytest.mark.usefixtures("_fakes")
def test_all_units_start_in_any_order_and_stop_callers_first(home: Home) -> None:
    for unit in reversed(UNITS):
        assert EXIT_DONE == units.start_unit(home.path, unit)
    assert list(UNITS) == list(units.running(home.path))
    assert ["harvester"] == units.stop_units(home.path, ["harvester"])
    assert ["hdb", "cabin"] == units.stop_units(home.path)
    assert not units.stop_unit(home.path, "cabin")


@pytest.mark.usefixtures("_fakes")
def test_everything_is_gone_in_time_however_stubborn(home: Home) -> None:
    names = {"cabin": ["logd", "scheduler"], "hdb": ["idbd", "parser-1"], "harvester": ["harvester-1"]}
    for unit in UNITS:
        for name in names[unit]:
            does(home, name, "stubborn")
        units.start_unit(home.path, unit, workers=1)
    pids = [child["pid"] for unit in UNITS for child in all_running(home, unit).values()]
    watch, begun = Watch(pids), time.monotonic()
    assert 3 == len(units.stop_units(home.path))
    assert time.monotonic() - begun < units.STOP_S
    assert watch.all_gone(1)


@pytest.mark.usefixtures("_fakes")
def test_a_keepalive_that_does_not_stop_is_killed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "STOP_S", 0.2)
    monkeypatch.setattr(units, "OVERLAP_S", 0.1)
    units.start_unit(home.path, "cabin")
    watch = Watch(child["pid"] for child in all_running(home, "cabin").values())
    os.kill(units.running(home.path)["cabin"], signal.SIGSTOP)
    assert ["cabin"] == units.stop_units(home.path)
    assert watch.all_gone()


def test_settings_are_given_on(home: Home) -> None:
    call(home, "start_harvester", "--set", "harvest.sites=7", "-n", "1")
    all_running(home, "harvester")
    assert "7" == told(home, "harvester-1")[0].split()[3]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--set", "harvest.sitess=7"), EXIT_CONFIG, "did you mean 'sites'?"),
        (("-n", "0"), EXIT_USAGE, "Invalid value"),
        (("--nonsense",), EXIT_USAGE, "No such option"),
    ],
)
def test_what_cannot_be_meant_is_said(home: Home, arguments: tuple[str, ...], code: int, text: str) -> None:
    done = call(home, "start_harvester", *arguments)
    assert code == done.returncode
    assert text in done.stderr
    assert {} == units.running(home.path)


@pytest.mark.parametrize("script", ["start_cabin", "stop_all"])
def test_a_directory_that_is_no_home_is_left_alone(home: Home, script: str) -> None:
    nowhere = Home(home.path.parent / "nowhere")
    done = subprocess.run(
        [sys.executable, "-c", f"from combine.cli.units import {script} as main; main()", "--home", str(nowhere.path)],
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    assert EXIT_CONFIG == done.returncode
    assert "is not a home" in done.stderr
    assert not nowhere.path.exists()


def test_foreground_is_the_same_process_and_logs_to_stderr(home: Home) -> None:
    reader, writer = os.pipe()
    command = [sys.executable, "-P", "-c", "from combine.cli.units import start_cabin as main; main()"]
    command += ["--home", str(home.path), "--foreground", "--ready-fd", str(writer)]
    with subprocess.Popen(
        command, env=environment(home), stderr=subprocess.PIPE, pass_fds=[writer], text=True
    ) as process:
        os.close(writer)
        assert b"ready\n" == os.read(reader, 100)
        assert {"cabin": process.pid} == units.running(home.path)
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=PATIENCE_S)
    os.close(reader)
    assert EXIT_DONE == process.returncode
    assert "cabin stops (SIGINT)" in log


@pytest.mark.parametrize("script", [*SCRIPTS, "combine"])
def test_the_scripts_run_from_a_clone_whatever_the_directory(script: str, tmp_path: Path) -> None:
    (tmp_path / "combine.py").write_text("raise SystemExit('the wrong combine')")
    (tmp_path / script).symlink_to(CLONE / "bin" / script)
    environ = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(
        [str(tmp_path / script), "--help"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith(f"Usage: {script} ")


def test_the_settings_shown_to_a_site_are_all_known(tmp_path: Path) -> None:
    text = (CLONE / "etc" / "combine.toml").read_text(encoding="utf-8")
    lines = [
        line.removeprefix("# ") if " = " in line or line.startswith("# [[") else line for line in text.splitlines()
    ]
    (tmp_path / "combine.toml").write_text("\n".join(lines))
    settings = load(tmp_path)
    assert "harvester@example.org" == settings.agent.email
    assert ".example.org" == settings.site[0].match
