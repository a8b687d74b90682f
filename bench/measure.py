"""measure: harvest the synthetic web with the whole running system, and say what a page costs each process.

    python -m bench.measure [--pages 5000] [--hosts 100] [--latency 0] [--harvesters 1] [--parsers 2]

Without delays, in a fresh home below $TMPDIR (never inside the checkout). The number of records must be the number of
pages that the web has; anything else is an error, since a harvest that leaves something out is quick. The table goes to
stdout, the same as JSON to bench/out/.

The home is left where it is: files made within minutes of many being removed cost several times as much on ext4, so
that a benchmark that cleans up spoils the next one.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.processes import Watch, adopt_orphans, cpu_of
from combine.config import Settings

ROOT = Path(__file__).resolve().parents[1]
COMBINE = Path(sys.executable).parent / "combine"
LOOK_S = 0.25
_ENDS = re.compile(r" (\w+)\[\d+\] INFO its work is done messages=(\d+) syncs=(\d+)")
MEMORY_LOOK_S = 1.0

#: Of the parsers' time, what the kernel takes only where it makes files slowly; and seconds of which that can be told.
SLOW_SHARE, SLOW_CPU_S = 0.25, 1.0

#: After the command has ended, its daemons have so long to end.
STOP_S = 15.0

SETTINGS = """\
[harvest]
allow_private = ["127.0.0.0/8"]
workers = {harvesters}
sites = {sites}

[page]
workers = {parsers}

[politeness]
site_requests_day = 1_000_000_000
site_bytes_day = 1_000_000_000_000
"""


@dataclass(frozen=True)
class Web:
    """The synthetic web while it is served."""

    pid: int
    port: int
    pages: int
    seeds: list[str]

    def stats(self) -> dict[str, Any]:
        """What it was asked so far."""
        with urllib.request.urlopen(f"http://127.1.0.1:{self.port}/__stats") as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@contextlib.contextmanager
def served(pages: int, hosts: int, latency_s: float, is_plain: bool = False) -> Iterator[Web]:
    """Serve the synthetic web while the body runs."""
    words = [sys.executable, "-m", "bench.web", "--pages", str(pages), "--hosts", str(hosts)]
    words += ["--latency", str(latency_s), *(["--plain"] if is_plain else [])]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            facts = json.loads(process.stdout.readline())
            yield Web(process.pid, facts["port"], facts["pages"], facts["seeds"])
        finally:
            process.terminate()


def make_home(options: argparse.Namespace, web: Web) -> Path:
    """A fresh home with its settings, and the seeds beside it."""
    home = Path(tempfile.mkdtemp(prefix="combine-bench-")) / "home"
    subprocess.run([COMBINE, "init", str(home)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (home / "combine.toml").write_text(SETTINGS.format(**vars(options)))
    (home.parent / "seeds").write_text("".join(f"{seed}\n" for seed in web.seeds))
    return home


def harvest(home: Path, web: Web) -> tuple[Watch, float]:
    """Run the harvest to its end, watched; gives the seconds that it took too."""
    for package in ("formats", "combine", "daemons"):
        # As an installation does: where Python may write no byte code, each of our processes would compile its own.
        compileall.compile_dir(ROOT / package, quiet=1)
    watch = Watch(home)
    words = [str(COMBINE), "--home", str(home), "harvest", "-i", str(home.parent / "seeds"), "--delay", "0"]
    began = time.monotonic()
    memory_at = began
    command = subprocess.Popen(words, cwd=home.parent, stdout=subprocess.DEVNULL)
    ended = 0.0
    while not watch.settle(web.pid):
        now = time.monotonic()
        if not ended and not Path(f"/proc/{command.pid}").exists():
            ended = now
        if ended and now > ended + STOP_S:
            raise SystemExit(f"processes of {home} did not end with the harvest")
        watch.look(memory=now >= memory_at)
        memory_at = now + MEMORY_LOOK_S if now >= memory_at else memory_at
        time.sleep(LOOK_S)
    command.returncode = 0  # reaped above, with all that it left
    return watch, (ended or time.monotonic()) - began


def counted(home: Path) -> dict[str, dict[str, int]]:
    """The requests that each daemon answered and its commits, as it says at its end; and the harvesters' batches.

    A batch is two syncs of a harvester: one of the file, one of the directory. The parsers' are not counted.
    """
    found: dict[str, dict[str, int]] = {}
    for path in (home / "log").glob("*.out"):
        for name, messages, syncs in _ENDS.findall(path.read_text("utf-8", "replace")):
            row = found.setdefault(name, {"messages": 0, "syncs": 0})
            row["messages"] += int(messages)
            row["syncs"] += int(syncs)
    batches = sum(len(files) for _, _, files in os.walk(home / "raw"))
    return {**found, "harvester": {"messages": 0, "syncs": 2 * batches}}


def report(home: Path, web: Web, watch: Watch, wall_s: float, options: argparse.Namespace) -> dict[str, Any]:
    """All figures of one run."""
    stats = web.stats()
    pages = max(1, stats["pages"])
    processes = {
        name: {
            "processes": len(costs),
            "cpu_s": round(sum(cost.cpu_s for cost in costs), 2),
            "cpu_ms_page": round(sum(cost.cpu_s for cost in costs) * 1000 / pages, 4),
            "kernel_ms_page": round(sum(cost.kernel_s for cost in costs) * 1000 / pages, 4),
            "written_bytes": sum(cost.written_bytes for cost in costs),
        }
        for name, costs in watch.by_name().items()
    }
    seen_s = sum(cost.cpu_s for costs in watch.by_name().values() for cost in costs)
    rest_s = watch.settled_cpu_s - seen_s
    processes["between looks"] = {"cpu_s": round(rest_s, 2), "cpu_ms_page": round(rest_s * 1000 / pages, 4)}
    return {
        "options": {key: value for key, value in vars(options).items() if key != "out"},
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.release()},
        "home": str(home),
        "records": sum(len(files) for _, _, files in os.walk(home / "hdb")),
        "pages": web.pages,
        "pages_s": round(pages / stats["first_to_last_s"], 1) if stats["first_to_last_s"] else 0,
        "wall_s": round(wall_s, 2),
        "cpu_ms_page": round(watch.settled_cpu_s * 1000 / pages, 4),
        "peak_anonymous_bytes": watch.peak_anonymous_bytes,
        "written_bytes": sum(cost.written_bytes for cost in watch.costs.values()),
        "processes": processes,
        "counted": counted(home),
        "web": {**stats, "cpu_ms_page": round(cpu_of(web.pid) * 1000 / pages, 4)},
    }


def show(figures: dict[str, Any]) -> None:
    """Print the table."""
    print(f"\n{'process':<22}{'number':>8}{'CPU s':>10}{'CPU ms a page':>16}{'of it kernel':>14}{'MB written':>13}")
    for name, row in figures["processes"].items():
        written = f"{row['written_bytes'] / 1e6:.1f}" if "written_bytes" in row else ""
        kernel = f"{row['kernel_ms_page']:.3f}" if "kernel_ms_page" in row else ""
        count, cpu_ms = row.get("processes", ""), row["cpu_ms_page"]
        print(f"{name:<22}{count:>8}{row['cpu_s']:>10.2f}{cpu_ms:>16.3f}{kernel:>14}{written:>13}")
    print(f"{'all':<22}{'':>8}{'':>10}{figures['cpu_ms_page']:>16.3f}{'':>14}{figures['written_bytes'] / 1e6:>13.1f}")
    for name, row in figures["counted"].items():
        print(f"{name}: {row['messages']} messages answered, {row['syncs']} syncs")
    web = figures["web"]
    print(f"\n{figures['pages_s']:.0f} pages/s from the first request to the last; {figures['wall_s']:.1f} s in all,")
    print(f"{figures['peak_anonymous_bytes'] / 1e6:.0f} MB of anonymous memory at most (PSS, all processes).")
    if slow := slow_files(figures):
        print(slow)
    print(f"The web answered {web['requests']} requests {web['statuses']} for {web['cpu_ms_page']:.3f} ms CPU a page.")


def slow_files(figures: dict[str, Any]) -> str:
    """A sentence where the figures are not worth much, since the kernel made the records' files slowly."""
    parsers = figures["processes"].get("parser", {"cpu_s": 0.0})
    if parsers["cpu_s"] < SLOW_CPU_S or (share := parsers["kernel_ms_page"] / parsers["cpu_ms_page"]) < SLOW_SHARE:
        return ""
    return (
        f"The kernel took {share:.0%} of the parsers' time, and a sixth is usual: ext4 makes files slowly where many "
        "were removed within the last five minutes. Measure again then."
    )


