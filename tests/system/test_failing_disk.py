"""A disk that fails under a harvest: the status says it, nobody is guilty, and all goes on when the fault ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import shim
from tests.shim import Shim
from tests.system.harness import Harness, Web, until

pytestmark = [pytest.mark.system, pytest.mark.skipif(bool(shim.why_not()), reason=shim.why_not())]

PAGES = 40


@pytest.mark.parametrize(("below", "calls"), [("", shim.SYNC), ("hrf", shim.WRITE | shim.NAME), ("cabin", shim.WRITE)])
def test_a_failing_disk_is_said_and_outlived(
    webs: Callable[..., Web],
    homes: Callable[..., Harness],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    below: str,
    calls: int,
) -> None:
    web, home = webs(PAGES, "--delay", "0.02"), homes("workers = 1\n[page]\nworkers = 1\n[keep]\nraw = 'none'\n")
    with Shim(place / "control", home.home / below) as disk:
        for name, value in disk.environment.items():
            monkeypatch.setenv(name, value)
        with home.harvest(web.url("/index.html"), "--delay", "0") as running:
            until(lambda: len(web.requests()) > 5, "pages are asked for")
            disk.fail(calls, shim.CODES["EIO"], 1000, 1)
            until(lambda: "Input/output error" in _said(home) or "disk I/O error" in _said(home), "the status says it")
            assert disk.heal() > 0
            home.finish(running)
    assert PAGES == len(home.urls())
    assert [] == home.leftovers()  # in hrf/bad, too
    assert [] == [path for path in (home.home / "log").glob("*.out") if "Traceback" in path.read_text()]
    counts = [entry["path"] for entry in web.requests()]
    assert len(counts) - len(set(counts)) <= 1


def _said(home: Harness) -> str:
    """What the status says of the daemons and workers."""
    return json.dumps(home.status())
