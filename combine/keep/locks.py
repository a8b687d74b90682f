"""Locks: who is the one scheduler, idbd or keepalive of a home, said by a pid file that its holder keeps locked.

The lock is what counts, and the system gives it back at the holder's death; the text only tells people who it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from combine.errors import ConfigError
from combine.keep import places

if TYPE_CHECKING:
    from combine.keep.home import Home

#: What a pid file says: a pid, and since when.
_SAID = re.compile(rb"([1-9][0-9]{0,8})\n([0-9TZ:-]{1,30})\n")
_SAID_BYTES = 64


class AlreadyHeld(ConfigError):
    """A lock is another process's; the sentence says whose."""


class Lock:
    """A pid file that is held; it is given back by `close`, or by the end of the process and of all that it forked."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self.descriptor = descriptor
        self.path = path

    def fileno(self) -> int:
        """The locked descriptor; a detaching process keeps it open."""
        return self.descriptor

    def write(self, pid: int) -> None:
        """Say who holds it and since when; again after a fork that detaches."""
        text = f"{pid}\n{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}\n".encode("ascii")
        places.write_all(self.descriptor, text, 0)  # over what was there: a full disk takes it, too
        os.ftruncate(self.descriptor, len(text))

    def close(self) -> None:
        """Give the lock back; the file stays, since unlinking it would let two hold one name."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lock(home: Home, name: str) -> Lock:
    """Become the one `name` of this home, before its socket is bound; raises AlreadyHeld saying who it is already.

    A place that is unfit raises ConfigError, a full disk RetryLater.
    """
    path = home.pid_file(name)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise places.unfit(path, error) from None
    held = Lock(descriptor, path)
    try:
        _flock_patiently(descriptor)
        held.write(os.getpid())
    except BlockingIOError:
        pid, since = who_holds(path)
        held.close()
        raise AlreadyHeld(
            f"{name} runs already on {home.path} (pid {pid}, since {since}); nothing was changed"
        ) from None
    except OSError as error:
        held.close()
        raise places.unfit(path, error) from None
    return held


def _flock_patiently(descriptor: int) -> None:
    """Lock a pid file, within half a second: whoever only asks who holds it has it for a moment."""
    for _ in range(25):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.02)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def who_holds(path: Path) -> tuple[int, str]:
    """The pid and start time that a pid file names; (0, "unknown") where it says nothing."""
    try:
        said = _SAID.fullmatch(path.read_bytes()[:_SAID_BYTES])
    except OSError:
        said = None
    return (int(said[1]), said[2].decode("ascii")) if said else (0, "unknown")
