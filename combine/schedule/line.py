"""Our own line: whether so many sites fail at once that the fault is ours.

When more than half, and at least ten, of the sites tried within a minute fail by DNS or connect, it is our own line: no
failure is counted then, and one site every 30 seconds goes out as a probe. Pure.
"""

from __future__ import annotations

WINDOW_S = 60.0
LEAST = 10
PROBE_S = 30.0


class Line:
    """What the sites tried within the last minute say of our own line."""

    def __init__(self) -> None:
        self._tried: dict[int, tuple[float, bool]] = {}  # by site, the latest last
        self._failed = 0
        self._probe = 0.0

    def note(self, site: int, failed: bool, now: float) -> None:
        """A site was tried."""
        self._drop(site)
        self._tried[site] = (now, failed)
        self._failed += failed
        self._forget(now)

    def is_down(self, now: float) -> bool:
        """Whether it is our own line."""
        self._forget(now)
        return self._failed >= LEAST and self._failed * 2 > len(self._tried)

    def may_probe(self, now: float) -> bool:
        """Whether one site may go out although the line is down; asking takes the turn."""
        if now < self._probe:
            return False
        self._probe = now + PROBE_S
        return True

    def _forget(self, now: float) -> None:
        while self._tried:
            oldest = next(iter(self._tried))
            if self._tried[oldest][0] >= now - WINDOW_S:
                return
            self._drop(oldest)

    def _drop(self, site: int) -> None:
        old = self._tried.pop(site, None)
        if old is not None:
            self._failed -= old[1]
