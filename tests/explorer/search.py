"""Search: every state that can be reached, each once; the shortest way to what must never be.

First come all states that need no fault, then those that need one, and so on; of these each is the next step from those
before. Of a state that was looked at eight bytes are kept (`symmetry`), what it cost, its number, and from which other
it came; of a step without a fault the two numbers. A trace is found again by going the steps anew.
"""

from __future__ import annotations

import struct
import time
from array import array
from collections import defaultdict, deque
from dataclasses import dataclass, field
from hashlib import blake2b

from tests.explorer.meaning import Unfenced
from tests.explorer.model import Model
from tests.explorer.state import Broken, State
from tests.explorer.symmetry import LATE, Cost, Numbers, Parts, Symmetry

_PARTS = struct.Struct("<13I")
_WAITING = struct.Struct("<16I")  # a state's number, its cost, its parts


#: A fault makes a way longer by so many steps: of two like states the one that needs less faults is mostly met first.
FAULT = 20


@dataclass(slots=True)
class Found:
    """What a search came to: the number of states, and what is broken, with the steps that lead there.

    Where its time was over first, `waiting` states had been reached and not yet looked at.
    """

    states: int = 0
    steps: int = 0
    ends: int = 0
    waiting: int = 0
    broken: str = ""
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = f"{self.states} states, {self.steps} steps, {self.ends} ends"
        if self.waiting:
            said += f", not whole: {self.waiting} states wait"
        if not self.broken:
            return f"{said}: clean"
        return "\n".join([f"{said}: {self.broken}", *(f"{n:3} {step}" for n, step in enumerate(self.trace, 1))])


class Search:
    """One search."""

    def __init__(self, model: Model, *, trusts_fences: bool = True) -> None:
        self._model = model
        self._symmetry = Symmetry(model.cabin, model.limits, trusts_fences=trusts_fences)
        self._first = model.start()
        self._known: dict[bytes, int | list[int]] = {}  # by name: number and cost, of each cost that none undercuts
        self._costs, self._undercuts = Numbers(), dict[tuple[int, int], bool]()
        self._from = array("I")
        self._before, self._after = array("I"), array("I")  # of each step without a fault
        self._waiting: defaultdict[int, deque[bytes]] = defaultdict(deque)  # by the length of the way
        self._ends: list[int] = []
        self.found = Found()

    def run(self, most: int, seconds: float) -> Found:
        """Look at every state, until the time is over."""
        end = time.monotonic() + seconds
        self._reach(self._first, 0, 0)
        way = 0
        while any(self._waiting.values()):
            while self._waiting[way]:
                assert self.found.states < most, "the model has no end"
                if time.monotonic() > end:
                    self.found.waiting = sum(map(len, self._waiting.values()))
                    return self.found
                number, cost, *parts = _WAITING.unpack(self._waiting[way].popleft())
                self.found.states += 1
                try:
                    self._look(number, tuple(parts), self._costs.things[cost], way)
                except Broken as broken:
                    self.found.trace, last = self._trace(number)
                    self.found.broken = self._said_of(last) or str(broken)
                    return self.found
            del self._waiting[way]
            way += 1
        self.found.ends = len(self._ends)
        if (stuck := self._stuck()) is not None:
            self.found.broken, (self.found.trace, _) = "from here no way leads to an end", self._trace(stuck)
        return self.found

    def _look(self, number: int, parts: Parts, cost: Cost, way: int) -> None:
        state = self._symmetry.state(parts, cost)
        if self._model.is_over(state):
            self._model.judge(state)
            self._ends.append(number)
        for _, is_fault, after in self._model.steps(state):
            self.found.steps += 1
            reached = self._reach(after, number, way + 1 + FAULT * (after.faults - state.faults))
            if not is_fault and reached != number:
                self._before.append(number)
                self._after.append(reached)

    def _reach(self, state: State, origin: int, way: int) -> int:
        """The number of a state, or of its like that cost no more; it waits from now if it is new."""
        parts, cost = self._named(state)
        name = _name(parts)
        number = len(self._from)
        entry = number << 16 | cost
        known = self._known.setdefault(name, entry)
        if known != entry:
            held = known if isinstance(known, list) else [known]
            for other in held:
                if self._is_undercut(cost, other & 0xFFFF):
                    return other >> 16
            self._known[name] = [*held, entry]
        self._from.append(origin)
        self._waiting[way].append(_WAITING.pack(number, cost, *parts))
        return number

    def _named(self, state: State) -> tuple[Parts, int]:
        parts = self._symmetry.parts(state)
        return parts, self._costs(self._symmetry.cost_of(state, parts))

    def _is_undercut(self, cost: int, other: int) -> bool:
        """Whether another cost is no more in anything."""
        if cost == other:
            return True
        known = self._undercuts.get((cost, other))
        if known is None:
            one: Cost = self._costs.things[cost]
            two: Cost = self._costs.things[other]
            known = self._undercuts[cost, other] = two.is_no_more_than(one)
        return known

    def _stuck(self) -> int | None:
        """A state from which, without any further fault, the harvest cannot end."""
        begins = array("I", bytes(4 * (len(self._from) + 1)))
        for after in self._after:
            begins[after + 1] += 1
        for number in range(len(self._from)):
            begins[number + 1] += begins[number]
        befores, place = array("I", bytes(4 * len(self._after))), array("I", begins)
        for before, after in zip(self._before, self._after, strict=True):
            befores[place[after]] = before
            place[after] += 1
        is_good = bytearray(len(self._from))
        waiting = self._ends[:]
        while waiting:
            number = waiting.pop()
            if not is_good[number]:
                is_good[number] = 1
                waiting.extend(befores[begins[number] : begins[number + 1]])
        stuck = is_good.find(0)
        return stuck if stuck >= 0 else None

    def _said_of(self, state: State) -> str:
        """What is broken at a state, in its own numbers, as its trace has them."""
        try:
            list(self._model.steps(state))
            self._model.judge(state)
        except Broken as broken:
            return str(broken)
        return ""

    def _trace(self, number: int) -> tuple[list[str], State]:
        """The way to a state, and its end: from each state the step to the next, or to one that it is one with."""
        way = [number]
        while number:
            number = self._from[number]
            way.append(number)
        wanted = set(way)
        names = {
            entry >> 16: (name, entry & 0xFFFF)
            for name, known in self._known.items()
            for entry in (known if isinstance(known, list) else [known])
            if entry >> 16 in wanted
        }
        state, labels = self._first, []
        for number in reversed(way[:-1]):
            label, state = next(
                (label, after)
                for label, _, after in self._model.steps(state)
                for parts, cost in (self._named(after),)
                if (_name(parts), cost) == names[number]
            )
            labels.append(label)
        return labels, state


def _name(parts: tuple[int, ...]) -> bytes:
    return blake2b(_PARTS.pack(*parts[:LATE], *parts[LATE + 1 :]), digest_size=8).digest()


def explore(model: Model, most: int = 2_000_000, seconds: float = float("inf")) -> Found:
    """Look at every state of a model, at most `most` of them, in at most so many seconds.

    Where the scheduler does not fence (rule 3), no number can be said to be dead, and it begins anew without.
    """
    try:
        return Search(model).run(most, seconds)
    except Unfenced:
        return Search(model, trusts_fences=False).run(most, seconds)
