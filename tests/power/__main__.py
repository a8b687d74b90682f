"""Let the power fail, again and again: `python -m tests.power --seconds 1200`, or `--seed 17 --tries 1` again.

A harvest is recorded. Then at every sync, in every way in which the disk may be left, the promises are asked of its
files; and at points that the seed draws Combine goes on from what is left. Each try has a seed of its own.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from tests import shim
from tests.power import recording
from tests.power.disk import Disk, fates
from tests.power.trial import KINDS, Trial, cost, points


def main(words: list[str]) -> int:
    """Run; 1 if a fault of ours was shown."""
    parser = argparse.ArgumentParser(prog="python -m tests.power", description=__doc__)
    parser.add_argument("--pages", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1, help="the first try's")
    parser.add_argument("--tries", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=1800.0, help="no try is begun after so long")
    options = parser.parse_args(words)
    if why_not := recording.why_not() or shim.why_not():
        print(f"the power cannot fail here: {why_not}")
        return 75
    end = time.monotonic() + options.seconds
    with (
        tempfile.TemporaryDirectory(prefix="cmb", ignore_cleanup_errors=True) as place,
        closing(Trial(Path(place), options.pages)) as trial,
    ):
        found = len(trial.unlike())
        disk = trial.disk()
        print("\n".join(f"{count:6} {what}" for what, count in cost(disk, options.pages).items()), flush=True)
        found += _promises(trial, disk) + _senses(trial)
        for seed in range(options.seed, options.seed + options.tries):
            if time.monotonic() > end:
                break
            found += _goes_on(trial, disk, seed)
    print(f"{trial.tries} tries, {found} faults")
    return 1 if found else 0


def _promises(trial: Trial, disk: Disk) -> int:
    """At every sync, just before and after it, in each way."""
    tried = broken = 0
    for sync in disk.syncs:
        for at in (sync.ended, sync.ended + 1):
            for name, fate in fates(random.Random(at)).items():
                tried += 1
                if faults := trial.broken(disk, at, fate):
                    broken += 1
                    print(f"at call {at} ({sync.call} {sync.path}), kept is {name}:", *faults[:5], sep="\n  ")
    print(f"{tried} disks at {len(disk.syncs)} syncs: {broken} cannot keep a promise", flush=True)
    return broken


def _senses(trial: Trial) -> int:
    """Each kind of sync left out must be noticed."""
    blind = 0
    for kind in KINDS:
        disk = trial.disk(kind)
        fate = fates(random.Random(1))
        moments = [(sync.ended + 1, name) for sync in disk.syncs for name in ("nothing", "names")]
        count = sum(bool(trial.broken(disk, at, fate[name])) for at, name in moments)
        print(f"without the sync of {kind}: {count} of {len(moments)} disks cannot keep a promise", flush=True)
        blind += not count
    return blind


def _goes_on(trial: Trial, disk: Disk, seed: int) -> int:
    chance = random.Random(seed)
    at = chance.choice(points(disk))
    name, fate = chance.choice(list(fates(chance).items()))
    began = time.monotonic()
    faults = trial.goes_on(disk, at, fate, chance)
    said = "FAILED" if faults else "well"
    print(f"seed {seed}, at call {at} of {disk.length}, kept is {name}: {said} ({time.monotonic() - began:.1f} s)")
    print(*faults[:40], sep="\n", end="", flush=True)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
