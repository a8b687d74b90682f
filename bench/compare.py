"""compare: the same work by Combine and by its peers, in turns on one machine, and a table with ratios.

    python -m bench.compare [--pages 10000] [--hosts 100] [--latency 0] [--runs 3] [--only NAME …]

Each peer has an environment of its own below $XDG_CACHE_HOME/combine-bench (else ~/.cache), made at the first run: a
virtual environment, a Node package, or a package of the system, which is installed only where this runs as root. A
peer that cannot be installed, or that fails, is reported as such. What is counted is the same for all: CPU of the whole
client (user and system, all its processes), pages that the web served, seconds from its first request to its last,
peak memory (for Combine the anonymous memory of all processes, for a peer the largest process).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.measure import ROOT, Web, served, slow_files

PROGRAMS = ROOT / "bench" / "peers"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "combine-bench"

#: Environments that keep freed memory, as Combine's parser does: without them lexbor takes half as long again.
KEEP_HEAP = {
    "MALLOC_TRIM_THRESHOLD_": "536870912",
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TOP_PAD_": "16777216",
}

#: Seconds that one run may take.
PATIENCE_S = 600.0

SPIDER = "@spider-rs/spider-rs"

Words = Callable[[Path, Path], list[str]]  # of the file of records and the file of seeds


@dataclass(frozen=True)
class Peer:
    """Another crawler: how it is installed and run, and whether it does all of the work."""

    name: str
    work: str
    words: Words
    install: tuple[tuple[str, ...], ...] = ()
    needs: str = ""  # a file or a program that is there when it is installed
    environment: dict[str, str] = field(default_factory=dict)

    def is_there(self) -> bool:
        """Whether it is installed."""
        return not self.needs or Path(self.needs).exists() or shutil.which(self.needs) is not None

    def get(self) -> str:
        """Install it if it is not; gives the reason where it cannot be."""
        if self.is_there():
            return ""
        CACHE.mkdir(parents=True, exist_ok=True)
        for command in self.install:
            done = subprocess.run(command, capture_output=True, text=True, cwd=CACHE)
            if done.returncode:
                return f"{' '.join(command[:3])} …: {done.stderr.strip()[-200:] or done.stdout.strip()[-200:]}"
        return "" if self.is_there() else f"{self.needs} is not there after the installation"


def in_venv(name: str, program: str, work: str, *packages: str) -> Peer:
    """A peer of Python, in a virtual environment that it may share with another way of using the same library."""
    place = CACHE / name.partition(",")[0].lower()
    python = str(place / "bin" / "python")
    return Peer(
        name,
        work,
        lambda out, seeds: [python, str(PROGRAMS / program), str(out), str(seeds)],
        ((sys.executable, "-m", "venv", str(place)), (python, "-m", "pip", "install", "--quiet", *packages)),
        python,
    )


def of_system(name: str, work: str, *words: str) -> Peer:
    """A program of the system's packages: it reads the seeds, and saves files beside the records' file."""
    return Peer(
        name,
        work,
        lambda out, seeds: [word.format(out=out.with_suffix(".files"), seeds=seeds) for word in words],
        (("apt-get", "install", "--yes", "--quiet", words[0]),),
        words[0],
    )


def peers() -> list[Peer]:
    """All peers, the slowest first."""
    spider = CACHE / "spider"
    return [
        in_venv("Scrapy, documented", "scrapy_documented.py", "all", "scrapy", "orjson"),
        in_venv("Scrapy, tuned", "scrapy_tuned.py", "all", "scrapy", "orjson"),
        in_venv("Crawlee, documented", "crawlee_documented.py", "all", "crawlee[parsel]", "lxml", "orjson"),
        in_venv("Crawlee, tuned", "crawlee_tuned.py", "all", "crawlee[parsel]", "lxml", "orjson"),
        of_system(
            "httrack", "mirrors, rewrites links", "httrack", "--list", "{seeds}", "-O", "{out}", "--quiet",
            "--robots=2", "--sockets=100", "--connection-per-second=0", "--max-rate=0", "--disable-security-limits",
            "--max-time=600",
        ),
        Peer(
            "spider-rs",
            "links and the page's HTML",
            lambda out, seeds: ["node", str(PROGRAMS / "spider.mjs"), str(out), str(seeds)],
            (("npm", "install", "--silent", "--prefix", str(spider), SPIDER, f"{SPIDER}-linux-{_node_machine()}-gnu"),),
            str(spider / "node_modules" / "@spider-rs" / "spider-rs"),
            {"PEER_HOME": str(spider)},
        ),
        of_system(
            "wget2", "links, saves files", "wget2", "--recursive", "--level=inf", "--input-file={seeds}", "--quiet",
            "--directory-prefix={out}", "--max-threads=100", "--no-verify-save-failed",
        ),
        Peer(
            "floor",
            "all, nothing durable",
            lambda out, seeds: [sys.executable, str(PROGRAMS / "floor.py"), str(out), str(seeds)],
            environment=KEEP_HEAP,
        ),
    ]  # fmt: skip


def _node_machine() -> str:
    return {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


@dataclass(frozen=True)
class Run:
    """What one run came to."""

    cpu_ms: float
    pages_s: float
    pages: int
    peak_mb: float


def run_peer(peer: Peer, web: Web) -> Run:
    """One run of a peer; raises SystemExit where it ends badly."""
    with tempfile.TemporaryDirectory(prefix="combine-peer-") as directory:
        out, seeds = Path(directory) / "out", Path(directory) / "seeds"
        seeds.write_text("".join(f"{seed}\n" for seed in web.seeds))
        words, environment = peer.words(out, seeds), {**os.environ, **peer.environment}
        process = subprocess.Popen(words, cwd=directory, env=environment, stdout=subprocess.DEVNULL, stderr=-3)
        used = _await(process)
        stats = web.stats()
    pages = stats["different_pages"]
    cpu_s = used.ru_utime + used.ru_stime
    if not pages:
        raise SystemExit(f"it asked for no page, and ended with {process.returncode}")
    if process.returncode < 0:
        raise SystemExit(f"it did not end, and was stopped after {pages} pages and {cpu_s:.0f} s of CPU")
    return Run(cpu_s * 1000 / pages, pages / stats["first_to_last_s"], pages, used.ru_maxrss / 1024)


def _await(process: subprocess.Popen[bytes]) -> Any:
    """Wait for the end of a process, and what it and its children have used; kill it when patience ends."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return used
        if time.monotonic() > deadline:
            process.kill()
        time.sleep(0.05)


