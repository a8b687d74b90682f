"""The parser over a batch, without processes: what one page does harms no other, and nothing holds it up for ever."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from combine.channel import Channel, Context
from combine.config import Settings
from combine.keep import spool
from combine.keep.batch import BatchWriter
from combine.keep.home import Home, create
from combine.keep.slots import Slot
from combine.page.lesson import Lesson
from combine.urls import record_id
from daemons.parser import Parser
from formats import jcf
from formats.hrf import Harvest
from formats.jcf import Job

PAGES = [f"http://a.example/{number}" for number in range(3)]


class Peer:
    """A scheduler or idbd for whom every harvest is current."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Job]] = []

    def call(self, verb: str, lines: Iterable[Job | bytes]) -> list[Job]:
        jobs = [line if isinstance(line, Job) else jcf.parse(line) for line in lines]
        self.told += [(verb, job) for job in jobs]
        if verb == "TAKE":
            return [jcf.job(URL=PAGES[1], FETCH=9, LEASE=8)]
        return [jcf.job(FETCH=job.fetch) for job in jobs] if verb == "DONE" else []

    def said(self, word: str) -> list[Job]:
        return [job for verb, job in self.told if verb == word]


class Bench:
    """A parser whose peers are in memory, and a home."""

    def __init__(self, place: Path) -> None:
        self.home: Home = create(place / "h")
        self.ends = socket.socketpair()
        self.slot = Slot.acquire(self.home, "parser", 1)
        context = Context(self.home.path, "parser-1", 1, Settings(), self.ends[0])
        self.parser = Parser(self.home, self.slot, context, Channel(self.ends[0]))
        self.peer = Peer()
        self.parser.__dict__.update(_scheduler=self.peer, _idbd=self.peer)

    def close(self) -> None:
        self.parser._events.close()
        self.slot.release()
        for end in self.ends:
            end.close()

    def publish(self) -> None:
        writer = BatchWriter(self.home, "harvester-1", Settings())
        header = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
        for number, url in enumerate(PAGES, 1):
            body = b"<title>%d</title><p>words <a href=/%d9>on</a>" % (number, number)
            job = jcf.job(URL=url, FETCH=number, SEED=PAGES[0])
            writer.put(Harvest(job, "ok", "2026-11-30T08:00:00.123Z", header=header, body=body))
        writer.publish()

    def work(self) -> None:
        """Claim what is there, and bring it to STORED."""
        for batch in self.parser._spool.claim("parser-1", 5):
            self.parser._batch(batch)
        self.parser._finish()

    def bad(self) -> list[str]:
        return sorted(path.suffix for path in self.home.spool_bad.iterdir())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def outcomes(bench: Bench) -> dict[str, str]:
    return {job.url: job.get("OUTCOME") for job in bench.peer.said("STORED")}


def raising(*_: object) -> Job:
    raise ZeroDivisionError("a bug")


def endless(job: Job) -> Job:
    return job.having(TYP="text/" + "h" * 20_000)


@pytest.mark.parametrize("fault", [raising, endless])
def test_a_page_of_which_nothing_can_be_told_goes_to_bad_and_the_others_are_stored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Job], Job]
) -> None:
    stored = Lesson.stored
    monkeypatch.setattr(
        Lesson, "stored", lambda lesson: fault(stored(lesson)) if lesson.url == PAGES[1] else stored(lesson)
    )
    bench.publish()
    bench.work()
    assert {PAGES[0]: "ok", PAGES[1]: "failed", PAGES[2]: "ok"} == outcomes(bench)
    assert [".hrf", ".jcf"] == bench.bad()
    assert {PAGES[0], PAGES[2]} == {record.url for record in bench.parser._store.records()}
    assert {"http://a.example/19", "http://a.example/39"} == {job.url for job in bench.peer.said("ADD")}


@pytest.mark.parametrize("rest", [b"", b"WIR/2.0\nid: 1", b"\0" * 100])
def test_a_record_that_a_power_loss_has_damaged_is_made_anew(bench: Bench, rest: bytes) -> None:
    place = bench.parser._store.path(record_id(PAGES[1]))
    place.parent.mkdir(parents=True)
    place.write_bytes(rest)
    bench.publish()
    bench.work()
    assert {"ok"} == set(outcomes(bench).values())
    assert set(PAGES) == {record.url for record in bench.parser._store.records()}
    assert [] == bench.bad()


def test_a_damaged_record_does_not_hold_relink_jobs_up(bench: Bench) -> None:
    place = bench.parser._store.path(record_id(PAGES[1]))
    place.parent.mkdir(parents=True)
    place.write_bytes(b"")
    assert bench.parser._relinks()
    bench.parser._finish()
    assert [9] == [job.fetch for job in bench.peer.said("STORED")]


def test_a_batch_that_was_taken_away_is_left_to_the_scheduler(bench: Bench) -> None:
    bench.publish()
    (batch,) = bench.parser._spool.claim("parser-1", 5)
    batch.path.unlink()
    bench.parser._batch(batch)
    bench.parser._finish()
    assert [] == bench.peer.told


def test_a_batch_that_was_claimed_amid_a_fault_of_the_disk_is_not_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise OSError(errno.EIO, "Input/output error")

    assert [] == bench.parser._claim()
    bench.publish()
    with monkeypatch.context() as patch:
        patch.setattr(spool, "_day", fail)
        with pytest.raises(OSError, match="Input/output"):
            bench.parser._claim()
    (batch,) = bench.parser._claim()
    bench.parser._batch(batch)
    assert [] == bench.parser._claim()
    bench.parser._finish()
    assert dict.fromkeys(PAGES, "ok") == outcomes(bench)
