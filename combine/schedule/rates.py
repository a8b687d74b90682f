"""What came in during the last minute: pages and bytes, as STAT says them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MINUTE_S = 60.0


class Rates:
    """Counts of the last minute, to the outcome."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sizes: deque[tuple[float, int]] = deque()
        self._bytes = 0

    def note(self, size: int) -> None:
        """One answer came in."""
        self._drop_old()
        self._sizes.append((self._clock(), size))
        self._bytes += size

    def last_minute(self) -> tuple[int, int]:
        """Answers and their bytes."""
        self._drop_old()
        return len(self._sizes), self._bytes

    def _drop_old(self) -> None:
        before = self._clock() - MINUTE_S
        while self._sizes and self._sizes[0][0] < before:
            self._bytes -= self._sizes.popleft()[1]
