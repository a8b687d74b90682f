"""start-cabin, start-hdb, start-harvester and stop-all, and the functions below them that `combine` uses too.

A unit is started by running keepalive as a program of its own, or by a fork that goes on as keepalive and detaches
itself: three programs would each load what a one-shot harvest and the others have loaded, which was half of the CPU
time of a small one. Where this process has threads a fork would be no clean one. This module imports no daemon, but by
name.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import click

import combine
from combine import inherited
from combine.config import Settings, load
from combine.errors import EXIT_CONFIG, EXIT_DONE, EXIT_FINDING, CombineError, ConfigError
from combine.keep.home import Home, find, is_home, open_home
from combine.keep.locks import who_holds
from combine.loading import loading
from combine.services import UNITS
from combine.status import process_start, read_status
from combine.status import running as running

_KEEPALIVE = "daemons.keepalive"

#: What is loaded before a fork, since all units need it; keepalive is the first.
_SHARED_MODULES = (_KEEPALIVE, "combine.ipc.loop")

#: Seconds that a start waits for the unit to be ready before it says what the unit waits for.
START_S = 10.0

#: Seconds that it waits before it asks the children what they wait for, and seconds between two such looks.
SETTLE_S = 1.5
LOOK_S = 0.25

#: Seconds after which the next unit is told to stop although the one before has not yet ended.
OVERLAP_S = 2.5

#: Seconds after which a keepalive that is still there is killed, and its children with it: all is over within ten.
STOP_S = 9.5


class Beginning(NamedTuple):
    """A unit that was begun: what waits for keepalive to detach, and where it says that it is ready; else a code."""

    home: Path
    unit: str
    code: int = EXIT_DONE
    detaches: Callable[[IO[bytes]], int] | None = None
    answer: IO[bytes] | None = None


def start_unit(
    home: Path, unit: str, workers: int = 0, overrides: tuple[str, ...] = (), owner: int = 0, wait_s: float = START_S
) -> int:
    """Start a unit in the background; 0 when it is ready or goes on waiting for another, else an exit code.

    What is worth knowing is said on stderr. With `owner` the unit stops by itself when that process is gone.
    """
    return await_unit(begin_unit(home, unit, workers, overrides, owner), wait_s)


def begin_unit(
    home: Path,
    unit: str,
    workers: int = 0,
    overrides: tuple[str, ...] = (),
    owner: int = 0,
    *,
    forks: bool = False,
) -> Beginning:
    """The first half of `start_unit`, so that several begin together; with `forks` in a fork, where that is safe."""
    pid = running(home).get(unit)
    if pid:
        since = who_holds(Home(home).pid_file(unit))[1]
        click.echo(f"{unit} runs already on {home} (pid {pid}, since {since}); it is left as it is", err=True)
        return Beginning(home, unit, EXIT_FINDING)
    try:
        if not forks:  # a command that forks has done so, and keepalive does it again
            open_home(home)  # first: a newer home may have settings that this program does not know
            load(home, overrides)
    except CombineError as error:
        click.echo(f"{unit}: {error}", err=True)
        return Beginning(home, unit, error.exit_code)
    ready, said = os.pipe()
    begin = _fork if forks and threading.active_count() == 1 else _run
    try:
        detaches = begin(home, unit, workers, overrides, owner, said)
    finally:
        os.close(said)
    return Beginning(home, unit, 0, detaches, os.fdopen(ready, "rb", buffering=0))


def preload(unit: str) -> None:
    """Load what a unit's daemons need, so that its keepalive, forked from here, has it; a fault there is told there."""
    with loading(), contextlib.suppress(ImportError):
        for service in UNITS[unit]:
            importlib.import_module(f"daemons.{service}")


def await_unit(beginning: Beginning, wait_s: float) -> int:
    """Wait until a unit that was begun is ready, or waits for another; 0 or an exit code, as `start_unit`."""
    if beginning.detaches is None or beginning.answer is None:
        return beginning.code
    with beginning.answer as answer:
        code = beginning.detaches(answer)
        return code or _await_ready(beginning.home, beginning.unit, answer.fileno(), wait_s)


