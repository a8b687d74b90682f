"""Read the mock web's log and say where a site was asked too soon or twice at once.

    python -m tests.site.checker LOG DELAY_S

prints each violation and a line that counts requests and sites; exit 1 if there was one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Violation:
    """Two requests to one site that came too close: the gap is negative where they overlapped."""

    site: str
    gap_s: float
    first: str
    second: str

    def __str__(self) -> str:
        what = "overlap" if self.gap_s < 0 else "gap"
        return f"{self.site}: {what} of {abs(self.gap_s):.3f} s between {self.first} and {self.second}"


def read_log(path: Path) -> list[dict[str, Any]]:
    """The requests of a log, a cut last line left out."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def violations(
    log: Path | Iterable[dict[str, Any]], delay_s: float, *, abandoned: Iterable[str] = ()
) -> list[Violation]:
    """Every gap under `delay_s`, from the end of a request to the start of the site's next one, and every overlap.

    Requests to paths that begin with one of `abandoned` may be overlapped: the client gave them up while the server
    still worked.
    """
    requests = read_log(log) if isinstance(log, Path) else list(log)
    found: list[Violation] = []
    last: dict[str, tuple[float, str]] = {}
    left = tuple(abandoned)
    for request in sorted(requests, key=lambda entry: float(entry["start"])):
        site, path = request["host"], request["path"]
        if site in last:
            gap_s = request["start"] - last[site][0]
            if gap_s < delay_s:
                found.append(Violation(site, gap_s, last[site][1], path))
        end = request["start"] if left and path.startswith(left) else request["end"]
        if site not in last or end >= last[site][0]:
            last[site] = (end, path)
    return found


def main(arguments: list[str]) -> int:
    """Check a log from the command line."""
    requests = read_log(Path(arguments[0]))
    found = violations(requests, float(arguments[1]))
    for violation in found:
        print(violation)
    print(f"{len(requests)} requests to {len({entry['host'] for entry in requests})} sites, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
