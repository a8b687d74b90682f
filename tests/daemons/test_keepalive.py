"""keepalive with real processes: what a child does wrong, and what is left when somebody dies."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from combine import __version__, spawn
from combine.cli import units
from combine.config import Settings
from combine.errors import EXIT_CONFIG, EXIT_FINDING, ConfigError
from combine.keep.home import Home
from combine.notify import Notify
from combine.processes import Processes, _Process
from combine.report import Report
from combine.status import read_status, running
from combine.supervise import Event, Exited, Ready, State, children_of
from combine.upkeep import upkeep
from tests.daemons.units import (
    CLONE,
    PATIENCE_S,
    Watch,
    all_running,
    children,
    does,
    keepalive,
    make_home,
    told,
    until,
)

pytestmark = pytest.mark.system


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path)


def pids(found: dict[str, dict[str, object]]) -> list[int]:
    return [int(str(child["pid"])) for child in found.values()]


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ").strip()


def end(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> str:
    """Stop a keepalive; returns its log. It must end well and in time."""
    process.send_signal(number)
    _, log = process.communicate(timeout=PATIENCE_S)
    assert 0 == process.returncode, log
    return log


def test_all_start_in_order_say_ready_and_are_named_on_their_command_line(home: Home) -> None:
    reader, writer = os.pipe()
    with keepalive(home, "hdb", "--workers", "2", "--ready-fd", str(writer), pass_fds=[writer]) as process:
        os.close(writer)
        assert select.select([reader], [], [], PATIENCE_S)[0]
        assert b"ready\n" == os.read(reader, 100)
        found = all_running(home, "hdb")
        assert ["idbd", "parser-1", "parser-2"] == list(found)
        for name, child in found.items():
            assert f"combine: {name} --home {home.path}" == command_line(child["pid"])
        assert f"combine: keepalive hdb --home {home.path}" == command_line(process.pid)
        assert ["1", "2"] == [told(home, f"parser-{slot}")[0].split()[2] for slot in (1, 2)]
        assert {"hdb": process.pid} == running(home.path)
        [status] = read_status(home.path)
        assert ("hdb", process.pid) == (status["unit"], status["pid"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", status["since"])
        assert __version__ == status["version"]
        assert {"name", "pid", "since", "restarts", "state", "note", "last_exit"} == set(found["idbd"])
        watch = Watch(pids(found))
        log = end(process)
        assert watch.all_gone()
    os.close(reader)
    assert "hdb is ready" in log
    assert {} == running(home.path)
    assert [] == read_status(home.path)


def test_children_hold_nothing_of_their_parents(home: Home) -> None:
    reader, writer = os.pipe()
    ready, given = os.pipe()
    arguments = ("--workers", "3", "--ready-fd", str(given))
    with keepalive(home, "hdb", *arguments, pass_fds=[writer, given]) as process:
        found = all_running(home, "hdb")
        for child in found.values():
            held = {os.readlink(f"/proc/{child['pid']}/fd/{fd}") for fd in os.listdir(f"/proc/{child['pid']}/fd")}
            assert 2 == len([place for place in held if place.startswith("socket:")]), held  # channel, events
            assert not [place for place in held if "pidfd" in place or "eventpoll" in place or "hdb.pid" in place]
            assert not {os.readlink(f"/proc/self/fd/{fd}") for fd in (writer, given)} & held
        end(process)
    for descriptor in (reader, writer, ready, given):
        os.close(descriptor)


def test_stop_is_in_reverse_order_workers_first(home: Home) -> None:
    with keepalive(home, "hdb", "--workers", "1") as process:
        all_running(home, "hdb")
        end(process)
    assert ["term"] == told(home, "idbd")[1:] == told(home, "parser-1")[1:]
    assert ["parser-1", "idbd"] == (home.path / "terms").read_text().split()


def test_a_stubborn_child_is_killed_and_the_stop_is_in_time(home: Home) -> None:
    for name in ("idbd", "parser-1", "parser-2"):
        does(home, name, "stubborn")
    with keepalive(home, "hdb", "--workers", "2") as process:
        watch = Watch(pids(all_running(home, "hdb")))
        log = end(process)
        assert watch.all_gone()
    assert 3 == log.count("did not stop in time: it is killed")


def test_a_second_interrupt_does_not_wait(home: Home) -> None:
    home.config_file.write_text("[supervise]\nstop_s = 60\n")
    does(home, "harvester-1", "stubborn")
    with keepalive(home, "harvester", "--workers", "1") as process:
        all_running(home, "harvester")
        process.send_signal(signal.SIGINT)
        until(lambda: children(home, "harvester")["harvester-1"]["state"] == "stopping")
        end(process, signal.SIGINT)


def test_a_silent_child_is_killed_and_replaced_and_why_is_said(home: Home) -> None:
    does(home, "parser-1", "silent once")
    with keepalive(home, "hdb", "--workers", "1") as process:
        until(lambda: children(home, "hdb").get("parser-1", {}).get("restarts"))
        child = all_running(home, "hdb")["parser-1"]
        assert child["restarts"] >= 1
        assert "SIGKILL: silent for 0.4 s" == child["last_exit"]
        log = end(process)
    assert "parser-1 was silent for 0.4 s: it is killed and replaced" in log


def test_a_stopped_child_is_killed_and_replaced(home: Home) -> None:
    with keepalive(home, "harvester", "--workers", "1") as process:
        before = all_running(home, "harvester")["harvester-1"]["pid"]
        os.kill(before, signal.SIGSTOP)
        until(lambda: children(home, "harvester")["harvester-1"]["pid"] not in (0, before))
        assert all_running(home, "harvester")["harvester-1"]["restarts"]
        end(process)


def test_a_child_that_crashes_is_started_later_and_later_and_the_loop_is_named(home: Home) -> None:
    does(home, "scheduler", "crash")
    with keepalive(home, "cabin") as process:
        until(lambda: children(home, "cabin").get("scheduler", {}).get("state") == "crash loop")
        child = children(home, "cabin")["scheduler"]
        assert "exit 70" == child["last_exit"]
        assert "running" == children(home, "cabin")["logd"]["state"]
        does(home, "scheduler", "")
        assert all_running(home, "cabin")["scheduler"]["restarts"] >= 4
        log = end(process)
    assert "scheduler is in a crash loop" in log
    assert "ValueError: as it was told" in log


def test_whoever_ignores_the_end_of_children_and_hands_that_on_takes_nothing_from_keepalive(home: Home) -> None:
    does(home, "scheduler", "crash")
    with contextlib.ExitStack() as stack:
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            process = stack.enter_context(keepalive(home, "cabin"))
        finally:
            signal.signal(signal.SIGCHLD, before)
        until(lambda: children(home, "cabin").get("scheduler", {}).get("last_exit") == "exit 70")
        end(process)


def test_the_end_of_a_life_is_no_fault(home: Home) -> None:
    does(home, "harvester-1", "exit once")
    with keepalive(home, "harvester", "--workers", "1") as process:
        until(lambda: children(home, "harvester").get("harvester-1", {}).get("restarts"))
        assert "exit 0" == all_running(home, "harvester")["harvester-1"]["last_exit"]
        log = end(process)
    assert "WARNING" not in log


def test_why_a_child_cannot_begin_is_in_the_status(home: Home) -> None:
    does(home, "scheduler", "unfit")
    with keepalive(home, "cabin"):
        until(lambda: units.unfit(home.path, "cabin"))
        assert "the queue is damaged: move it away" == units.unfit(home.path, "cabin")
        assert "" == units.unfit(home.path, "hdb")


def test_what_a_child_waits_for_is_in_the_status_and_the_unit_is_not_ready(home: Home) -> None:
    does(home, "harvester-1", "wait")
    with keepalive(home, "harvester", "--workers", "1") as process:
        until(lambda: children(home, "harvester").get("harvester-1", {}).get("note") == "waiting for its turn")
        assert "starting" == children(home, "harvester")["harvester-1"]["state"]
        does(home, "harvester-1", "")
        assert "" == all_running(home, "harvester")["harvester-1"]["note"]
        assert "harvester is ready" in end(process)


def test_children_die_with_a_keepalive_that_is_killed(home: Home) -> None:
    does(home, "idbd", "stubborn")
    with keepalive(home, "hdb", "--workers", "2") as process:
        watch = Watch(pids(all_running(home, "hdb")))
        process.kill()
        assert watch.all_gone()
        process.communicate(timeout=PATIENCE_S)
    assert {} == running(home.path)
    assert [] == read_status(home.path)
    with keepalive(home, "hdb", "--workers", "2") as process:
        all_running(home, "hdb")
        end(process)


def test_a_unit_ends_with_its_owner(home: Home) -> None:
    owner = subprocess.Popen(["sleep", "60"])
    with owner, keepalive(home, "harvester", "--owner", str(owner.pid)) as process:
        watch = Watch(pids(all_running(home, "harvester")))
        owner.kill()
        owner.wait()
        assert watch.all_gone()
        _, log = process.communicate(timeout=PATIENCE_S)
        assert 0 == process.returncode
    assert "harvester stops (its owner is gone)" in log


def test_an_owner_whose_number_was_given_away_is_gone(home: Home) -> None:
    with keepalive(home, "harvester", "--owner", f"{os.getpid()}:1") as process:
        _, log = process.communicate(timeout=PATIENCE_S)
        assert 0 == process.returncode
    assert "its owner is gone" in log
    assert [] == told(home, "harvester-1")


def test_hup_rereads_daemons_hear_it_and_workers_are_replaced(home: Home) -> None:
    with keepalive(home, "hdb", "--workers", "1") as process:
        before = all_running(home, "hdb")
        with home.config_file.open("a") as file:
            file.write("[harvest]\nsites = 7\n")
        process.send_signal(signal.SIGHUP)
        until(lambda: len(told(home, "parser-1")) >= 3)
        after = all_running(home, "hdb")
        assert before["idbd"]["pid"] == after["idbd"]["pid"]
        assert ["hup"] == told(home, "idbd")[1:]
        assert ["term", "7"] == [told(home, "parser-1")[1], told(home, "parser-1")[2].split()[3]]
        home.config_file.write_text("[nonsense]\n")
        process.send_signal(signal.SIGHUP)
        log = end(process)
    assert "the settings were not reread" in log


def test_a_second_start_says_who_runs_and_changes_nothing(home: Home) -> None:
    with keepalive(home, "harvester") as process:
        all_running(home, "harvester")
        with keepalive(home, "harvester") as second:
            _, log = second.communicate(timeout=PATIENCE_S)
        assert EXIT_FINDING == second.returncode
        assert f"pid {process.pid}" in log
        assert {"harvester": process.pid} == running(home.path)
        end(process)


@pytest.mark.parametrize("text", ["[nonsense]\n", "not toml"])
def test_settings_that_cannot_be_read_end_it_at_once(home: Home, text: str) -> None:
    home.config_file.write_text(text)
    with keepalive(home, "harvester") as process:
        _, log = process.communicate(timeout=PATIENCE_S)
    assert EXIT_CONFIG == process.returncode
    assert 1 == log.count("\n"), log


def test_the_service_manager_hears_ready_status_watchdog_and_stopping(home: Home) -> None:
    with _service_manager(home.path / "notify") as hear:
        environ = {"NOTIFY_SOCKET": str(home.path / "notify"), "WATCHDOG_USEC": "200000"}
        with keepalive(home, "harvester", "--workers", "1", environ=environ) as process:
            said = [hear(), hear()]
            while not {"READY=1", "WATCHDOG=1"} <= set(said):
                said.append(hear())
            assert "STATUS=harvester-1 starting" in said
            end(process)
        while said[-1] != "STOPPING=1":
            said.append(hear())
        assert 1 == said.count("READY=1")


@contextlib.contextmanager
def _service_manager(path: Path) -> Iterator[Callable[[], str]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(path))
        sock.settimeout(PATIENCE_S)
        yield lambda: sock.recv(1000).decode()


def test_a_full_disk_is_said_once_and_survived(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    report = Report(home, "cabin", None, Notify({}))
    [logd, _] = children_of("cabin", 0, Settings())
    with monkeypatch.context() as patch:
        patch.setattr("combine.report.write_status", full)
        for pid in (1, 2, 3):
            report.tell([replace(logd, pid=pid)])
    assert not home.status_file("cabin").exists()
    report.tell([replace(logd, pid=4)])
    assert 4 == json.loads(home.status_file("cabin").read_text())["children"][0]["pid"]
    assert 1 == caplog.text.count("the status file could not be written: No space left on device")


def test_a_status_is_written_when_something_changed_and_not_before(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []
    monkeypatch.setattr("combine.report.write_status", lambda *status: written.append(status))
    report = Report(home, "cabin", None, Notify({}))
    [logd, _] = children_of("cabin", 0, Settings())
    for subject in (logd, logd, replace(logd, heard=1.0), replace(logd, note="waiting"), replace(logd, note="waiting")):
        report.tell([subject])
    assert 2 == len(written)


def test_the_watchdog_is_fed_only_while_killed_children_go(tmp_path: Path, home: Home) -> None:
    with _service_manager(tmp_path / "notify") as hear:
        notify = Notify({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1"})
        report = Report(home, "cabin", None, notify)
        [logd, _] = children_of("cabin", 0, Settings())
        stuck = replace(logd, state=State.STOPPING, killed=time.monotonic() - 60)
        report.tell([stuck])
        report.tell([logd])
        assert ["STATUS=logd stopping", "STATUS=logd backing-off", "WATCHDOG=1"] == [hear(), hear(), hear()]


@pytest.mark.parametrize(
    ("environ", "watchdog_s"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "30000000"}, 15),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
    ],
)
def test_the_service_managers_wishes_are_taken_out_of_the_environment(
    environ: dict[str, str], watchdog_s: float
) -> None:
    notify = Notify(environ)
    assert watchdog_s == notify.watchdog_s
    assert {} == environ
    notify.say("READY=1")


@pytest.mark.parametrize(
    ("unit", "workers", "names"),
    [
        ("cabin", 5, ["logd", "scheduler"]),
        ("hdb", 0, ["idbd", "parser-1", "parser-2"]),
        ("hdb", 1, ["idbd", "parser-1"]),
        ("harvester", 0, ["harvester-1"]),
        ("harvester", 3, ["harvester-1", "harvester-2", "harvester-3"]),
    ],
)
def test_the_children_of_a_unit(unit: str, workers: int, names: list[str]) -> None:
    assert names == [child.name for child in children_of(unit, workers, Settings())]


def test_an_end_may_be_heard_before_the_last_words() -> None:
    """Both are readable in one turn, and the selector may give them in any order."""
    processes = Processes([])
    heard: list[tuple[str, Event]] = []
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.send(b"READY\n")
    theirs.close()
    process = _Process(pid, os.pidfd_open(pid), ours, lambda name, event: heard.append((name, event)))
    processes._living["idbd"] = process
    processes.watch(process.pidfd, lambda: None)
    processes.watch(ours, lambda: None)
    assert select.select([process.pidfd], [], [], PATIENCE_S)[0]
    processes._gone("idbd", process)
    processes._hear("idbd", process)
    assert [("idbd", Ready()), ("idbd", Exited(3))] == heard
    processes.let_go()


def test_a_machine_without_processes_is_a_fault_of_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_fork() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", no_fork)
    heard: list[Event] = []
    processes = Processes([])
    processes.fork("idbd", "title", lambda _: 0, lambda _, event: heard.append(event))
    processes.send("idbd", b"PING\n")
    processes.signal("idbd", signal.SIGKILL)
    processes.let_go()
    assert [Exited(1, "no process: Resource temporarily unavailable")] == heard


def _keep_heap(_: object) -> int:
    spawn.keep_heap()
    return 0


def _raise(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (lambda _: 0, 0),
        (lambda _: 5, 5),
        (lambda _: _raise(ConfigError("unfit")), EXIT_CONFIG),
        (lambda _: _raise(SystemExit(4)), 4),
        (lambda _: _raise(SystemExit("words")), spawn.EXIT_BUG),
        (lambda _: _raise(RuntimeError("a bug")), spawn.EXIT_BUG),
        (lambda _: _raise(KeyboardInterrupt()), spawn.EXIT_BUG),
        (_keep_heap, 0),
    ],
)
def test_a_child_ends_with_an_exit_code_whatever_happens(body: Callable[[object], int], code: int) -> None:
    pid, channel = spawn.fork("combine: a test", lambda: None, body)
    channel.close()
    assert code == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_upkeep_compresses_past_days_and_removes_what_is_too_old(home: Home) -> None:
    for day in ("2020/01/01", "2020/01/02"):
        (home.raw / day).mkdir(parents=True)
    pid = os.fork()
    if pid == 0:
        os._exit(upkeep(home, Settings()))
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert [] == list(home.raw.iterdir())


def test_an_output_file_is_capped(tmp_path: Path) -> None:
    file = tmp_path / "cabin.out"
    code = "import sys; from combine.daemonise import cap; sys.stderr.write('x' * 100); sys.stderr.flush(); cap(100)"
    code += "; sys.stderr.write('y'); sys.stderr.flush(); cap(100); sys.stderr.write('z')"
    with file.open("ab") as output:
        subprocess.run([sys.executable, "-c", code], stderr=output, check=True)
    assert ("z", "x" * 100 + "y") == (file.read_text(), file.with_name("cabin.out.1").read_text())


def test_the_status_is_whole_json_at_every_moment(home: Home) -> None:
    does(home, "scheduler", "crash")
    with keepalive(home, "cabin") as process:
        until(lambda: children(home, "cabin"))
        for _ in range(300):
            assert "cabin" == json.loads(home.status_file("cabin").read_text())["unit"]
        end(process)


def test_an_unknown_unit_is_a_usage_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "daemons.keepalive", "nonsense", "--home", "/"], capture_output=True, check=False
    )
    assert 2 == done.returncode


def test_every_sentence_of_keepalive_and_logd_is_explained() -> None:
    page = (CLONE / "docs" / "operations.md").read_text(encoding="utf-8")
    explained = {re.sub(r"[^a-z]+", " ", text).strip() for text in re.findall(r"`([^`\n]+)`", page)}
    files = (
        "combine/supervise.py",
        "combine/report.py",
        "combine/upkeep.py",
        "daemons/keepalive.py",
        "daemons/logd.py",
    )
    source = "".join((CLONE / file).read_text(encoding="utf-8") for file in files)
    said = re.findall(r'(?:log\.[a-z]+|Say)\(\s*f?"([^"]+)"', source)
    assert len(said) >= 12
    for sentence in said:
        words = re.sub(r"[^a-z]+", " ", re.sub(r"%[sd]|\{.*?\}", "", sentence)).strip()
        assert any(text == words or text.endswith(" " + words) for text in explained), sentence
