"""Fixtures of the system tests: a web and a home, ended with the test."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests import shim
from tests.system import sites
from tests.system.harness import CLONE, Harness, Web

DAY_S = 86_400.0


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path: sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="cmb", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture
def webs(place: Path) -> Iterator[Callable[..., Web]]:
    """Makes sites: `webs(pages, *server options, bind=…)`."""
    with ExitStack() as stack:

        def make(pages: int, *options: str, bind: str = "127.0.0.31") -> Web:
            number = len(list(place.glob("site-*")))
            root = place / f"site-{number}"
            sites.make(root, pages)
            return stack.enter_context(closing(Web(root, place / f"log-{number}.jsonl", *options, bind=bind)))

        yield make


@pytest.fixture
def homes(place: Path) -> Iterator[Callable[..., Harness]]:
    """Makes homes: `homes(settings text)`."""
    with ExitStack() as stack:
        made: list[Harness] = []

        def make(settings: str = "") -> Harness:
            made.append(stack.enter_context(closing(Harness(place / f"h{len(made)}", settings))))
            return made[-1]

        yield make


@pytest.fixture
def _at_noon(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It is noon for all that is started, so that no new day begins meanwhile; where the clocks can be shifted."""
    if shim.why_not():
        yield
        return
    with shim.Shim(place / "clock", place / "nowhere") as machine:
        machine.clocks(real_s=DAY_S / 2 - time.time() % DAY_S)
        for name, value in machine.environment.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.fixture
def names(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, object]], Callable[[], list[str]]]:
    """Give names their answers; gives what tells the look-ups so far."""

    def make(answers: dict[str, object]) -> Callable[[], list[str]]:
        where = place / "internet"
        where.mkdir()
        (where / "names.json").write_text(json.dumps(answers))
        monkeypatch.setenv("COMBINE_TEST_INTERNET", str(where))
        old = os.environ.get("PYTHONPATH", "")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(CLONE / "tests/site/internet"), old])))
        return lambda: (where / "lookups").read_text().splitlines()

    return make
