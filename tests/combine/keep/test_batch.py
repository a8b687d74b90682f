from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from combine.config import Settings
from combine.keep.batch import PORTION_BYTES, BatchWriter, age_key, is_batch_name, this_boot
from combine.keep.home import Home
from formats import hrf
from tests.combine.keep.faults import FaultyDisk
from tests.combine.keep.material import SETTINGS, a_harvest, files


def small(records: int = 100, size: int = 4_000_000, seconds: float = 1.0) -> Settings:
    limits = replace(SETTINGS.harvest, batch_records=records, batch_bytes=size, batch_s=seconds)
    return Settings(harvest=limits)


def published(home: Home) -> list[hrf.Harvest]:
    """Every harvest in new; raises where one is not whole."""
    names = sorted((path for path in home.spool_new.iterdir()), key=lambda path: age_key(path.stem))
    return [harvest for path in names for _, _, harvest in hrf.scan(path.read_bytes())]


def test_a_batch_is_hidden_until_it_is_published_and_then_whole(home: Home) -> None:
    writer = BatchWriter(home, "harvester-3", SETTINGS)
    harvests = [a_harvest("http://a.test/1"), a_harvest("http://a.test/2", body=b"")]
    for harvest in harvests:
        writer.put(harvest)
    assert [] == published(home)
    assert 2 == writer.records
    assert sum(len(hrf.dump(harvest)) for harvest in harvests) == writer.size
    name = writer.publish()
    assert [f"{name}.hrf"] == files(home.spool_new)
    assert [] == files(home.spool_tmp)
    assert harvests == published(home)
    assert 0 == writer.records


def test_nothing_is_published_of_nothing(home: Home) -> None:
    writer = BatchWriter(home, "harvester-3", SETTINGS)
    assert "" == writer.publish()
    assert not writer.should_publish(now=1e9)
    assert [] == files(home.hrf)


def test_names_sort_by_age_and_an_earlier_boot_is_older(home: Home) -> None:
    writer = BatchWriter(home, "harvester-3", SETTINGS)
    names = []
    for _ in range(5):
        writer.put(a_harvest())
        names.append(writer.publish())
    earlier = f"{'9' * 19}-{'f' * 8 if this_boot() != 'f' * 8 else '0' * 8}-harvester-1-99"
    assert [earlier, *names] == sorted([*reversed(names), earlier], key=age_key)
    assert all(is_batch_name(name) for name in [*names, earlier])
    assert not is_batch_name("../../etc/passwd")


@pytest.mark.parametrize(
    ("settings", "harvests", "now", "expected"),
    [
        (small(), 0, 100.0, False),
        (small(), 1, 10.9, False),
        (small(), 1, 11.0, True),
        (small(records=2), 1, 10.0, False),
        (small(records=2), 2, 10.0, True),
        (small(size=300), 1, 10.0, False),
        (small(size=300), 3, 10.0, True),
    ],
)
def test_a_batch_is_published_at_a_count_a_size_or_an_age(
    home: Home, settings: Settings, harvests: int, now: float, expected: bool
) -> None:
    clock = iter([10.0])
    writer = BatchWriter(home, "harvester-3", settings, clock=lambda: next(clock))
    for _ in range(harvests):
        writer.put(a_harvest())
    assert expected == writer.should_publish(now)


def test_age_is_asked_of_the_writers_own_clock(home: Home) -> None:
    clock = iter([10.0, 10.5, 11.0])
    writer = BatchWriter(home, "harvester-3", SETTINGS, clock=lambda: next(clock))
    writer.put(a_harvest())
    assert [False, True] == [writer.should_publish(), writer.should_publish()]


@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
@pytest.mark.parametrize("in_kernel", [True, False])
def test_a_spilled_body_is_as_good_as_one_in_memory(
    home: Home, monkeypatch: pytest.MonkeyPatch, size: int, in_kernel: bool
) -> None:
    if not in_kernel:

        def refuse(*_: object) -> int:
            raise OSError(errno.EXDEV, "cross-device")

        monkeypatch.setattr(os, "copy_file_range", refuse)
    writer = BatchWriter(home, "harvester-3", SETTINGS)
    body = os.urandom(size)
    path = writer.body_path()
    path.write_bytes(body)
    writer.put(a_harvest("http://a.test/1"))
    writer.put(a_harvest("http://a.test/2", body=b""), path)
    writer.put(a_harvest("http://a.test/3"))
    path.unlink()
    writer.publish()
    assert [b"body", body, b"body"] == [harvest.body for harvest in published(home)]


@pytest.mark.parametrize("in_kernel", [True, False])
def test_a_spilled_body_that_shrinks_is_an_error_and_no_record(
    home: Home, monkeypatch: pytest.MonkeyPatch, in_kernel: bool
) -> None:
    def refuse(*_: object) -> int:
        if in_kernel:
            return 0
        raise OSError(errno.EINVAL, "invalid")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    writer = BatchWriter(home, "harvester-3", SETTINGS)
    writer.put(a_harvest())
    path = writer.body_path()
    path.write_bytes(b"x" * 100)
    with pytest.raises(OSError, match="became shorter"):
        writer.put(a_harvest(), path)
    writer.publish()
    assert [a_harvest()] == published(home)


