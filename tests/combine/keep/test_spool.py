from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from combine.keep.home import Home
from combine.keep.slots import Slot
from combine.keep.spool import Batch, BatchWriter, Sizes, Spool, raw_place
from combine.keep.store import WirStore
from formats import hrf, jcf
from tests.combine.keep.material import SETTINGS, a_batch, a_harvest, files, publish


def test_a_claim_takes_the_oldest_first_and_only_as_many_as_asked(home: Home) -> None:
    names = [publish(home) for _ in range(4)]
    spool = Spool(home)
    assert names[:3] == [batch.name for batch in spool.claim("parser-1", 3)]
    assert names[3:] == [batch.name for batch in spool.claim("parser-2", 3)]
    assert [] == spool.claim("parser-1", 3)
    assert sorted([*(f"parser-1/{name}.hrf" for name in names[:3]), f"parser-2/{names[3]}.hrf"]) == files(
        home.spool_cur
    )


def test_a_claim_passes_over_strangers_files(home: Home) -> None:
    for name in (".DS_Store", "notes.hrf", "half.tmp"):
        (home.spool_new / name).write_text("not a batch")
    assert [] == Spool(home).claim("parser-1", 9)
    assert set() == Spool(home).names()


def test_a_batch_that_another_parser_took_first_is_left(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [publish(home) for _ in range(3)]
    real = os.rename
    spool = Spool(home)

    def lose_the_first(source: Path, target: Path) -> None:
        if names[0] in str(source) and source.exists():
            other = home.spool_cur / "parser-9"
            other.mkdir()
            real(source, other / source.name)
        real(source, target)

    monkeypatch.setattr(os, "rename", lose_the_first)
    assert names[1:] == [batch.name for batch in spool.claim("parser-1", 2)]


def test_a_batch_that_goes_while_its_directory_is_made_is_left(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    name = publish(home)
    real = Path.mkdir

    def lose(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        real(path, mode, parents, exist_ok)
        (home.spool_new / f"{name}.hrf").unlink(missing_ok=True)

    monkeypatch.setattr(Path, "mkdir", lose)
    assert [] == Spool(home).claim("parser-1", 1)


RACER = """
import sys, pathlib
from combine.keep.home import Home
from combine.keep.spool import Spool
slot = sys.argv[2]
spool = Spool(Home(pathlib.Path(sys.argv[1])))
sys.stdin.readline()
while batches := spool.claim(slot, 3):
    for batch in batches:
        print(batch.name)
"""


def test_racing_parsers_share_the_batches_and_none_is_taken_twice(home: Home) -> None:
    expected = [publish(home) for _ in range(60)]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(home.path), f"parser-{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    taken = [line for racer in racers for line in racer.communicate(timeout=30)[0].split()]
    assert [0, 0, 0] == [racer.returncode for racer in racers]
    assert expected == sorted(taken)
    assert set(expected) == Spool(home).names()


def test_a_new_holder_takes_back_what_its_slot_left(home: Home) -> None:
    spool = Spool(home)
    names = [publish(home) for _ in range(3)]
    first = spool.claim("parser-1", 2)
    assert first == spool.take_back("parser-1")
    assert [] == spool.take_back("parser-2")
    assert names[2:] == [batch.name for batch in spool.claim("parser-2", 2)]


def test_recover_puts_back_what_dead_parsers_left_and_nothing_of_the_living(home: Home) -> None:
    spool = Spool(home)
    names = [publish(home) for _ in range(3)]
    with Slot.acquire(home, "parser", 1):
        spool.claim("parser-1", 1)
        spool.claim("parser-2", 2)
        (home.spool_cur / "a stranger's").mkdir()
        assert 2 == spool.recover()
        assert Sizes(2, 1, 0, spool.sizes().bytes) == spool.sizes()
        assert 0 == spool.recover()
    assert 1 == spool.recover()
    assert names == [batch.name for batch in spool.claim("parser-3", 9)]


@pytest.mark.parametrize("raw", [True, False])
def test_a_finished_batch_is_where_its_records_say_or_gone(home: Home, raw: bool) -> None:
    spool = Spool(home)
    batch = a_batch(home)
    with spool.marks(batch) as marks:
        marks.at(0)
        marks.clear()
    place = raw_place(batch)
    assert f"2026/11/30/{batch.name}.hrf" == place
    spool.finish(batch, raw)
    assert ([place] if raw else []) == files(home.raw)
    assert [] == files(home.hrf)
    # After a death between the rename and what follows it is finished once more.
    spool.finish(batch, raw)
    assert ([place] if raw else []) == files(home.raw)


def test_a_damaged_batch_is_kept_by_the_day_of_its_file(home: Home) -> None:
    name = publish(home)
    path = home.spool_new / f"{name}.hrf"
    path.write_bytes(b"\0" * 100)
    moment = datetime(2025, 3, 1, 12, tzinfo=UTC).timestamp()
    os.utime(path, (moment, moment))
    (batch,) = Spool(home).claim("parser-1", 1)
    assert f"2025/03/01/{name}.hrf" == raw_place(batch)


def test_a_failed_record_is_copied_to_bad_with_its_reason(home: Home) -> None:
    spool = Spool(home)
    batch = a_batch(home, "http://a.test/1", "http://a.test/2")
    before = batch.path.read_bytes()
    offset, length, harvest = list(hrf.scan(before))[1]
    place = spool.fail(batch, offset, length, 'said "no"\nand died')
    assert f"{batch.name}-{offset}.hrf" == place.name
    assert harvest == hrf.parse(place.read_bytes())
    line = jcf.parse(place.with_suffix(".jcf").read_bytes())
    assert [batch.name, offset, 'said "no"\nand died'] == [line.get("BATCH"), line.number("OFFSET"), line.get("REASON")]
    assert before == batch.path.read_bytes()
    assert 1 == spool.sizes().bad
    assert [] == files(home.tmp)


def test_what_follows_a_damaged_record_goes_to_bad_whole(home: Home) -> None:
    batch = a_batch(home)
    assert batch.path.read_bytes()[10:] == Spool(home).fail(batch, 10, -1, "damaged").read_bytes()


def test_a_spool_is_empty_when_the_last_mark_is_gone(home: Home) -> None:
    spool = Spool(home)
    (home.spool_new / "notes.txt").write_text("a stranger's")
    assert spool.is_empty()
    publish(home)
    assert not spool.is_empty()
    (batch,) = spool.claim("parser-1", 1)
    with spool.marks(batch) as marks:
        marks.at(0)
    assert not spool.is_empty()
    os.rename(batch.path, home.raw / batch.path.name)  # and then its parser died
    assert not spool.is_empty()
    spool.recover()
    assert spool.is_empty()


def test_sizes_count_each_place(home: Home) -> None:
    spool = Spool(home)
    assert Sizes(0, 0, 0, 0) == spool.sizes()
    for _ in range(3):
        publish(home)
    size = len(hrf.dump(a_harvest()))
    assert Sizes(3, 0, 0, 3 * size) == spool.sizes()
    (batch,) = spool.claim("parser-1", 1)
    with spool.marks(batch) as marks:
        marks.at(0)
    assert Sizes(2, 1, 0, 3 * size) == spool.sizes()
    spool.fail(batch, 0, 10, "x")
    spool.finish(batch, raw=True)
    assert Sizes(2, 0, 1, 2 * size) == spool.sizes()


def test_names_miss_no_batch_that_goes_back_while_they_are_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(home)
    batch = a_batch(home)
    real = os.listdir

    def recover_meanwhile(path: Path) -> list[str]:
        if path == home.spool_cur and batch.path.exists():
            batch.path.rename(home.spool_new / batch.path.name)
        return real(path)

    monkeypatch.setattr(os, "listdir", recover_meanwhile)
    assert {batch.name} == spool.names()


def test_an_empty_or_missing_spool_is_no_error(home: Home) -> None:
    for directory in (home.spool_new, home.spool_cur, home.spool_bad):
        directory.rmdir()
    spool = Spool(home)
    assert Sizes(0, 0, 0, 0) == spool.sizes()
    assert set() == spool.names()
    assert [] == spool.claim("parser-1", 1)
    assert 0 == spool.recover()


def _tell(spool: Spool, slot: str) -> list[Batch]:
    return spool.take_back(slot) + spool.claim(slot, 1)


def test_a_batch_is_found_after_a_death_between_any_two_steps(home: Home) -> None:
    """What a harvester and a parser leave at each step, and what the next one finds."""
    # Died while writing: nothing to see, and the next holder removes it.
    writer = BatchWriter(home, "harvester-1", SETTINGS)
    writer.put(a_harvest())
    spool = Spool(home)
    assert [] == _tell(spool, "parser-1")
    BatchWriter(home, "harvester-1", SETTINGS)
    assert [] == files(home.hrf)
    # Died after the rename to new: a parser finds it.
    name = publish(home)
    assert [name] == [batch.name for batch in spool.claim("parser-1", 1)]
    # Died after the rename to cur: the next holder, or another parser after recover.
    assert [name] == [batch.name for batch in _tell(Spool(home), "parser-1")]
    assert 1 == spool.recover()
    (batch,) = spool.claim("parser-2", 1)
    # Died after the rename to raw, before the mark was removed: recover removes it.
    with spool.marks(batch) as marks:
        marks.at(0)
    batch.path.rename(home.raw / "moved.hrf")
    assert 1 == len(files(home.spool_cur))
    spool.recover()
    assert [] == files(home.hrf)


def test_recover_keeps_the_marks_of_batches_that_live(home: Home) -> None:
    spool = Spool(home)
    batch = a_batch(home)
    with spool.marks(batch) as marks:
        marks.at(0)
    spool.recover()
    (again,) = spool.claim("parser-7", 1)
    with spool.marks(again) as marks:
        assert frozenset({0}) == marks.suspects


def _directory(path: Path) -> None:
    path.mkdir()
    (path / "something").write_text("of somebody's")


STRANGE: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "directory": _directory,
    "dangling": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to(path.name),
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_what_is_no_file_is_no_batch_and_is_put_aside(home: Home, kind: str) -> None:
    spool, name = Spool(home), publish(home)
    batch = f"{name[:-1]}{(int(name[-1]) + 1) % 10}.hrf"  # another process
    own = home.spool_cur / "parser-1"
    own.mkdir()
    STRANGE[kind](home.spool_new / batch)
    assert [name] == [found.name for found in spool.claim("parser-1", 9)]
    STRANGE[kind](own / batch)
    assert [name] == [found.name for found in spool.take_back("parser-1")]
    assert sorted([batch, f"{batch}.2"]) == sorted(os.listdir(home.spool_bad))


@pytest.mark.parametrize("kind", STRANGE)
def test_what_is_no_mark_of_ours_is_put_aside(home: Home, kind: str) -> None:
    spool, name = Spool(home), publish(home)
    STRANGE[kind](home.spool_cur / f"{name}.mark")
    (batch,) = spool.claim("parser-1", 1)
    with spool.marks(batch) as marks:
        marks.at(0)
        marks.clear()
    spool.finish(batch, raw=True)
    STRANGE[kind](home.spool_cur / f"{name}.mark")
    assert 0 == spool.recover()
    assert spool.is_empty()


def test_what_is_in_the_place_of_a_slots_directory_is_put_aside(home: Home) -> None:
    spool, name = Spool(home), publish(home)
    (home.spool_cur / "parser-1").symlink_to("nowhere")
    assert [] == spool.take_back("parser-1")
    assert [name] == [batch.name for batch in spool.claim("parser-1", 1)]


def test_directories_in_the_places_of_a_workers_files_are_put_aside(home: Home) -> None:
    (home.spool_tmp / "harvester-1-1.hrf").mkdir()
    (home.tmp / "parser-1-1").mkdir()
    BatchWriter(home, "harvester-1", SETTINGS)
    WirStore(home, "parser-1")
    assert ["harvester-1-1.hrf", "parser-1-1"] == sorted(os.listdir(home.spool_bad))


@pytest.mark.parametrize("level", [1, 2, 3], ids=["day", "month", "year"])
def test_what_is_in_the_way_of_a_kept_batch_is_put_aside(home: Home, level: int) -> None:
    spool, name = Spool(home), publish(home)
    (batch,) = spool.claim("parser-1", 1)
    place = [home.raw / raw_place(batch), *(home.raw / raw_place(batch)).parents][level]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("in the way")
    spool.finish(batch, raw=True)
    assert (home.raw / raw_place(batch)).is_file()
    assert [place.name] == os.listdir(home.spool_bad)
    assert name == batch.name
