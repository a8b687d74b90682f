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

from combine.errors import RetryLater, passes
from combine.keep.home import Home
from combine.keep.locks import who_holds
from combine.services import UNITS

#: Looks at a pid file whose holder has locked it and not yet written it, and seconds between them.
_LOOKS, _LOOK_S = 10, 0.01

#: What a status file says of each child.
_CHILD = {
    "name": str, "pid": int, "since": str, "restarts": int, "state": str, "note": str, "last_exit": str,
}  # fmt: skip


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
    """The process that holds a pid file locked, or 0; raises RetryLater where the disk does not let it be known."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # not to wait for a named pipe
    except OSError as error:
        if passes(error):
            raise RetryLater(f"{path} cannot be read: {error.strerror}") from None
        return 0
    try:
        # A shared lock, given back at once: whoever starts in this instant tries again.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _named(path)
    except OSError:
        return 0
    finally:
        os.close(descriptor)
    return 0


def _named(path: Path) -> int:
    """Who a locked pid file says that he is; the holder may be just about to write it."""
    for _ in range(_LOOKS):
        if pid := who_holds(path)[0]:
            return pid
        time.sleep(_LOOK_S)
    raise RetryLater(f"{path} is held, and it cannot be read by whom")


def process_start(pid: int) -> str:
    """When a process started, in ticks since boot: with the pid it names one process for ever; "" if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The name, in parentheses, may hold anything; the start is the 22nd field.
    return text.rpartition(")")[2].split()[19]


def _is_status(value: Any, unit: str, pid: int) -> bool:
    if not isinstance(value, dict) or (value.get("unit"), value.get("pid")) != (unit, pid):
        return False
    children = value.get("children")
    return isinstance(children, list) and all(
        isinstance(child, dict) and all(type(child.get(name)) is kind for name, kind in _CHILD.items())
        for child in children
    )


def _read_one(home: Home, unit: str, pid: int) -> dict[str, Any]:
    since = who_holds(home.pid_file(unit))[1]
    try:
        status = json.loads(home.status_file(unit).read_bytes())
    except (OSError, ValueError, RecursionError):
        status = None
    if not _is_status(status, unit, pid):
        # Left by an earlier keepalive, not yet written, or none of ours.
        return {"unit": unit, "pid": pid, "since": since, "children": []}
    return dict(status)
