from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from combine.channel import Context
from combine.errors import ConfigError, Rejected, RetryLater
from combine.keep.home import create
from combine.schedule import site_visits
from combine.schedule.clock import utc_text
from combine.schedule.site_visits import SiteVisits
from combine.services import MESSAGE_LINES
from daemons import idbd as idbd_module
from daemons.idbd import Idbd
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.test_known import URLS, home_of_version_1
from tests.daemons.desks import LISTED, Daemon, broken, run

URL = "http://a.example/"
DAY_S = 86_400.0


@pytest.fixture(autouse=True)
def own_hook() -> Iterator[None]:
    before = threading.excepthook
    yield
    threading.excepthook = before


def serving(path: Path, work: Callable[[Daemon], Awaitable[None]]) -> None:
    async def inside() -> None:
        home = create(path / "h")
        daemon = Daemon(Idbd(home.idb, LISTED), home.socket("idbd"), "scheduler")
        await daemon.start()
        try:
            await work(daemon)
        finally:
            await daemon.stop()

    run(inside())


def visit(url: str = URL, outcome: str = "ok", at: float = 0.0, **params: str | int) -> Job:
    last = utc_text(at or time.time())
    record = "1" if outcome == "ok" else None
    return jcf.job(**{"URL": url, "OUTCOME": outcome, "LAST": last, "RECORD": record, **params})


def test_what_is_remembered_is_found_after_a_start(tmp_path: Path) -> None:
    async def first(idbd: Daemon) -> None:
        assert [] == await idbd.call("REMEMBER", visit(DIGEST="aa"), visit("http://b.example/", "gone"))
        assert [URL] == [found.url for found in await idbd.call("LOOKUP", visit(), visit("http://c.example/"))]

    async def second(idbd: Daemon) -> None:
        (found,) = await idbd.call("LOOKUP", jcf.job(URL=URL))
        assert ("ok", "1", "aa") == tuple(found.get(name) for name in ("OUTCOME", "RECORD", "DIGEST"))
        (stat,) = await idbd.call("STAT")
        assert {"NAME": "idbd", "URLS": "2", "RECORDS": "1", "SITES": "2", "HELD": "0"} == dict(stat.params)
        (site,) = await idbd.call("SITE", jcf.job(SITE="a.example"), jcf.job(SITE="unknown.example"))
        assert ("a.example", "ok", "1") == (site.get("SITE"), site.get("OUTCOME"), site.get("REQUESTS"))
        assert "idbd" == (await idbd.call("PING")).text

    serving(tmp_path, first)
    serving(tmp_path, second)


def test_visits_of_an_earlier_version_come_over_while_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idbd_module, "MOVED", 1)
    path = home_of_version_1(create(tmp_path / "h").idb / "visits.sqlite")
    counts: list[int] = []

    async def work(idbd: Daemon) -> None:
        while not counts or has_visits_of_version_1(path):
            found = await idbd.call("LOOKUP", *(jcf.job(URL=url) for url in URLS))
            assert URLS == [line.url for line in found]
            counts.append(len(found))

    serving(tmp_path, work)
    assert len(counts) > 1


def has_visits_of_version_1(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as database:
        return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'visit'").fetchall())


def test_a_site_counts_its_requests(tmp_path: Path) -> None:
    async def work(idbd: Daemon) -> None:
        for number in range(3):
            await idbd.call("REMEMBER", visit(f"{URL}{number}"), jcf.job(URL=f"{URL}{number}", SCOPES="1:1"))
        (site,) = await idbd.call("SITE", jcf.job(SITE="a.example"))
        assert "3" == site.get("REQUESTS")

    serving(tmp_path, work)


@pytest.mark.parametrize("url", ["", "junk", "mailto:x"])
def test_what_names_no_url_is_rejected(tmp_path: Path, url: str) -> None:
    async def work(idbd: Daemon) -> None:
        with pytest.raises(Rejected, match="names a URL"):
            await idbd.call("REMEMBER", visit(), visit(url))
        assert [] == await idbd.call("LOOKUP", jcf.job(URL=URL), jcf.job(URL=url))
        await idbd.call("FORGET", jcf.job(URL=url))

    serving(tmp_path, work)


@pytest.mark.parametrize(
    ("question", "found"),
    [
        (None, ["0", "1", "2"]),
        (jcf.job(COUNT=2), ["0", "1"]),
        (jcf.job(COUNT=0), ["0"]),
        (jcf.job(COUNT=MESSAGE_LINES * 9), ["0", "1", "2"]),
        (jcf.job(BEFORE="2026-01-02T00:00:00Z"), []),
        (jcf.job(SITE="a.example", OUTCOME="denied"), ["1"]),
        (jcf.job(SITE="a.example", OUTCOME="gone"), []),
    ],
)
def test_what_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: Job | None, found: list[str]) -> None:
    async def work(idbd: Daemon) -> None:
        now = time.time()
        for number, outcome in enumerate(("ok", "denied", "ok")):
            with monkeypatch.context() as patch:
                patch.setattr("time.time", lambda number=number: now - (40 - number) * DAY_S)
                await idbd.call("REMEMBER", visit(f"{URL}{number}", outcome))
        assert found == [line.url[-1] for line in await idbd.call("DUE", *([question] if question else []))]

    serving(tmp_path, work)


def test_what_is_due_is_had_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(idbd: Daemon) -> None:
        now = time.time()
        for number in range(3):
            with monkeypatch.context() as patch:
                patch.setattr("time.time", lambda number=number: now - (40 - number) * DAY_S)
                await idbd.call("REMEMBER", visit(f"{URL}{number}"))
        (first,) = await idbd.call("DUE", jcf.job(COUNT=1))
        rest = await idbd.call("DUE", jcf.job(COUNT=5, DUE=first.get("DUE")))
        assert ["0", "1", "2"] == [line.url[-1] for line in rest]

    serving(tmp_path, work)


