"""The commands that look: status, and log.

`snapshot` asks the daemons that run and reads the status files of their keepalives; what does not run is said to be
unknown, never guessed, since only a daemon opens its database.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from combine.cli.peers import Stat, ask_stat, known_records
from combine.cli.screen import counted, put, put_coloured, put_json, put_pairs
from combine.cli.session import Session, command
from combine.cli.units import waits_of
from combine.eventlog import event_files
from combine.keep.home import Home
from combine.keep.spool import Spool
from combine.keep.store import WirStore
from combine.status import read_status

#: Seconds between two looks of --watch.
_WATCH_S = 1.0

#: Seconds over which the scheduler counts pages and bytes.
_RATE_S = 60.0

_SITES = ("unresolved", "waiting", "due", "leased", "blocked")
_JOBS = ("queued", "leased", "fetched", "dead")


def snapshot(home: Home) -> dict[str, Any]:
    """All that is known of a home now. What only a daemon knows is None where it does not answer."""
    units = read_status(home.path)
    running = {unit["unit"] for unit in units}
    stat = ask_stat(home) if "cabin" in running else None
    known = known_records(home) if "hdb" in running else None
    sizes = Spool(home).sizes()
    return {
        "home": str(home.path),
        "gate": stat.gate if stat else None,
        "stalled": (stat and stat.stalled) or waits_of(units) or None,
        "jobs": {name: getattr(stat, name) if stat else None for name in _JOBS},
        "sites": {name: _sites(stat)[name] if stat else None for name in _SITES},
        "records": count_records(home) if known is None else known,
        "spool": {"new": sizes.new, "cur": sizes.cur, "bad": sizes.bad},
        "rates": {
            "pages": round(stat.pages / _RATE_S, 2) if stat else None,
            "bytes": round(stat.bytes / _RATE_S) if stat else None,
        },
        "next_s": stat.next_s if stat else None,
        "waits": [
            {"site": line.site, "state": line.state, "next_s": line.next_s, "reason": line.reason}
            for line in (stat.sites if stat else ())
        ],
        "units": [{key: value for key, value in unit.items() if key != "children"} for unit in units],
        "daemons": [{"unit": unit["unit"], **child} for unit in units for child in unit["children"]],
    }


def count_records(home: Home) -> int:
    """The records in the store, counted there: what idbd says is the same and costs nothing, while it runs."""
    return sum(1 for _ in WirStore(home).places())


@command("status", json=True)
@click.option("--watch", is_flag=True, help="Look again every second, until Ctrl-C.")
def status_command(session: Session, watch: bool) -> int | None:
    """Say what runs, what waits and what was found."""
    home = session.home()
    while True:
        seen = snapshot(home)
        if session.json:
            put_json(seen)
        else:
            if watch and sys.stdout.isatty():
                sys.stdout.write("\x1b[H\x1b[2J")
            _print(seen)
        sys.stdout.flush()
        if not watch:
            return None
        time.sleep(_WATCH_S)


@command("log")
@click.option("-n", "--lines", type=click.IntRange(0), default=20, show_default=True, help="How many, the newest last.")
@click.option("--all", "everything", is_flag=True, help="All that is kept.")
def log_command(session: Session, lines: int, everything: bool) -> None:
    """Print the events that the daemons noted.

    Each is one line of JCF.
    """
    found = list(events(session.home(write=False), None if everything else lines))
    put("".join(found))


def events(home: Home, count: int | None) -> Iterator[str]:
    """The last events in the log, oldest first; all of them where `count` is None."""
    kept: list[list[str]] = []
    missing = count
    for path in reversed(event_files(home.log)):
        if missing == 0:
            break
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            lines = file.readlines()
        kept.append(lines if missing is None else lines[-missing:])
        missing = None if missing is None else missing - len(kept[-1])
    for lines in reversed(kept):
        yield from lines


def _sites(stat: Stat) -> dict[str, int]:
    return {
        "unresolved": stat.unresolved,
        "waiting": stat.waiting,
        "due": stat.due,
        "leased": stat.leased_sites,
        "blocked": stat.blocked,
    }


def _print(seen: dict[str, Any]) -> None:
    jobs, sites, spool, rates = seen["jobs"], seen["sites"], seen["spool"], seen["rates"]
    runs = [unit["unit"] for unit in seen["units"]]
    put_pairs(
        [
            ("home", seen["home"]),
            ("runs", ", ".join(runs) if runs else "nothing; combine start, or combine harvest, starts it"),
            ("gate", seen["gate"] or "unknown: the scheduler does not answer"),
            *([("stalled", seen["stalled"])] if seen["stalled"] else []),
            *([("jobs", _counted(jobs)), ("sites", _counted(sites))] if seen["gate"] else []),
            ("records", f"{seen['records']:,}"),
            ("spool", _counted(spool)),
            *([("rates", f"{rates['pages']} pages/s, {rates['bytes']:,} bytes/s")] if seen["gate"] else []),
        ]
    )
    for line in seen["waits"]:
        put(f"  {line['site']}  {line['state']}, {line['next_s']:.0f} s: {line['reason']}\n")
    for child in seen["daemons"]:
        put_daemon(child)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def put_daemon(child: dict[str, Any]) -> None:
    """Print a line of a child, as its unit's status says it."""
    state = str(child.get("state", ""))
    restarts = counted(child.get("restarts", 0), "restart")
    put(f"  {child.get('name', ''):<14} {child.get('pid', 0):>8}  {child.get('since', '')}  {restarts}  ")
    put_coloured(state, 32 if state == "running" else 33)
    note = child.get("note") or (f"after {child['last_exit']}" if child.get("last_exit") else "")
    put(f"  {note}\n" if note else "\n")
