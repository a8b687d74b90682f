"""scale: what a link and a job cost the scheduler and idbd, by how many URLs are known already.

    python -m bench.scale [--millions 1 5] [--ticks 100] [--sites 200000]

For each size a process of its own fills idbd with visits (straight into its table: nothing else would end), and then
plays parsers and harvesters to the engines of both daemons: messages are written and read as on the wire, only the
sockets are left out. A tick offers 2,000 links, of which 45 % are known, hands out and stores 50 jobs, and commits as
often as the daemons would. Then both are opened again, as after a kill. Sites have names below one domain and sizes by
Zipf; the page cache is warm. The table is of CPU on one core; JSON goes to bench/out/.
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import itertools
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import ROOT
from combine.config import Settings
from combine.ipc.message import Line, Message, Reader, dump, message
from combine.schedule.clock import system_clock
from combine.schedule.frontier import Frontier
from combine.schedule.intake import Intake
from combine.schedule.leases import Holder
from combine.schedule.rows import Rows
from combine.schedule.visits import Visits, url_key
from formats import jcf
from formats.jcf import Job

SEED = "http://s0.example.com/"
LINKS, JOBS, KNOWN_SHARE = 2_000, 50, 0.45
MESSAGE, FILL = 1_000, 100_000
HOLDER = Holder(1, 1)

_VISIT = (
    '{version} URL="{url}" OUTCOME="ok" STATUS="200" LAST="2026-11-30T08:00:00Z" DUE="2036-11-30T08:00:00Z" RECORD="1"'
    ' SEED="{seed}" DEPTH="3" SCOPES="1:*" EVENTS="2026-11-30T08:00:00Z ok 200"'
)


class Sites:
    """So many sites, whose sizes follow Zipf's law, and the URLs on them."""

    def __init__(self, count: int, known: int) -> None:
        weights = [1 / (rank + 10) for rank in range(count)]
        whole = sum(weights)
        self.sizes = [max(1, round(known * weight / whole)) for weight in weights]
        self._ends = list(itertools.accumulate(self.sizes))
        self._chance = random.Random(1)
        self._fresh = itertools.count()

    def known(self) -> str:
        """A URL that is known."""
        place = self._chance.randrange(self._ends[-1])
        site = bisect.bisect(self._ends, place)
        return self.url(site, self._ends[site] - place - 1)

    def fresh(self) -> str:
        """A URL that nobody knows."""
        site = bisect.bisect(self._ends, self._chance.randrange(self._ends[-1]))
        return f"{self.url(site, 0)}?{next(self._fresh)}"

    def url(self, site: int, page: int) -> str:
        """The page of a site."""
        return f"http://s{site}.example.com/section/{page}.html"


class Engines:
    """The scheduler's and idbd's engines in one process, and the CPU that each kind of step has taken."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        self.rows = Rows(directory / "queue.sqlite")
        self.frontier = Frontier(self.rows, settings, system_clock(), random.Random(1), lambda host, address: True)
        self.intake = Intake(self.frontier)
        self.visits = Visits(directory / "visits.sqlite", settings)
        self.spent: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the CPU of the body to a step."""
        began = time.process_time()
        yield
        self.spent[step] += time.process_time() - began

    async def look_up(self, questions: list[str]) -> list[str]:
        """LOOKUP, there and back."""
        asked = _read(_bytes("LOOKUP", questions)).texts()
        return _read(_bytes("OK", self.visits.lookup(asked, time.time()))).texts()

    def add(self, lines: list[Job]) -> None:
        """ADD in full messages."""
        requests = [_bytes("ADD", lines[start : start + MESSAGE]) for start in range(0, len(lines), MESSAGE)]
        with self.timed("link"):
            for request in requests:
                asyncio.run(self._add(request))

    async def _add(self, request: bytes) -> None:
        await self.intake.offer(_read(request).texts(), self.look_up)
        self.frontier.tick()
        self.rows.commit()

    def resolve(self) -> int:
        """Look up the names of all sites; gives how many there were."""
        count = 0
        while sites := self.frontier.unresolved(1_000):
            count += len(sites)
            for site in sites:
                self.frontier.resolved(site, "198.41.0.4")
        return count

    def work_off(self, count: int) -> int:
        """TAKE sites, DONE twice as the harvester and the parser say it, STORED, REMEMBER; gives the jobs."""
        with self.timed("job"):
            answer = _bytes("OK", self.frontier.take(HOLDER, count))
            self.rows.commit()
        jobs = _read(answer).jobs()
        ends = [jcf.job(LEASE=number, END=1) for number in {job.get("LEASE") for job in jobs}]
        batch, now = "0000000000000000001-00000000-harvester-1-1", "2026-11-30T08:00:00.123Z"
        done = _bytes("DONE", [*(_answered(job, BATCH=batch, TOOK=12, SIZE=30_000) for job in jobs), *ends])
        again = _bytes("DONE", [_answered(job, BATCH=batch).having(LEASE=None) for job in jobs])
        kept: dict[str, str | int] = {"RECORD": 1, "LAST": now, "FTIME": now, "ETAG": '"1"'}
        stored = [_answered(job, DIGEST=f"{job.fetch:032x}", **kept).having(LEASE=None) for job in jobs]
        with self.timed("job"):
            self._finish(done, again, _bytes("STORED", stored))
        return len(jobs)

    def _finish(self, done: bytes, again: bytes, stored: bytes) -> None:
        for request in (done, again):
            current = self.frontier.done_all(_read(request).jobs())
            _bytes("OK", [f'{jcf.VERSION} FETCH="{fetch}"' for fetch in current])
            self.rows.commit()
        self.frontier.stored_all(_read(stored).jobs())
        self.rows.commit()
        while rows := self.frontier.untold(500):
            news = _read(_bytes("REMEMBER", [row.result for row in rows]))
            self.visits.remember(news.jobs(), time.time())
            self.visits.commit()
            self.frontier.told(rows)
            self.rows.commit()

    def close(self) -> None:
        """Close both, as a kill would but for the files."""
        self.rows.db.close()
        self.visits.close()


