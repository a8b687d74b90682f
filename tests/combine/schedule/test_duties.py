"""What the scheduler does unasked, round by round; idbd, the resolver, the disk and the clock are a test's."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from combine.errors import Rejected, RetryLater, WireError
from combine.ipc.message import message
from combine.schedule import duties as duties_module
from combine.schedule import names
from combine.schedule.clock import utc_text
from combine.schedule.duties import Duties, Outside, Pulse
from combine.schedule.leases import Holder
from combine.schedule.names import Answer
from combine.services import MESSAGE_LINES
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.world import KNOWN, A, World, always

URL = "http://a.example/"
FULL = sqlite3.OperationalError("database or disk is full")


class Skeleton:
    """The server: commits at once, and reads the state anew where something failed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.stopping = asyncio.Event()
        self.spoilt: list[str] = []
        self.after_spoil: Callable[[], None] = lambda: None

    async def durable(self) -> None:
        self.world.commit()

    def commit_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self.world.rows.commit)

    def spoil(self, reason: str, error: Exception | None = None) -> None:
        self.spoilt.append(reason)
        self.world.crash()
        self.after_spoil()


class Idbd:
    """A client of idbd: answers, or raises what a test put into `faults`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.faults: list[Exception] = []
        self.told: list[list[Job]] = []
        self.asked: list[Job] = []
        self.answers: list[list[Job]] = []
        self.poison = ""
        self.closed = False

    async def call(self, verb: str, sent: Iterable[Job | bytes | str] = ()) -> list[Job]:
        lines = message(verb, sent).jobs()
        await asyncio.sleep(0)
        if self.faults:
            raise self.faults.pop(0)
        if verb == "DUE":
            self.asked += lines
            return self.answers.pop(0) if self.answers else []
        if any(line.url == self.poison for line in lines):
            raise Rejected("a line of REMEMBER is none")
        self.told.append(lines)
        self.world.visits.remember(lines, self.world.clock.utc())
        return []

    def close(self) -> None:
        self.closed = True


class Room:
    """A world with its duties."""

    def __init__(self) -> None:
        self.world = World(listed=always)
        self.server = Skeleton(self.world)
        self.idbd = Idbd(self.world)
        self.batches: set[str] = set()
        self.sentence = ""
        self.offered: list[tuple[list[str], bool]] = []
        outside = Outside(lambda: self.batches, self.stalled, lambda host, address: "")
        self.duties = Duties(self.world.frontier, self.idbd, outside, self.server, self.offer)
        self.server.after_spoil = self.duties.after_load

    def stalled(self) -> str:
        if self.sentence == "fault":
            raise OSError(5, "Input/output error")
        return self.sentence

    async def offer(self, lines: list[str], is_due: bool) -> None:
        self.offered.append(([jcf.parse_text(line).url for line in lines], is_due))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let all others work until something holds."""
        while not condition():  # noqa: ASYNC110 -- a test may wait for anything, which has no event
            await asyncio.sleep(0.001)


@asynccontextmanager
async def room() -> AsyncIterator[Room]:
    """A room whose duties are ended."""
    made = Room()
    try:
        yield made
    finally:
        await made.duties.stop()
        assert made.idbd.closed


