"""The scheduler's desk on its socket, with idbd beside it: verbs, waiting, full disks, restarts."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from combine.channel import Context
from combine.config import Harvest, Settings
from combine.errors import Rejected, RetryLater
from combine.keep.home import create
from combine.schedule import duties as duties_module
from combine.schedule.holders import start_time
from combine.schedule.leases import Holder
from daemons import scheduler as scheduler_module
from daemons.scheduler import Scheduler
from formats import jcf
from formats.jcf import Job
from tests.daemons.desks import LISTED, Cabin, broken, cabin, run, standing

URL = "http://127.0.0.1:8000/"
SITE = "127.0.0.1:8000"
SEED = jcf.job(URL=URL, SCOPE="host", MAXDEPTH=3)
FULL = sqlite3.OperationalError("database or disk is full")

Work = Callable[[Cabin], Coroutine[Any, Any, None]]


def serving(path: Path, work: Work, settings: Settings = LISTED) -> None:
    async def inside() -> None:
        async with cabin(path, settings) as made:
            await work(made)

    run(inside())


def desk(made: Cabin) -> Scheduler:
    assert isinstance(made.scheduler.desk, Scheduler)
    return made.scheduler.desk


def link(name: str, depth: int = 1) -> Job:
    return jcf.job(URL=URL + name, SEED=URL, DEPTH=depth)


async def take(made: Cabin, *lines: Job, wait: str = "5") -> list[Job]:
    return list(await made.call("TAKE", jcf.job(SITES=10, WAIT=wait), *lines))


async def stat(made: Cabin) -> Job:
    return (await made.call("STAT"))[0]


async def told(made: Cabin) -> None:
    """Wait until idbd has heard of all that was stored."""
    while (await stat(made)).number("FETCHED"):  # noqa: ASYNC110 -- what another daemon does has no event here
        await asyncio.sleep(0.001)


def done(job: Job, outcome: str = "ok", **params: Any) -> list[Job]:
    batch = "b" if outcome not in ("", "failed") else None
    line = jcf.job(URL=job.url, FETCH=job.fetch, LEASE=job.get("LEASE"), OUTCOME=outcome or None, BATCH=batch)
    return [line.having(**params), jcf.job(LEASE=job.get("LEASE"), END="1")]


def stored(job: Job) -> Job:
    return jcf.job(URL=job.url, FETCH=job.fetch, OUTCOME="ok", RECORD="1", STATUS=200)


async def harvest(made: Cabin, *names: str) -> None:
    """Bring URLs all the way to their visits."""
    await made.call("ADD", SEED, *(link(name) for name in names))
    left = {URL, *(URL + name for name in names)}
    while left:
        jobs = await take(made)
        for job in jobs:
            await made.call("DONE", done(job)[0])
            await made.call("STORED", stored(job))
        left -= {job.url for job in jobs}
        await made.call("DONE", *(jcf.job(LEASE=job.get("LEASE"), END="1") for job in jobs))
    await told(made)


# The verbs ----------------------------------------------------------------------------------------------------------


def test_one_page_from_add_to_its_visit(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        assert "scheduler" == (await made.call("PING")).text
        reply = await made.call("ADD", SEED, jcf.job(URL="mailto:x", SEED=URL))
        assert "new=1 known=0 outside=0 refused=1" == reply.text
        assert ["mailto:x"] == [line.url for line in reply]
        (job,) = await take(made)
        assert (URL, "127.0.0.1", "0") == (job.url, job.get("ADDR"), job.get("DELAY"))
        assert [jcf.job(FETCH=job.fetch)] == await made.call("DONE", *done(job, SIZE=1000))
        assert (1, 1000) == ((await stat(made)).number("PAGES"), (await stat(made)).number("BYTES"))
        await made.call("STORED", stored(job))
        await told(made)
        (visit,) = await made.idbd.call("LOOKUP", jcf.job(URL=URL))
        assert ("ok", "1", "1:3") == tuple(visit.get(name) for name in ("OUTCOME", "RECORD", "SCOPES"))

    serving(tmp_path, work)


def test_the_queue_is_there_after_a_start(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED, link("1"))
        (first, second) = await take(made)
        await made.call("DONE", done(first)[0])
        await made.scheduler.stop()
        made.scheduler = made.make_scheduler()
        await made.scheduler.start()
        said = await stat(made)
        assert (1, 1) == (said.number("LEASED"), said.number("FETCHED"))
        assert [] == await take(made, jcf.job(LEASE=first.get("LEASE")), wait="0")
        assert [jcf.job(FETCH=second.fetch)] == await made.call("DONE", *done(second))

    serving(tmp_path, work)


@pytest.mark.parametrize(
    ("verb", "line", "why"),
    [
        ("GATE", jcf.job(GATE="ajar"), "open or paused"),
        ("GATE", jcf.job(BUDGET="run", LEFT="many"), "LEFT='many'"),
        ("SITE", jcf.job(SITE="no site", BLOCK="1"), "is no host"),
        ("SITE", jcf.job(SITE="a.example", DELAY="soon"), "DELAY='soon'"),
        ("TAKE", jcf.job(SITE="no site"), "is no host"),
        ("TAKE", jcf.job(SITES="all"), "SITES='all'"),
        ("TAKE", jcf.job(WAIT="-1"), "WAIT='-1'"),
        ("DONE", jcf.job(FETCH=1, OUTCOME="splendid"), "OUTCOME='splendid'"),
        ("DONE", jcf.job(LEASE="x", END="1"), "LEASE='x'"),
        ("STORED", jcf.job(FETCH="x"), "FETCH='x'"),
    ],
)
def test_what_makes_no_sense_is_rejected_and_nothing_happens(tmp_path: Path, verb: str, line: Job, why: str) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED)
        with pytest.raises(Rejected, match=why):
            await made.call(verb, line)
        assert 1 == (await stat(made)).number("QUEUED")
        assert 1 == len(await take(made))

    serving(tmp_path, work)


def test_the_gate(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED)
        assert [jcf.job(GATE="paused")] == await made.call("GATE", jcf.job(GATE="paused"))
        assert [] == await take(made, wait="0")
        assert [jcf.job(GATE="paused")] == await made.call("GATE")
        waiting = asyncio.ensure_future(made.scheduler.aside("TAKE", jcf.job(SITES=1, WAIT="5")))
        await made.until(lambda: bool(desk(made)._takes.waiting))
        await made.call("GATE", jcf.job(GATE="open"))
        assert 1 == len(await waiting)

    serving(tmp_path, work)


def test_a_runs_budget_is_set_by_hand(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED.having(BUDGET="run", LIMIT=0), link("1"))
        assert [] == await take(made, wait="0")
        await made.call("GATE", jcf.job(BUDGET="run", LEFT=1))
        assert 1 == len(await take(made))
        budgets = [line for line in await made.call("STAT") if line.get("BUDGET")]
        assert [("run", "0", "1")] == [tuple(line.get(n) for n in ("BUDGET", "LEFT", "OUT")) for line in budgets]

    serving(tmp_path, work)


def test_a_site_is_told_what_to_do(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        assert [] == await made.call("SITE", jcf.job(SITE="unknown.example"))
        await made.call("ADD", SEED)
        (line,) = await made.call("SITE", jcf.job(SITE=SITE, DELAY="7", BLOCK="1"))
        assert ("7", "blocked", "blocked by the operator") == tuple(line.get(n) for n in ("DELAY", "STATE", "REASON"))
        assert [] == await take(made, wait="0")
        (line,) = await made.call("SITE", jcf.job(SITE=SITE, DELAY="default", BLOCK="0"))
        assert ("0", "") == (line.get("DELAY"), line.get("REASON"))
        assert 1 == len(await take(made))
        await made.call("SITE", jcf.job(SITE="new.example", DELAY="9"))
        (line,) = await made.call("SITE", jcf.job(SITE="new.example"))
        assert "9" == line.get("DELAY")

    serving(tmp_path, work)


def test_why(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await harvest(made)
        first, visit, event = await made.call("WHY", jcf.job(URL=URL))
        assert ("stored", "visit", "event") == (first.get("STATE"), visit.kind, event.kind)
        await made.idbd.stop()
        (first,) = await made.call("WHY", jcf.job(URL=URL))
        assert "unknown" == first.get("STATE")
        for url in ("", "junk"):
            (first,) = await made.call("WHY", jcf.job(URL=url))
            assert "unknown" == first.get("STATE")

    serving(tmp_path, work)


def test_forgotten(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await harvest(made)
        await made.call("ADD", link("1"))
        await made.call("FORGET", jcf.job(URL=URL), jcf.job(URL=URL + "1"))
        assert [] == await made.idbd.call("LOOKUP", jcf.job(URL=URL))
        assert 0 == (await stat(made)).number("QUEUED")
        await made.call("ADD", link("2"))
        await take(made)
        with pytest.raises(RetryLater, match="is in work"):
            await made.call("FORGET", jcf.job(URL=URL + "2"))

    serving(tmp_path, work)


# TAKE waits ---------------------------------------------------------------------------------------------------------


def test_take_waits_until_something_is_due(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        waiting = asyncio.ensure_future(made.scheduler.aside("TAKE", jcf.job(SITES=1, WAIT="5")))
        await made.until(lambda: bool(desk(made)._takes.waiting))
        await made.call("ADD", SEED)
        assert [URL] == [job.url for job in await waiting]
        assert {} == desk(made)._takes.waiting

    serving(tmp_path, work)


def test_a_second_take_of_one_holder_ends_the_first(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        first = asyncio.ensure_future(made.scheduler.aside("TAKE", jcf.job(SITES=1, WAIT="5")))
        await made.until(lambda: bool(desk(made)._takes.waiting))
        turn = dict(desk(made)._takes.waiting)
        second = asyncio.ensure_future(made.scheduler.aside("TAKE", jcf.job(SITES=1, WAIT="5")))
        await made.until(lambda: turn != desk(made)._takes.waiting)
        await made.call("ADD", SEED)
        assert [0, 1] == [len(await first), len(await second)]

    serving(tmp_path, work)


def test_who_went_away_gets_nothing(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        waiting = asyncio.ensure_future(made.scheduler.aside("TAKE", jcf.job(SITES=1, WAIT="5")))
        await made.until(lambda: bool(desk(made)._takes.waiting))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await made.until(lambda: len(made.scheduler.server.connections) < 2)
        await made.call("ADD", SEED)
        assert 0 == (await stat(made)).number("LEASED")
        assert 1 == len(await take(made))

    serving(tmp_path, work)


def test_at_the_end_nobody_waits(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        waiting = asyncio.ensure_future(made.scheduler.aside("TAKE", jcf.job(SITES=1, WAIT="5")))
        await made.until(lambda: bool(desk(made)._takes.waiting))
        await made.scheduler.stop()
        with pytest.raises(RetryLater):
            await waiting

    serving(tmp_path, work)


def test_a_lease_that_is_not_named_is_over(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED)
        (job,) = await take(made)
        assert [] == await take(made, jcf.job(LEASE=job.get("LEASE")), wait="0")
        (again,) = await take(made)
        assert again.fetch > job.fetch

    serving(tmp_path, work)


def test_try_leases_a_site(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED)
        (lease,) = await made.call("TAKE", jcf.job(SITE=SITE, WAIT="0"))
        assert (SITE, "0") == (lease.get("SITE"), lease.get("DELAY"))
        assert [] == await made.call("TAKE", jcf.job(SITE=SITE, WAIT="0"))
        waiting = asyncio.ensure_future(made.scheduler.aside("TAKE", jcf.job(SITE=SITE, WAIT="5")))
        await made.until(lambda: bool(desk(made)._takes.waiting))
        await made.call("DONE", jcf.job(LEASE=lease.get("LEASE"), END="1"))
        assert 1 == len(await waiting)

    serving(tmp_path, work)


def test_relink_jobs_go_to_parsers(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await harvest(made)
        await made.call("ADD", SEED.having(MAXDEPTH=5))
        (job,) = await made.call("TAKE", jcf.job(KIND="relink", COUNT=10, WAIT="0"))
        assert ("relink", "1:5") == (job.kind, job.get("SCOPES"))
        await made.call("STORED", jcf.job(URL=URL, FETCH=job.fetch, OUTCOME="ok"))
        await made.call("DONE", jcf.job(LEASE=job.get("LEASE"), END="1"))
        await told(made)
        (visit,) = await made.idbd.call("LOOKUP", jcf.job(URL=URL))
        assert "1:5" == visit.get("SCOPES")
        assert [] == await made.call("TAKE", jcf.job(KIND="relink", COUNT=10, WAIT="0"))

    serving(tmp_path, work)


def test_names_too_old_are_looked_up_after_a_pause(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED)
        await made.call("TAKE", jcf.job(SITES=0, WAIT=0))  # names are looked up for who takes
        await made.until(lambda: desk(made)._frontier.sites.by_name[SITE].state == "due")
        desk(made)._frontier.sites.by_name[SITE].address_until = 0.0
        assert 1 == len(await take(made))

    serving(tmp_path, work)


# idbd is away -------------------------------------------------------------------------------------------------------


def test_while_idbd_is_away_nothing_is_lost(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED, link("1"))
        await made.idbd.stop()
        with pytest.raises(RetryLater, match="idbd is away"):
            await made.call("ADD", link("2"))
        with pytest.raises(RetryLater, match="idbd is away"):
            await made.call("FORGET", jcf.job(URL=URL))
        jobs = await take(made)
        assert 2 == len(jobs)
        for job in jobs:
            await made.call("DONE", done(job)[0])
            await made.call("STORED", stored(job))
        assert 2 == (await stat(made)).number("FETCHED")
        made.idbd = made.make_idbd()
        await made.idbd.start()
        await told(made)
        assert 2 == len(await made.idbd.call("LOOKUP", jcf.job(URL=URL), jcf.job(URL=URL + "1")))

    serving(tmp_path, work)


# A full disk --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["ADD", "TAKE", "DONE", "STORED", "SITE", "GATE"])
def test_on_a_full_disk_nothing_is_promised_and_it_goes_on_by_itself(tmp_path: Path, verb: str) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED, link("1"))
        (job, other) = await take(made)
        lines = {
            "ADD": [link("2")],
            "TAKE": [jcf.job(WAIT="0"), jcf.job(LEASE=job.get("LEASE"))],
            "DONE": [done(job)[0]],
            "STORED": [stored(job)],
            "SITE": [jcf.job(SITE=SITE, DELAY="9")],
            "GATE": [jcf.job(GATE="paused")],
        }[verb]
        with broken(desk(made)._rows, "commit", [FULL] * 3), pytest.raises(RetryLater, match="disk is full"):
            await made.call(verb, *lines)
        said = await stat(made)
        assert ("open", 0, 2, 0) == (said.get("GATE"), *(said.number(n) for n in ("QUEUED", "LEASED", "FETCHED")))
        assert [jcf.job(FETCH=job.fetch)] == await made.call("DONE", done(job)[0])
        assert [jcf.job(FETCH=other.fetch)] == await made.call("DONE", done(other)[0])
        await made.call("STORED", stored(job), stored(other))
        await told(made)

    serving(tmp_path, work)


def test_a_disk_too_full_to_recover_from_is_waited_for(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED)
        with broken(desk(made)._rows, "commit", [FULL]), broken(desk(made)._frontier, "load", [FULL] * 3):
            for _ in range(10):
                try:
                    await made.call("ADD", link("1"))
                except RetryLater:
                    continue
                break
        assert 2 == len(await take(made))

    serving(tmp_path, work)


def test_a_fault_in_the_middle_of_a_verb_leaves_nothing_half_done(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED, link("1"))
        with broken(desk(made)._frontier, "_put", [KeyError("a bug")]), pytest.raises(RetryLater, match="see the"):
            await take(made)
        said = await stat(made)
        assert (2, 0, 0) == tuple(said.number(name) for name in ("QUEUED", "LEASED", "LEASEDSITES"))
        assert 2 == len(await take(made))

    serving(tmp_path, work)


# Exclusions, room, settings -----------------------------------------------------------------------------------------


def test_the_exclude_file_is_read_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duties_module, "ROOM_S", 0.002)

    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED, link("1"))
        made.home.exclude_file.write_text("HOST: (\n")
        await made.until(lambda: bool(desk(made)._frontier.stalled))
        assert [] == await take(made, wait="0")
        assert "is no regular expression" in (await stat(made)).get("STALLED")
        made.home.exclude_file.write_text(f"{URL}1\n")
        await made.until(lambda: not desk(made)._frontier.stalled)
        assert [URL] == [job.url for job in await take(made)]
        assert 1 == (await stat(made)).number("DEAD")

    serving(tmp_path, work)


def test_at_sighup_the_settings_are_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(made: Cabin) -> None:
        made.home.config_file.write_text('[harvest]\nallow_private = ["127.0.0.1"]\n[politeness]\ndelay_s = 7\n')
        desk(made).reread()
        assert 7.0 == desk(made)._frontier.settings.politeness.delay_s
        made.home.config_file.write_text("[unknown]\n")
        desk(made).reread()
        assert 7.0 == desk(made)._frontier.settings.politeness.delay_s

    serving(tmp_path, work)
    assert "the settings stay as they were" in caplog.text


def test_an_address_that_may_not_be_asked_ends_its_jobs_with_the_line_to_set(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", jcf.job(URL="http://10.1.2.3/", SCOPE="host"))
        await made.call("TAKE", jcf.job(SITES=0, WAIT=0))  # names are looked up for who takes
        await made.until(lambda: desk(made)._frontier.sites.by_name["10.1.2.3"].counts[5] == 1)
        (first, *_) = await made.call("WHY", jcf.job(URL="http://10.1.2.3/"))
        assert "allow_private" in first.get("REASON")

    serving(tmp_path, work, Settings(harvest=Harvest(allow_private=("127.0.0.1",))))


# What is asked again ------------------------------------------------------------------------------------------------


def test_where_robots_changed_what_was_denied_is_asked_again(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED, link("1"))
        (first, second) = await take(made)
        await made.call("DONE", done(first, "denied")[0], *done(second))
        await made.call("STORED", stored(first).having(OUTCOME="denied", RECORD=None), stored(second))
        await told(made)
        await made.call("ADD", link("2"))
        (third,) = await take(made)
        await made.call("DONE", *done(third, ROBOTS="changed"))
        (again,) = await take(made)
        assert (first.url, "") == (again.url, again.get("SINCE"))

    serving(tmp_path, work)


def test_a_standing_harvest_asks_again_what_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duties_module, "REVISIT_S", 0.005)

    async def work(made: Cabin) -> None:
        await harvest(made)
        visits = made.idbd.desk._visits  # type: ignore[attr-defined]
        visits._rewrite(jcf.job(URL=URL, OUTCOME="ok", RECORD="1", SEED=URL, DEPTH=0, DUE="2020-01-01T00:00:00Z"))
        (job,) = await take(made)
        assert URL == job.url

    serving(tmp_path, work, standing())


# Holders ------------------------------------------------------------------------------------------------------------


def test_the_lease_of_a_holder_that_died_meanwhile_is_over(tmp_path: Path) -> None:
    async def work(made: Cabin) -> None:
        await made.call("ADD", SEED)
        await made.call("TAKE", jcf.job(SITES=0, WAIT=0))  # names are looked up for who takes
        await made.until(lambda: desk(made)._frontier.sites.by_name[SITE].state == "due")
        desk(made)._frontier.take(Holder(os.getpid(), start_time(os.getpid()) + 1), 1)
        await made.scheduler.stop()
        made.scheduler = made.make_scheduler()
        await made.scheduler.start()
        said = await stat(made)
        assert (1, 0) == (said.number("QUEUED"), said.number("LEASED"))
        assert 1 == len(await take(made))

    serving(tmp_path, work)


def test_main_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    home = create(tmp_path / "h")
    parent, child = socket.socketpair()
    parent.shutdown(socket.SHUT_WR)
    assert 0 == scheduler_module.main(Context(home.path, "scheduler", 0, LISTED, child))
    assert b"NOTE \nREADY\n" == parent.recv(100)
    parent.close()
    child.close()
