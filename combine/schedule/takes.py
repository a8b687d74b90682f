"""Who waits in TAKE: held until something is due, one TAKE a holder, and nobody who went away gets anything.

A holder names the leases that it still has; those that it does not name are over. Its newest TAKE counts: an older one
that still waits (its connection broke) ends with nothing, so that no site is leased into the void.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from combine.errors import Rejected
from combine.schedule.duties import Duties
from combine.schedule.frontier import Frontier
from combine.schedule.leases import Holder
from combine.schedule.sites import is_site
from formats import jcf
from formats.jcf import Job

#: Seconds between two looks at a site that `try` waits for: it may have no row whose turn would wake anybody.
SITE_S = 0.25

#: Sites and relink jobs that one TAKE gets at most.
SITES, RELINKS = 1_000, 500


class Takes:
    """Answers TAKE."""

    def __init__(self, frontier: Frontier, duties: Duties, clock: Callable[[], float] = time.monotonic) -> None:
        self._frontier, self._duties, self._clock = frontier, duties, clock
        self.waiting: dict[Holder, object] = {}

    async def take(self, lines: list[Job], holder: Holder, is_gone: Callable[[], bool]) -> list[str]:
        """Jobs for a holder, as soon as there are some; none after `WAIT` seconds, or where he is gone meanwhile."""
        asked = lines[0] if lines else jcf.job(SITES=1)
        if asked.kind == "relink" or not asked.get("SITE"):
            self._frontier.keep_only(holder, [line.number("LEASE") for line in lines[1:]])
        turn = self.waiting[holder] = object()
        longest = self._frontier.settings.scheduler.take_wait_s
        deadline = self._clock() + min(asked.seconds("WAIT", longest), longest)
        try:
            while not is_gone() and self.waiting.get(holder) is turn:
                jobs = self._look(asked, holder)
                left = deadline - self._clock()
                if jobs or left <= 0 or self._duties.server.stopping.is_set():
                    return jobs
                await self._duties.pulse.wait(min(left, SITE_S) if asked.get("SITE") else left)
        finally:
            if self.waiting.get(holder) is turn:
                del self.waiting[holder]
        return []

    def _look(self, asked: Job, holder: Holder) -> list[str]:
        if asked.kind == "relink":
            return self._frontier.take_relinks(holder, min(asked.number("COUNT", 100), RELINKS))
        if asked.get("SITE"):
            return self._look_at(asked.get("SITE"), holder)
        jobs = self._frontier.take(holder, min(max(asked.number("SITES", 1), 0), SITES))
        self._duties.taken()
        return jobs

    def _look_at(self, name: str, holder: Holder) -> list[str]:
        if not is_site(name):
            raise Rejected(f"SITE={name[:200]!r} is no host, and no host with its port")
        lease = self._frontier.take_site(holder, name)
        if lease is None:
            return []
        self._duties.changed()
        return [jcf.dump_text(jcf.job(SITE=name, LEASE=lease.id, DELAY=f"{lease.delay:g}"))]