def main() -> int:
    """Measure once; 1 if the records are not the pages."""
    parser = argparse.ArgumentParser(description="Harvest the synthetic web and say what a page costs.")
    parser.add_argument("--pages", type=int, default=5_000)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer of the web")
    parser.add_argument("--plain", action="store_true", help="a web without redirects and dead links")
    parser.add_argument("--harvesters", type=int, default=1)
    parser.add_argument("--parsers", type=int, default=2)
    parser.add_argument("--sites", type=int, default=Settings().harvest.sites, help="leased sites a harvester")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "out")
    options = parser.parse_args()
    adopt_orphans()
    runs = [run(options) for _ in range(options.runs)]
    if options.runs > 1:
        show_medians(runs)
    return 1 if any(figures["records"] != figures["pages"] for figures in runs) else 0


def run(options: argparse.Namespace) -> dict[str, Any]:
    """One harvest, its table and its file."""
    with served(options.pages, options.hosts, options.latency, options.plain) as web:
        home = make_home(options, web)
        watch, wall_s = harvest(home, web)
        figures = report(home, web, watch, wall_s, options)
    show(figures)
    options.out.mkdir(parents=True, exist_ok=True)
    out = options.out / time.strftime("measure-%Y%m%d-%H%M%S.json")
    out.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"{out}; the home is left in {home}: remove it later than five minutes before the next run", file=sys.stderr)
    if figures["records"] != figures["pages"]:
        print(f"WRONG: {figures['records']} records of {figures['pages']} pages", file=sys.stderr)
    return figures


def show_medians(runs: list[dict[str, Any]]) -> None:
    """Print the median and the range of the runs."""
    print(f"\n{len(runs)} runs{'median':>16}{'least':>12}{'most':>12}")
    for name in ("cpu_ms_page", "pages_s", "wall_s", "peak_anonymous_bytes", "written_bytes"):
        values = [figures[name] for figures in runs]
        print(f"{name:<20}{statistics.median(values):>14,.2f}{min(values):>12,.2f}{max(values):>12,.2f}")


if __name__ == "__main__":
    sys.exit(main())
