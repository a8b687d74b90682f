"""What a parser offers to the scheduler: ADD in full messages, and the links of menus not with every page.

A link that was acknowledged a moment ago, for the same seed, round and scope and from no more hops, is not sent again:
the row or the visit that the scheduler answered for still stands. Relink jobs pass by this memory, since they exist to
offer again. Bounded, and forgotten after a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from combine.services import MESSAGE_LINES
from formats.jcf import Job

#: Links remembered, and seconds for which.
REMEMBERED, REMEMBER_S = 50_000, 60.0


class Offers:
    """Gathers ADD lines and sends them; `call` asks the scheduler and raises nothing but what ends the parser."""

    def __init__(self, call: Callable[[list[Job]], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._call, self._clock = call, clock
        self._sent: dict[tuple[str, str, str, str], int] = {}
        self._since = 0.0

    def send(self, offered: Iterable[tuple[Job, list[Job]]]) -> None:
        """Offer the links of jobs; when this returns, all are acknowledged."""
        self._forget()
        lines: dict[tuple[str, str, str, str], Job] = {}
        for job, links in offered:
            round_ = (job.get("SEED"), job.get("SINCE"), _scope(job))
            for line in links:
                key = (line.url, *round_)
                depth = line.number("DEPTH")
                known = self._sent.get(key)
                if line.get("HOPS") or ((known is None or depth < known) and self._is_better(lines.get(key), depth)):
                    lines[key] = line
        todo = list(lines.items())
        for start in range(0, len(todo), MESSAGE_LINES):
            part = todo[start : start + MESSAGE_LINES]
            self._call([line for _, line in part])
            self._sent.update((key, line.number("DEPTH")) for key, line in part)

    def send_again(self, links: list[Job]) -> None:
        """Offer links whatever was sent before."""
        for start in range(0, len(links), MESSAGE_LINES):
            self._call(links[start : start + MESSAGE_LINES])

    def _forget(self) -> None:
        now = self._clock()
        if now - self._since > REMEMBER_S or len(self._sent) > REMEMBERED:
            self._sent.clear()
            self._since = now

    def _is_better(self, held: Job | None, depth: int) -> bool:
        return held is None or depth < held.number("DEPTH")


def _scope(job: Job) -> str:
    """The scope's number and its depth as a whole: hops left and hops made."""
    number, _, left = job.get("SCOPES").partition(":")
    return f"{number}:{int(left) + job.number('DEPTH')}" if left.isdigit() else job.get("SCOPES")
