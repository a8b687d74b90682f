"""States that count as one go like ways: asked of the states that random walks come by, under all faults together.

Of a state and of the one that stands for it all steps are compared. Each step of the one must be a step of the other,
to states that count as one again, and at no lower cost; or it leads to where the other is already, as where a parser
takes up a batch that means nothing any more; or to what a sync would have left of that.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.explorer import live
from tests.explorer.model import Model
from tests.explorer.state import Limits, State
from tests.explorer.symmetry import LATE, Cost, Parts, Symmetry

#: How long a walk is, and how often of a hundred steps a fault may be the next.
STEPS, FAULTS = 70, 15

ALL = (Limits(2, 1, 1, 1, web="way"), Limits(2, 1, 1, 1, web="round"))


class Walker:
    """Goes a random way through a model."""

    def __init__(self, model: Model, seed: int) -> None:
        self.model, self.symmetry = model, Symmetry(model.cabin, model.limits)
        self._chance = random.Random(seed)

    def walk(self) -> Iterator[State]:
        """The states on one way."""
        state = self.model.start()
        for _ in range(STEPS):
            yield state
            steps = list(self.model.steps(state))
            if not steps:
                return
            plain = [step for step in steps if not step[1]]
            _, _, state = self._chance.choice(plain if plain and self._chance.random() * 100 > FAULTS else steps)

    def likes(self, state: State) -> tuple[Parts, Cost]:
        """What stands for a state, without its late messages, which belong to its cost."""
        parts = self.symmetry.parts(state)
        return parts[:LATE] + parts[LATE + 1 :], self.symmetry.cost_of(state, parts)

    def like(self, state: State) -> State:
        """The state that stands for a state."""
        parts = self.symmetry.parts(state)
        return self.symmetry.state(parts, self.symmetry.cost_of(state, parts))

    def uncovered(self, state: State, like: State) -> list[str]:
        """The steps of a state that another one, which is to stand for it, has not."""
        costs: defaultdict[Parts, list[Cost]] = defaultdict(list)
        for other in (like, *(after for _, _, after in self.model.steps(like))):
            for reached in (other, self.model.synced(other)):
                key, cost = self.likes(reached)
                costs[key].append(cost)
        return [
            label
            for label, _, after in self.model.steps(state)
            for key, cost in (self.likes(after),)
            if not any(other.is_no_more_than(cost) for other in costs[key])
        ]


@pytest.mark.parametrize("limits", ALL, ids=str)
def test_what_counts_as_one_goes_like_ways(limits: Limits) -> None:
    with closing(Model(limits)) as model:
        walker = Walker(model, 1)
        for _ in range(10):
            for state in walker.walk():
                like = walker.like(state)
                assert [] == walker.uncovered(state, like), str(state)
                dearer = like._replace(kills=limits.kills, messages=limits.messages, late=())
                assert [] == walker.uncovered(dearer, like), str(state)


def test_a_difference_that_matters_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "late", lambda late, alive: ())
    with closing(Model(ALL[0])) as model:
        walker = Walker(model, 0)
        assert any(walker.uncovered(state, walker.like(state)) for _ in range(30) for state in walker.walk())
