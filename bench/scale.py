"""scale: what a link and a job cost the scheduler and idbd, by how many URLs are known already.

    python -m bench.scale [--millions 1 5 10 20] [--ticks 100] [--sites 200000] [--aged] [--queued 1]

For each size a process of its own fills idbd with visits (straight into its table: nothing else would end), and then
plays parsers and harvesters to the engines of both daemons: messages are written and read as on the wire, only the
sockets are left out. A tick offers 2,000 links, of which 45 % are known, hands out 50 sites with their jobs and stores
those, and commits as often as the daemons would. With `--aged` the same is measured once more after a history: all rows
of the queue and a third of the visits forgotten, these and another third harvested again. `--queued` puts so many
million rows into the queue. At the end the process kills itself, and another one opens what it left. Sites have names
below one domain and sizes by Zipf; the page cache is warm. The table is of CPU on one core, for links and jobs the mean
of all ticks; JSON goes to bench/out/. What a lease costs, and the memory of sites that wait, `bench.leases` says first.
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import ROOT
from combine.config import Settings
from combine.ipc.loop import collect_seldom
from combine.ipc.message import Line, Message, Reader, dump, message
from combine.schedule.clock import system_clock, utc_text
from combine.schedule.frontier import Frontier
from combine.schedule.intake import Intake
from combine.schedule.known import Key, url_key
from combine.schedule.leases import Holder
from combine.schedule.rows import Rows, job_key
from combine.schedule.visits import Visits
from combine.urls import record_id, site_of
from formats import jcf
from formats.jcf import Job

SEED = "http://s0.example.com/"
LINKS, JOBS, KNOWN_SHARE = 2_000, 50, 0.45
MESSAGE, TOLD = 1_000, 500
ROUNDS = 16
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
        self._loop = asyncio.Runner()
        collect_seldom()

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the CPU of the body to a step."""
        began = time.process_time()
        yield
        self.spent[step] += time.process_time() - began

    async def look_up(self, questions: list[str]) -> list[str]:
        """LOOKUP, there and back."""
        asked = taken(written("LOOKUP", questions)).texts()
        return taken(written("OK", self.visits.lookup(asked, time.time()))).texts()

    def add(self, lines: list[Job]) -> None:
        """ADD in full messages."""
        requests = _messages("ADD", lines)
        with self.timed("link"):
            for request in requests:
                self._loop.run(self._add(request))

    async def _add(self, request: bytes) -> None:
        await self.intake.offer(taken(request).texts(), self.look_up)
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
            answer = written("OK", self.frontier.take(HOLDER, count))
            self.rows.commit()
        jobs = taken(answer).jobs()
        ends = [jcf.job(LEASE=number, END=1) for number in {job.get("LEASE") for job in jobs}]
        batch, now = "0000000000000000001-00000000-harvester-1-1", "2026-11-30T08:00:00.123Z"
        done = _messages("DONE", [*(_answered(job, BATCH=batch, TOOK=12, SIZE=30_000) for job in jobs), *ends])
        done += _messages("DONE", [_answered(job, BATCH=batch).having(LEASE=None) for job in jobs])
        kept: dict[str, str | int] = {"RECORD": 1, "LAST": now, "FTIME": now, "ETAG": '"1"'}
        stored = [_answered(job, DIGEST=f"{job.fetch:032x}", **kept).having(LEASE=None) for job in jobs]
        with self.timed("job"):
            self._finish(done, _messages("STORED", stored))
        return len(jobs)

    def _finish(self, done: list[bytes], stored: list[bytes]) -> None:
        for request in done:
            current = self.frontier.done_all(taken(request).jobs())
            written("OK", [f'{jcf.VERSION} FETCH="{fetch}"' for fetch in current])
            self.rows.commit()
        for request in stored:
            self.frontier.stored_all(taken(request).jobs())
            self.rows.commit()
        while rows := self.frontier.untold(TOLD):
            news = taken(written("REMEMBER", [row.result for row in rows]))
            self.visits.remember(news.jobs(), time.time())
            self.visits.commit()
            self.frontier.told(rows)
            self.rows.commit()

    def reharvest(self, urls: list[str], is_forgotten: bool) -> None:
        """Pages are visited again, after they were forgotten or as the pages that they were."""
        last = utc_text(time.time())
        facts = f'OUTCOME="ok" STATUS="200" LAST="{last}" RECORD="1" SEED="{SEED}" DEPTH="3" SCOPES="1:*"'
        for start in range(0, len(urls), TOLD):
            part = urls[start : start + TOLD]
            if is_forgotten:
                for url in part:
                    self.visits.forget(url)
                self.visits.commit()
            news = [jcf.parse_text(f'{jcf.VERSION} URL="{url}" {facts} DIGEST="{record_id(url)}"') for url in part]
            self.visits.remember(news, time.time())
            self.visits.commit()

    def close(self) -> None:
        """Close both."""
        self.rows.db.close()
        self.visits.close()