def _run(
    home: Path, unit: str, workers: int, overrides: tuple[str, ...], owner: int, said: int
) -> Callable[[IO[bytes]], int]:
    """Run keepalive as a program; what is returned waits until it has detached, and gives its exit code."""
    command = [*_command(home, unit, workers, overrides, owner), "--ready-fd", str(said)]
    process = subprocess.Popen(command, pass_fds=[said], env=_environment(), stdin=subprocess.DEVNULL)
    return lambda _: process.wait()


def _fork(
    home: Path, unit: str, workers: int, overrides: tuple[str, ...], owner: int, said: int
) -> Callable[[IO[bytes]], int]:
    """Do in a fork what `_run` does; it stays our child, and says itself that it has detached."""
    from combine import spawn

    with loading():
        keepalive, *_ = [importlib.import_module(name) for name in _SHARED_MODULES]
    options = keepalive.Options(home.absolute(), unit, workers, overrides, _named(owner), said, is_fork=True)
    pid = spawn.go_on(lambda: keepalive.begin(options))

    def detaches(answer: IO[bytes]) -> int:
        if answer.read(len(keepalive.DETACHED)) == keepalive.DETACHED:
            return EXIT_DONE
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) or EXIT_FINDING

    return detaches


def stop_unit(home: Path, unit: str) -> bool:
    """Stop a unit and wait until all its processes are gone; False where it does not run."""
    return bool(stop_units(home, (unit,)))


def stop_units(home: Path, units: Iterable[str] = UNITS) -> list[str]:
    """Stop units, those that call before those that are called, within STOP_S together; returns what ran."""
    wanted = frozenset(units)
    end = time.monotonic() + STOP_S
    stopping: list[tuple[str, int]] = []
    for unit, pid in reversed(running(home).items()):
        if unit in wanted and (pidfd := _open(home, unit, pid)) >= 0:
            signal.pidfd_send_signal(pidfd, signal.SIGTERM)
            stopping.append((unit, pidfd))
            _await_end(pidfd, OVERLAP_S)
    for _, pidfd in stopping:
        if not _await_end(pidfd, end - time.monotonic()):
            # Its children die with it.
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            _await_end(pidfd, 1.0)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)  # where it was a fork of ours
        os.close(pidfd)
    return [unit for unit, _ in stopping]


def warn_of_agent(settings: Settings) -> None:
    """Say which lines are missing where the harvester does not say who runs it."""
    missing = [name for name in ("url", "email") if not getattr(settings.agent, name)]
    if missing:
        click.echo(
            f"[agent] {' and '.join(missing)} not set: a harvest of public hosts stops at "
            f"{settings.harvest.anonymous_pages} pages. Write into combine.toml, for example:\n"
            '  [agent]\n  url = "https://example.org/our-harvester"\n  email = "harvester@example.org"',
            err=True,
        )


def _await_ready(home: Path, unit: str, answer: int, wait_s: float) -> int:
    """Wait for the unit to say that it is ready, or for a child that says what it waits for."""
    end = time.monotonic() + wait_s
    patience_s = min(SETTLE_S, wait_s)
    while not select.select([answer], [], [], patience_s)[0]:
        said = _waiting(home, unit)
        if said or time.monotonic() >= end:
            click.echo(f"{unit} is started and not yet ready: {said or 'it is loading'}", err=True)
            return EXIT_DONE
        patience_s = LOOK_S
    if os.read(answer, 64).startswith(b"ready"):
        return EXIT_DONE
    click.echo(f"{unit} ended before it was ready; see {Home(home).log / (unit + '.out')}", err=True)
    return EXIT_FINDING


def unfit(home: Path, unit: str) -> str:
    """Why a child of a unit ended, if the operator must mend it: to wait for it is in vain. "" where none did."""
    children = [child for status in read_status(home) if status["unit"] == unit for child in status["children"]]
    ended = f"exit {EXIT_CONFIG}"
    log = Home(home).log / (unit + ".out")
    said = (
        child.get("note") or f"{child['name']} ended with {ended}; see {log}"
        for child in children
        if child.get("last_exit") == ended
    )
    return next(said, "")


def held_up(home: Path) -> str:
    """What running children wait for that is no page, as a full disk; "" where all go on. Raises RetryLater."""
    return waits_of(read_status(home))


def waits_of(statuses: list[dict[str, Any]]) -> str:
    """The same of what the status files of units say."""
    children = [child for status in statuses for child in status["children"]]
    return "; ".join(f"{child['name']} {child['note']}" for child in children if child["note"].startswith("waits: "))


