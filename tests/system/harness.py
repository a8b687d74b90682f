"""Whole harvests with real processes: a home, a mock web, the command, and hands that kill.

A `Harness` owns what it starts and ends it by pid. Nothing here waits for time to pass: `until` looks at a fact until
it holds, or fails at a deadline that says what did not.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from combine.status import read_status

CLONE = Path(__file__).resolve().parents[2]
COMBINE = [str(Path(sys.executable).with_name("combine"))]

#: Seconds after which a fact that does not hold fails the test; generous, since machines are slow when they are busy.
DEADLINE_S = 60.0

#: What of a record depends on when and by which way its page was met (compare as sets otherwise).
PASSING = ("id", "first_seen", "checked", "changed", "fetched", "raw", "via", "depth", "same_as")

T = TypeVar("T")


def until(fact: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Look until a fact holds, and give it."""
    end = time.monotonic() + deadline_s
    pause = threading.Event()
    while not (value := fact()):
        assert time.monotonic() < end, f"within {deadline_s:.0f} s this did not come about: {what}"
        pause.wait(0.02)
    return value


class Web:
    """A mock web server, a process of its own."""

    def __init__(self, root: Path, log: Path, *options: str, bind: str = "127.0.0.31") -> None:
        self.root, self.log = root, log
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.site.server",
                "--bind",
                bind,
                "--root",
                str(root),
                "--log",
                str(log),
                *options,
            ],
            stdout=subprocess.PIPE,
            cwd=CLONE,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1].partition("://")[2].rstrip("/")

    def url(self, path: str = "/") -> str:
        """The URL of a path."""
        return f"http://{self.address}{path}"

    def requests(self) -> list[dict[str, Any]]:
        """What was asked so far."""
        return [json.loads(line) for line in self.log.read_text().split("\n")[:-1]] if self.log.exists() else []

    def close(self) -> None:
        """End the server."""
        self.process.terminate()
        self.process.communicate(timeout=DEADLINE_S)


class Harness:
    """One home and its processes."""

    def __init__(self, home: Path, settings: str = "") -> None:
        self.home = home
        home.mkdir()
        self.run("init", str(home))
        (home / "combine.toml").write_text(f'[harvest]\nallow_private = ["127.0.0.0/8"]\n{settings}')

    def run(self, *arguments: str, timeout_s: float = 120.0, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        done = subprocess.run(
            [*COMBINE, "--home", str(self.home), *arguments],
            capture_output=True, text=True, timeout=timeout_s, cwd=CLONE, check=False,
        )  # fmt: skip
        assert code is None or code == done.returncode, (
            f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        if told := re.search(r"combine: done .*: ([\d,]+) records? in ", done.stderr):
            # What idbd counts is what lies on the disk.
            stored = sum(path.is_file() for path in (self.home / "hdb").rglob("*"))
            assert stored == int(told[1].replace(",", "")), done.stderr
        return done

    @contextmanager
    def harvest(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A harvest that goes on while the test does something; it is ended with the block."""
        running = subprocess.Popen(
            [*COMBINE, "--home", str(self.home), "harvest", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=CLONE,
        )  # fmt: skip
        try:
            yield running
        finally:
            if running.poll() is None:
                running.send_signal(signal.SIGINT)
            running.communicate(timeout=DEADLINE_S)

    def finish(self, running: subprocess.Popen[str], timeout_s: float = 120.0) -> str:
        """Wait for a harvest's end, which must be a good one; gives what it said."""
        said, _ = running.communicate(timeout=timeout_s)
        assert running.returncode == 0, f"exit {running.returncode}\n{said}\n{self.logs()}"
        return said

    def status(self) -> dict[str, Any]:
        """What `combine status --json` says."""
        return dict(json.loads(self.run("status", "--json", code=None).stdout))

    def pid(self, name: str) -> int:
        """The pid of a daemon or worker, by its name or the beginning of it; 0 if it does not run."""
        children = [child for unit in read_status(self.home) for child in unit["children"]]
        for child in children:
            if child["name"].startswith(name) and child["pid"] and child["state"] == "running":
                return int(child["pid"])
        return 0

    def processes(self) -> list[int]:
        """All processes with this home on their command line."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if str(self.home).encode() in command and b"tests.site.server" not in command:
                    found.append(int(entry.name))
        return found

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to a process by its name, as soon as one runs; gives its pid."""
        return until(lambda: _sent(self.pid(name), number), f"{name} runs")

    def kill_all(self) -> None:
        """Kill everything of this home. Children end with their keepalives, and so some may be gone already."""
        for pid in self.processes():
            _sent(pid, signal.SIGKILL)

    def records(self, web: Web) -> dict[str, str]:
        """The store: each record's text by its path on the web, without what depends on how and when a page was met."""
        texts = {}
        for path in (self.home / "hdb").rglob("*"):
            if path.is_file():
                text = path.read_text("utf-8").replace(web.address, "SITE")
                lines = text.split("\n")
                url = lines[2].removeprefix("url: http://SITE")
                texts[url] = "\n".join(line for line in lines if line.split(":")[0] not in PASSING)
        return texts

    def urls(self) -> set[str]:
        """The URLs that have a record."""
        lines = self.run("list").stdout.split("\n")
        return {line.split("\t")[1] for line in lines if line}

    def logs(self) -> str:
        """The end of each unit's log, for a test that fails."""
        return "\n".join(
            f"{path.name}: …{path.read_text()[-3000:]}" for path in sorted((self.home / "log").glob("*.out"))
        )

    def leftovers(self) -> list[str]:
        """Files that should not be there when all work is done: half-written ones, and batches still in the spool."""
        places = ("tmp", "hrf/tmp", "hrf/new", "hrf/cur", "hrf/bad")
        return [str(path) for place in places for path in (self.home / place).rglob("*") if path.is_file()]

    def close(self) -> None:
        """End everything of this home."""
        subprocess.run([sys.executable, "-c", "from combine.cli.units import stop_all; stop_all()", "--home",
        str(self.home)],
                       capture_output=True, cwd=CLONE, check=False, timeout=60)  # fmt: skip
        self.kill_all()


def _sent(pid: int, number: int) -> int:
    """Send a signal; gives the pid, 0 where nobody has it any more."""
    if pid:  # 0 would be all of ours
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return 0
    return pid