def test_an_error_of_the_kernel_copy_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = BatchWriter(home, "harvester-3", SETTINGS)
    path = writer.body_path()
    path.write_bytes(b"x" * 100)
    monkeypatch.setattr(os, "copy_file_range", full)
    with pytest.raises(OSError, match="No space"):
        writer.put(a_harvest(), path)
    assert "" == writer.publish()


def test_the_next_holder_of_a_slot_removes_its_leftovers_and_no_others(home: Home) -> None:
    for name in ("harvester-3-1.hrf", "harvester-3-2.body", "harvester-33-1.hrf", "harvester-4-1.hrf"):
        (home.spool_tmp / name).write_text("half")
    BatchWriter(home, "harvester-3", SETTINGS)
    assert ["harvester-33-1.hrf", "harvester-4-1.hrf"] == files(home.spool_tmp)


def test_a_sealed_batch_waits_while_the_next_one_fills(home: Home) -> None:
    writer = BatchWriter(home, "harvester-3", SETTINGS)
    assert writer.seal() is None
    writer.put(a_harvest("http://a.test/1"))
    sealed = writer.seal()
    assert sealed is not None
    writer.put(a_harvest("http://a.test/2"))
    second = writer.publish()
    first = sealed.publish()
    assert {f"{first}.hrf", f"{second}.hrf"} == set(files(home.spool_new))
    assert 2 == len(published(home))


def test_a_batch_thrown_away_is_never_seen(home: Home) -> None:
    writer = BatchWriter(home, "harvester-3", SETTINGS)
    writer.put(a_harvest())
    sealed = writer.seal()
    assert sealed is not None
    sealed.discard()
    sealed.discard()
    assert [] == files(home.spool_new)


def _fill(home: Home, writer: BatchWriter, body: Path, retry: bool, length: int = 500) -> int:
    """Two records, one of them spilled, and publish; with `retry` a step that fails is repeated at once."""
    failed = 0
    steps = (
        lambda: writer.put(a_harvest("http://a.test/1", body=b"1" * length)),
        lambda: writer.put(a_harvest("http://a.test/2", body=b""), body),
        lambda: writer.publish(),
    )
    for step in steps:
        for _ in range(2):
            try:
                step()
            except OSError:
                failed += 1
                # Whatever is seen now is whole.
                published(home)
                if retry:
                    continue
            break
    return failed


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("length", [500, PORTION_BYTES])
def test_a_fault_at_any_call_costs_time_and_no_record(
    home: Home, monkeypatch: pytest.MonkeyPatch, code: int, short: bool, length: int
) -> None:
    disk = FaultyDisk(monkeypatch)
    disk.short = short
    writer = BatchWriter(home, "harvester-3", SETTINGS)
    body = writer.body_path()
    body.write_bytes(b"2" * 2000)
    disk.arm(0, code)
    assert 0 == _fill(home, writer, body, True, length)
    calls = disk.count
    assert calls >= (20 if short else 7)
    for call in range(1, calls + 1):
        shutil.rmtree(home.spool_new)
        home.spool_new.mkdir()
        disk.arm(call, code)
        # The calls that give space back after a fault, and are not needed, may fail unheard.
        assert 1 == _fill(home, writer, body, True, length), f"call {call}"
        assert [b"1" * length, b"2" * 2000] == [harvest.body for harvest in published(home)], f"call {call}"
    assert ["harvester-3-1.body"] == files(home.spool_tmp)


def test_records_are_written_in_portions_and_a_full_disk_keeps_those_that_were_taken(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FaultyDisk(monkeypatch)
    writer = BatchWriter(home, "harvester-3", SETTINGS)
    half = b"1" * (PORTION_BYTES // 2)
    writer.put(a_harvest("http://a.test/1", body=half))
    disk.arm(1, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        writer.put(a_harvest("http://a.test/2", body=half))
    writer.put(a_harvest("http://a.test/3", body=b"3"))
    disk.arm(0, 0)
    writer.put(a_harvest("http://a.test/2", body=half))
    assert 1 == disk.count
    for number in range(4, 2004):
        writer.put(a_harvest(f"http://a.test/{number}", body=b""))
    writer.publish()
    names = [harvest.job.url.rpartition("/")[2] for harvest in published(home)]
    assert ["1", "3", "2", *map(str, range(4, 2004))] == names


def test_a_fault_without_a_retry_never_shows_half_a_record(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk(monkeypatch)
    writer = BatchWriter(home, "harvester-3", SETTINGS)
    body = writer.body_path()
    body.write_bytes(b"2" * 2000)
    for call in range(1, 9):
        disk.arm(call, errno.ENOSPC)
        _fill(home, writer, body, retry=False)
        disk.arm(0, 0)
        writer.publish()
        assert {b"1" * 500, b"2" * 2000} >= {harvest.body for harvest in published(home)}


def test_a_batch_whose_sync_failed_is_written_anew(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = BatchWriter(home, "harvester-3", SETTINGS)
    writer.put(a_harvest())
    real = os.fsync
    synced: list[int] = []

    def fail_once(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        if len(synced) == 1:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once)
    with pytest.raises(OSError, match="Input/output"):
        writer.publish()
    assert writer.should_publish(now=0.0)
    writer.put(a_harvest("http://a.test/later"))
    writer.publish()
    assert synced[0] != synced[1]
    writer.publish()
    assert ["http://a.test/", "http://a.test/later"] == [harvest.job.url for harvest in published(home)]
    assert [] == files(home.spool_tmp)
