"""Inputs that a grammar nearly allows: whole ones and words of it, spliced, cut, flipped and piled up."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from tests.fuzz.targets import Target

#: Bytes of an input at most: what is slow for its size shows at this.
MOST = 200_000


@st.composite
def inputs(draw: st.DrawFn, target: Target) -> bytes:
    """An input for a target; small ones come first, so that what fails is shown small."""
    word = st.sampled_from(target.words) | st.binary(max_size=12)
    piled = st.tuples(word, st.sampled_from((2, 30, 1_000, 20_000))).map(lambda pile: pile[0] * pile[1])
    part = word | piled | st.sampled_from(target.corpus)
    if draw(st.booleans()):
        return b"".join(draw(st.lists(part, max_size=8)))[:MOST]
    whole, put_in = draw(st.sampled_from(target.corpus)), draw(st.lists(part, max_size=3))
    start = draw(st.integers(0, len(whole)))
    end = draw(st.integers(start, len(whole)))
    return (whole[:start] + b"".join(put_in) + whole[end:])[:MOST]


def mutated(chance: random.Random, target: Target) -> bytes:
    """The same by a plain generator, which costs microseconds: for a search of minutes."""
    data = bytearray(chance.choice(target.corpus) if chance.random() < 0.7 else b"")
    for _ in range(chance.randint(1, 12)):
        start = chance.randint(0, len(data))
        deed = chance.random()
        if deed < 0.35:
            data[start:start] = chance.choice(target.words)
        elif deed < 0.45:
            data[start:start] = chance.choice(target.words) * chance.choice((3, 50, 1_000, 20_000))
        elif deed < 0.55:
            data[start:start] = b"".join(chance.choices(target.words, k=chance.choice((2, 20, 3_000))))
        elif deed < 0.7:
            del data[start : start + chance.randint(1, 40)]
        elif deed < 0.85 and data:
            data[min(start, len(data) - 1)] = chance.randrange(256)
        else:
            data[start:start] = chance.randbytes(chance.randint(1, 8))
    return bytes(data[:MOST])
