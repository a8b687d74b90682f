"""The table of visits: URLs that share a number, and a home of version 1, which comes over while it is asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from combine.config import Settings
from combine.schedule.known import Known, url_key
from combine.schedule.offered import question
from combine.schedule.visits import Visits
from combine.urls import site_of
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.test_visits import few_numbers, news
from tests.combine.schedule.world import NOON

SETTINGS = Settings()

#: Tables of idbd as version 1 had them.
VERSION_1 = """
CREATE TABLE site(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, records INTEGER NOT NULL DEFAULT 0);
CREATE TABLE visit(site INTEGER, h INTEGER, due INTEGER, record INTEGER, line TEXT, PRIMARY KEY(site, h)) WITHOUT ROWID;
CREATE INDEX visit_due ON visit(due);
CREATE TABLE digest(digest BLOB, site INTEGER, h INTEGER, PRIMARY KEY(digest, site, h)) WITHOUT ROWID;
CREATE TABLE turned(site INTEGER, day INTEGER, h INTEGER, PRIMARY KEY(site, day, h)) WITHOUT ROWID;
CREATE TABLE held(site INTEGER, h INTEGER, PRIMARY KEY(site, h)) WITHOUT ROWID;
CREATE TABLE count(name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version=1;
"""

URLS = [f"http://{host}.example/{page}" for host in "abc" for page in range(10)]


def text(url: str) -> str:
    line = news(url, STATUS=200, DIGEST="aa" if url in URLS[:2] else None)
    return jcf.dump_text(Job({**line.params, "DUE": "2036-01-01T00:00:00Z"}))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return home_of_version_1(tmp_path / "visits.sqlite")


def home_of_version_1(path: Path) -> Path:
    """Thirty visits on three sites, two of which have one text."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(VERSION_1)
        database.executemany(
            "INSERT INTO site VALUES (?, ?, 10)", enumerate(("a.example", "b.example", "c.example"), 1)
        )
        rows = [("abc".index(url[7]) + 1, url_key(url), 2_082_758_400, 1, text(url)) for url in URLS]
        database.executemany("INSERT INTO visit VALUES (?, ?, ?, ?, ?)", rows)
        database.executemany("INSERT INTO digest VALUES (x'aa', 1, ?)", ((url_key(url),) for url in URLS[:2]))
        database.execute("INSERT INTO count VALUES ('urls', 30), ('records', 30)")
        database.commit()
    return path


def looked_up(visits: Visits, urls: list[str]) -> dict[str, str]:
    lines = visits.lookup([question(url) for url in urls], NOON)
    return {jcf.parse_text(line).url: line for line in lines}


def stages(path: Path) -> Iterator[Visits]:
    """idbd over a home of version 1, killed after each portion that it has brought over."""
    is_moving = True
    while is_moving:
        visits = Visits(path, SETTINGS)
        is_moving = visits.is_moving
        yield visits
        if is_moving:
            visits.move(7)
            visits.commit()
        if visits.is_moving:
            visits.move(7)
        visits._db.close()  # what was moved and not committed is lost


def test_a_home_of_version_1_is_asked_while_it_comes_over(old: Path) -> None:
    count = 0
    for visits in stages(old):
        assert {url: text(url) for url in URLS} == looked_up(visits, [*URLS, "http://a.example/none"])
        assert sorted(URLS) == sorted(visit.url for visit in visits.due(4e9, 100))
        assert 5 == len(visits.due(4e9, 5))
        of_site = visits.due(0, 100, site="b.example", outcome="ok")
        assert sorted(URLS[10:20]) == sorted(visit.url for visit in of_site)
        assert (URLS[1], URLS[0]) == (visits.same(URLS[0], "aa"), visits.same(URLS[1], "aa"))
        assert {"urls": 30, "records": 30, "held": 0, "sites": 3} == visits.counts()
        visits.rollback()
        count += 1
    assert 6 <= count
    with closing(sqlite3.connect(old)) as database:
        assert (30,) == database.execute("SELECT count(*) FROM known").fetchone()
        assert [] == database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'visit%'").fetchall()
        assert (2,) == database.execute("PRAGMA user_version").fetchone()


@pytest.mark.parametrize("line", [None, "", b"\xff", "JCF/1 URL=", "no line"])
def test_a_damaged_visit_stays_behind_and_the_others_come(
    old: Path, line: object, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(old)) as database:
        database.execute("UPDATE visit SET line = ? WHERE h = ?", (line, url_key(URLS[4])))
        database.execute("DELETE FROM site WHERE id = 3")  # of those the URL says the site
        database.commit()
    with closing(Visits(old, SETTINGS)) as visits:
        while visits.is_moving:
            visits.move(7)
        assert [*URLS[:4], *URLS[5:]] == list(looked_up(visits, URLS))
        assert (29, 29) == (visits.counts()["urls"], visits.counts()["records"])
    assert ["a visit of version 1 is damaged"] == [record.getMessage().split(",")[0] for record in caplog.records]


def test_what_fails_amid_a_portion_is_asked_for_in_both_tables(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Visits(old, SETTINGS)) as visits:
        visits.move(7)
        visits.commit()
        with monkeypatch.context() as broken:
            broken.setattr(Known, "write", lambda *_: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                visits.move(7)
        assert visits.is_moving
        assert {url: text(url) for url in URLS} == looked_up(visits, URLS)


@pytest.mark.parametrize("moved", [0, 14, 40])
def test_what_changes_meanwhile_is_there_once(old: Path, moved: int) -> None:
    with closing(Visits(old, SETTINGS)) as visits:
        if moved:
            visits.move(moved)
        gone, changed = URLS[::3], URLS[1::3]
        for url in gone:
            visits.forget(url)
        visits.remember([news(url, "gone", NOON + 60) for url in [*changed, "http://d.example/"]], NOON + 60)
        visits.commit()
        while visits.is_moving:
            visits.move(7)
        assert [] == list(looked_up(visits, gone))
        found = looked_up(visits, [*changed, "http://d.example/"])
        assert {"gone"} == {jcf.parse_text(line).get("OUTCOME") for line in found.values()}
        assert {url: text(url) for url in URLS[2::3]} == looked_up(visits, URLS[2::3])
        assert {"urls": 21, "records": 10, "held": 0, "sites": 4} == visits.counts()
        (rows,) = visits._db.execute("SELECT count(*) FROM known").fetchone()
        assert 21 == rows


def test_urls_that_share_a_number_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few_numbers(monkeypatch, 5)
    urls = URLS[:10]
    numbers = {(site_of(url), url_key(url) >> 59 & 31) for url in urls}
    assert len(numbers) < len(urls)
    with closing(Visits(tmp_path / "v", SETTINGS)) as visits:
        visits.remember(map(news, urls[:9]), NOON)
        visits.rollback()
        assert {} == looked_up(visits, urls)
        visits.remember(map(news, urls), NOON)
        visits.commit()
    with closing(Visits(tmp_path / "v", SETTINGS)) as visits:
        for gone in range(len(urls) + 1):
            assert sorted(urls[gone:]) == sorted(looked_up(visits, urls))
            assert sorted(urls[gone:]) == sorted(visit.url for visit in visits.due(0, 99, "a.example", "ok"))
            visits.remember([news(url, at=NOON + gone) for url in urls[gone:]], NOON)
            if gone < len(urls):
                visits.forget(urls[gone])
        assert {"urls": 0, "records": 0, "held": 0, "sites": 1} == visits.counts()
        assert (0,) == visits._db.execute("SELECT count(*) FROM twin").fetchone()
