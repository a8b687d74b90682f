"""The fate of a record whose page can no longer be had: it stays, is marked stale, or goes. Pure.

    gone      410 goes; 404 goes at a sight at least a day after the first
    refused   451 and noindex go; others go at the third sight, a week or more after the first
    denied    goes at the second sight
    redirect  301 and 308 go; 302, 303 and 307 stay, stale

A record goes only when the guard of idbd does not hold it; then it is stale.
"""

from __future__ import annotations

from dataclasses import dataclass

DAY_S = 86400.0

KEEP, STALE, REMOVE = "keep", "stale", "remove"

_PERMANENT = frozenset({301, 308})


@dataclass(frozen=True, slots=True)
class Sights:
    """What the record's `stale` field says: the outcome, the epoch time of its first sight, how many there were."""

    outcome: str = ""
    since: float = 0.0
    count: int = 0

    def again(self, outcome: str, now: float) -> Sights:
        """One more sight of an outcome; another outcome begins anew."""
        if outcome != self.outcome:
            return Sights(outcome, now, 1)
        return Sights(outcome, self.since, self.count + 1)


def fate(outcome: str, status: int, is_noindex: bool, sights: Sights, now: float) -> str:
    """What becomes of a record; `sights` includes this one, `now` is the epoch time."""
    age = now - sights.since
    if outcome == "gone":
        return REMOVE if status == 410 or (sights.count > 1 and age >= DAY_S) else STALE
    if outcome == "refused":
        return REMOVE if is_noindex or status == 451 or (sights.count >= 3 and age >= 7 * DAY_S) else STALE
    if outcome == "denied":
        return REMOVE if sights.count >= 2 else STALE
    if outcome == "redirect":
        return REMOVE if status in _PERMANENT else STALE
    return KEEP
