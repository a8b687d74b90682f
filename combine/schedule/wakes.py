"""When sites are to be looked at again: the soonest by a heap, the others by the span of time in which that lies.

A heap entry takes a hundred bytes, a number in an array eight; so only what is due within a moment is in the heap, and
what is due within some seconds lies in spans of a moment each. An entry is a hint: it counts while its site still says
that time. No clock of its own.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterator

#: Seconds of the spans: a long one is parted into short ones when it comes near, and a short one enters the heap.
LONG_S, SHORT_S = 8.0, 0.125


class _Spans:
    """Numbers by the span in which their time lies, of those spans that are not open yet."""

    def __init__(self, width: float) -> None:
        self._width = width
        self._held: dict[int, array[int]] = {}
        self._starts: list[int] = []  # those of `_held`, a heap
        self._open = -1  # the latest that was opened

    def __bool__(self) -> bool:
        return bool(self._starts)

    def add(self, site: int, time: float) -> bool:
        """Keep a number; False where its span is open."""
        span = int(time // self._width)
        if span <= self._open:
            return False
        if span not in self._held:
            self._held[span] = array("q")
            heapq.heappush(self._starts, span)
        self._held[span].append(site)
        return True

    def has_begun(self, now: float) -> bool:
        """Whether the first span begins by then."""
        return bool(self._starts) and self._starts[0] * self._width <= now

    def open(self) -> array[int]:
        """Open the first span; gives its numbers."""
        self._open = heapq.heappop(self._starts)
        return self._held.pop(self._open)

    def opened(self, time: float) -> bool:
        """Whether a time lies in the span that was opened last."""
        return time // self._width == self._open


class Wakes:
    """The times at which sites are to be looked at; `time_of` says which time of a site counts, 0 if none."""

    def __init__(self, time_of: Callable[[int], float]) -> None:
        self._time_of = time_of
        self._far, self._soon = _Spans(LONG_S), _Spans(SHORT_S)
        self._near: list[tuple[float, int]] = []

    def add(self, site: int, time: float) -> None:
        """A site is to be looked at."""
        if not self._far.add(site, time) and not self._soon.add(site, time):
            heapq.heappush(self._near, (time, site))

    def due(self, now: float) -> Iterator[int]:
        """The sites whose time has come, each once; whoever takes one must say that its time counts no more."""
        while self._far.has_begun(now):
            self._come_nearer(self._far)
        while self._near or self._soon.has_begun(now):
            if not self._near:
                self._come_nearer(self._soon)
            elif self._near[0][0] <= now:
                time, site = heapq.heappop(self._near)
                if self._time_of(site) == time:
                    yield site
            else:
                return

    def next(self) -> float | None:
        """The next time that counts."""
        while self._near or self._soon or self._far:
            if not self._near:
                self._come_nearer(self._soon or self._far)
            elif self._time_of(self._near[0][1]) == self._near[0][0]:
                return self._near[0][0]
            else:
                heapq.heappop(self._near)
        return None

    def _come_nearer(self, spans: _Spans) -> None:
        for site in spans.open():
            time = self._time_of(site)
            if spans.opened(time):
                self.add(site, time)
