"""When two states are one: the two harvesters are alike, and so are the two parsers.

Nor does it matter of a process which of its slot's lives it is, only whether it lives, and who is meant by whom. A
state is packed into numbers, one for each of its parts, under each exchange of workers that are alike; the least of
these is its name, of which eight bytes are kept. Of n states two have one name by chance in n^2 / 2^65 of all searches.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from itertools import permutations, product
from typing import Any

from combine.schedule.leases import Holder
from tests.explorer.cabin import Cabin
from tests.explorer.model import Batch, Limits, State

_WIDTH = len(State._fields)
_PACKED = struct.Struct(f"<{_WIDTH + 2}I")

#: Names that are remembered of states just seen: most steps lead to where another has led.
REMEMBERED = 500_000

Order = tuple[int, ...]


class Symmetry:
    """Packs states, unpacks them, and names them."""

    def __init__(self, cabin: Cabin, limits: Limits) -> None:
        self._cabin = cabin
        self._ids: list[dict[Any, int]] = [{} for _ in range(_WIDTH + 2)]
        self._things: list[list[Any]] = [[] for _ in range(_WIDTH + 2)]
        self._orders = list(product(_orders(limits.harvesters), _orders(limits.parsers)))
        self._names: dict[bytes, bytes] = {}

    def pack(self, state: State) -> bytes:
        """A state as numbers, which `unpack` reads again."""
        cabin, idb, (one, other), (first, second), *rest = state
        return _PACKED.pack(*map(self._id, range(_WIDTH + 2), (cabin, idb, one, other, first, second, *rest)))

    def unpack(self, packed: bytes) -> State:
        """The state that was packed."""
        parts = [things[number] for things, number in zip(self._things, _PACKED.unpack(packed), strict=True)]
        return State(parts[0], parts[1], (parts[2], parts[3]), (parts[4], parts[5]), *parts[6:])

    def name(self, state: State, packed: bytes) -> bytes:
        """The name of a state and of all that are one with it."""
        name = self._names.get(packed)
        if name is None:
            if len(self._names) > REMEMBERED:
                self._names.clear()
            least = min(self.pack(self._exchanged(state, *orders)) for orders in self._orders)
            name = self._names[packed] = blake2b(least, digest_size=8).digest()
        return name

    def _id(self, place: int, part: Any) -> int:
        ids = self._ids[place]
        number = ids.get(part)
        if number is None:
            number = ids[part] = len(ids)
            self._things[place].append(part)
        return number

    def _exchanged(self, state: State, harvesters: Order, parsers: Order) -> State:
        """A state in which the workers stand in another order, and their lives are counted as far as they matter."""
        meant = {*self._cabin.holders(state.cabin), *state.dead}
        new: dict[Holder, Holder] = {}
        lives: list[int] = []
        for base, order, workers in ((101, harvesters, state.harvesters), (201, parsers, state.parsers)):
            for place, old in enumerate(order):
                now = 1 + workers[old].life
                starts = sorted({holder.start for holder in meant if holder.pid == base + old and holder.start < now})
                for number, start in enumerate((*starts, now), 1):
                    new[Holder(base + old, start)] = Holder(base + place, number)
                lives.append(len(starts))
        one, other = (state.harvesters[old]._replace(life=lives[place]) for place, old in enumerate(harvesters))
        first, second = (state.parsers[old]._replace(life=lives[2 + place]) for place, old in enumerate(parsers))
        return state._replace(
            cabin=self._cabin.renamed(state.cabin, new),
            harvesters=(one, other),
            parsers=(first, second),
            spool=_exchanged_spool(state.spool) if parsers == (1, 0) else state.spool,
            dead=tuple(sorted((new[holder] for holder in state.dead), key=repr)),
        )


def _orders(count: int) -> list[Order]:
    """The orders in which workers may stand; those that the limits leave out stay behind."""
    return [(0, 1)] if count == 1 else list(permutations((0, 1)))


def _exchanged_spool(spool: tuple[Batch, ...]) -> tuple[Batch, ...]:
    other = {"cur 1": "cur 2", "cur 2": "cur 1"}
    return tuple(
        batch._replace(place=other.get(batch.place, batch.place), safe=other.get(batch.safe, batch.safe))
        for batch in spool
    )
