"""What a keepalive tells of its unit: the status file, the service manager, and whoever waits for it to be ready."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from combine import __version__
from combine.keep.home import Home
from combine.notify import Notify
from combine.status import write_status
from combine.supervise import Child, State

log = logging.getLogger("keepalive")

#: Seconds between two status files when nothing happens.
STATUS_S = 5.0


class Report:
    """Tells of one unit. `next_at` is when there is something to tell even if nothing happens."""

    def __init__(self, home: Home, unit: str, ready: io.RawIOBase | None, notify: Notify) -> None:
        self.home = home
        self.unit = unit
        self._ready = ready
        self._notify = notify
        self._since = _utc(time.time())
        self._is_ready = False
        self._is_disk_full = False
        self._seen: Sequence[tuple[object, ...]] = ()
        self._status_at = 0.0
        self._watchdog_at = 0.0
        self.home.status_file(unit).unlink(missing_ok=True)  # One that was left speaks of the dead.

    @property
    def next_at(self) -> float:
        """Monotonic seconds."""
        return min(self._status_at, self._watchdog_at) if self._notify.watchdog_s else self._status_at

    def tell(self, children: Iterable[Child]) -> None:
        """Say what has changed, and what it is time for."""
        now = time.monotonic()
        children = list(children)
        seen = [
            (child.pid, child.since, child.shown_state, child.restarts, child.note, child.last_exit)
            for child in children
        ]
        if seen != self._seen:
            self._notify.say("STATUS=" + ", ".join(f"{child.name} {child.shown_state}" for child in children))
        if seen != self._seen or now >= self._status_at:
            self._seen, self._status_at = seen, now + STATUS_S
            self._write([_show(child) for child in children])
        if not self._is_ready and all(child.state is State.RUNNING for child in children):
            self._say_ready()
        if self._notify.watchdog_s and now >= self._watchdog_at:
            self._watchdog_at = now + self._notify.watchdog_s
            if not any(child.is_stuck(now) for child in children):
                self._notify.say("WATCHDOG=1")

    def stopping(self) -> None:
        """Say that the unit is on its way down."""
        self._notify.say("STOPPING=1")

    def end(self) -> None:
        """Take the status file away: nothing runs any more."""
        with contextlib.suppress(OSError):
            self.home.status_file(self.unit).unlink(missing_ok=True)
        log.info("%s has stopped", self.unit)

    def _say_ready(self) -> None:
        self._is_ready = True
        log.info("%s is ready", self.unit)
        self._notify.say("READY=1")
        if self._ready is not None:
            with contextlib.suppress(OSError):
                self._ready.write(b"ready\n")
                self._ready.close()

    def _write(self, shown: list[dict[str, Any]]) -> None:
        status = {
            "unit": self.unit,
            "pid": os.getpid(),
            "since": self._since,
            "version": __version__,
            "children": shown,
        }
        try:
            write_status(self.home, self.unit, status)
        except OSError as error:
            if not self._is_disk_full:
                log.warning("the status file could not be written: %s", error.strerror)
            self._is_disk_full = True
        else:
            self._is_disk_full = False


def _show(child: Child) -> dict[str, Any]:
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


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
