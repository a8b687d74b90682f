"""Who runs a home: the status files that keepalives write, and the pid files that they hold locked.

A pid file that nobody holds locked speaks of a process that is gone, whatever it says.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from combine.errors import ConfigError
from combine.keep.home import Home, Lock, lock, who_holds
from combine.services import UNITS

#: Looks at a lock that is held, and seconds between two: together longer than a dying process takes to let go.
LOOKS = 10
LOOK_S = 0.03


def write_status(home: Home, unit: str, status: Mapping[str, Any]) -> None:
    """Put a unit's status in place by one rename; raises OSError (a full disk) and then leaves the old one."""
    path = home.status_file(unit)
    fresh = path.with_suffix(".status-new")
    try:
        fresh.write_text(json.dumps(status, ensure_ascii=False) + "\n", encoding="utf-8")
        fresh.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def read_status(home: Path) -> list[dict[str, Any]]:
    """What each running unit last said of itself; a unit that has said nothing yet has no children."""
    place = Home(home)
    return [_read_one(place, unit, pid) for unit, pid in running(home).items()]


def running(home: Path) -> dict[str, int]:
    """The pid of the keepalive of each unit that runs on this home, in the order of starting."""
    place = Home(home)
    found = {unit: holder(place.pid_file(unit)) for unit in UNITS}
    return {unit: pid for unit, pid in found.items() if pid}


def holder(path: Path) -> int:
    """The process that holds a pid file locked, or 0."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        # A shared lock, given back at once: whoever starts in this instant tries again.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return who_holds(path)[0]
    except OSError:
        return 0
    finally:
        os.close(descriptor)
    return 0


def lock_patiently(home: Home, name: str) -> Lock:
    """Take a pid file as `lock` does, but look again a few times: whoever asks `holder` has it for an instant."""
    for _ in range(LOOKS):
        with contextlib.suppress(ConfigError):
            return lock(home, name)
        time.sleep(LOOK_S)
    return lock(home, name)


def _read_one(home: Home, unit: str, pid: int) -> dict[str, Any]:
    since = who_holds(home.pid_file(unit))[1]
    try:
        status = json.loads(home.status_file(unit).read_bytes())
    except (OSError, ValueError):
        status = None
    if not isinstance(status, dict) or status.get("pid") != pid or not isinstance(status.get("children"), list):
        # Left by an earlier keepalive, or not yet written.
        return {"unit": unit, "pid": pid, "since": since, "children": []}
    return status
