"""The fault driver: one whole harvest with real processes, its faults as planned, and a judge at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import shim
from tests.shim import Shim
from tests.soak import checker, faults
from tests.soak.plan import Fault, Plan
from tests.system import sites
from tests.system.harness import Harness, Web

#: Silence is punished fast, and idle processes look often: a harvest is to last seconds.
SETTINGS = """workers = {harvesters}
spill_bytes = 600
[page]
workers = {parsers}
[supervise]
ping_s = 0.3
silence_s = 1.5
parser_silence_s = 1.5
back_off_s = 0.05
crash_loop = 1000
[scheduler]
take_wait_s = 2
"""

#: Seconds that one round may take, and that a fault waits for its moment.
ROUND_S, MOMENT_S = 90.0, 20.0


class Run:
    """One plan at work. `struck` counts the faults that hit something."""

    def __init__(self, plan: Plan, place: Path, can_fill: bool, machine: Shim | None) -> None:
        self.plan, self.place, self.can_fill, self.machine = plan, place, can_fill, machine
        self.jumped_s = 0.0
        self.struck = 0
        self.said: list[str] = []
        self.charges = place / "charges"
        self.charges.mkdir()
        self._charged: set[str] = set()

    def go(self) -> list[str]:
        """Harvest, round after round; gives all that is wrong."""
        root = self.place / "site"
        sites.make(root, self.plan.pages)
        settings = SETTINGS.format(harvesters=self.plan.harvesters, parsers=self.plan.parsers)
        found: list[str] = []
        with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
            patch.setenv("COMBINE_CRASH_PLAN", str(self.charges))
            web = stack.enter_context(closing(Web(root, self.place / "log.jsonl", "--delay", "0.01")))
            home = stack.enter_context(closing(Harness(self.place / "d" / "h", settings)))
            for name, value in (self.machine.environment if self.machine else {}).items():
                patch.setenv(name, value)  # of the processes of the home alone: the site has another disk and clock
            for number, planned in enumerate(self.plan.rounds):
                seen = len(web.requests())
                if number:
                    change(root, self.plan.pages)
                self.struck = 0
                self._harvest(home, web, planned, seen, ["--force"] if number else [])
                requests = web.requests()[seen:]
                expected = fault_free(self.plan.pages, number > 0)
                wrong = checker.faults_of(home, web, expected, requests, self.struck, self.plan.delay_s)
                found += [f"round {number + 1}: {fault}" for fault in wrong]
                if found:
                    self.said.append(home.logs())
                    break
        return found

    def _harvest(self, home: Harness, web: Web, planned: tuple[Fault, ...], seen: int, options: list[str]) -> None:
        command = (web.url("/index.html"), "--delay", f"{self.plan.delay_s:g}", *options)
        left, end = list(planned), time.monotonic() + ROUND_S
        while True:
            with home.harvest(*command) as running:
                over = self._strike(home, web, left, seen, running)
                if not over:
                    continue
                try:
                    said, _ = running.communicate(timeout=max(end - time.monotonic(), 1))
                except subprocess.TimeoutExpired:
                    self.said += [home.run("status", code=None).stdout, home.logs()]
                    raise
            self._uncharge()
            if running.returncode == 0:
                return
            assert running.returncode in (-9, 75), f"exit {running.returncode}: {said}"
            assert time.monotonic() < end, f"exit {running.returncode}: {said}"

    def _strike(self, home: Harness, web: Web, left: list[Fault], seen: int, running: subprocess.Popen[str]) -> bool:
        """Do what is planned, when it is time; false where everything was killed."""
        while left:
            fault = left.pop(0)
            moment = time.monotonic() + MOMENT_S
            while len(web.requests()) - seen < fault.after and running.poll() is None and time.monotonic() < moment:
                threading.Event().wait(0.005)
            if running.poll() is not None:
                return True
            if fault.kind == "everything":
                self.struck += 1
                for pid in {running.pid, *home.processes()}:  # a command that was just begun has no name yet
                    faults.signalled(pid, signal.SIGKILL)
                running.wait(timeout=10)
                return False
            self.struck += self._do(home, fault)
        return True

    def _do(self, home: Harness, fault: Fault) -> bool:
        if fault.kind == "crash":
            self._charged.add(fault.what)
            return faults.charge(self.charges, fault.what)
        if fault.kind == "full":
            return self.can_fill and faults.fill(home)
        if fault.kind == "disk":
            return self.machine is not None and faults.break_disk(self.machine, fault.what, self.plan.seed)
        if fault.kind == "clock":
            return self.machine is not None and self._jump(float(fault.what))
        return faults.BY_NAME[fault.kind](home, fault.what)

    def _jump(self, seconds: float) -> bool:
        assert self.machine is not None
        self.jumped_s += seconds
        self.machine.clocks(real_s=self.jumped_s)
        return True

    def _uncharge(self) -> None:
        """Charges that nobody came by hit nothing."""
        for left in list(self.charges.iterdir()):
            left.unlink(missing_ok=True)
            self.struck -= 1


class Outcome(NamedTuple):
    """What is wrong, what the logs say of it, and how many faults of the last round hit something."""

    found: list[str]
    said: list[str]
    struck: int


def run(plan: Plan) -> Outcome:
    """Harvest as planned, in a place of its own."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cmb", ignore_cleanup_errors=True)))
        (place / "d").mkdir()
        can_fill = stack.enter_context(faults.disk(place / "d"))
        machine = None if shim.why_not() else stack.enter_context(Shim(place / "control", place / "d"))
        work = Run(plan, place, can_fill, machine)
        try:
            return Outcome(work.go(), work.said, work.struck)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            return Outcome([f"it did not end well: {error}"], work.said, work.struck)


def change(root: Path, pages: int) -> None:
    """Every fourth page is another one now."""
    for number, path in enumerate(sorted(root.glob("*.html"))):
        if number % 4 == 0:
            path.write_text(path.read_text().replace("has to say", "has to say by now"))
            os.utime(path, (1_760_000_000 + number, 1_760_000_000 + number))


@cache
def fault_free(pages: int, changed: bool) -> dict[str, str]:
    """The records of a harvest that nothing happens to."""
    with tempfile.TemporaryDirectory(prefix="cmb", ignore_cleanup_errors=True) as name:
        root = Path(name) / "site"
        sites.make(root, pages)
        if changed:
            change(root, pages)
        with (
            closing(Web(root, Path(name) / "log.jsonl")) as web,
            closing(Harness(Path(name) / "h")) as home,
        ):
            home.run("harvest", web.url("/index.html"), "--delay", "0")
            return home.records(web)
