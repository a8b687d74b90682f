"""Our own line: whether so many sites fail at once that the fault is ours.

When more than half, and at least ten, of the sites tried within a minute fail by DNS or connect, it is our own line: no
failure is counted then, and one site every 30 seconds goes out as a probe, until one of them is answered. Pure.
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
        self._is_down = False
        self._probe = 0.0

    def note(self, site: int, failed: bool, now: float) -> None:
        """A site was tried. While the line is down, one answer says that it is up again."""
        self._forget(now)
        if self._is_down and not failed:
            self._is_down = False
            self._tried.clear()
            self._failed = 0
        self._drop(site)
        self._tried[site] = (now, failed)
        self._failed += failed
        self._is_down |= self._failed >= LEAST and self._failed * 2 > len(self._tried)

    def is_down(self) -> bool:
        """Whether it is our own line."""
        return self._is_down

    def sentence(self) -> str:
        """What is said of it, "" while the line is up."""
        return (
            f"most sites cannot be reached, so it is our own line: one is tried every {PROBE_S:.0f} s" * self._is_down
        )

    def next_probe(self) -> float:
        """When one site may go out although the line is down."""
        return self._probe

    def probed(self, now: float) -> None:
        """A site goes out as a probe."""
        self._probe = now + PROBE_S

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
