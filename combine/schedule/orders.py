"""What the operator says to the queue: the gate, what a run may still take, how a site is treated."""

from __future__ import annotations

from collections.abc import Iterable

from combine.errors import Rejected
from combine.schedule import report
from combine.schedule.frontier import Frontier
from combine.schedule.sites import is_site
from formats.jcf import Job

GATES = ("open", "paused")


def gate(frontier: Frontier, lines: Iterable[Job]) -> None:
    """Open or pause; set what a run may still take."""
    for line in lines:
        word, left = line.get("GATE"), line.number("LEFT")
        if word and word not in GATES:
            raise Rejected(f"GATE={word[:40]!r}: it is open or paused")
        if word:
            frontier.set_gate(word)
        if line.get("BUDGET"):
            frontier.seeds.set_budget(line.get("BUDGET"), left)
    frontier.tick()


def site(frontier: Frontier, line: Job) -> Job | None:
    """A site's facts, after the change in the line if there is one; None where nothing is known of it."""
    name = line.get("SITE")
    changes = bool(line.get("DELAY") or line.get("BLOCK"))
    if changes and not is_site(name):
        raise Rejected(f"SITE={name[:200]!r} is no host, and no host with its port")
    found = frontier.site_named(name, create=changes)
    if found is None:
        return None
    if changes:
        frontier.instruct(found, line)
    facts = report.site_line(frontier, found)
    frontier.settle(found)
    return facts
