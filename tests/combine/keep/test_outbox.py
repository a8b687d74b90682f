"""The outbox: disk before message, in order, and no batch larger than one may be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from combine.config import Settings
from combine.errors import RetryLater
from combine.ipc.client import AsyncClient
from combine.keep import outbox
from combine.keep.batch import BatchWriter
from combine.keep.home import Home
from combine.keep.outbox import Outbox
from formats import hrf, jcf
from formats.jcf import Job
from tests.combine.keep.material import a_harvest
from tests.combine.keep.test_batch import small


class Scheduler:
    """Hears DONE, looks what lies in the spool at that moment, and may be away at first."""

    def __init__(self, home: Home, away: int = 0) -> None:
        self.home, self.away = home, away
        self.heard: list[Job] = []

    async def call(self, verb: str, lines: Iterable[Job]) -> list[Job]:
        if self.away:
            self.away -= 1
            raise RetryLater("away")
        assert "DONE" == verb
        for line in lines:
            if line.get("BATCH"):
                assert line.url in in_batch(self.home.spool_new / f"{line.get('BATCH')}.hrf")
            self.heard.append(line)
        return []


def in_batch(path: Path) -> list[str]:
    return [harvest.job.url for _, _, harvest in hrf.scan(path.read_bytes())]


def sent(home: Home, settings: Settings, pages: int, scheduler: Scheduler, idle: bool = False) -> list[int]:
    """Put pages and the lease's END; gives the lease that was told to be over."""
    ended: list[int] = []

    async def work() -> None:
        writer = BatchWriter(home, "harvester-1", settings)
        box = Outbox(writer, cast(AsyncClient, scheduler), settings.harvest.batch_s, lambda: idle)
        box.ended = ended.append
        for number in range(pages):
            url = f"http://a.test/{number}"
            await box.put(jcf.job(URL=url, OUTCOME="ok"), a_harvest(url), None)
        box.tell(jcf.job(LEASE=7, END="1"))
        running = asyncio.create_task(box.run())
        await box.close()
        await running

    asyncio.run(work())
    return ended


def sizes(home: Home) -> list[int]:
    return [len(in_batch(path)) for path in sorted(home.spool_new.iterdir())]


@pytest.mark.parametrize(("pages", "batches"), [(1, [1]), (3, [3]), (7, [3, 3, 1])])
def test_a_batch_is_closed_when_it_is_full(home: Home, pages: int, batches: list[int]) -> None:
    scheduler = Scheduler(home)
    assert [7] == sent(home, small(records=3), pages, scheduler)
    assert batches == sizes(home)
    assert [f"http://a.test/{number}" for number in range(pages)] + [""] == [line.url for line in scheduler.heard]


def test_a_lease_without_a_harvest_is_ended_without_a_batch(home: Home) -> None:
    assert [7] == sent(home, small(), 0, Scheduler(home))
    assert [] == sizes(home)


def test_who_is_away_hears_it_later(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "AGAIN_S", 0.001)
    scheduler = Scheduler(home, away=2)
    assert [7] == sent(home, small(records=2), 3, scheduler)
    assert 4 == len(scheduler.heard)


def test_a_full_disk_costs_time_only(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "AGAIN_S", 0.001)
    put, faults = BatchWriter.put, [OSError(28, "full"), OSError(28, "full")]

    def full(writer: BatchWriter, *given: Any) -> None:
        if faults:
            raise faults.pop()
        put(writer, *given)

    monkeypatch.setattr(BatchWriter, "put", full)
    assert [7] == sent(home, small(), 2, Scheduler(home))
    assert [2] == sizes(home)