def test_company_and_held_removals(tmp_path: Path) -> None:
    async def work(idbd: Daemon) -> None:
        urls = [f"{URL}{number}" for number in range(4)]
        await idbd.call("REMEMBER", *(visit(url, DIGEST="aa") for url in urls[:1]), *(visit(url) for url in urls[1:]))
        questions = [jcf.job(URL=urls[1], DIGEST="aa"), jcf.job(URL=urls[0], DIGEST="aa")]
        questions += [jcf.job(URL=urls[2], DIGEST="bb"), jcf.job(URL=urls[2], OUTCOME="ok")]
        assert [jcf.job(URL=urls[1], SAME=urls[0])] == await idbd.call("SAME", *questions)
        gone = [jcf.job(URL=url, OUTCOME="gone") for url in urls]
        assert [jcf.job(URL=url, HOLD="1") for url in urls[1:]] == await idbd.call("SAME", *gone)
        assert "3" == (await idbd.call("STAT"))[0].get("HELD")

    serving(tmp_path, work)


def test_forgotten(tmp_path: Path) -> None:
    async def work(idbd: Daemon) -> None:
        await idbd.call("REMEMBER", visit())
        assert [] == await idbd.call("FORGET", jcf.job(URL=URL))
        assert [] == await idbd.call("LOOKUP", jcf.job(URL=URL))

    serving(tmp_path, work)


def test_on_a_full_disk_nothing_is_promised(tmp_path: Path) -> None:
    async def work(idbd: Daemon) -> None:
        assert isinstance(idbd.desk, Idbd)
        full = [sqlite3.OperationalError("database or disk is full")] * 2
        with broken(idbd.desk._visits, "commit", full), pytest.raises(RetryLater, match="disk is full"):
            await idbd.call("REMEMBER", visit())
        assert [] == await idbd.call("LOOKUP", jcf.job(URL=URL))
        await idbd.call("REMEMBER", visit())
        assert 1 == len(await idbd.call("LOOKUP", jcf.job(URL=URL)))

    serving(tmp_path, work)


def test_the_table_of_sites_is_written_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idbd_module, "SITES_S", 0.001)

    async def work(idbd: Daemon) -> None:
        assert isinstance(idbd.desk, Idbd)
        await idbd.call("REMEMBER", visit())
        while idbd.desk._sites._news:
            await idbd.call("PING")
        assert 1 == len(await idbd.call("SITE", jcf.job(SITE="a.example")))
        idbd.desk.reread()

    serving(tmp_path, work)


# The table of sites -------------------------------------------------------------------------------------------------


def test_the_oldest_news_are_dropped_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_visits, "WAITING", 2)
    monkeypatch.setattr(site_visits, "ROOM_BYTES", 1 << 62)
    sites = SiteVisits(tmp_path / "sites.sqlite")
    for name in ("a", "b", "b", "c"):
        sites.note(name, jcf.job(OUTCOME="ok"), "now")
    sites.flush()
    assert [None, 2, 1] == [found and found["REQUESTS"] for found in map(sites.get, ("a", "b", "c"))]
    monkeypatch.setattr(site_visits, "ROOM_BYTES", 0)
    sites.flush()
    assert {} == sites._news
    sites.close()
    again = SiteVisits(tmp_path / "sites.sqlite")
    assert {"LAST": "now", "OUTCOME": "ok", "REQUESTS": 2} == again.get("b")
    again.close()


def test_a_place_that_is_gone_has_no_room(tmp_path: Path) -> None:
    place = tmp_path / "idb"
    place.mkdir()
    sites = SiteVisits(place / "sites.sqlite")
    sites.note("a", jcf.job(OUTCOME="ok"), "now")
    sites._path = tmp_path / "elsewhere" / "sites.sqlite"
    sites.flush()
    assert ["a"] == list(sites._news)
    sites._news.clear()
    sites.close()


def test_a_writing_thread_that_ended_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sites = SiteVisits(tmp_path / "sites.sqlite")
    sites.note("a", jcf.job(OUTCOME="ok"), "now")
    sites.flush()
    sites._table.close()
    sites._written.clear()
    assert sites.get("a") is None
    sites.note("b", jcf.job(OUTCOME="ok"), "now")
    sites.flush()
    assert {"a", "b"} == {name for name in ("a", "b") if sites.get(name)}
    sites.close()
    sites.close()
    error = sqlite3.OperationalError("disk is full")
    threading.excepthook(threading.ExceptHookArgs((type(error), error, None, None)))
    assert "the table of sites could not be written: disk is full" in caplog.text


def test_main_serves_until_it_is_told_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = create(tmp_path / "h")
    parent, child = socket.socketpair()
    parent.shutdown(socket.SHUT_WR)
    assert 0 == idbd_module.main(Context(home.path, "idbd", 0, LISTED, child))
    assert b"NOTE \nREADY\n" == parent.recv(100)
    parent.close()
    child.close()


def test_a_damaged_table_of_sites_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sites.sqlite"
    sites = SiteVisits(path)
    for number in range(300):
        sites.note(f"{number}.example", jcf.job(OUTCOME="ok"), "2026-11-30T12:00:00Z")
    sites.close()
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    sites = SiteVisits(path)
    with pytest.raises(ConfigError, match=r"sites.sqlite is damaged \(database disk image is malformed\): restore it"):
        sites.get("7.example")
    sites.close()