def run_combine(options: argparse.Namespace) -> Run:
    """One run of the whole system, by `bench.measure`."""
    with tempfile.TemporaryDirectory(prefix="combine-out-") as out:
        words = [sys.executable, "-m", "bench.measure", "--out", out]
        words += [f"--{name}={getattr(options, name)}" for name in ("pages", "hosts", "latency")]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr[-500:])
        figures = json.loads(next(Path(out).iterdir()).read_text())
    if slow := slow_files(figures):
        print(slow, file=sys.stderr)
    peak_mb = figures["peak_anonymous_bytes"] / 1e6
    return Run(figures["cpu_ms_page"], figures["pages_s"], figures["pages"], peak_mb)


def compare(options: argparse.Namespace) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """All runs by name, in turns, and why the others did not run."""
    chosen = [peer for peer in peers() if not options.only or peer.name in options.only]
    faults = {peer.name: fault for peer in chosen if (fault := peer.get())}
    runs: dict[str, list[Run]] = {}
    for turn in range(options.runs):
        print(f"run {turn + 1} of {options.runs}", file=sys.stderr)
        runs.setdefault("Combine", []).append(run_combine(options))
        for peer in chosen:
            if peer.name not in faults:
                try:
                    with served(options.pages, options.hosts, options.latency) as web:
                        runs.setdefault(peer.name, []).append(run_peer(peer, web))
                except (OSError, SystemExit) as error:
                    faults[peer.name] = str(error)
    return runs, faults


def show(runs: dict[str, list[Run]], faults: dict[str, str], work: dict[str, str]) -> None:
    """Print the table of medians, with ratios to Combine."""
    ours = _median(runs["Combine"])
    print(
        f"{'crawler':<22}{'CPU ms a page':>14}{'ratio':>8}{'pages/s':>10}{'ratio':>8}{'pages':>8}{'peak MB':>9}  work"
    )
    for name, made in sorted(runs.items(), key=lambda item: -_median(item[1]).cpu_ms):
        run = _median(made)
        print(
            f"{name:<22}{run.cpu_ms:>14.3f}{run.cpu_ms / ours.cpu_ms:>8.2f}{run.pages_s:>10.0f}"
            f"{run.pages_s / ours.pages_s:>8.2f}{run.pages:>8}{run.peak_mb:>9.0f}  {work.get(name, 'all, durable')}"
        )
    for name, fault in faults.items():
        print(f"{name:<22}  not measured: {fault}")


def _median(made: list[Run]) -> Run:
    middle = [
        statistics.median(getattr(run, name) for run in made) for name in ("cpu_ms", "pages_s", "pages", "peak_mb")
    ]
    return Run(middle[0], middle[1], int(middle[2]), middle[3])


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(description="The same work by Combine and by its peers.")
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer of the web")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="names of peers; without it all")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "out")
    options = parser.parse_args()
    runs, faults = compare(options)
    show(runs, faults, {peer.name: peer.work for peer in peers()})
    options.out.mkdir(parents=True, exist_ok=True)
    figures = {name: [vars(run) for run in made] for name, made in runs.items()}
    out = options.out / time.strftime("compare-%Y%m%d-%H%M%S.json")
    with contextlib.suppress(OSError):
        out.write_text(json.dumps({"runs": figures, "not measured": faults}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
