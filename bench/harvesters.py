"""harvesters: pages a second by how many harvesters there are, each held to five sites, and by one without that hold.

    python -m bench.harvesters [--pages 4000] [--hosts 100] [--latency 0.2] [--counts 1 2 5 10 20]

The web answers after 200 ms, so one harvester on five sites can have 25 pages/s at most, and one on all hundred 500:
for that each request must bring a page, so this web is a plain one, without redirects and dead links. One row more is
of the usual web, where a sixth of the requests bring none. Each count is a harvest of its own, with fewer pages where
there are fewer harvesters, but never fewer than ten a host: the robots.txt of each host takes 200 ms, too, so it is
the requests a second that `times` compares. What Combine had in 2011 is shown beside it, and the share of what was
possible: all requests in turns of as many sites as are held, and no site's one after another in less than 200 ms each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.measure import ROOT

#: Pages a second of the historical Combine, by harvesters, as a multiple of one.
HISTORICAL = {1: 1.0, 2: 2.0, 5: 4.8, 10: 8.2, 20: 11.0}

HELD_SITES = 5

LEAST_PAGES_HOST = 10


def measured(options: argparse.Namespace, harvesters: int, sites: int, pages: int, is_plain: bool) -> dict[str, Any]:
    """The figures of one harvest."""
    with tempfile.TemporaryDirectory(prefix="combine-out-") as out:
        words = [sys.executable, "-m", "bench.measure", "--out", out, "--pages", str(pages)]
        words += ["--hosts", str(options.hosts), "--latency", str(options.latency)]
        words += ["--harvesters", str(harvesters), "--sites", str(sites), *(["--plain"] if is_plain else [])]
        subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        figures: dict[str, Any] = json.loads(next(Path(out).iterdir()).read_text())
    return figures


def possible(web: dict[str, Any], at_once: int, latency_s: float) -> float:
    """Pages a second where nobody ever waits but for the web."""
    turns: float = max(web["most_requests_host"], web["requests"] / at_once)
    pages: int = web["different_pages"]
    return pages / (turns * latency_s)


def requests_s(figures: dict[str, Any]) -> float:
    """Requests a second: of a small harvest robots.txt is a larger part, and brings no page."""
    web: dict[str, Any] = figures["web"]
    return float(web["requests"] / web["first_to_last_s"])


def main() -> int:
    """Measure each count, and print the table."""
    parser = argparse.ArgumentParser(description="Pages a second by the number of harvesters.")
    parser.add_argument("--pages", type=int, default=4_000, help="of the run with most harvesters")
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--latency", type=float, default=0.2, help="seconds before each answer of the web")
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 5, 10, 20])
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "out")
    options = parser.parse_args()
    most = max(options.counts)
    rows: list[dict[str, Any]] = []
    print(
        f"{'harvesters':>10}{'sites each':>12}{'web':>8}{'pages/s':>10}{'times':>8}{'historical':>12}"
        f"{'of the possible':>17}{'CPU ms a page':>15}"
    )
    held = [(count, HELD_SITES, True) for count in options.counts]
    for count, sites, is_plain in [*held, (1, options.hosts, True), (1, options.hosts, False)]:
        at_once = min(count * sites, options.hosts)
        pages = max(options.pages * at_once // min(most * HELD_SITES, options.hosts), options.hosts * LEAST_PAGES_HOST)
        figures = measured(options, count, sites, pages, is_plain)
        rows.append({"harvesters": count, "sites": sites, "is_plain": is_plain, **figures})
        times = requests_s(figures) / requests_s(rows[0])
        historical = HISTORICAL.get(count, "") if sites == HELD_SITES else ""
        share = figures["pages_s"] / possible(figures["web"], at_once, options.latency)
        print(
            f"{count:>10}{sites:>12}{'plain' if is_plain else 'usual':>8}{figures['pages_s']:>10.0f}{times:>8.1f}"
            f"{historical:>12}{share:>17.0%}{figures['cpu_ms_page']:>15.2f}",
            flush=True,
        )
    homes = " ".join(str(Path(row["home"]).parent) for row in rows)
    print(f"the homes are left in {homes}: remove them later than five minutes before the next run", file=sys.stderr)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / time.strftime("harvesters-%Y%m%d-%H%M%S.json")).write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