def _messages(word: str, lines: list[Job]) -> list[bytes]:
    """Messages on the wire, none longer than one may be."""
    return [written(word, lines[start : start + MESSAGE]) for start in range(0, len(lines), MESSAGE)]


def written(word: str, lines: Iterable[Line]) -> bytes:
    """A message on the wire."""
    return dump(message(word, lines))


def taken(data: bytes) -> Message:
    """The message, there."""
    reader = Reader()
    reader.feed(data)
    found = reader.take()
    assert found is not None
    return found


def _answered(job: Job, **params: str | int) -> Job:
    return jcf.job(URL=job.url, FETCH=job.fetch, LEASE=job.get("LEASE"), OUTCOME="ok", STATUS=200, **params)


def fill(path: Path, sites: Sites) -> None:
    """Put a visit for each known URL into idbd's table."""
    visits = Visits(path, Settings())
    database = visits._db
    database.execute("PRAGMA synchronous=OFF")
    database.execute("BEGIN")
    names = ((site + 1, f"s{site}.example.com", size) for site, size in enumerate(sites.sizes))
    database.executemany("INSERT INTO site(id, name, records) VALUES (?, ?, ?)", names)
    database.execute("COMMIT")
    in_order = sorted(range(len(sites.sizes)), key=lambda site: _key(sites.url(site, 0)).number)
    # In many rounds, each of which puts a row or so between those of a page: as a harvest fills pages, which are seldom
    # quite full then. Where all of them are, or all have room for a row more, another costs twice as much or nothing.
    for start, first in itertools.product(range(ROUNDS), range(0, len(in_order), 1_000)):
        database.execute("BEGIN")
        rows = _visits(sites, in_order[first : first + 1_000], start)
        database.executemany("INSERT OR IGNORE INTO known VALUES (?, 2111644800, 1, ?)", rows)
        database.execute("COMMIT")
    visits.close()


def _visits(sites: Sites, part: list[int], start: int) -> Iterator[tuple[int, str]]:
    for site in part:
        urls = (sites.url(site, page) for page in range(start, sites.sizes[site], ROUNDS))
        for number, url in sorted((_key(url).number, url) for url in urls):
            yield number, _VISIT.format(version=jcf.VERSION, url=url, seed=SEED)


def _key(url: str) -> Key:
    return Key(url, site_of(url), "page", url_key(url))