def _bytes(word: str, lines: Iterable[Line]) -> bytes:
    """A message on the wire."""
    return dump(message(word, lines))


def _read(data: bytes) -> Message:
    """The message, there."""
    reader = Reader()
    reader.feed(data)
    taken = reader.take()
    assert taken is not None
    return taken


def _answered(job: Job, **params: str | int) -> Job:
    return jcf.job(URL=job.url, FETCH=job.fetch, LEASE=job.get("LEASE"), OUTCOME="ok", STATUS=200, **params)


def fill(path: Path, sites: Sites) -> None:
    """Put a visit for each known URL into idbd's table."""
    visits = Visits(path, Settings())
    database = visits._db
    database.execute("PRAGMA synchronous=OFF")
    for first in range(0, len(sites.sizes), 1_000):
        part = list(enumerate(sites.sizes[first : first + 1_000], first))
        database.execute("BEGIN")
        names = ((site + 1, f"s{site}.example.com", size) for site, size in part)
        database.executemany("INSERT INTO site(id, name, records) VALUES (?, ?, ?)", names)
        database.executemany("INSERT INTO visit VALUES (?, ?, 2111644800, 1, ?)", _visits(sites, part))
        database.execute("COMMIT")
    visits.close()


def _visits(sites: Sites, part: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    for site, size in part:
        urls = sorted((url_key(url), url) for url in (sites.url(site, page) for page in range(size)))
        for key, url in urls:
            yield site + 1, key, _VISIT.format(version=jcf.VERSION, url=url, seed=SEED)


def measure(known: int, options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """All figures of one size."""
    sites = Sites(options.sites, known)
    fill(directory / "visits.sqlite", sites)
    before = _anonymous_bytes()
    engines = Engines(directory, Settings())
    engines.add([jcf.job(URL=SEED, SEED=SEED, SCOPE="domain", DELAY=0)])
    engines.resolve()
    engines.spent.clear()
    jobs = 0
    for _ in range(options.ticks):
        urls = [sites.known() if sites._chance.random() < KNOWN_SHARE else sites.fresh() for _ in range(LINKS)]
        lines = [jcf.job(URL=url, SEED=SEED, VIA=SEED, DEPTH=4) for url in urls]
        engines.add(lines)
        engines.resolve()
        jobs += engines.work_off(JOBS)
    with engines.timed("lease"):
        answer = _bytes("OK", engines.frontier.take(HOLDER, 1_000))
    leases = {job.get("LEASE") for job in _read(answer).jobs()}
    in_memory = len(engines.frontier.sites.by_id)
    grown = _anonymous_bytes() - before
    engines.rows.commit()
    engines.close()
    began = time.monotonic()
    Engines(directory, Settings()).close()
    links = options.ticks * LINKS
    return {
        "known": known,
        "link_us": round(engines.spent["link"] / links * 1e6, 2),
        "job_us": round(engines.spent["job"] / max(jobs, 1) * 1e6, 2),
        "lease_us": round(engines.spent["lease"] / max(len(leases), 1) * 1e6, 2),
        "sites_in_memory": in_memory,
        "grown_bytes": grown,
        "bytes_a_site": round(grown / max(in_memory, 1)),
        "disk_bytes": sum(path.stat().st_size for path in directory.iterdir()),
        "ready_s": round(time.monotonic() - began, 3),
    }


def _anonymous_bytes() -> int:
    found = re.search(r"^Pss_Anon: +(\d+)", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def main() -> int:
    """Measure each size in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(description="What a link and a job cost, by how many URLs are known.")
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 5])
    parser.add_argument("--ticks", type=int, default=100)
    parser.add_argument("--sites", type=int, default=200_000)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "out")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        with tempfile.TemporaryDirectory(prefix="combine-scale-") as directory:
            print(json.dumps(measure(int(options.millions[0] * 1e6), options, Path(directory))))
        return 0
    figures = []
    print(
        f"{'known':>11}{'µs a link':>11}{'µs a job':>10}{'µs a lease':>12}{'B a site':>10}{'disk MB':>9}{'ready s':>9}"
    )
    for size in options.millions:
        words = [sys.executable, "-m", "bench.scale", "--inside", "--millions", str(size)]
        words += ["--ticks", str(options.ticks), "--sites", str(options.sites)]
        row = json.loads(subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
        figures.append(row)
        print(
            f"{row['known']:>11,}{row['link_us']:>11.1f}{row['job_us']:>10.1f}{row['lease_us']:>12.1f}"
            f"{row['bytes_a_site']:>10}{row['disk_bytes'] / 1e6:>9.0f}{row['ready_s']:>9.2f}",
            flush=True,
        )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / time.strftime("scale-%Y%m%d-%H%M%S.json")).write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
