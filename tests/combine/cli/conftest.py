from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from combine.cli import main, run, units
from combine.ipc.message import Message
from combine.keep.home import Home, create
from combine.keep.store import WirStore
from combine.urls import record_id
from formats import wir
from tests.combine.cli.fakes import Answer, FakeDaemon, ok, stat


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with a path that is short enough for sockets."""
    place = Path(tempfile.mkdtemp(prefix="cli-"))
    yield create(place / "h")
    shutil.rmtree(place)


@pytest.fixture
def combine(home: Home, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command on the home."""
    monkeypatch.setenv("COMBINE_HOME", str(home.path))
    return lambda *words, **more: CliRunner().invoke(main, [str(word) for word in words], **more)


@pytest.fixture
def put(home: Home) -> Callable[..., wir.Record]:
    """Put a record into the store."""

    def put(url: str, **fields: str) -> wir.Record:
        pairs = [("id", record_id(url)), ("url", url), *fields.items()]
        record = wir.record(pairs)
        WirStore(home).put(record)
        return record

    return put


class Desk:
    """The daemons of a home: started by the command's own calls, and counted."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.daemons: dict[str, FakeDaemon] = {}
        self.started: list[tuple[str, tuple[str, ...], int]] = []
        self.stopped: list[str] = []
        self.alive: dict[str, int] = {}
        self.scheduler: dict[str, Answer | Iterable[Message]] = {"STAT": [ok(stat())]}
        self.idbd: dict[str, Answer | Iterable[Message]] = {}

    def begin_unit(
        self, home: Path, unit: str, workers: int, overrides: tuple[str, ...], owner: int, *, forks: bool
    ) -> units.Beginning:
        return units.Beginning(home, unit, self.start_unit(home, unit, workers, overrides, owner))

    def start_unit(
        self,
        home: Path,
        unit: str,
        workers: int = 0,
        overrides: tuple[str, ...] = (),
        owner: int = 0,
        wait_s: float = 0.0,
    ) -> int:
        self.started.append((unit, overrides, owner))
        self.alive[unit] = 1
        if unit == "cabin" and "scheduler" not in self.daemons:
            self.daemons["scheduler"] = FakeDaemon(home / "run" / "scheduler.sock", "scheduler", self.scheduler)
        if unit == "hdb" and "idbd" not in self.daemons:
            self.daemons["idbd"] = FakeDaemon(home / "run" / "idbd.sock", "idbd", self.idbd)
        return 0

    def stop_units(self, home: Path, wanted: Iterable[str]) -> list[str]:
        stopped = [unit for unit in wanted if self.alive.pop(unit, 0)]
        self.stopped += stopped
        return stopped

    @property
    def asked(self) -> FakeDaemon:
        """The scheduler, for what it was asked."""
        return self.daemons["scheduler"]


@pytest.fixture
def desk(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Fake daemons that the command starts and stops as it would real ones."""
    desk = Desk(home)
    monkeypatch.setattr(units, "start_unit", desk.start_unit)
    monkeypatch.setattr(units, "begin_unit", desk.begin_unit)
    monkeypatch.setattr(units, "stop_units", desk.stop_units)
    monkeypatch.setattr(units, "running", lambda _: dict(desk.alive))
    monkeypatch.setattr(run, "LOOK_S", 0.0)
    monkeypatch.setattr(run, "LOOK_LATER_S", 0.0)
    yield desk
    for daemon in desk.daemons.values():
        daemon.close()
