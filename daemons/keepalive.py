"""keepalive: the parent of a unit's processes; starts them, watches them, replaces them, stops them.

Takes   signals (TERM and INT stop, HUP rereads), and on each child's channel READY, PONG and NOTE.
Calls   nobody; tells the service manager and whoever started it when all its children are ready.
Keeps   run/<unit>.pid, locked while it lives, and run/<unit>.status, written by rename.
Fails   a child that ends or is silent is replaced, later and later; a crash loop is named in the status. When keepalive
        itself dies the kernel kills its children.
Limits  one thread and no event loop, so that a fork is clean. The number of workers is fixed at the start.
Size:   it has no skeleton to stand on as its siblings have: signals, owner and the order of stopping are here.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import setproctitle

from combine import inherited, spawn
from combine.channel import Channel
from combine.config import Settings, load
from combine.daemonise import cap, detach
from combine.errors import EXIT_FINDING, EXIT_TRY_LATER, CombineError, ConfigError, passes
from combine.events import configure_logging
from combine.keep.home import Home, open_home
from combine.keep.locks import AlreadyHeld, Lock, lock
from combine.loading import loading
from combine.notify import Notify
from combine.processes import Processes
from combine.report import Report
from combine.services import UNITS
from combine.status import process_start
from combine.supervise import (
    Action,
    Child,
    Context,
    Event,
    Exited,
    Fork,
    Retire,
    Say,
    Send,
    Signal,
    State,
    Stop,
    Tick,
    children_of,
    decide,
    rules_of,
)
from combine.upkeep import EVERY_S, FIRST_S, upkeep

log = logging.getLogger("keepalive")

#: Seconds from the SIGKILL of the workers to that of the daemons they call: time for a last answer.
LAST_S = 1.0

#: What a fork of its owner says on `ready_fd` when it is in a session of its own; all that follows stands in its log.
DETACHED = b"detached\n"


@dataclass(frozen=True, slots=True)
class Options:
    """What a keepalive is started with; `owner` is `PID` or `PID:START` of the process with which it ends, or ""."""

    home: Path
    unit: str
    workers: int = 0
    overrides: tuple[str, ...] = ()
    owner: str = ""
    ready_fd: int = -1
    foreground: bool = False
    is_fork: bool = False  # of its owner, with which it ends: it need be no orphan


class Keepalive:
    """One unit: its children by name, in the order of starting. `run` returns when all of them are gone."""

    def __init__(self, home: Home, options: Options, settings: Settings, held: Lock) -> None:
        self.home = home
        self.options = options
        self.settings = settings
        self.processes = Processes([held])
        ready = os.fdopen(options.ready_fd, "wb", buffering=0) if options.ready_fd >= 0 else None
        if ready is not None:
            self.processes.held.append(ready)
        self.report = Report(home, options.unit, ready, Notify(os.environ))
        self.children = {child.name: child for child in children_of(options.unit, options.workers, settings)}
        self.mains: dict[str, Callable[[Context], int]] = {}
        self.stop_at = 0.0  # when the first of the stopping may be killed; 0 while nothing stops
        self.upkeep_at = time.monotonic() + FIRST_S if options.unit == "hdb" else float("inf")

    def run(self) -> int:
        """Start all, look after them until told to stop, and stop them in order."""
        self._hear_signals()
        self._follow_owner()
        self._warm()
        while not self._is_over():
            self._turn()
        self.report.end()
        return 0

    def _turn(self) -> None:
        """Wait for the next thing to happen, hear it, and let every child know that time has passed."""
        due = [self.report.next_at, self.upkeep_at, *(child.due() for child in self.children.values())]
        self.processes.wait(max(0.0, min(due) - time.monotonic()))
        for name in self.children:
            self._tell(name, Tick())
        if self.stop_at:
            self._go_on_stopping()
        elif time.monotonic() >= self.upkeep_at:
            self._look_after_raw()
        self.report.tell(self.children.values())
        if not self.options.foreground:
            cap(self.settings.keep.log_bytes)

    def _is_over(self) -> bool:
        return self.stop_at > 0 and all(child.state is State.STOPPED for child in self.children.values())

    def _tell(self, name: str, event: Event) -> None:
        self.children[name], actions = decide(self.children[name], event, time.monotonic())
        for action in actions:
            self._act(name, action)

    def _act(self, name: str, action: Action) -> None:
        match action:
            case Fork():
                title = f"combine: {name} --home {self.home.path}"
                self.processes.fork(name, title, functools.partial(self._be, self.children[name]), self._tell)
            case Send(line):
                self.processes.send(name, line)
            case Signal(number):
                self.processes.signal(name, number)
            case Say(text, is_warning):
                log.log(logging.WARNING if is_warning else logging.INFO, "%s %s", name, text)

    def _warm(self) -> None:
        """Load what the children will use, once: they share it, and so does each that is started later."""
        with loading():
            for service in UNITS[self.options.unit]:
                self.mains[service] = importlib.import_module(f"daemons.{service}").main

    def _be(self, child: Child, channel: socket.socket) -> int:
        """In the child: become what it is to be."""
        if child.service == "parser":
            spawn.keep_heap()
        configure_logging(child.name, None if child.service == "logd" else self.home.path)
        context = Context(self.home.path, child.name, child.slot, self.settings, channel, self.options.overrides)
        try:
            return self.mains[child.service](context)
        except CombineError as error:
            Channel(channel).note(str(error))  # for the status: whoever started this shall know why it is not ready
            raise

    def _look_after_raw(self) -> None:
        def body(_: socket.socket) -> int:
            configure_logging("upkeep", self.home.path)
            return upkeep(self.home, self.settings)

        def tell(_: str, event: Event) -> None:
            if isinstance(event, Exited):
                self.upkeep_at = time.monotonic() + EVERY_S

        self.upkeep_at = float("inf")
        self.processes.fork("upkeep", f"combine: upkeep --home {self.home.path}", body, tell)

    def _hear_signals(self) -> None:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        self.processes.held += [ours, theirs]
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self.processes.watch(ours, functools.partial(self._take_signals, ours))

    def _take_signals(self, ours: socket.socket) -> None:
        for number in ours.recv(4096):
            if number == signal.SIGHUP:
                self._reread()
            elif number == signal.SIGINT and self.stop_at:
                self._stop_at_once()
            else:
                self._stop(signal.Signals(number).name)

    def _reread(self) -> None:
        """Daemons reread for themselves; workers are replaced by such as know the new settings."""
        try:
            self.settings = load(self.home.path, self.options.overrides)
        except ConfigError as error:
            log.warning("the settings were not reread: %s", error)
            return
        log.info("the settings were reread")
        for name, child in self.children.items():
            self.children[name] = replace(child, rules=rules_of(child.service, self.settings.supervise))
            if child.rules.is_worker:
                self._tell(name, Retire())
            else:
                self.processes.signal(name, signal.SIGHUP)

    def _follow_owner(self) -> None:
        pid, _, start = self.options.owner.partition(":")
        if not pid:
            return
        try:
            pidfd = os.pidfd_open(int(pid))
        except OSError:
            self._stop("its owner is gone")
            return
        self.processes.held.append(os.fdopen(pidfd, "rb", buffering=0))
        self.processes.watch(pidfd, functools.partial(self._owner_gone, pidfd))
        if start and start != process_start(int(pid)):
            self._stop("its owner is gone")  # Its number has been given to another.

    def _owner_gone(self, pidfd: int) -> None:
        self.processes.forget(pidfd)
        self._stop("its owner is gone")

    def _stop(self, why: str) -> None:
        if self.stop_at:
            return
        log.info("%s stops (%s)", self.options.unit, why)
        self.report.stopping()
        self.stop_at = time.monotonic() + self.settings.supervise.stop_s
        self.processes.signal("upkeep", signal.SIGKILL)
        self._go_on_stopping()

    def _stop_at_once(self) -> None:
        """A second Ctrl-C does not wait."""
        self.stop_at = time.monotonic() - LAST_S
        for name, child in self.children.items():
            if child.is_alive:
                self._tell(name, Stop(self.stop_at))

    def _go_on_stopping(self) -> None:
        """Stop the last started service that is not yet stopped; those to its right answer it until it is gone."""
        services = UNITS[self.options.unit]
        for service in reversed(services):
            deadline = self.stop_at if service == services[-1] else self.stop_at + LAST_S
            names = [name for name, child in self.children.items() if child.service == service]
            for name in names:
                if self.children[name].state not in (State.STOPPING, State.STOPPED) or self.children[name].is_retiring:
                    self._tell(name, Stop(deadline))
            if any(self.children[name].state is not State.STOPPED for name in names):
                return


def run(options: Options) -> int:
    """Keep a unit alive until told to stop; raises ConfigError where it cannot begin."""
    home = open_home(options.home)
    settings = load(options.home, options.overrides)
    with lock(home, options.unit) as held:
        if not options.foreground:
            keep = [held.fileno()] + ([options.ready_fd] if options.ready_fd >= 0 else [])
            detach(home.log / f"{options.unit}.out", keep, as_orphan=not options.is_fork)
            held.write(os.getpid())
            if options.is_fork:
                os.write(options.ready_fd, DETACHED)
        setproctitle.setproctitle(f"combine: keepalive {options.unit} --home {home.path}")
        configure_logging(f"keepalive-{options.unit}", home.path)
        return Keepalive(home, options, settings, held).run()


def main(arguments: list[str] | None = None) -> int:
    """The program: `python -m daemons.keepalive UNIT --home DIR …`, which start-cabin and its kin run."""
    parser = argparse.ArgumentParser(prog="keepalive", description="Keeps the processes of one unit alive.")
    parser.add_argument("unit", choices=list(UNITS))
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--owner", default="", metavar="PID[:START]")
    parser.add_argument("--ready-fd", type=int, default=-1)
    parser.add_argument("--foreground", action="store_true")
    given = vars(parser.parse_args(arguments))
    return begin(Options(**{**given, "home": given["home"].absolute(), "overrides": tuple(given["overrides"])}))


def begin(options: Options) -> int:
    """The program's life in a process that may become keepalive; gives the exit code, and says why it is not 0."""
    inherited.mend()
    # What a shell or a test runner left open is not ours to keep, nor our children's.
    _close_inherited(options.ready_fd)
    try:
        return run(options)
    except CombineError as error:
        print(f"keepalive: {error}", file=sys.stderr)
        return EXIT_FINDING if isinstance(error, AlreadyHeld) else error.exit_code
    except OSError as error:
        if not passes(error):
            raise
        print(f"keepalive: {error}; give the command again", file=sys.stderr)
        return EXIT_TRY_LATER


def _close_inherited(ready_fd: int) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != ready_fd:
            with contextlib.suppress(OSError):
                os.close(int(name))


if __name__ == "__main__":
    sys.exit(main())
