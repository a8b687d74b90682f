"""The three clocks of the scheduler, as one value that a test can replace.

`boot` counts seconds since the machine started, sleep included (CLOCK_BOOTTIME): leases and delays use it, since nobody
can set it back. `boot_id` names this start of the machine. `utc` is what the calendar says, in epoch seconds, and
serves due times only.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Three clocks."""

    @property
    def boot_id(self) -> str:
        """The name of this start of the machine."""
        ...

    def boot(self) -> float:
        """Seconds since the machine started."""
        ...

    def utc(self) -> float:
        """Epoch seconds."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The real clocks."""

    boot_id: str

    def boot(self) -> float:
        """Seconds since the machine started."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def utc(self) -> float:
        """Epoch seconds."""
        return time.time()


def system_clock() -> SystemClock:
    """The clocks of this machine."""
    return SystemClock(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())


def utc_text(epoch: float) -> str:
    """An epoch time as `YYYY-MM-DDThh:mm:ssZ`."""
    return _second_text(math.floor(epoch))


# Both are asked for the same few seconds again and again, and take 3 µs each.
@lru_cache(maxsize=1024)
def _second_text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=4096)
def epoch_of(text: str) -> float:
    """A time written `YYYY-MM-DDThh:mm:ss[.fff]Z` as epoch seconds; 0 where it is none. Without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def is_younger(since: str, other: str, now: float) -> bool:
    """Whether a round began after another one; one that begins in the future (the clock was set back) is old."""
    began, before = epoch_of(since), epoch_of(other)
    return 0 < began <= now if before > now else began > before


def is_overtaken(last: str, since: str, now: float) -> bool:
    """Whether what was last done at a time is to be done again in the round that began at `since`.

    What was done nobody knows when (the clock has been set back since) is done again.
    A round that begins in the future (the clock was set back) overtakes nothing: nothing done in it could ever be
    younger than it, and it would be done again and again.
    """
    if not last:
        return bool(since)
    began = epoch_of(since)
    return epoch_of(last) < began <= now