def run(work: Callable[[Room], Coroutine[Any, Any, None]]) -> None:
    async def inside() -> None:
        async with room() as made:
            await asyncio.wait_for(work(made), 20)

    asyncio.run(inside())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No duty waits for the clock on the wall."""
    for name in ("ROOM_S", "WATCH_S", "REVISIT_S", "AGAIN_S"):
        monkeypatch.setattr(duties_module, name, 0.001)


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> dict[str, Answer]:
    """The answers of the resolver."""
    known: dict[str, Answer] = {}

    async def look_up(host: str, refusal: Callable[[str, str], str], turn: int) -> Answer:
        await asyncio.sleep(0)
        return known.get(host, Answer("192.0.2.1"))

    monkeypatch.setattr(names, "look_up", look_up)
    return known


def stored(room: Room, *urls: str) -> None:
    """Pages that are stored, and of which idbd has not heard."""
    for url in urls:
        room.world.seed(url)
    for job in room.world.take():
        room.world.done(job, end=False)
        room.world.stored(job, tell=False)
    room.duties.stored.set()


# Telling idbd -------------------------------------------------------------------------------------------------------


def test_idbd_is_told_and_then_the_rows_go() -> None:
    async def work(room: Room) -> None:
        stored(room, URL, URL + "2")
        await room.duties.tell()
        assert [[URL, URL + "2"]] == [[line.url for line in lines] for lines in room.idbd.told]
        assert ["", ""] == [room.world.state(URL), room.world.state(URL + "2")]

    run(work)


@pytest.mark.parametrize("fault", [RetryLater("away"), WireError("garbage")])
def test_while_idbd_is_away_the_rows_stay(fault: Exception) -> None:
    async def work(room: Room) -> None:
        stored(room, URL)
        room.idbd.faults = [fault]
        await room.duties.tell()
        assert "fetched" == room.world.state(URL)
        await room.duties.tell()
        assert "" == room.world.state(URL)

    run(work)


def test_a_visit_that_idbd_does_not_take_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def work(room: Room) -> None:
        urls = [f"{URL}{number}" for number in range(5)]
        stored(room, *urls)
        room.idbd.poison = urls[2]
        await room.duties.tell()
        assert [[urls[0]], [urls[1]], [urls[3]], [urls[4]]] == [[line.url for line in one] for one in room.idbd.told]
        assert [""] * 5 == [room.world.state(url) for url in urls]

    run(work)
    assert 1 == len([record for record in caplog.records if record.levelno == logging.ERROR])


def test_many_are_told_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duties_module, "TELL", 2)

    async def work(room: Room) -> None:
        stored(room, *(f"{URL}{number}" for number in range(5)))
        await room.duties.tell()
        assert [2, 2, 1] == [len(lines) for lines in room.idbd.told]

    run(work)


# A full disk, a bug -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [FULL, OSError(28, "No space left on device")])
def test_a_full_disk_ends_no_duty(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    async def work(room: Room) -> None:
        stored(room, URL)
        told, faults = room.world.frontier.told, [fault, fault]

        def full(rows: Any) -> None:
            if faults:
                raise faults.pop()
            told(rows)

        monkeypatch.setattr(room.world.frontier, "told", full)
        room.duties.start()
        await room.until(lambda: room.world.state(URL) == "")
        assert [f"the disk failed: {fault}"] * 2 == room.server.spoilt
        assert not room.server.stopping.is_set()

    run(work)


def test_a_bug_in_a_duty_ends_the_daemon(caplog: pytest.LogCaptureFixture) -> None:
    async def work(room: Room) -> None:
        async def broken() -> None:
            raise KeyError("a bug")

        room.duties.later(broken())
        await room.server.stopping.wait()

    run(work)
    assert "a duty failed, the daemon ends" in caplog.text


# Names --------------------------------------------------------------------------------------------------------------


def test_names_are_looked_up(addresses: dict[str, Answer]) -> None:
    async def work(room: Room) -> None:
        for name in ("a", "b", "c"):
            room.world.seed(f"http://{name}.example/")
        addresses["b.example"] = Answer(reason="no such name", no_such_name=True)
        addresses["c.example"] = Answer(reason="private", is_refused=True)
        room.duties.start()
        room.duties.taken()
        sites = [room.world.site(f"{name}.example") for name in ("a", "b", "c")]
        await room.until(lambda: not any(site.resolving for site in sites) and bool(sites[0].address))
        await room.until(lambda: bool(sites[1].counts[1] and sites[2].counts[5]))
        assert ["due", "empty", "empty"] == [site.state for site in sites]
        assert ("192.0.2.1", 1) == (sites[0].address, sites[1].name_failures)

    run(work)


def test_no_name_is_looked_up_before_somebody_takes(addresses: dict[str, Answer]) -> None:
    addresses["a.example"] = Answer(reason="private", is_refused=True)

    async def work(room: Room) -> None:
        room.world.seed(URL)
        room.duties.start()
        room.duties.changed()
        for _ in range(20):
            await asyncio.sleep(0)
        assert "unresolved" == room.world.site("a.example").state
        room.duties.taken()
        await room.until(lambda: "empty" == room.world.site("a.example").state)

    run(work)


def test_no_more_names_at_once_than_allowed(addresses: dict[str, Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "LOOKUPS", 2)

    async def work(room: Room) -> None:
        for number in range(9):
            room.world.seed(f"http://{number}.example/")
        room.duties.start()
        room.duties.taken()
        most = 0
        while room.world.frontier.unresolved(1) or any(site.resolving for site in room.world.frontier.sites):
            most = max(most, sum(site.resolving for site in room.world.frontier.sites))
            await asyncio.sleep(0)
        assert 2 == most

    run(work)


def test_a_name_whose_site_left_meanwhile_is_nobodys(addresses: dict[str, Answer]) -> None:
    async def work(room: Room) -> None:
        room.world.seed(URL)
        room.duties.unresolved.set()
        await room.duties.resolve()
        room.world.crash()
        room.world.frontier.forget([URL])
        room.world.commit()
        await room.until(lambda: not room.duties._lookups)

    run(work)


def test_a_full_disk_ends_no_look_up(addresses: dict[str, Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    addresses["a.example"] = Answer(reason="no such name", no_such_name=True)

    async def work(room: Room) -> None:
        room.world.seed(URL)
        faults = [FULL]
        unresolvable = room.world.frontier.unresolvable

        def full(*args: Any) -> None:
            if faults:
                raise faults.pop()
            unresolvable(*args)

        monkeypatch.setattr(room.world.frontier, "unresolvable", full)
        room.duties.start()
        room.duties.taken()
        await room.until(lambda: room.world.site("a.example").counts[1] == 1)
        assert 1 == len(room.server.spoilt)

    run(work)


# Waking -------------------------------------------------------------------------------------------------------------


def test_who_waits_is_woken_when_something_is_due(addresses: dict[str, Answer]) -> None:
    async def work(room: Room) -> None:
        room.world.seed(URL)
        room.duties.start()
        room.duties.taken()
        waiting = asyncio.ensure_future(room.duties.pulse.wait(20))
        await waiting
        assert "due" == room.world.site("a.example").state

    run(work)


def test_the_end_of_a_wait_is_noticed(addresses: dict[str, Answer]) -> None:
    async def work(room: Room) -> None:
        room.world.seed(URL)
        room.world.done(room.world.take()[0], "failed", REASON="http")
        room.duties.start()
        assert "queued" == room.world.state(URL)
        row = room.world.row(URL)
        assert row is not None
        room.world.clock.now = row.later
        room.duties.looked()
        await room.until(lambda: room.world.site("a.example").counts[0] == 1)

    run(work)


def test_a_pulse_is_waited_for_so_long_at_most() -> None:
    async def work(room: Room) -> None:
        pulse = Pulse()
        await pulse.wait(0.001)
        await pulse.wait(-1)
        first, second = (asyncio.ensure_future(pulse.wait(20)) for _ in range(2))
        await asyncio.sleep(0)
        second.cancel()
        pulse.beat()
        await first
        pulse.beat()

    run(work)


# Leases and batches -------------------------------------------------------------------------------------------------


def test_leases_of_holders_that_died_are_over(addresses: dict[str, Answer]) -> None:
    async def work(room: Room) -> None:
        room.world.seed(URL)
        room.world.take(Holder(2**22 + 1, 1))
        room.duties.start()
        assert "queued" == room.world.state(URL)

    run(work)


def test_a_holder_that_dies_is_noticed() -> None:
    async def work(room: Room) -> None:
        room.world.seed(URL)
        room.world.take(A)
        room.duties._died(A)
        assert "queued" == room.world.state(URL)

    run(work)


def test_a_holder_that_dies_while_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(room: Room) -> None:
        room.world.seed(URL)
        room.world.take(A)

        def full(*args: Any) -> None:
            raise FULL

        with monkeypatch.context() as patch:
            patch.setattr(room.world.frontier, "keep_only", full)
            room.duties._died(A)
        assert 1 == len(room.server.spoilt)
        room.duties.end_orphaned()
        assert "queued" == room.world.state(URL)

    run(work)


def test_the_holder_of_a_lease_past_its_time_is_killed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(room: Room) -> None:
        killed: list[Holder] = []
        monkeypatch.setattr(room.duties.holders, "kill", killed.append)
        room.world.seed(URL)
        room.world.take(A)
        room.world.clock.sleep(60 + 120)
        room.duties.end_overdue()
        assert [] == killed
        room.world.clock.sleep(1)
        for _ in range(2):
            room.duties.end_overdue()
        assert [A] == killed
        assert "leased" == room.world.state(URL)

    run(work)


def test_a_batch_that_is_nowhere_is_lost_at_the_third_look() -> None:
    async def work(room: Room) -> None:
        room.world.seed(URL)
        room.world.done(room.world.take()[0], BATCH="b")
        for wait, batches, state in (
            (0.0, set(), "fetched"),
            (0.0, set(), "fetched"),
            (0.0, set(), "fetched"),
            (11.0, {"b"}, "fetched"),
            (0.0, set(), "fetched"),
            (0.0, set(), "fetched"),
            (0.0, {"b"}, "fetched"),
            (0.0, set(), "fetched"),
            (0.0, set(), "fetched"),
            (0.0, set(), "queued"),
            (0.0, set(), "queued"),
        ):
            room.world.clock.sleep(wait)
            room.batches = batches
            room.duties.rescue()
            assert state == room.world.state(URL)

    run(work)


def test_watching_looks_at_both() -> None:
    async def work(room: Room) -> None:
        room.world.seed(URL)
        room.world.done(room.world.take()[0], BATCH="b")
        room.world.clock.sleep(11)
        room.duties.start()
        await room.until(lambda: room.world.state(URL) == "queued")

    run(work)


# The disk, the line -------------------------------------------------------------------------------------------------


def test_what_stands_in_the_way_is_said(caplog: pytest.LogCaptureFixture) -> None:
    async def work(room: Room) -> None:
        room.sentence = "the disk is full"
        room.duties.start()
        await room.until(lambda: room.world.frontier.stalled == "the disk is full")
        room.sentence = "fault"
        await room.until(lambda: bool(room.server.spoilt))
        room.sentence = ""
        await room.until(lambda: room.world.frontier.stalled == "")
        for site in range(10):
            room.world.frontier.line.note(site, True, 0.0)
        await room.until(lambda: "our own line" in caplog.text)
        room.world.frontier.line.note(1, False, 1.0)
        await room.until(lambda: "sites can be reached again" in caplog.text)

    run(work)
    assert "the disk is full" in caplog.text


# What is due again --------------------------------------------------------------------------------------------------


def visit(number: int, due: float = 0.0) -> Job:
    return jcf.job(URL=f"{URL}{number}", SEED=URL, DEPTH=1, DUE=utc_text(due))


@pytest.mark.parametrize(("standing", "gate", "asks"), [(True, "open", True), (False, "open", False)])
def test_a_standing_harvest_asks_what_is_due(standing: bool, gate: str, asks: bool) -> None:
    async def work(room: Room) -> None:
        scheduler = replace(KNOWN.scheduler, standing=standing)
        room.world.frontier.settings = replace(KNOWN, scheduler=scheduler)
        room.world.frontier.gate = gate
        room.idbd.answers = [[visit(1), visit(2).having(SEED=None)]]
        await room.duties.revisit()
        assert asks == bool(room.idbd.asked)
        assert ([([f"{URL}1"], False)] if asks else []) == room.offered

    run(work)


def test_what_is_due_is_had_in_parts() -> None:
    async def work(room: Room) -> None:
        first = [visit(number, float(number)) for number in range(MESSAGE_LINES)]
        room.idbd.answers = [first, [first[-1], visit(5000, 5000.0)]]
        await room.duties.ask_again(jcf.job(SITE="a.example", OUTCOME="denied"), is_due=True)
        assert ["", first[-1].get("DUE")] == [line.get("DUE") for line in room.idbd.asked]
        assert [MESSAGE_LINES, 1] == [len(urls) for urls, _ in room.offered]
        assert {True} == {is_due for _, is_due in room.offered}

    run(work)


def test_more_than_a_part_in_one_second_does_not_stop_the_rest() -> None:
    async def work(room: Room) -> None:
        same = [visit(number, 7.0) for number in range(MESSAGE_LINES)]
        room.idbd.answers = [same, same, [visit(9999, 9.0)]]
        await room.duties.ask_again(jcf.job())
        assert ["", utc_text(7.0), utc_text(8.0)] == [line.get("DUE") for line in room.idbd.asked]
        assert [MESSAGE_LINES, 1] == [len(urls) for urls, _ in room.offered]

    run(work)


@pytest.mark.parametrize("fault", [RetryLater("away"), Rejected("no"), WireError("garbage")])
def test_where_idbd_is_away_it_is_asked_another_time(fault: Exception) -> None:
    async def work(room: Room) -> None:
        room.idbd.faults = [fault]
        await room.duties.ask_again(jcf.job())
        assert [] == room.offered

    run(work)
