"""Slots: the numbered places of workers, each held by a lock that the system gives back at its holder's death.

Every file that a worker leaves half-done carries the name of its slot, so the slot's next holder knows that it may
remove it: while the lock is held, nobody else writes under that name.
"""

from __future__ import annotations

import fcntl
import os
import re
import time

from combine.errors import RetryLater
from combine.keep.home import Home

_NAME = re.compile(r"[a-z]+-[0-9]{1,6}")

#: `is_free` and `Spool.recover` hold a free slot's lock for moments; a worker that meets them waits at most so long.
_PATIENCE_S = 2.0


class Slot:
    """A slot that this process holds until `release` or its death.

    Take it after the fork, or parent and child both hold it.
    """

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, home: Home, worker: str, number: int) -> Slot:
        """Take the slot `worker-number`; raises RetryLater where a living process has it."""
        name = f"{worker}-{number}"
        deadline = time.monotonic() + _PATIENCE_S
        while (slot := cls.take_if_free(home, name)) is None:
            if time.monotonic() > deadline:
                raise RetryLater(f"the slot {name} of {home.path} is held by a living worker")
            time.sleep(0.01)
        return slot

    @classmethod
    def take_if_free(cls, home: Home, name: str) -> Slot | None:
        """Take a slot by its name, or answer None at once."""
        descriptor = os.open(home.slot_file(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(name, descriptor)

    @staticmethod
    def is_free(home: Home, name: str) -> bool:
        """Whether no living process holds the slot of this name."""
        try:
            descriptor = os.open(home.slot_file(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            # Shared, so that two who ask at once do not take each other for a holder.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    def release(self) -> None:
        """Give the slot back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_slot_name(name: str) -> bool:
    """Whether this is the name of a slot, such as parser-2."""
    return _NAME.fullmatch(name) is not None
