"""Simulate: `python -m tests.simulator [--seed 1] [--scale 1] [SCENARIO…]`; the same seed gives the same numbers."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulator.scenarios import SCENARIOS


def main(words: list[str]) -> int:
    """Run the scenarios; an invariant that does not hold ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=" ".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="how many times as many sites")
    options = parser.parse_args(words)
    for name in options.scenarios or SCENARIOS:
        began = time.monotonic()
        found = SCENARIOS[name](options.seed, options.scale)
        print(f"{name}: {found} ({time.monotonic() - began:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
