"""Search for what strangers' bytes can do: `python -m tests.fuzz --seconds 600 [TARGET…]`; each find names its seed."""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.inputs import mutated
from tests.fuzz.targets import TARGETS, Target

#: CPU seconds of one input, and growth of the process in bytes, that count as a fault.
SLOW_S, GROWTH_BYTES = 1.0, 200 << 20


def size() -> int:
    """Resident bytes now."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def search(target: Target, seconds: float, seed: int) -> list[str]:
    """What is wrong; the first of each kind."""
    for data in target.corpus:
        target.run(data)
    found: dict[str, str] = {}
    began, before, tried = time.monotonic(), size(), 0
    while time.monotonic() - began < seconds:
        data = mutated(random.Random(seed), target)
        start = time.process_time()
        try:
            target.run(data)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            found.setdefault(f"{type(error).__name__} at {place.name}:{place.lineno}", f"seed {seed}: {error!r:.300}")
        took = time.process_time() - start
        if took > SLOW_S:
            found.setdefault("slow", f"seed {seed}: {took:.1f} s for {len(data)} bytes, {data[:80]!r} …")
        tried, seed = tried + 1, seed + 1
    if (grown := size() - before) > GROWTH_BYTES:
        found["growth"] = f"{grown >> 20} MiB after {tried} inputs"
    print(f"{target.name}: {tried} inputs, {len(found)} faults, {max(grown, 0) >> 20} MiB more", flush=True)
    return [f"  {kind}: {said}" for kind, said in found.items()]


def main(words: list[str]) -> int:
    """Search each target; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help=" ".join(target.name for target in TARGETS))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    found = []
    for target in TARGETS:
        if not options.targets or target.name in options.targets:
            found += (said := search(target, options.seconds, options.seed))
            print("\n".join(said), end="\n" if said else "", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