def _waiting(home: Path, unit: str) -> str:
    """What the children that are not ready say, or how they ended; "" where none says anything."""
    children = [child for status in read_status(home) if status["unit"] == unit for child in status["children"]]
    said = {child["name"]: child["note"] or child["last_exit"] for child in children if child["state"] != "running"}
    return "; ".join(f"{name}: {reason}" for name, reason in said.items() if reason)


def _command(home: Path, unit: str, workers: int, overrides: tuple[str, ...], owner: int) -> list[str]:
    # -P: a directory `daemons` in the current directory is not ours.
    command = [sys.executable, "-P", "-m", _KEEPALIVE, unit, "--home", str(home), "--workers", str(workers)]
    for override in overrides:
        command += ["--set", override]
    return [*command, "--owner", _named(owner)] if owner else command


def _named(owner: int) -> str:
    """A process as keepalive is told of it, by its number and its start; "" for none."""
    return f"{owner}:{process_start(owner)}" if owner else ""


def _environment() -> dict[str, str]:
    """The environment, in which Python finds the packages where this command found them: from a clone too."""
    place = str(Path(combine.__file__).parents[1])
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{place}:{path}" if path else place}


def _open(home: Path, unit: str, pid: int) -> int:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return -1
    if running(home).get(unit) == pid:
        return pidfd
    os.close(pidfd)  # It ended, and its number may be another's by now.
    return -1


def _await_end(pidfd: int, patience_s: float) -> bool:
    return bool(select.select([pidfd], [], [], max(0.0, patience_s))[0])


def _start(unit: str, given: Mapping[str, Any]) -> int:
    """What every start-* does, with its options by name."""
    inherited.mend()
    place = find(given["home"], os.environ, Path.cwd())
    workers, overrides, owner = given.get("workers") or 0, given["overrides"], given["owner"]
    try:
        warn_of_agent(load(place, overrides))
    except ConfigError as error:
        click.echo(f"{unit}: {error}", err=True)
        return error.exit_code
    if not given["foreground"] or running(place).get(unit):
        code = start_unit(place, unit, workers, overrides, owner)
        if code == EXIT_DONE and given["ready_fd"] >= 0:
            os.write(given["ready_fd"], b"ready\n")
        return code
    command = [*_command(place, unit, workers, overrides, owner), "--foreground"]
    if given["ready_fd"] >= 0:
        os.set_inheritable(given["ready_fd"], True)
        command += ["--ready-fd", str(given["ready_fd"])]
    sys.stdout.flush()
    sys.stderr.flush()
    # The same process goes on as keepalive: a service manager knows it by its number.
    os.execve(sys.executable, command, _environment())


_SHARED = (
    click.option("--home", metavar="DIR", help="The home; else $COMBINE_HOME, the current directory or ./harvest."),
    click.option("--foreground", is_flag=True, help="Stay in this terminal, and log to it."),
    click.option(
        "--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="A setting, over combine.toml."
    ),
    click.option("--owner", type=int, default=0, metavar="PID", help="Stop when this process is gone."),
    click.option("--ready-fd", type=int, default=-1, metavar="N", help="Write `ready` on this descriptor."),
)
_workers = click.option(
    "-n", "workers", type=click.IntRange(1, 500), metavar="N", help="Worker processes; else what the settings say."
)


def _shared(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_SHARED):
        function = option(function)
    return function


@click.command()
@_shared
def start_cabin(**given: Any) -> None:
    """Start the cabin: logd and the scheduler."""
    sys.exit(_start("cabin", given))


@click.command()
@_workers
@_shared
def start_hdb(**given: Any) -> None:
    """Start the hdb: idbd and the parsers."""
    sys.exit(_start("hdb", given))


@click.command()
@_workers
@_shared
def start_harvester(**given: Any) -> None:
    """Start the harvesters."""
    sys.exit(_start("harvester", given))


@click.command()
@_SHARED[0]
def stop_all(home: str | None) -> None:
    """Stop everything that runs on a home."""
    inherited.mend()
    place = find(home, os.environ, Path.cwd())
    if not is_home(place):
        click.echo(f"{place} is not a home; name one with --home", err=True)
        sys.exit(EXIT_CONFIG)
    stopped = stop_units(place)
    click.echo(f"stopped: {', '.join(stopped)}" if stopped else f"nothing runs on {place}", err=True)
