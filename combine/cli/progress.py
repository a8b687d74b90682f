"""What a running harvest shows: one live line on a terminal, plain lines otherwise, each a look at the counters.

A plain line comes after the first second, every ten seconds, and when the phase changes: a log of a night stays
readable.
"""

from __future__ import annotations

from combine.cli import peers
from combine.cli.peers import Stat
from combine.cli.run import Look
from combine.cli.screen import Live, counted, say
from combine.errors import CombineError
from combine.keep.home import Home

_FIRST_S = 1.0
_EVERY_S = 10.0
_MINUTE_S = 60.0


class Progress:
    """Shows looks.

    `is_own`: the scheduler was started for this run, so its counters of the last minute are this run's.
    """

    def __init__(self, home: Home, quiet: bool, is_own: bool) -> None:
        self.live = Live(quiet)
        self._quiet = quiet
        self._is_own = is_own
        self._idbd = peers.idbd(home)
        self._records = 0
        self._phase = ""
        self._next_s = _FIRST_S

    def show(self, look: Look) -> None:
        """Show a look, if it is time to."""
        if self._quiet:
            return
        if self.live.on:
            self.live.show(self._line(look))
        elif look.elapsed_s >= self._next_s or (look.elapsed_s > _FIRST_S and phase(look) != self._phase):
            say(f"combine: {self._line(look)}")
            self._next_s = look.elapsed_s + _EVERY_S
        self._phase = phase(look)

    def close(self) -> None:
        """Take the live line away."""
        self.live.clear()
        self._idbd.close()

    def _line(self, look: Look) -> str:
        self._count()
        return line(look, self._records, self._is_own)

    def _count(self) -> None:
        try:
            self._records = self._idbd.call("STAT")[0].number("RECORDS")
        except (CombineError, IndexError):
            return


def phase(look: Look) -> str:
    """What the run is doing, in a word or two."""
    stat = look.stat
    if stat is None:
        return "waiting for the scheduler"
    if stat.stalled:
        return "stalled"
    if look.is_closing:
        return "finishing"
    if stat.queued == stat.leased == 0 and stat.fetched:
        return "parsing the last"
    if stat.queued and not (stat.leased or stat.fetched):
        return "looking up names" if stat.unresolved and not (stat.waiting or stat.due) else "waiting"
    return "harvesting"


def line(look: Look, records: int, is_own: bool) -> str:
    """The line for one look."""
    stat = look.stat
    if stat is None:
        return f"{phase(look)} for {look.away_s:.0f} s"
    speed = rate(stat, look.elapsed_s, is_own)
    sites = stat.unresolved + stat.waiting + stat.due + stat.leased_sites + stat.blocked
    parts = [
        f"{phase(look)}" + (f" ({stat.stalled})" if stat.stalled else ""),
        counted(records, "record"),
        f"{speed:.1f} pages/s",
        f"{stat.queued + stat.leased:,} queued",
        f"{stat.dead:,} failed",
        counted(sites, "site"),
    ]
    if stat.stalled:
        return ", ".join(parts)
    if stat.next_s is not None and stat.next_s >= 2 and not stat.leased:
        parts.append(f"next in {stat.next_s:.0f} s")
    elif speed > 0 and stat.queued:
        parts.append(f"about {span(stat.queued / speed)} to go")
    return ", ".join(parts)


def rate(stat: Stat, elapsed_s: float, is_own: bool) -> float:
    """Pages a second over the last minute, or over the run where it is younger."""
    return stat.pages / (min(_MINUTE_S, max(elapsed_s, 1.0)) if is_own else _MINUTE_S)


def span(seconds: float) -> str:
    """A time for people: 40 s, 3 min, 2.5 h, 4 days."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"
