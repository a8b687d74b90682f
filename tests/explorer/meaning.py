"""What of a state of the scheduler still means something: states that differ in nothing else are one.

Of numbers only those count that a row or a lease has, and of these only the order. It is asked of the real code whether
a message about any other number changes something (rule 3).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, NamedTuple

from combine.schedule.leases import Holder
from combine.schedule.rows import DEFERRED, FETCHED, LEASED, QUEUED, STORED
from formats import jcf
from tests.explorer.cabin import TABLES, Cabin
from tests.explorer.tables import NOW

#: The number of every fetch and lease that no row has any more.
DEAD = 99

#: What a job's row means in each of its states, of the columns that are not read in all.
_MEANT = {
    "fetch": (QUEUED, DEFERRED, LEASED, FETCHED),
    "lease": (LEASED, FETCHED),
    "batch": (FETCHED,),
}

#: Of the process in each slot, the start time, by which it is another than the one before.
Lives = tuple[int, int, int, int]

#: The pids of these processes: two harvesters, two parsers.
PIDS = (101, 102, 201, 202)

#: The start time that all have who live, once only what matters is left.
LIVES = 9


class Meant(NamedTuple):
    """A state with the least numbers, and by what these stand for the old ones."""

    cabin: int
    holders: dict[Holder, Holder]
    offers: dict[int, int]
    rows: dict[int, int]


def _told_apart(holders: Iterable[Holder], lives: Lives) -> dict[Holder, Holder]:
    """Names of holders by which those that live can be told from the dead, and the dead of a slot from one another."""
    new = {}
    for pid, start in zip(PIDS, lives, strict=True):
        new[Holder(pid, start)] = Holder(pid, LIVES)
        dead = sorted((holder for holder in holders if holder.pid == pid and holder.start < start), key=repr)
        new |= {holder: Holder(pid, place) for place, holder in enumerate(dead, 1)}
    return new


def other_of(pid: int) -> int:
    """The other worker of its kind."""
    return pid - 1 if pid % 2 == 0 else pid + 1


class Unfenced(Exception):
    """The scheduler heeds a message about a fetch or a lease that is over."""


def _page_of(row: dict[str, Any]) -> str:
    """The URL of a row of the table `job`, with which its line begins."""
    return str(row["line"]).split('"')[1]


class Meaning:
    """Tells which states of a scheduler mean the same."""

    def __init__(self, cabin: Cabin, *, trusts_fences: bool) -> None:
        self._cabin, self._trusts_fences = cabin, trusts_fences
        self._pages: dict[int, tuple[frozenset[tuple[str, bool]], frozenset[str]]] = {}
        self._alive: dict[int, tuple[int, ...]] = {}
        self._meant: dict[Any, Meant] = {}
        self._exchanged: dict[tuple[int, tuple[int, ...]], int] = {}

    def alive(self, number: int) -> tuple[int, ...]:
        """The numbers of fetches and leases that still count: those that rows and leases have.

        Raises Unfenced where a message about another one changes something. Where it was told so, all are alive.
        """
        known = self._alive.get(number)
        if known is None:
            rows = self._cabin.table(number, "job")
            found = {lease["id"] for lease in self._cabin.table(number, "lease")}
            for name in ("fetch", "lease"):
                found |= {row[name] for row in rows if row["state"] in _MEANT[name]}
            found.discard(0)
            if not self._trusts_fences:
                found |= set(range(1, self._last(number) + 1))
            elif not self._is_fenced(number, found):
                raise Unfenced
            known = self._alive[number] = tuple(sorted(found))
        return known

    def _last(self, number: int) -> int:
        """The number that was drawn last."""
        return int(next((row["value"] for row in self._cabin.table(number, "meta") if row["key"] == "number"), 0))

    def _is_fenced(self, number: int, alive: set[int]) -> bool:
        """Whether messages about fetches and leases that are over change nothing: rule 3, asked of the real code."""
        over = {DEAD, *range(1, self._last(number) + 1)} - alive
        outcomes = [
            jcf.job(URL=_page_of(row), FETCH=dead, LEASE=dead, OUTCOME=said, BATCH=said and dead, RECORD="1")
            for row in self._cabin.table(number, "job")
            for dead in over
            for said in ("ok", "not-modified", "failed", None)
        ]
        ends = [jcf.job(LEASE=dead, END="1") for dead in over]

        def step() -> bool:
            frontier = self._cabin.world.frontier
            is_current = any(frontier.done_all([*outcomes, *ends]))
            frontier.stored_all([line for line in outcomes if line.get("OUTCOME")])
            return is_current

        after, is_current = self._cabin.ask(number, ("dead",), step)
        return after == number and not is_current

    def pages(self, number: int) -> tuple[frozenset[tuple[str, bool]], frozenset[str]]:
        """The pages that are not stored yet, each with whether it is for the forced round; and those that have rows."""
        known = self._pages.get(number)
        if known is None:
            rows = [row | {"page": _page_of(row)} for row in self._cabin.table(number, "job") if row["kind"] == "page"]
            waiting = frozenset((row["page"], bool(row["since"])) for row in rows if row["state"] < STORED)
            known = self._pages[number] = waiting, frozenset(row["page"] for row in rows)
        return known

    def meant(self, number: int, lives: Lives, asked: tuple[int, ...]) -> Meant:
        """The state with the least numbers that means the same; and what became of processes, of offers and of rows.

        Rows and the counts of moves keep their order. A lease of relink jobs has no time: nobody ends it for its age.
        """
        known = self._meant.get((number, lives, asked))
        if known is None:
            known = self._meant[number, lives, asked] = self._mean(number, lives, asked)
        return known

    def _mean(self, number: int, lives: Lives, asked: tuple[int, ...]) -> Meant:
        alive = self.alive(number)
        new = {0: 0} | {old: place for place, old in enumerate(alive, 1)}
        tables = {name: [dict(row) for row in self._cabin.table(number, name)] for name in TABLES}
        holders = _told_apart(self._cabin.holders(number), lives)
        for meta in tables["meta"]:
            meta["value"] = {"number": str(len(alive)), "boot": "first"}.get(meta["key"], meta["value"])
        for lease in tables["lease"]:
            lease["id"], lease["boot"] = new[lease["id"]], "first"
            lease["start"] = holders[Holder(lease["pid"], lease["start"])].start
            if not lease["site"]:
                lease["until"] = NOW
        seqs = {row["seq"]: place for place, row in enumerate(tables["job"], 1)}
        for row in tables["job"]:
            row["seq"] = seqs[row["seq"]]
            for name, states in _MEANT.items():
                if row["state"] not in states:
                    row[name] = type(row[name])()  # 0, or no name
            row["fetch"], row["lease"] = new[row["fetch"]], new[row["lease"]]
            if row["batch"]:
                row["batch"] = "+".join(str(new.get(int(old), DEAD)) for old in row["batch"].split("+"))
        rows = tuple(tuple(tuple(row.values()) for row in tables[name]) for name in TABLES)
        memory, offers = self._mean_moves(number, asked)
        return Meant(self._cabin.number_of((rows, memory)), holders, offers, seqs)

    def _mean_moves(self, number: int, asked: tuple[int, ...]) -> tuple[Any, dict[int, int]]:
        """The counts of moves, by their order; what went before all offers asked is forgotten."""
        offers, moves, gone = self._cabin.content(number)[1]
        if not asked:
            return (offers, 0, ()), {}
        noted = {offer: self._cabin.offer(offer).asked for offer in asked}
        least = min(noted.values())
        kept = {key: value for key, value in gone if value > least}
        order = {old: place for place, old in enumerate(sorted({*noted.values(), *kept.values(), moves}))}
        again = {}
        for offer, old in noted.items():
            held = copy.deepcopy(self._cabin.offer(offer))
            held.asked = order[old]
            again[offer] = self._cabin.keep(held)
        return (offers, order[moves], tuple(sorted((key, order[value]) for key, value in kept.items()))), again

    def exchanged(self, number: int, pids: tuple[int, ...]) -> int:
        """The state in which the other worker of its kind holds each lease that one of these has."""
        known = self._exchanged.get((number, pids))
        if known is None:
            rows, rest = self._cabin.content(number)
            place, columns = TABLES.index("lease"), self._cabin.columns("lease")
            leases = (dict(zip(columns, row, strict=True)) for row in rows[place])
            moved = tuple(
                tuple((lease | {"pid": other_of(lease["pid"]) if lease["pid"] in pids else lease["pid"]}).values())
                for lease in leases
            )
            known = self._cabin.number_of(((*rows[:place], moved, *rows[place + 1 :]), rest))
            self._exchanged[number, pids] = known
        return known
