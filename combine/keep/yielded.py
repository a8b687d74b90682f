"""Which pages have just left their records to another URL, their canonical one: known at once to all parsers of a home.

idbd knows it too, but only after STORED: two parsers that meet two pages which name each other at the same moment
would each see nothing, and both pages would lose their records. Whoever comes first under the lock of this file
leaves, and the other one stays. The file is a table of fixed size: a page's place follows from its id, a newer page
takes an older one's place, and what is older than some minutes is known to idbd. Nothing in it outlives its use, so
nothing is synced.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from pathlib import Path

from combine.keep.places import write_all
from combine.urls import record_id

#: Pages that have a place; a page that loses its place too soon is as if it had not been noted.
SLOTS = 4096

#: Seconds for which it counts: idbd has heard of it long before.
AGE_S = 600.0

#: Pages followed from one to the next.
HOPS = 10

_SLOT = struct.Struct("=16s16sd")


class Yielded:
    """The table of one home, in the file `path`, which is made when it is first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def leave(self, url: str, target: str) -> bool:
        """Note that a page leaves its record to `target`; False, and nothing is noted, where that leads back to it."""
        here, there = _key(url), _key(target)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # given back with the descriptor, whatever becomes of the process
            now = time.clock_gettime(time.CLOCK_BOOTTIME)
            hop: bytes | None = there
            for _ in range(HOPS):
                if hop == here:
                    return False
                if hop is None:
                    break
                hop = _next(descriptor, hop, now)
            write_all(descriptor, _SLOT.pack(here, there, now), _place(here))
        finally:
            os.close(descriptor)
        return True


def _key(url: str) -> bytes:
    return bytes.fromhex(record_id(url))


def _place(key: bytes) -> int:
    return int.from_bytes(key[:4], "big") % SLOTS * _SLOT.size


def _next(descriptor: int, key: bytes, now: float) -> bytes | None:
    """The key of the page to which the one with a key has left its record; None where it has not, or long ago."""
    slot = os.pread(descriptor, _SLOT.size, _place(key))
    if len(slot) < _SLOT.size:
        return None
    holder, target, since = _SLOT.unpack(slot)
    return target if holder == key and 0 <= now - since < AGE_S else None
