"""When sites are to be looked at again: soon by a heap, later by the span of time in which that lies.

A heap entry takes a hundred bytes, a number in an array eight; so only what is due within some seconds is in the heap.
An entry is a hint: it counts while its site still says that time. No clock of its own.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterator

#: Seconds whose entries enter the heap together.
SPAN_S = 8.0


class Wakes:
    """The times at which sites are to be looked at; `time_of` says which time of a site counts, 0 if none."""

    def __init__(self, time_of: Callable[[int], float]) -> None:
        self._time_of = time_of
        self._near: list[tuple[float, int]] = []
        self._far: dict[int, array[int]] = {}
        self._spans: list[int] = []  # those of `_far`, a heap
        self._open = -1  # the latest span whose entries are near

    def add(self, site: int, time: float) -> None:
        """A site is to be looked at."""
        span = int(time // SPAN_S)
        if span <= self._open:
            heapq.heappush(self._near, (time, site))
            return
        if span not in self._far:
            self._far[span] = array("q")
            heapq.heappush(self._spans, span)
        self._far[span].append(site)

    def due(self, now: float) -> Iterator[int]:
        """The sites whose time has come, each once; whoever takes one must say that its time counts no more."""
        while self._spans and self._spans[0] * SPAN_S <= now:
            self._come_near()
        while self._near and self._near[0][0] <= now:
            time, site = heapq.heappop(self._near)
            if self._time_of(site) == time:
                yield site

    def next(self) -> float | None:
        """The next time that counts."""
        while self._near or self._spans:
            if not self._near:
                self._come_near()
            elif self._time_of(self._near[0][1]) == self._near[0][0]:
                return self._near[0][0]
            else:
                heapq.heappop(self._near)
        return None

    def _come_near(self) -> None:
        self._open = heapq.heappop(self._spans)
        for site in self._far.pop(self._open):
            time = self._time_of(site)
            if time // SPAN_S == self._open:
                heapq.heappush(self._near, (time, site))
