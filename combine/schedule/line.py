"""Our own line: whether so many sites fail at once that the fault is ours.

When more than half, and at least ten, of the sites tried within a minute fail by DNS or connect, it is our own line: no
failure is counted then, and one site every 30 seconds goes out as a probe, until one of them is answered. A site that
was failing before says nothing when it fails again: else the dead that are left when all others are done would look
like an outage for ever. An outage is believed for a day where sites that had answered before are among those that fail,
or where nobody has answered since the start; else for two minutes: whoever never answered may as well be dead. Pure.
See docs/decisions/own-line.md.
"""

from __future__ import annotations

WINDOW_S = 60.0
LEAST = 10
PROBE_S = 30.0

#: Sites that had answered before and fail now, from which an outage is believed for long: one or two may die by chance.
PROOF = 3

#: Seconds that an outage is believed without an answer from anywhere: with that proof, and without.
BELIEVED_S, DOUBTED_S = 86400.0, 120.0

#: What is known of a site before it is tried: it answered last, it was never tried, it failed last.
GOOD, NEW, SILENT = "good", "new", "silent"


class Line:
    """What the sites tried within the last minute say of our own line."""

    def __init__(self) -> None:
        self._tried: dict[int, tuple[float, bool, str]] = {}  # by site, the latest last
        self._failed = 0
        self._since: float | None = None  # when it went down
        self._lost: dict[int, str] = {}  # the sites that failed in this outage, and what was known of them
        self._silent: set[int] = set()  # those that failed in an outage that was believed for too long
        self._probe = 0.0
        self._was_up = False  # somebody has answered since the start

    def note(self, site: int, failed: bool, now: float, known: str = NEW) -> None:
        """A site was tried. While the line is down, one answer says that it is up again."""
        self._forget(now)
        if not failed:
            self._was_up = True
            self._silent.discard(site)
            self._end()
        elif known == SILENT or site in self._silent:
            self._doubt(now)
            return  # what it said when it began to fail stands for its minute
        self._drop(site)
        self._tried[site] = (now, failed, known)
        self._failed += failed
        if self._since is not None:
            self._lost[site] = known
            self._doubt(now)
        elif self._failed >= LEAST and self._failed * 2 > len(self._tried):
            self._since, self._probe = now, max(self._probe, now)
            self._lost = {number: was for number, (_, is_lost, was) in self._tried.items() if is_lost}

    def is_down(self) -> bool:
        """Whether it is our own line."""
        return self._since is not None

    def sentence(self) -> str:
        """What is said of it, "" while the line is up."""
        said = f"most sites cannot be reached, so it is our own line: one is tried every {PROBE_S:.0f} s"
        return said * self.is_down()

    def next_probe(self) -> float:
        """When one site may go out although the line is down."""
        return self._probe

    def probed(self, now: float) -> None:
        """A site goes out as a probe."""
        self._probe = now + PROBE_S

    def _end(self) -> None:
        """The line is up again."""
        if self._since is not None:
            self._since, self._failed = None, 0
            self._tried.clear()
            self._lost.clear()

    def _doubt(self, now: float) -> None:
        """An outage that no site ends by an answer is ended here: its sites are dead, or are taken for it."""
        if self._since is None:
            return
        is_believed = not self._was_up or sum(was == GOOD for was in self._lost.values()) >= PROOF
        if now - self._since > (BELIEVED_S if is_believed else DOUBTED_S):
            self._silent.update(self._lost)
            self._end()

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
