"""Search: every state that can be reached, each once; the shortest way to what must never be.

Of a state that was looked at eight bytes are kept (`symmetry`), its number, and by which step from which other it came;
of a step without a fault the two numbers. A trace is found again by going those steps anew.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from dataclasses import dataclass, field

from tests.explorer.model import Broken, Model, State
from tests.explorer.symmetry import Symmetry


@dataclass(slots=True)
class Found:
    """What a search came to: the number of states, and what is broken, with the steps that lead there.

    Where its time was over first, `waiting` states had been reached and not yet looked at.
    """

    states: int = 0
    steps: int = 0
    ends: int = 0
    depth: int = 0  # steps from the beginning to the last state that was looked at
    waiting: int = 0
    broken: str = ""
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = f"{self.states} states, {self.steps} steps, {self.ends} ends, {self.depth} deep"
        if self.waiting:
            said += f", not whole: {self.waiting} states wait"
        if not self.broken:
            return f"{said}: clean"
        return "\n".join([f"{said}: {self.broken}", *(f"{n:3} {step}" for n, step in enumerate(self.trace, 1))])


class Search:
    """One search, breadth first, so that a trace is as short as can be."""

    def __init__(self, model: Model) -> None:
        self._model, self._symmetry = model, Symmetry(model.cabin, model.limits)
        self._first = model.start()
        self._numbers: dict[bytes, int] = {}
        self._from, self._step, self._depth = array("I"), array("H"), array("H")
        self._before, self._after = array("I"), array("I")  # of each step without a fault
        self._waiting: deque[bytes] = deque()
        self._ends: list[int] = []
        self.found = Found()

    def run(self, most: int, seconds: float) -> Found:
        """Look at every state, until the time is over."""
        end = time.monotonic() + seconds
        self._reach(self._first, 0, 0)
        while self._waiting:
            assert self.found.states < most, "the model has no end"
            if time.monotonic() > end:
                self.found.waiting = len(self._waiting)
                break
            number, self.found.states = self.found.states, self.found.states + 1
            try:
                self._look(number, self._symmetry.unpack(self._waiting.popleft()))
            except Broken as broken:
                self.found.broken, self.found.trace = str(broken), self._trace(number)
                return self.found
        self.found.ends, self.found.depth = len(self._ends), self._depth[self.found.states - 1]
        if not self.found.waiting and (stuck := self._stuck()) is not None:
            self.found.broken, self.found.trace = "from here no way leads to an end", self._trace(stuck)
        return self.found

    def _look(self, number: int, state: State) -> None:
        if self._model.is_over(state):
            self._model.judge(state)
            self._ends.append(number)
        for step, (_, is_fault, after) in enumerate(self._model.steps(state)):
            self.found.steps += 1
            reached = self._reach(after, number, step)
            if not is_fault and reached != number:
                self._before.append(number)
                self._after.append(reached)

    def _reach(self, state: State, origin: int, step: int) -> int:
        """The number of a state, which waits from now if it is new."""
        packed = self._symmetry.pack(state)
        name = self._symmetry.name(state, packed)
        number = self._numbers.setdefault(name, len(self._from))
        if number == len(self._from):
            self._from.append(origin)
            self._step.append(step)
            self._depth.append(self._depth[origin] + 1 if number else 0)
            self._waiting.append(packed)
        return number

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

    def _trace(self, number: int) -> list[str]:
        steps = []
        while number:
            steps.append(self._step[number])
            number = self._from[number]
        state, labels = self._first, []
        for step in reversed(steps):
            label, _, state = list(self._model.steps(state))[step]
            labels.append(label)
        return labels


def explore(model: Model, most: int = 2_000_000, seconds: float = float("inf")) -> Found:
    """Look at every state of a model, at most `most` of them, in at most so many seconds."""
    return Search(model).run(most, seconds)
