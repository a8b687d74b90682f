"""A home of an earlier version: all that is in it is found; one of a later version is refused, by name and remedy.

`tests/data/home-1.tar.xz` is a home of combine-home 1, left by `kill -9` of all processes in the middle of a harvest:
three records, two batches in hrf/new, one in raw/ as it came and one compressed, a robots.txt, seven rows, two seeds.
`tables-2.tar.xz` is the same with tables of version 2, as they were when all visits had come over, not closed.
They are never made anew: when the format changes, one of the next version is put beside them.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from combine.channel import Context
from combine.cli import main, units
from combine.config import Agent, Politeness, Settings
from combine.errors import ConfigError
from combine.keep.home import FORMAT, Home, create, open_home
from combine.keep.raw import Raw
from combine.keep.spool import Spool
from combine.keep.store import WirStore
from combine.schedule.database import VERSION
from combine.schedule.rows import Rows
from combine.schedule.site_visits import SiteVisits
from combine.schedule.visits import Visits
from combine.web.robots import RobotsStore
from daemons import keepalive
from daemons.scheduler import Scheduler
from formats import hrf
from tests.combine.schedule.world import World

DATA = Path(__file__).resolve().parents[2] / "data"

WEB = "http://127.0.0.77:8099"

#: What lay in the queue: path, and state.
QUEUED = {"/busy": 1, "/c": 3, "/d": 0, "/private/x": 3, "/s": 3, "/sitemap.xml": 3, "/slow": 0}

#: What had been visited, and what came of it.
VISITED = {"/": "ok", "/a": "ok", "/b": "ok", "/old": "redirect", "/gone": "gone", "/sitemap.xml": "ok"}

#: A pace at which all that may go fits in one lease.
QUICK = Settings(agent=Agent(url="https://example.org/us"), politeness=Politeness(delay_s=1.0))

Run = Callable[..., Result]


@pytest.fixture(params=["home-1", "tables-2"])
def old(tmp_path: Path, request: pytest.FixtureRequest) -> Home:
    """A home as each version left it."""
    with tarfile.open(DATA / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return open_home(tmp_path / "home-1", {})


@pytest.fixture
def combine(old: Home) -> Run:
    return lambda *words: CliRunner().invoke(main, ["--home", str(old.path), *words])


def test_its_records_are_found_with_what_they_came_from(old: Home, combine: Run) -> None:
    records = {record.url.removeprefix(WEB): record for record in WirStore(old).records()}
    assert {"/": "Front", "/a": "Page A", "/b": "Page B"} == {
        url: record.get("title") for url, record in records.items()
    }
    for record in records.values():
        harvest = Raw(old).of(record)
        assert harvest is not None
        assert record.get("title").encode() in harvest.body
    assert 3 == len(combine("list").stdout.splitlines())
    assert "title: Page A" in combine("show", f"{WEB}/a").stdout
    assert {"Front", "Page A", "Page B"} == {
        json.loads(line)["title"] for line in combine("export").stdout.splitlines()
    }
    assert 0 == combine("status").exit_code


def test_its_queue_goes_on(old: Home) -> None:
    with closing(Rows(old.cabin / "queue.sqlite").db) as database:
        rows = database.execute("SELECT line, state FROM job").fetchall()
    assert QUEUED == {line.partition(WEB)[2].partition('"')[0]: state for line, state in rows}
    with closing(World(QUICK, path=old.cabin / "queue.sqlite")) as world:
        world.check()
        world.clock.sleep(4000.0)
        assert {"/d", "/slow", "/busy"} == {job.url.removeprefix(WEB) for job in world.take()}


def test_its_visits_are_known(old: Home) -> None:
    with closing(Visits(old.idb / "visits.sqlite", Settings())) as visits:
        for _ in range(2):
            found = {visit.url.removeprefix(WEB): visit for visit in visits.due(4e9, 100)}
            assert VISITED == {url: visit.get("OUTCOME") for url, visit in found.items()}
            assert '"v1"' == found["/a"].get("ETAG")
            assert {"urls": 6, "records": 3, "held": 0, "sites": 1} == visits.counts()
            while visits.is_moving:
                visits.move(4)


@pytest.mark.parametrize(("old", "is_moving"), [("home-1", True), ("tables-2", False)], indirect=["old"])
def test_only_visits_of_version_1_come_over(old: Home, is_moving: bool) -> None:
    with closing(Visits(old.idb / "visits.sqlite", Settings())) as visits:
        assert is_moving == visits.is_moving


def test_its_batches_can_be_parsed_and_its_robots_txt_holds(old: Home) -> None:
    harvests = [
        harvest.job.url.removeprefix(WEB)
        for batch in Spool(old).claim("parser-1", 10)
        for _, _, harvest in hrf.scan(batch.path.read_bytes())
    ]
    assert {path for path, state in QUEUED.items() if state == 3} == set(harvests)
    copy = RobotsStore(old.robots).load(WEB)
    assert copy is not None
    assert b"Disallow: /private/" in copy.body
    with closing(SiteVisits(old.idb / "sites.sqlite")) as sites:
        assert sites.get("127.0.0.77:8099")


# Another version -----------------------------------------------------------------------------------------------------

#: Every command that looks into a home, and the programs that start a unit.
ENTRIES = (
    "harvest http://127.0.0.77:8099/", "try http://127.0.0.77:8099/", "start", "restart", "status", "pause", "open",
    "add http://127.0.0.77:8099/", "show http://127.0.0.77:8099/", "list", "why http://127.0.0.77:8099/",
    "site 127.0.0.77", "grep x", "export", "doctor", "log",
)  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_newer_home_is_refused_by_every_command(old: Home, combine: Run, entry: str) -> None:
    old.config_file.write_text("[of_a_later_version]\n")
    old.format_file.write_text("combine-home 2\n")
    result = combine(*entry.split())
    assert 78 == result.exit_code, result.output
    said = result.output
    assert "says 'combine-home 2' and this program knows 'combine-home 1'" in said
    assert "pip install --upgrade combine-system" in said


def test_a_newer_home_is_neither_completed_nor_started(old: Home, capfd: pytest.CaptureFixture[str]) -> None:
    old.config_file.write_text("[of_a_later_version]\n")
    old.format_file.write_text("combine-home 2\n")
    old.spool_bad.rmdir()
    with pytest.raises(ConfigError, match="combine-home 2"):
        create(old.path)
    assert 78 == units.start_unit(old.path, "cabin")
    assert "'combine-home 2'" in capfd.readouterr().err
    with pytest.raises(ConfigError, match="combine-home 2"):
        keepalive.run(keepalive.Options(old.path, "cabin"))
    assert not old.spool_bad.exists()


def test_a_format_is_raised_with_a_home_beside_it() -> None:
    """Whoever changes the format keeps a home of the version before, and says here what is in it."""
    assert ("combine-home 1", 2) == (FORMAT, VERSION)


DATABASES: dict[str, Callable[[Path], object]] = {
    "cabin/queue.sqlite": Rows,
    "idb/visits.sqlite": lambda path: Visits(path, Settings()),
    "idb/sites.sqlite": SiteVisits,
}


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(statement)


@pytest.mark.parametrize("name", DATABASES)
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("PRAGMA user_version=3", "has tables of version 3, and this program knows 2: use the program that wrote it"),
        ('ALTER TABLE "site" ADD COLUMN later', "has a table site that is none of version 2: use the program"),
    ],
)
def test_a_database_of_another_version_is_refused_and_left_alone(
    old: Home, name: str, statement: str, told: str
) -> None:
    path = old.path / name
    change(path, statement)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=told):
        DATABASES[name](path)
    assert before == path.read_bytes()


def test_a_database_of_before_its_version_was_kept_gets_it(old: Home) -> None:
    path = old.cabin / "queue.sqlite"
    change(path, "PRAGMA user_version=0")
    Rows(path).db.close()
    with closing(sqlite3.connect(path)) as database:
        assert (VERSION,) == database.execute("PRAGMA user_version").fetchone()
        assert (7,) == database.execute("SELECT count(*) FROM job").fetchone()


def test_a_database_with_a_damaged_page_is_named_at_the_start(old: Home) -> None:
    path = old.cabin / "queue.sqlite"
    Rows(path).db.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with socket.socket() as channel, pytest.raises(ConfigError, match="is damaged"):
        Scheduler(old, Context(old.path, "scheduler", 0, Settings(), channel))
