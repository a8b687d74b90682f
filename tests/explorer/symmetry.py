"""When two states are one: what means nothing is left out (`live`), and two workers that are alike may be exchanged.

A state is taken apart into the numbers of its parts. Of those that differ by an exchange of the two harvesters or of
the two parsers the least stands for all; eight bytes are kept of it, so of n states two have one name by chance in
n^2 / 2^65 of all searches. What a state has cost stands beside it (`Cost`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, NamedTuple

from combine.schedule.leases import Holder
from tests.explorer import live
from tests.explorer.cabin import Cabin
from tests.explorer.live import Rounds
from tests.explorer.meaning import Meaning, Meant, other_of
from tests.explorer.state import LINKS, Adding, Batch, Limits, Parser, State
from tests.explorer.tables import Answer

#: The parts of a state that are numbered; those of one kind share their numbers.
KINDS = "harvester harvester parser parser spool store telling force late dead".split()

#: Where among a state's parts the late messages are.
LATE = 4 + KINDS.index("late")

HARVESTERS, PARSERS = (101, 102), (201, 202)

#: The cabin, idbd, the rounds that began, whether the site rests, and the numbers of the other parts.
Parts = tuple[int, ...]


class Cost(NamedTuple):
    """What a state has cost: faults, how often each page may be asked for yet, and the messages that may yet come late.

    Where a state was looked at, its like that costs as much or more and of which no other message may come has nothing
    new to show: whatever happens to it may happen to that one, too, of which some messages never come.
    """

    kills: int
    powers: int
    messages: int
    first: int
    second: int
    late: frozenset[tuple[str, Answer]]

    def is_no_more_than(self, other: Cost) -> bool:
        """Whether a like state at another cost has nothing new to show."""
        return self.late >= other.late and all(less <= more for less, more in zip(self[:5], other[:5], strict=True))


class Numbers:
    """Gives things of one kind numbers. One that has a number is mostly met again as itself, and not looked at."""

    def __init__(self) -> None:
        self.things: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._by_id: dict[int, int] = {}

    def __call__(self, thing: Any) -> int:
        number = self._by_id.get(id(thing), -1)
        if number >= 0 and self.things[number] is thing:
            return number
        number = self._numbers.setdefault(thing, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
            self._by_id[id(thing)] = number
        return number


class Symmetry:
    """Takes states apart into numbers, and puts them together again."""

    def __init__(self, cabin: Cabin, limits: Limits, *, trusts_fences: bool = True) -> None:
        self._meaning, self._powers = Meaning(cabin, trusts_fences=trusts_fences), limits.powers
        self._links, self._rounds = LINKS[limits.web], limits.rounds
        self._of = {kind: Numbers() for kind in KINDS}
        self._are_two = (limits.harvesters == 2, limits.parsers == 2)
        self._known: dict[Any, int] = {}
        self._places: dict[int, tuple[tuple[str, ...], ...]] = {}
        self._swapped: dict[Any, Parts] = {}
        self._asked: dict[tuple[str, int], Rounds] = {}
        self._lates: dict[int, frozenset[tuple[str, Answer]]] = {}

    def state(self, parts: Parts, cost: Cost) -> State:
        """The state that has these parts, at this cost."""
        cabin, idb, forced, is_resting, *numbers = parts
        one, other, first, second, *rest = [self._of[kind].things[n] for kind, n in zip(KINDS, numbers, strict=True)]
        spool, store, telling, force, late, dead = rest
        most = 1 + forced + cost.kills + cost.powers + cost.messages
        return State(
            cabin, idb, (one, other), (first, second), spool, store, telling, forced, force, bool(is_resting), late,
            dead, 0, cost.kills, cost.powers, cost.messages, (most - cost.first, most - cost.second),
        )  # fmt: skip

    def parts(self, state: State) -> Parts:
        """What stands for a state and for all that are one with it."""
        meant, alive = self._meant(state), self._meaning.alive(state.cabin)
        is_safe = state.powers >= self._powers
        one, other = state.parsers
        spool = self._once(live.spool, "spool", state.spool, alive, is_safe, one.batch, other.batch)
        harvesters = tuple(self._once(live.harvester, "harvester", worker, alive) for worker in state.harvesters)
        wanted, places = self._wanted(state, spool, harvesters), self._places_of(spool)
        parsers = tuple(
            self._once(live.parser, "parser", _renamed(worker, meant), alive, wanted, places[own])
            for own, worker in enumerate(state.parsers)
        )
        rest = (
            self._once(live.store, "store", state.store, is_safe),
            self._of["telling"](tuple((meant.rows[row], told) for row, told in state.telling if row in meant.rows)),
            self._of["force"](_offered(state.force, meant)),
            self._once(live.late, "late", state.late, alive),
        )
        dead = _sorted(meant.holders[holder] for holder in state.dead if holder in meant.holders)
        where = (meant.cabin, spool, self._of["dead"](dead))
        cabin, *workers, spool, last = min(
            self._exchanged(where, harvesters, parsers, are)
            for are in product(_orders(self._are_two[0], harvesters), _orders(self._are_two[1], parsers))
        )
        return (cabin, state.idb, state.forced, int(state.is_resting), *workers, spool, *rest, last)

    def cost_of(self, state: State, parts: Parts) -> Cost:
        """What a state with these parts has cost."""
        number = parts[LATE]
        late = self._lates.get(number)
        if late is None:
            late = self._lates[number] = frozenset(self._of["late"].things[number])
        most = 1 + state.forced + state.faults
        return Cost(state.kills, state.powers, state.messages, most - state.asked[0], most - state.asked[1], late)

    def _meant(self, state: State) -> Meant:
        (one, other), (first, second) = state.harvesters, state.parsers
        lives = (1 + one.life, 1 + other.life, 1 + first.life, 1 + second.life)
        addings = (first.adding, second.adding, state.force)
        asked = tuple(adding[2] for adding in addings if adding is not None and adding[2] >= 0)
        return self._meaning.meant(state.cabin, lives, asked)

    def _wanted(self, state: State, spool: int, harvesters: Parts) -> Rounds:
        """The pages of which a parser may yet be asked to offer the links, each with whether that is for the round."""
        found, rows = self._meaning.pages(state.cabin)
        found = found.union(self._rounds_in("spool", spool), *(self._rounds_in("harvester", one) for one in harvesters))
        is_over = state.forced == self._rounds and state.force is None
        return frozenset(
            (page, is_round)
            for page, link in self._links.items()
            for is_round in (False, True)
            if link
            and (
                (page, is_round) in found
                or (is_round and (page in rows or not is_over or page in self._links.values()))
            )
        )

    def _rounds_in(self, kind: str, number: int) -> Rounds:
        """The pages of the harvests in a spool, or in a harvester's hands."""
        known = self._asked.get((kind, number))
        if known is None:
            thing = self._of[kind].things[number]
            known = self._asked[kind, number] = live.rounds_of(thing)
        return known

    def _places_of(self, spool: int) -> tuple[tuple[str, ...], ...]:
        """The names of the batches in the directory of each parser."""
        known = self._places.get(spool)
        if known is None:
            batches = self._of["spool"].things[spool]
            known = tuple(tuple(batch.name for batch in batches if batch.place == own) for own in ("cur 1", "cur 2"))
            self._places[spool] = known
        return known

    def _once(self, change: Callable[..., Any], kind: str, thing: Any, *how: Any) -> int:
        numbers = self._of[kind]
        key = (change, numbers(thing), *how)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = numbers(change(thing, *how))
        return known

    def _exchanged(self, where: Parts, harvesters: Parts, parsers: Parts, are: tuple[bool, bool]) -> Parts:
        """A state's parts that change when workers are exchanged: cabin, workers, spool, deaths."""
        if are == (False, False):
            cabin, spool, dead = where
            return (cabin, *harvesters, *parsers, spool, dead)
        key = (where, are)
        known = self._swapped.get(key)
        if known is None:
            known = self._swapped[key] = self._exchange(where, *are)
        cabin, spool, dead = known
        one, other = harvesters[::-1] if are[0] else harvesters
        first, second = parsers[::-1] if are[1] else parsers
        return (cabin, one, other, first, second, spool, dead)

    def _exchange(self, where: Parts, are_harvesters: bool, are_parsers: bool) -> Parts:
        cabin, spool, dead = where
        pids = (HARVESTERS if are_harvesters else ()) + (PARSERS if are_parsers else ())
        holders = (
            Holder(other_of(holder.pid), holder.start) if holder.pid in pids else holder
            for holder in self._of["dead"].things[dead]
        )
        if are_parsers:
            spool = self._of["spool"](_exchanged_spool(self._of["spool"].things[spool]))
        return (self._meaning.exchanged(cabin, pids), spool, self._of["dead"](_sorted(holders)))


def _orders(are_two: bool, workers: Parts) -> tuple[bool, ...]:
    """Whether two workers are exchanged, so that the lesser comes first; where they are alike, each way."""
    if are_two and workers[0] == workers[1]:
        return (False, True)
    return (are_two and workers[0] > workers[1],)


def _sorted(holders: Iterable[Holder]) -> tuple[Holder, ...]:
    return tuple(sorted(holders, key=lambda holder: (holder.pid, holder.start)))


def _renamed(parser: Parser, meant: Meant) -> Parser:
    return parser if parser.adding is None else parser._replace(adding=_offered(parser.adding, meant))


def _offered(adding: Adding | None, meant: Meant) -> Adding | None:
    return adding and (*adding[:2], meant.offers.get(adding[2], -1), adding[3])


def _exchanged_spool(spool: tuple[Batch, ...]) -> tuple[Batch, ...]:
    other = {"cur 1": "cur 2", "cur 2": "cur 1"}
    return tuple(
        sorted(
            batch._replace(place=other.get(batch.place, batch.place), safe=other.get(batch.safe, batch.safe))
            for batch in spool
        )
    )
