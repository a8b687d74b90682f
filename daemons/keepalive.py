"""keepalive: the parent of a unit's processes; starts them, watches them, replaces them, stops them.

Takes   signals (TERM and INT stop, HUP rereads), and on each child's channel READY, PONG and NOTE.
Calls   nobody; tells the service manager and whoever started it when all its children are ready.
Keeps   run/<unit>.pid, locked while it lives, and run/<unit>.status, written by rename.
Fails   a child that ends or is silent is replaced, later and later; a crash loop is named in the status. When keepalive
itself dies
        the kernel kills its children.
Limits  one thread and no event loop, so that a fork is clean. The number of workers is fixed at the start.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import importlib
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import setproctitle

from combine import spawn
from combine.config import Settings, load
from combine.daemonise import detach
from combine.errors import CombineError, ConfigError
from combine.events import configure_logging
from combine.keep.home import Home, open_home
from combine.notify import Notify
from combine.services import UNITS, WORKERS
from combine.status import lock_patiently, write_status
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
    Started,
    State,
    Stop,
    Tick,
    decide,
    parse_line,
    rules_of,
)

log = logging.getLogger("keepalive")

#: Seconds between two status files when nothing happens.
STATUS_S = 5.0

#: Seconds from the SIGKILL of the workers to that of the daemons they call: time for a last answer.
LAST_S = 1.0

#: Bytes of an unfinished line of a child that are kept.
LINE_BYTES = 2_000


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


@dataclass(slots=True)
class _Process:
    """What is held of a living child."""

    pidfd: int
    channel: socket.socket
    pending: bytes = b""


class Keepalive:
    """One unit: its children by name, in the order of starting. `run` returns when all of them are gone."""

    def __init__(self, home: Home, options: Options, settings: Settings, held: list[Any]) -> None:
        self.home = home
        self.options = options
        self.settings = settings
        self.held = held  # closed in every child
        self.since = time.time()
        self.notify = Notify(os.environ)
        self.selector = selectors.DefaultSelector()
        self.processes: dict[str, _Process] = {}
        self.children = {child.name: child for child in children_of(options.unit, options.workers, settings)}
        self.mains: dict[str, Callable[[Context], int]] = {}
        self.is_ready = False
        self.stop_at = 0.0  # when the first of the stopping may be killed; 0 while nothing stops
        self.status_at = 0.0
        self.watchdog_at = 0.0
        self.shown: list[Any] = []
        self.is_disk_full = False

    def run(self) -> int:
        """Start all, look after them until told to stop, and stop them in order."""
        self.home.status_file(self.options.unit).unlink(missing_ok=True)
        self._hear_signals()
        self._follow_owner()
        self._warm()
        while not self._is_over():
            self._turn()
        self.notify.say("STOPPING=1")
        self.home.status_file(self.options.unit).unlink(missing_ok=True)
        log.info("%s has stopped", self.options.unit)
        return 0

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Wait for the next thing to happen, hear it, and let every child know that time has passed."""
        for key, _ in self.selector.select(self._patience_s()):
            key.data()
        for name in self.children:
            self._tell(name, Tick())
        if self.stop_at:
            self._go_on_stopping()
        self._report()

    def _patience_s(self) -> float:
        due = [self.status_at, *(child.due() for child in self.children.values())]
        if self.notify.watchdog_s:
            due.append(self.watchdog_at)
        return max(0.0, min(due) - time.monotonic())

    def _is_over(self) -> bool:
        return self.stop_at > 0 and all(child.state is State.STOPPED for child in self.children.values())

    def _tell(self, name: str, event: Event) -> None:
        self.children[name], actions = decide(self.children[name], event, time.monotonic())
        for action in actions:
            self._act(name, action)

    def _act(self, name: str, action: Action) -> None:
        process = self.processes.get(name)
        match action:
            case Fork():
                self._fork(name)
            case Send(line) if process is not None:
                # A full buffer belongs to a child that does not read: its silence will tell.
                with contextlib.suppress(OSError):
                    process.channel.send(line)
            case Signal(number) if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process.pidfd, number)
            case Say(text, is_warning):
                log.log(logging.WARNING if is_warning else logging.INFO, "%s %s", name, text)
            case _:
                pass

    # -- children ------------------------------------------------------------------------------------------------------

    def _warm(self) -> None:
        """Load what the children will use, once, and keep it out of their garbage collections."""
        for service in UNITS[self.options.unit]:
            self.mains[service] = importlib.import_module(f"daemons.{service}").main
        gc.collect()
        gc.freeze()

    def _fork(self, name: str) -> None:
        child = self.children[name]
        title = f"combine: {name} --home {self.home.path}"
        try:
            pid, channel = spawn.fork(title, self._let_go, functools.partial(self._be, child))
        except OSError as error:
            self._tell(name, Exited(1, f"no process: {error.strerror}"))
            return
        process = self.processes[name] = _Process(os.pidfd_open(pid), channel)
        self.selector.register(process.pidfd, selectors.EVENT_READ, functools.partial(self._gone, name))
        self.selector.register(channel, selectors.EVENT_READ, functools.partial(self._hear, name))
        self._tell(name, Started(pid))

    def _be(self, child: Child, channel: socket.socket) -> int:
        """In the child: become what it is to be."""
        if child.service == "parser":
            spawn.keep_heap()
        configure_logging(child.name, None if child.service == "logd" else self.home.path)
        context = Context(self.home.path, child.name, child.slot, self.settings, channel, self.options.overrides)
        return self.mains[child.service](context)

    def _let_go(self) -> None:
        """In a child: close what is the parent's, through the objects that own it: no number is closed twice."""
        self.selector.close()
        for process in self.processes.values():
            process.channel.close()
            os.close(process.pidfd)
        for thing in self.held:
            thing.close()

    def _hear(self, name: str) -> None:
        process = self.processes[name]
        try:
            data = process.channel.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(process.channel)
            return
        *lines, process.pending = (process.pending + data).split(b"\n")
        process.pending = process.pending[-LINE_BYTES:]
        for line in lines:
            event = parse_line(line)
            if event is not None:
                self._tell(name, event)

    def _gone(self, name: str) -> None:
        process = self.processes[name]
        # Its last words come first: a worker that was ready and ended is not one that never was.
        if process.channel in self.selector.get_map():
            self._hear(name)
        code = os.waitstatus_to_exitcode(os.waitpid(self.children[name].pid, 0)[1])
        self.selector.unregister(process.pidfd)
        if process.channel in self.selector.get_map():
            self.selector.unregister(process.channel)
        os.close(process.pidfd)
        process.channel.close()
        del self.processes[name]
        self._tell(name, Exited(code))

    # -- signals and the end -------------------------------------------------------------------------------------------

    def _hear_signals(self) -> None:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        self.held += [ours, theirs]
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self.selector.register(ours, selectors.EVENT_READ, functools.partial(self._take_signals, ours))

    def _take_signals(self, ours: socket.socket) -> None:
        for number in ours.recv(4096):
            if number == signal.SIGHUP:
                self._reread()
            elif number == signal.SIGINT and self.stop_at:
                self.stop_at = time.monotonic() - LAST_S  # A second Ctrl-C does not wait.
                for name, child in self.children.items():
                    if child.is_alive:
                        self._tell(name, Stop(self.stop_at))
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
            elif child.is_alive:
                self._act(name, Signal(signal.SIGHUP))

    def _follow_owner(self) -> None:
        pid, _, start = self.options.owner.partition(":")
        if not pid:
            return
        try:
            pidfd = os.pidfd_open(int(pid))
        except OSError:
            self._stop("owner")
            return
        self.held.append(os.fdopen(pidfd, "rb", buffering=0))
        self.selector.register(pidfd, selectors.EVENT_READ, functools.partial(self._owner_gone, pidfd))
        if start and start != process_start(int(pid)):
            self._stop("owner")  # Its number has been given to another.

    def _owner_gone(self, pidfd: int) -> None:
        self.selector.unregister(pidfd)
        self._stop("owner")

    def _stop(self, why: str) -> None:
        if self.stop_at:
            return
        log.info("%s stops (%s)", self.options.unit, "its owner is gone" if why == "owner" else why)
        self.notify.say("STOPPING=1")
        self.stop_at = time.monotonic() + self.settings.supervise.stop_s
        self._go_on_stopping()

    def _go_on_stopping(self) -> None:
        """Stop the last started service that is not yet stopped; those to its right answer it until it is gone."""
        services = UNITS[self.options.unit]
        for service in reversed(services):
            group = [
                child
                for child in self.children.values()
                if child.service == service and child.state is not State.STOPPED
            ]
            deadline = self.stop_at if service == services[-1] else self.stop_at + LAST_S
            for child in group:
                if child.state is not State.STOPPING or child.is_retiring:
                    self._tell(child.name, Stop(deadline))
            if any(self.children[child.name].state is not State.STOPPED for child in group):
                return

    # -- telling -------------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        now = time.monotonic()
        shown = [self._show(child) for child in self.children.values()]
        if not self.is_ready and all(child.state is State.RUNNING for child in self.children.values()):
            self._say_ready()
        if shown != self.shown or now >= self.status_at:
            if shown != self.shown:
                states = ", ".join(f"{child['name']} {child['state']}" for child in shown)
                self.notify.say(f"STATUS={states}")
            self.shown, self.status_at = shown, now + STATUS_S
            self._write_status(shown)
        if self.notify.watchdog_s and now >= self.watchdog_at:
            self.watchdog_at = now + self.notify.watchdog_s
            if not any(child.is_stuck(now) for child in self.children.values()):
                self.notify.say("WATCHDOG=1")

    def _show(self, child: Child) -> dict[str, Any]:
        since = time.time() - (time.monotonic() - child.since)
        return {
            "name": child.name,
            "pid": child.pid,
            "since": _utc(since) if child.since else "",
            "restarts": child.restarts,
            "state": child.shown_state,
            "note": child.note,
            "last_exit": child.last_exit,
        }

    def _say_ready(self) -> None:
        self.is_ready = True
        log.info("%s is ready", self.options.unit)
        self.notify.say("READY=1")
        if self.options.ready_fd >= 0:
            with contextlib.suppress(OSError):
                os.write(self.options.ready_fd, b"ready\n")
                os.close(self.options.ready_fd)

    def _write_status(self, shown: list[Any]) -> None:
        status = {"unit": self.options.unit, "pid": os.getpid(), "since": _utc(self.since), "children": shown}
        try:
            write_status(self.home, self.options.unit, status)
        except OSError as error:
            if not self.is_disk_full:
                log.warning("the status file could not be written: %s", error.strerror)
            self.is_disk_full = True
        else:
            self.is_disk_full = False


