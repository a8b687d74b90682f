"""The units that a command started: they end with it, those that it found running go on.

They are started in sessions of their own, so that Ctrl-C reaches only the command, and with the command as their owner,
so that they stop by themselves when it dies without a word.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from types import TracebackType

from combine.cli import units
from combine.cli.peers import READY_S
from combine.config import load
from combine.errors import EXIT_CONFIG, RESTORE, CombineError, RetryLater
from combine.keep.home import Home

#: Looks at a unit of which a process is about to end, and seconds between two.
_LOOKS, _LOOK_S = 40, 0.05

#: Looks after which a wait is no passing one.
_WAITS_LOOKS = 5

#: Seconds in which a killed process is gone.
_KILLED_S = 1.0


class NotStarted(CombineError):
    """A unit did not start, or cannot go on; it has said why on stderr, or it is said here."""

    def __init__(self, unit: str, code: int, reason: str = "", is_late: bool = False) -> None:
        what = "cannot go on" if is_late else "could not be started"
        super().__init__(f"{unit} {what}" + (f": {reason}" if reason else ""))
        self.exit_code = code


class Started:
    """Starts what is needed and does not run, and stops just that when it is left. Its `units` are those it started."""

    def __init__(self, home: Home, overrides: tuple[str, ...] = (), workers: int = 0) -> None:
        self.home = home
        self.overrides = overrides
        self.workers = workers
        self.units: list[str] = []
        self.needed: tuple[str, ...] = ()
        self._waits, self._waits_seen = "", 0  # what was waited for at the last look, and at how many in a row

    def __enter__(self) -> Started:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        unfit = self._unfit(self.units, is_late=True) if isinstance(error, RetryLater) else None
        looks = _LOOKS if RESTORE in str(error) else 0  # it has said so, and is about to end
        while unfit is None and looks:
            time.sleep(_LOOK_S)
            unfit, looks = self._unfit(self.units, is_late=True), looks - 1
        self.stop()
        if unfit is not None:
            raise unfit from None

    def need(self, *wanted: str, next_unit: str = "") -> list[str]:
        """Start those of the units that do not run, together, and wait until they are ready.

        Meanwhile what `next_unit` needs is loaded. Answers which ran already, or were started by another command.
        """
        self.needed = wanted
        found = [unit for unit in wanted if unit in units.running(self.home.path)]
        missing = [unit for unit in wanted if unit not in found]
        if missing:
            load(self.home.path, self.overrides)  # a fault in the settings is said once, not by each unit
        # Noted before the start: what a Ctrl-C interrupts is stopped too.
        self.units += missing
        self._start(missing, next_unit)
        return [unit for unit in wanted if unit not in self.units]

    def revive(self, say: Callable[[str], None]) -> None:
        """Start again what is needed and has gone; raises RetryLater where somebody stopped what this command started.

        A keepalive that is told to stop takes its status file away, one that is killed leaves it.
        """
        self._refuse_unfit()
        try:
            alive = units.running(self.home.path)
        except RetryLater:
            return  # the disk does not say who runs: at the next look
        for unit in (unit for unit in self.needed if unit not in alive):
            if unit not in self.units:
                say(f"combine: {unit} was stopped; this run goes on with one of its own")
                self.units.append(unit)
            elif self.home.status_file(unit).exists():
                say(f"combine: the keepalive of {unit} is gone; starting it again")
            else:
                raise RetryLater(f"{unit} was stopped from outside; the same command goes on from here")
            self._start([unit])

    def _refuse_unfit(self) -> None:
        """Raise CombineError where a process of what was started met what the operator must mend."""
        try:
            unfit = self._unfit(self.units, is_late=True)
        except RetryLater:
            return
        if unfit is not None:
            raise unfit

    def tell_waits(self, say: Callable[[str], None]) -> None:
        """Say once what holds a process up, where it does for `_WAITS_LOOKS` looks; else only `status` says it."""
        try:
            waits = units.held_up(self.home.path)
        except RetryLater:
            return
        self._waits_seen = self._waits_seen + 1 if waits == self._waits else 1
        self._waits = waits
        if waits and self._waits_seen == _WAITS_LOOKS:
            say(f"combine: {waits}")

    def stop(self) -> None:
        """Stop what was started, within ten seconds; a second Ctrl-C does not wait."""
        if not self.units:
            return
        try:
            units.stop_units(self.home.path, self.units)
        except KeyboardInterrupt:
            self._kill()
        self.units.clear()

    def _start(self, missing: list[str], next_unit: str = "") -> None:
        if not missing:
            return
        begun = [self._begin(unit) for unit in missing]
        if next_unit:
            units.preload(next_unit)
        codes = [units.await_unit(beginning, READY_S) for beginning in begun]
        alive = units.running(self.home.path)
        for unit, code in zip(missing, codes, strict=True):
            if code and unit not in alive:
                raise NotStarted(unit, code)
            if code:
                # Another command was first: it is that one's to stop.
                self.units = [mine for mine in self.units if mine != unit]
        if unfit := self._unfit(missing):
            raise unfit

    def _unfit(self, wanted: list[str], is_late: bool = False) -> NotStarted | None:
        """What is to be said of a unit that waits in vain, since a process of it met what the operator must mend."""
        for unit in wanted:
            if reason := units.unfit(self.home.path, unit):
                return NotStarted(unit, EXIT_CONFIG, reason, is_late)
        return None

    def _begin(self, unit: str) -> units.Beginning:
        workers = self.workers if unit == "harvester" else 0
        return units.begin_unit(self.home.path, unit, workers, self.overrides, os.getpid(), forks=True)

    def _kill(self) -> None:
        """The children die with their keepalive."""
        pidfds = []
        for unit, pid in units.running(self.home.path).items():
            if unit in self.units:
                with contextlib.suppress(ProcessLookupError):
                    pidfds.append(os.pidfd_open(pid))
                    signal.pidfd_send_signal(pidfds[-1], signal.SIGKILL)
        for pidfd in pidfds:
            select.select([pidfd], [], [], _KILLED_S)
            os.close(pidfd)
