"""Search: every state that can be reached, each once; the shortest way to what must never be."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tests.explorer.model import Broken, Model, State


@dataclass(slots=True)
class Found:
    """What a search came to: the number of states, and what is broken, with the steps that lead there."""

    states: int = 0
    steps: int = 0
    ends: int = 0
    broken: str = ""
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = f"{self.states} states, {self.steps} steps, {self.ends} ends"
        if not self.broken:
            return f"{said}: clean"
        return "\n".join([f"{said}: {self.broken}", *(f"{n:3} {step}" for n, step in enumerate(self.trace, 1))])


def explore(model: Model, most: int = 2_000_000) -> Found:
    """Look at every state, breadth first, so that a trace is as short as can be."""
    first = model.start()
    came: dict[State, tuple[State | None, str]] = {first: (None, "")}
    before: dict[State, list[State]] = {}
    waiting = deque([first])
    found = Found()
    ends = []
    while waiting:
        state = waiting.popleft()
        found.states += 1
        try:
            if model.is_over(state):
                model.judge(state)
                ends.append(state)
            for label, is_fault, after in model.steps(state):
                found.steps += 1
                if after == state:
                    continue
                if not is_fault:
                    before.setdefault(after, []).append(state)
                if after not in came:
                    came[after] = (state, label)
                    waiting.append(after)
        except Broken as broken:
            found.broken, found.trace = str(broken), _trace(came, state)
            return found
        assert found.states < most, "the model has no end"
    found.ends = len(ends)
    stuck = _stuck(came, before, ends)
    if stuck is not None:
        found.broken, found.trace = "from here no way leads to an end", _trace(came, stuck)
    return found


def _stuck(
    came: dict[State, tuple[State | None, str]], before: dict[State, list[State]], ends: list[State]
) -> State | None:
    """A state from which, without any further fault, the harvest cannot end."""
    good = set(ends)
    waiting = deque(ends)
    while waiting:
        for state in before.get(waiting.popleft(), ()):
            if state not in good:
                good.add(state)
                waiting.append(state)
    return next((state for state in came if state not in good), None)


def _trace(came: dict[State, tuple[State | None, str]], state: State) -> list[str]:
    steps = []
    at: State | None = state
    while at is not None:
        at, label = came[at]
        if label:
            steps.append(label)
    return steps[::-1]