def children_of(unit: str, workers: int, settings: Settings) -> list[Child]:
    """The children of a unit, in the order of starting; `workers` 0 means what the settings say."""
    number = {"parser": settings.page.workers, "harvester": settings.harvest.workers}
    children = []
    for service in UNITS[unit]:
        rules = rules_of(service, settings.supervise)
        if service in WORKERS:
            slots = range(1, max(1, workers or number[service]) + 1)
            children += [Child(f"{service}-{slot}", service, slot, rules) for slot in slots]
        else:
            children.append(Child(service, service, 0, rules))
    return children


def process_start(pid: int) -> str:
    """When a process started, in ticks since boot: with the pid it names one process for ever; "" if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def run(options: Options) -> int:
    """Keep a unit alive until told to stop; raises ConfigError where it cannot begin."""
    settings = load(options.home, options.overrides)
    home = open_home(options.home)
    with lock_patiently(home, options.unit) as held:
        if not options.foreground:
            keep = [held.fileno()] + ([options.ready_fd] if options.ready_fd >= 0 else [])
            detach(home.log / f"{options.unit}.out", keep)
            held.write(os.getpid())
        setproctitle.setproctitle(f"combine: keepalive {options.unit} --home {home.path}")
        configure_logging(f"keepalive-{options.unit}", home.path)
        return Keepalive(home, options, settings, [held]).run()


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
    # What a shell or a test runner left open is not ours to keep, nor our children's.
    _close_inherited(given["ready_fd"])
    options = Options(**{**given, "home": given["home"].absolute(), "overrides": tuple(given["overrides"])})
    try:
        return run(options)
    except CombineError as error:
        print(f"keepalive: {error}", file=sys.stderr)
        return error.exit_code


def _close_inherited(ready_fd: int) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != ready_fd:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    sys.exit(main())
