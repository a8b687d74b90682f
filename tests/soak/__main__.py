"""Harvest under faults, seed after seed: `python -m tests.soak --seeds 200 --seconds 3000`, or `--seed 17` again."""

from __future__ import annotations

import argparse
import sys
import time

from tests.soak.driver import run
from tests.soak.plan import draw


def main(words: list[str]) -> int:
    """Run; 1 if a seed has shown a fault of ours."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, help="this seed alone")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3000.0, help="no seed is begun after so long")
    options = parser.parse_args(words)
    seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.seeds)
    end = time.monotonic() + options.seconds
    done, failed = 0, []
    for seed in seeds:
        if time.monotonic() > end:
            break
        plan, began = draw(seed), time.monotonic()
        found, said, _ = run(plan)
        done += 1
        print(f"seed {seed}: {'FAILED' if found else 'well'} ({time.monotonic() - began:.1f} s)", flush=True)
        if found:
            failed.append(seed)
            print("\n".join([str(plan), *found[:40], *said]), flush=True)
    print(f"{done} seeds, {len(failed)} failed{': ' if failed else ''}{' '.join(map(str, failed))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
