"""Real keepalives whose daemons are fakes: what each of them does is written in a file of the home."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from combine.keep.home import Home, create
from combine.status import read_status

T = TypeVar("T")

CLONE = Path(__file__).resolve().parents[2]

#: Seconds after which a test that waits gives up; nothing here takes a tenth of it.
PATIENCE_S = 20.0

SETTINGS = """\
[supervise]
ping_s = 0.1
silence_s = 0.4
parser_silence_s = 0.4
stop_s = 0.6
back_off_s = 0.02
back_off_ceiling_s = 0.1
crash_loop = 3
"""

# Python imports sitecustomize in every process that has its directory on the path: keepalive finds these in place of
# the daemons.
FAKES = """
import os, select, signal, sys, types

def main(context):
    from combine.channel import Channel
    log = os.open(context.home / ("told-" + context.name), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    tell = lambda text: os.write(log, text.encode() + b"\\n")
    tell(f"start {os.getpid()} {context.slot} {context.settings.harvest.sites}")
    signal.signal(signal.SIGHUP, lambda *_: tell("hup"))
    try:
        does = (context.home / ("does-" + context.name)).read_text()
    except FileNotFoundError:
        does = ""
    stop = []
    def term(*_):
        tell("term")
        with open(context.home / "terms", "a") as terms:
            print(context.name, file=terms)
        stop.append(1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in does else term)
    channel = Channel(context.channel)
    if "unfit" in does:
        from combine.errors import ConfigError
        raise ConfigError("the queue is damaged: move it away")
    if "crash" in does:
        raise ValueError("as it was told")
    if "wait" in does:
        channel.note("waiting for its turn")
        while not stop and (context.home / ("does-" + context.name)).read_text() == does:
            select.select([channel], [], [], 0.02)
            if not channel.answer_pings():
                return 0
    channel.ready()
    if "once" in does:
        os.unlink(context.home / ("does-" + context.name))
        if "exit" in does:
            return 0
    if "silent" in does:
        while True:
            signal.pause()
    while not stop:
        select.select([channel], [], [], 0.02)
        if not channel.answer_pings() and "stubborn" not in does:
            tell("parent gone")
            return 0
    return 0

for name in ("scheduler", "idbd", "harvester", "parser", "logd"):
    module = types.ModuleType("daemons." + name)
    module.main = main
    sys.modules[module.__name__] = module
"""


def make_home(path: Path, settings: str = SETTINGS) -> Home:
    """A home in which units start and stop in tenths of seconds, and beside it the directory of the fakes."""
    home = create(path / "h")
    home.config_file.write_text(settings, encoding="utf-8")
    (path / "fakes").mkdir()
    (path / "fakes" / "sitecustomize.py").write_text(FAKES, encoding="utf-8")
    return home


def environment(home: Home) -> dict[str, str]:
    """The environment in which keepalive runs the fakes."""
    return {**os.environ, "PYTHONPATH": f"{home.path.parent / 'fakes'}:{CLONE}"}


def does(home: Home, name: str, words: str) -> None:
    """What a child does from its next start on."""
    (home.path / f"does-{name}").write_text(words, encoding="utf-8")


def told(home: Home, name: str) -> list[str]:
    """What a child wrote down, over all its lives."""
    try:
        return (home.path / f"told-{name}").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def keepalive(
    home: Home, unit: str, *arguments: str, environ: dict[str, str] | None = None, pass_fds: Iterable[int] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A keepalive in the foreground, killed at the end if it is still there."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "daemons.keepalive",
        unit,
        "--home",
        str(home.path),
        "--foreground",
        *arguments,
    ]
    environ = {**environment(home), **(environ or {})}
    with subprocess.Popen(
        command, env=environ, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, pass_fds=tuple(pass_fds)
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def children(home: Home, unit: str) -> dict[str, dict[str, Any]]:
    """The children of a unit by name, as its status has them; {} while there is none."""
    found = [status["children"] for status in read_status(home.path) if status["unit"] == unit]
    return {child["name"]: child for child in found[0]} if found else {}


def all_running(home: Home, unit: str) -> dict[str, dict[str, Any]]:
    """Wait until all children of a unit run."""
    return until(lambda: _if_all_running(children(home, unit)))


def _if_all_running(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]] | None:
    return found if found and all(child["state"] == "running" for child in found.values()) else None


def until(look: Callable[[], T | None], patience_s: float = PATIENCE_S) -> T:
    """Look again and again until there is something to see; fails the test after `patience_s`."""
    end = time.monotonic() + patience_s
    while not (seen := look()):
        assert time.monotonic() < end, "waited in vain"
        select.select([], [], [], 0.01)
    return seen


class Watch:
    """Processes by pid, held so that their end can be waited for."""

    def __init__(self, pids: Iterable[int]) -> None:
        self.pidfds = [os.pidfd_open(pid) for pid in pids]

    def all_gone(self, patience_s: float = PATIENCE_S) -> bool:
        """Wait for the end of all; False where one is still there."""
        gone = [bool(select.select([pidfd], [], [], patience_s)[0]) for pidfd in self.pidfds]
        for pidfd in self.pidfds:
            os.close(pidfd)
        return all(gone)
