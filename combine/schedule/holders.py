"""The processes that hold leases, watched by pidfd: a holder's death is known at once, and never guessed.

A pid alone names nobody for long; with its start time it does. This module signals a process only through its pidfd, so
a signal never reaches another that got the pid since.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from combine.errors import RetryLater
from combine.schedule.leases import Holder


def start_time(pid: int) -> int:
    """When a process started, in clock ticks since the boot; 0 where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    fields = stat.rpartition(b")")[2].split()
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


class Holders:
    """The living holders; `on_death` is called once for each that dies."""

    def __init__(self, on_death: Callable[[Holder], None]) -> None:
        self._on_death = on_death
        self._pidfds: dict[Holder, int] = {}
        self._known: dict[int, Holder] = {}  # by pid, those that are watched

    def of(self, pid: int) -> Holder:
        """The process with a pid, watched from now on; raises RetryLater where it is gone."""
        known = self._known.get(pid)
        if known is not None and self._is_there(known):
            return known  # every TAKE asks, and to read when a process began takes 30 µs
        holder = Holder(pid, start_time(pid))
        if not self.watch(holder):
            raise RetryLater(f"the process {pid} is gone")
        return holder

    def watch(self, holder: Holder) -> bool:
        """Watch a holder; False where it does not live any more."""
        if holder in self._pidfds:
            return True
        try:
            pidfd = os.pidfd_open(holder.pid)
        except OSError:
            return False
        if not holder.start or start_time(holder.pid) != holder.start:
            os.close(pidfd)
            return False
        self._pidfds[holder], self._known[holder.pid] = pidfd, holder
        asyncio.get_running_loop().add_reader(pidfd, self._died, holder)
        return True

    def kill(self, holder: Holder) -> None:
        """End a holder that is past its time."""
        pidfd = self._pidfds.get(holder)
        if pidfd is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Watch nobody any more."""
        for pidfd in self._pidfds.values():
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)
        self._pidfds.clear()
        self._known.clear()

    def _is_there(self, holder: Holder) -> bool:
        """Whether a watched process is not yet reaped, so that its pid is still its own."""
        try:
            signal.pidfd_send_signal(self._pidfds[holder], 0)
        except OSError:
            return False
        return True

    def _died(self, holder: Holder) -> None:
        pidfd = self._pidfds.pop(holder)
        if self._known.get(holder.pid) == holder:
            del self._known[holder.pid]
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        self._on_death(holder)
