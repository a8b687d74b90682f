"""Explore at length: `python -m tests.explorer`, or one search by its limits: `… 2 0 0 1 1 1 page [SECONDS]`."""

from __future__ import annotations

import sys
import time
from contextlib import closing

from tests.explorer.model import Model
from tests.explorer.search import explore
from tests.explorer.state import Limits

#: From seconds to a quarter of an hour, and up to 1 GiB, in this order; the last is all faults together.
LONG = (
    Limits(2, 0, 0, 0),
    Limits(2, 1, 1, 1, 1, 1, "page"),
    Limits(2, 1, 1, 1, 2, 2, "page"),
    Limits(0, 1, 1, 1, web="way"),
    Limits(1, 0, 0, 1),
    Limits(1, 1, 1, 1, 1, 1, "way"),
    Limits(2, 1, 1, 1, web="way"),
)


def main(words: list[str]) -> int:
    """Search; 1 if something is broken."""
    chosen = (Limits(*map(int, words[:6]), *words[6:7]),) if words else LONG  # type: ignore[arg-type]
    seconds = float(words[7]) if words[7:] else float("inf")
    is_clean = True
    for limits in chosen:
        began = time.monotonic()
        with closing(Model(limits)) as model:
            found = explore(model, most=100_000_000, seconds=seconds)
        print(f"{limits}: {found} ({time.monotonic() - began:.0f} s)", flush=True)
        is_clean &= not found.broken
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