def play(engines: Engines, sites: Sites, ticks: int) -> dict[str, float]:
    """What a link and a job cost, in µs, over so many ticks, and a link in a good one: the best quarter's worst."""
    engines.spent.clear()
    jobs, spent = 0, []
    for _ in range(ticks):
        urls = [sites.known() if sites._chance.random() < KNOWN_SHARE else sites.fresh() for _ in range(LINKS)]
        before = engines.spent["link"]
        engines.add([jcf.job(URL=url, SEED=SEED, VIA=SEED, DEPTH=4) for url in urls])
        spent.append(engines.spent["link"] - before)
        engines.resolve()
        jobs += engines.work_off(JOBS)
    link, job = sum(spent) / (ticks * LINKS), engines.spent["job"] / max(jobs, 1)
    good = sorted(spent)[ticks // 4] / LINKS
    return {"link_us": round(link * 1e6, 2), "good_link_us": round(good * 1e6, 2), "job_us": round(job * 1e6, 2)}


def age(engines: Engines, sites: Sites) -> None:
    """A history: all that is queued is forgotten, and two thirds of the visits made anew, half of these from none."""
    queued = [row[0] for row in engines.rows.db.execute("SELECT line FROM job WHERE state = 0")]
    for start in range(0, len(queued), MESSAGE):
        engines.frontier.forget(jcf.parse_text(line).url for line in queued[start : start + MESSAGE])
        engines.rows.commit()
    for first in range(0, len(sites.sizes), 1_000):
        part = enumerate(sites.sizes[first : first + 1_000], first)
        urls = [sites.url(site, page) for site, size in part for page in range(size)]
        engines.reharvest(urls[::3], is_forgotten=True)
        engines.reharvest(urls[1::3], is_forgotten=False)


def queue(engines: Engines, sites: Sites, count: int) -> None:
    """Put so many new URLs into the queue, as ADD does after it has asked idbd."""
    seed = engines.frontier.seeds.find(SEED)
    assert seed is not None
    for start in range(0, count, MESSAGE):
        urls = [sites.fresh() for _ in range(min(MESSAGE, count - start))]
        lines = [jcf.dump_text(jcf.job(URL=url, SEED=SEED, VIA=SEED)) for url in urls]
        rows = [
            (site_of(url), job_key("page", url), "page", 0, 4, seed.id, "", line)
            for url, line in zip(urls, lines, strict=True)
        ]
        engines.frontier.insert_many(rows)
        engines.rows.commit()


def measure(known: int, options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """All figures of one size but those of a new start; what was done is left there, as a kill would leave it."""
    sites = Sites(options.sites, known)
    fill(directory / "visits.sqlite", sites)
    engines = Engines(directory, Settings())
    engines.add([jcf.job(URL=SEED, SEED=SEED, SCOPE="domain", DELAY=0)])
    engines.resolve()
    figures: dict[str, Any] = {"known": known, **play(engines, sites, options.ticks)}
    if options.aged:
        age(engines, sites)
        figures |= {f"aged_{name}": value for name, value in play(engines, sites, options.ticks).items()}
    queue(engines, sites, int(options.queued * 1e6))
    (rows,) = engines.rows.db.execute("SELECT count(*) FROM job").fetchone()
    return {**figures, "rows": rows, "disk_bytes": sum(path.stat().st_size for path in directory.iterdir())}


def reopen(directory: Path) -> dict[str, Any]:
    """What it takes to open both again."""
    before, began, used = anonymous_bytes(), time.monotonic(), time.process_time()
    engines = Engines(directory, Settings())
    figures = {"ready_s": round(time.monotonic() - began, 3), "ready_cpu_s": round(time.process_time() - used, 3)}
    sites = len(engines.frontier.sites)
    figures |= {"sites_idle": sites, "bytes_an_idle_site": round((anonymous_bytes() - before) / max(sites, 1))}
    engines.close()
    return figures


def anonymous_bytes() -> int:
    """Memory of this process that no file holds."""
    found = re.search(r"^Pss_Anon: +(\d+)", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def main() -> int:
    """Measure each size in processes of its own, and print the table."""
    parser = argparse.ArgumentParser(description="What a link and a job cost, by how many URLs are known.")
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 5, 10, 20])
    parser.add_argument("--ticks", type=int, default=100)
    parser.add_argument("--sites", type=int, default=200_000)
    parser.add_argument("--aged", action="store_true", help="measure again after deletes and a second harvest")
    parser.add_argument("--queued", type=float, default=1, help="million rows in the queue at the new start")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "out")
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--reopen", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reopen:
        print(json.dumps(reopen(options.reopen)))
        return 0
    if options.fill:
        print(json.dumps(measure(int(options.millions[0] * 1e6), options, options.fill)), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    subprocess.run([sys.executable, "-m", "bench.leases", "--sites", str(options.sites)], cwd=ROOT, check=True)
    print(f"{'known':>11}{''.join(f'{head:>{width}}' for head, width, _ in COLUMNS)}")
    figures = []
    for size in options.millions:
        row = _run(size, options)
        figures.append(row)
        print(f"{row['known']:>11,}{''.join(f'{show(row):>{width}}' for _, width, show in COLUMNS)}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / time.strftime("scale-%Y%m%d-%H%M%S.json")).write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _run(size: float, options: argparse.Namespace) -> dict[str, Any]:
    """All figures of one size: of a process that kills itself at the end, and of the next."""
    with tempfile.TemporaryDirectory(prefix="combine-scale-") as directory:
        words = ["--fill", directory, "--millions", str(size), "--ticks", str(options.ticks)]
        words += ["--sites", str(options.sites), "--queued", str(options.queued)] + ["--aged"] * options.aged
        row = _figures(words, -signal.SIGKILL)
        return row | _figures(["--reopen", directory], 0)


def _figures(words: list[str], expected: int) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "bench.scale", *words], cwd=ROOT, check=False, stdout=subprocess.PIPE)
    if done.returncode != expected:
        raise SystemExit(f"bench.scale {' '.join(words)} ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


#: Of the table: heads, widths, values.
COLUMNS: list[tuple[str, int, Callable[[dict[str, Any]], str]]] = [
    ("µs a link", 11, lambda row: f"{row['link_us']:.1f}"),
    ("good tick", 11, lambda row: f"{row['good_link_us']:.1f}"),
    ("links/s", 9, lambda row: f"{1e6 / row['link_us']:,.0f}"),
    ("µs a job", 10, lambda row: f"{row['job_us']:.1f}"),
    ("aged: link", 12, lambda row: f"{row.get('aged_link_us', '')}"),
    ("job", 8, lambda row: f"{row.get('aged_job_us', '')}"),
    ("B a site", 10, lambda row: f"{row['bytes_an_idle_site']}"),
    ("disk MB", 9, lambda row: f"{row['disk_bytes'] / 1e6:.0f}"),
    ("rows", 11, lambda row: f"{row['rows']:,}"),
    ("ready s", 9, lambda row: f"{row['ready_s']:.2f}"),
    ("CPU s", 8, lambda row: f"{row['ready_cpu_s']:.2f}"),
]


if __name__ == "__main__":
    sys.exit(main())
