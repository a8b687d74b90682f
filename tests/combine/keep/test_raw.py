from __future__ import annotations

import errno
import os
import shutil
import subprocess
from datetime import date
from pathlib import Path

import pytest
import zstandard

from combine.keep import seekable
from combine.keep.batch import BatchWriter
from combine.keep.home import Home
from combine.keep.raw import Raw, compress_batch, scan
from combine.keep.seekable import Frames
from combine.keep.spool import Batch, Spool, raw_place
from formats import hrf, wir
from formats.jcf import RecordError
from tests.combine.keep.faults import FaultyDisk
from tests.combine.keep.material import SETTINGS, a_batch, a_harvest, files

URLS = ("http://a.test/1", "http://a.test/2", "http://a.test/3")


def kept(home: Home) -> tuple[Batch, list[tuple[int, int, hrf.Harvest]]]:
    """A batch in raw/ and its records."""
    batch = a_batch(home, *URLS)
    records = list(hrf.scan(batch.path.read_bytes()))
    Spool(home).finish(batch, raw=True)
    return batch, records


def test_a_harvest_is_read_at_the_place_its_record_says_wherever_the_batch_lies(home: Home) -> None:
    batch = a_batch(home, *URLS)
    raw, place = Raw(home), raw_place(batch)
    records = list(hrf.scan(batch.path.read_bytes()))

    def as_said() -> list[hrf.Harvest | None]:
        return [raw.read(place, offset, length) for offset, length, _ in records]

    expected = [harvest for _, _, harvest in records]
    assert expected == as_said()
    Spool(home).recover()
    assert home.spool_new / f"{batch.name}.hrf" == raw.where(place)
    assert expected == as_said()
    (batch,) = Spool(home).claim("parser-2", 1)
    Spool(home).finish(batch, raw=True)
    assert home.raw / place == raw.where(place)
    assert expected == as_said()
    compressed = compress_batch(home.raw / place)
    assert compressed == raw.where(place)
    assert [f"{place}.zst"] == files(home.raw)
    assert expected == as_said()
    record = wir.record([("raw", wir.join([place, records[1][0], records[1][1]]))])
    assert expected[1] == raw.of(record)
    compressed.unlink()
    assert [None] * 3 == as_said()
    assert raw.of(record) is None


@pytest.mark.parametrize(
    "file", ["", "../../../etc/passwd", "2026/11/30/../../x.hrf", "2026/11/30/notes.hrf", "/2026/11/30/x.hrf"]
)
def test_no_field_leads_out_of_raw(home: Home, file: str) -> None:
    kept(home)
    assert Raw(home).where(file) is None
    assert Raw(home).read(file, 0, 10) is None


@pytest.mark.parametrize("value", ["", "x", "a\t1", "2026/11/30/x.hrf\t-1\t5", "2026/11/30/x.hrf\tone\ttwo"])
def test_a_record_without_a_readable_raw_has_none(home: Home, value: str) -> None:
    assert Raw(home).of(wir.record([("raw", value)])) is None


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize(("offset", "length"), [(1, 10), (0, 10), (0, 10**6), (10**6, 5)])
def test_a_place_that_is_no_record_is_told_with_its_path(
    home: Home, compressed: bool, offset: int, length: int
) -> None:
    batch, _ = kept(home)
    path = home.raw / raw_place(batch)
    if compressed:
        path = compress_batch(path)
    with pytest.raises(RecordError, match=f"^{path}: "):
        Raw(home).read(raw_place(batch), offset, length)


def test_a_batch_that_moves_while_it_is_read_is_found_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, records = kept(home)
    path = home.raw / raw_place(batch)
    raw = Raw(home)
    real = raw.where
    asked: list[str] = []

    def compress_after_the_look(file: str) -> Path | None:
        found = real(file)
        asked.append(file)
        if len(asked) == 1:
            compress_batch(path)
        return found

    monkeypatch.setattr(raw, "where", compress_after_the_look)
    assert records[2][2] == raw.read(raw_place(batch), *records[2][:2])
    assert 2 == len(asked)


def test_a_compressed_batch_reads_as_before(home: Home) -> None:
    batch, records = kept(home)
    path = home.raw / raw_place(batch)
    before = path.read_bytes()
    assert records == list(scan(path))
    compressed = compress_batch(path)
    assert records == list(scan(compressed))
    with zstandard.open(compressed, "rb") as file:
        assert before == file.read()


@pytest.mark.skipif(shutil.which("zstd") is None, reason="the zstd command is not here")
def test_the_zstd_command_restores_a_batch(home: Home) -> None:
    batch, _ = kept(home)
    path = home.raw / raw_place(batch)
    before = path.read_bytes()
    done = subprocess.run(["zstd", "-dc", compress_batch(path)], capture_output=True, check=True)
    assert before == done.stdout


def test_a_damaged_batch_is_compressed_with_its_damage(home: Home) -> None:
    batch, records = kept(home)
    path = home.raw / raw_place(batch)
    path.write_bytes(path.read_bytes() + b"HRF/1.0\ndamage")
    compressed = compress_batch(path)
    found = []
    with pytest.raises(RecordError, match=f"the record at byte {records[2][0] + records[2][1]}: "):  # noqa: PT012
        for entry in scan(compressed):
            found.append(entry)
    assert records == found
    assert records[0][2] == Raw(home).read(raw_place(batch), *records[0][:2])


