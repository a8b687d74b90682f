"""leases: what it costs to hand out sites of which very many are due, and the memory of those that wait for their time.

    python -m bench.leases [--sites 200000] [--jobs 1 7]

So many sites, each with so many jobs and an address. First all of them wait for their time: the memory of one is all
that the process has got since before it opened the queue, by their number. Then all are due, and 1,000 are leased,
TAKE after TAKE, commits and answers included, five times, or as often as there are sites; the figure is CPU on one
core, the mean of 1,000.
"""

from __future__ import annotations

import argparse
import itertools
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.measure import ROOT
from bench.scale import HOLDER, MESSAGE, SEED, Engines, anonymous_bytes, taken, written
from combine.config import Settings
from combine.schedule.rows import job_key
from combine.schedule.sites import DUE, WAITING
from formats import jcf

LEASES, TIMES = 1_000, 5


def stock(directory: Path, sites: int, jobs: int) -> None:
    """Put so many jobs of each site into the queue."""
    engines = Engines(directory, Settings())
    engines.add([jcf.job(URL=SEED, SEED=SEED, SCOPE="domain", DELAY=0)])
    seed = engines.frontier.seeds.find(SEED)
    assert seed is not None
    for first in range(0, sites, MESSAGE):
        rows = []
        for number, page in itertools.product(range(first, min(first + MESSAGE, sites)), range(jobs)):
            site = f"s{number}.example.com"
            url = f"http://{site}/section/{page}.html"
            line = jcf.dump_text(jcf.job(URL=url, SEED=SEED, VIA=SEED))
            rows.append((site, job_key("page", url), "page", 0, 4, seed.id, "", line))
        engines.frontier.insert_many(rows)
        engines.frontier.tick()
        engines.rows.commit()
    engines.close()


def hand_out(directory: Path) -> tuple[float, int, int]:
    """Seconds for 1,000 leases, how many jobs went with one, and bytes a site where all of them wait, before that."""
    before = anonymous_bytes()
    engines = Engines(directory, Settings())
    engines.resolve()
    chance, now = random.Random(1), engines.frontier.clock.boot()
    _move(engines, DUE, lambda: now + 600 + 3_600 * chance.random())
    size = (anonymous_bytes() - before) / len(engines.frontier.sites)
    _move(engines, WAITING, lambda: 0.0)
    leases: set[str] = set()
    jobs = 0
    wanted = min(LEASES * TIMES, len(engines.frontier.sites.members[DUE]))
    while len(leases) < wanted:
        with engines.timed("lease"):
            answer = written("OK", engines.frontier.take(HOLDER, LEASES - len(leases) % LEASES))
            engines.rows.commit()
        lines = taken(answer).jobs()
        jobs += len(lines)
        leases.update(job.get("LEASE") for job in lines)
    engines.close()
    return engines.spent["lease"] * LEASES / len(leases), round(jobs / len(leases)), round(size)


def _move(engines: Engines, state: str, time: Callable[[], float]) -> None:
    """All sites of a set may be asked at another time."""
    frontier = engines.frontier
    while part := list(itertools.islice(frontier.sites.members[state], MESSAGE)):
        for site in frontier.awaken(part):
            site.next = time()
            frontier.settle(site)
        frontier.tick()
        engines.rows.commit()


def main() -> int:
    """Measure each number of jobs in a process of its own, on what another one put into the queue."""
    parser = argparse.ArgumentParser(description="What leases of many due sites cost, and what sites that wait take.")
    parser.add_argument("--sites", type=int, default=200_000)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 7])
    parser.add_argument("--stock", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--hand-out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stock:
        stock(options.stock, options.sites, options.jobs[0])
        return 0
    if options.hand_out:
        seconds, jobs, size = hand_out(options.hand_out)
        print(f"{LEASES:,} leases of {jobs} jobs: {seconds * 1e3:.1f} ms; a site that waits: {size} B", flush=True)
        return 0
    for jobs in options.jobs:
        with tempfile.TemporaryDirectory(prefix="combine-leases-") as directory:
            for step in ("--stock", "--hand-out"):
                words = [step, directory, "--sites", str(options.sites), "--jobs", str(jobs)]
                subprocess.run([sys.executable, "-m", "bench.leases", *words], cwd=ROOT, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