def test_an_empty_batch_is_compressed_to_an_empty_one(home: Home) -> None:
    batch, _ = kept(home)
    path = home.raw / raw_place(batch)
    path.write_bytes(b"")
    assert [] == list(scan(path))
    assert [] == list(scan(compress_batch(path)))


def test_a_fault_at_any_call_of_a_compression_keeps_the_batch(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, records = kept(home)
    path = home.raw / raw_place(batch)
    disk = FaultyDisk(monkeypatch)
    for call in (1, 2):
        disk.arm(call, errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            compress_batch(path)
        assert [raw_place(batch)] == files(home.raw)
    disk.arm(0, 0)
    # Died after the rename: both are there, and the plain one counts until it is done again.
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        compress_batch(path)
    assert 2 == len(files(home.raw))
    assert [path] == list(Raw(home).walk())
    assert records[0][2] == Raw(home).read(raw_place(batch), *records[0][:2])
    compress_batch(path)
    assert 1 == len(files(home.raw))


def _on_days(home: Home, *days: str) -> list[str]:
    """A kept batch for each day; their places."""
    places = []
    for day in days:
        writer = BatchWriter(home, "harvester-1", SETTINGS)
        writer.put(a_harvest(fetched=f"{day}T08:00:00.000Z"))
        writer.publish()
        (batch,) = Spool(home).claim("parser-1", 1)
        Spool(home).finish(batch, raw=True)
        places.append(raw_place(batch))
    return places


def test_days_before_a_day_are_compressed_a_few_at_a_time(home: Home) -> None:
    places = _on_days(home, "2026-01-31", "2026-01-31", "2026-02-01", "2026-02-02")
    raw = Raw(home)
    assert 1 == raw.compress(date(2026, 2, 2), 1)
    assert sorted([places[0] + ".zst", *places[1:]]) == files(home.raw)
    assert 2 == raw.compress(date(2026, 2, 2), 9)
    assert 0 == raw.compress(date(2026, 2, 2), 9)
    assert 0 == raw.compress(date(2026, 2, 2), 0)
    assert [*(place + ".zst" for place in places[:3]), places[3]] == files(home.raw)
    assert [home.raw / name for name in files(home.raw)] == list(raw.walk())


def test_old_days_are_removed_with_their_empty_months_and_years(home: Home) -> None:
    places = _on_days(home, "2025-12-31", "2026-01-30", "2026-01-31", "2026-02-01")
    (home.raw / "2025" / "99").mkdir()
    (home.raw / "2025" / "99" / "99").mkdir()
    raw = Raw(home)
    raw.compress(date(2026, 1, 1), 9)
    assert 2 == raw.sweep(1, date(2026, 2, 1))
    assert places[2:] == files(home.raw)
    shutil.rmtree(home.raw / "2025" / "99")
    assert 1 == raw.sweep(0, date(2026, 2, 1))
    assert places[3:] == files(home.raw)
    assert ["2025", "2026"] == sorted(os.listdir(home.raw))


def test_walk_passes_over_strangers_files(home: Home) -> None:
    batch, _ = kept(home)
    path = home.raw / raw_place(batch)
    (path.parent / "notes.hrf").write_text("x")
    (path.parent / f"{path.name}.fresh").write_text("half")
    (home.raw / "README").write_text("x")
    assert [path] == list(Raw(home).walk())


PIECES = [b"a" * 1000, b"", b"b", os.urandom(5000)]


def test_frames_give_any_part_of_what_was_compressed() -> None:
    whole = b"".join(PIECES)
    frames = Frames(b"".join(seekable.compress(PIECES)))
    assert len(whole) == frames.size
    assert PIECES == [frames.frame(number) for number in range(len(frames))]
    for offset in (0, 1, 999, 1000, 1001, 3000, len(whole)):
        for length in (0, 1, 2, 1001, 4000):
            if offset + length <= len(whole):
                assert whole[offset : offset + length] == frames.read(offset, length), (offset, length)


@pytest.mark.parametrize(("offset", "length"), [(-1, 2), (0, -1), (0, 6002), (6002, 0)])
def test_frames_refuse_what_lies_outside(offset: int, length: int) -> None:
    with pytest.raises(RecordError, match="are not in a batch of 6001 bytes"):
        Frames(b"".join(seekable.compress(PIECES))).read(offset, length)


def test_a_cut_at_any_byte_is_told() -> None:
    data = b"".join(seekable.compress([b"abc" * 50, b"def"]))
    for end in range(len(data)):
        with pytest.raises(RecordError):
            Frames(data[:end])


def test_no_flipped_byte_is_read_as_a_record() -> None:
    data = b"".join(seekable.compress([b"abc" * 50, b"def"]))
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x41
        try:
            frames = Frames(bytes(damaged))
            found = [frames.frame(number) for number in range(len(frames))]
        except RecordError:
            continue
        assert [b"abc" * 50, b"def"] == found
