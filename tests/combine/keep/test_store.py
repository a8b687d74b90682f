from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from combine.errors import ConfigError
from combine.keep import store as stores
from combine.keep.home import Home
from combine.keep.store import WirStore, is_id
from combine.urls import record_id
from formats import wir
from formats.jcf import RecordError
from tests.combine.keep.faults import FaultyDisk
from tests.combine.keep.material import a_record, files

URL = "http://a.test/"
ID = hashlib.md5(URL.encode(), usedforsecurity=False).hexdigest()


@pytest.fixture
def store(home: Home) -> WirStore:
    return WirStore(home, "parser-1")


def test_a_record_lies_under_the_md5_of_its_url(home: Home, store: WirStore) -> None:
    record = a_record(URL, title="A", text="one\ntwo")
    store.put(record)
    assert [f"{ID[:2]}/{ID[2:4]}/{ID}"] == files(home.hdb)
    assert home.hdb / ID[:2] / ID[2:4] / ID == store.path(URL) == store.path(ID)
    assert wir.dump(record) == store.path(ID).read_bytes() == store.get_bytes(URL)
    assert record == store.get(ID) == store.get(URL) == WirStore(home).get(URL)
    assert [] == files(home.tmp)


def test_a_record_is_replaced_whole_and_removed(home: Home, store: WirStore) -> None:
    store.put(a_record(URL, title="old", text="long " * 1000))
    store.put(a_record(URL, title="new"))
    assert a_record(URL, title="new") == store.get(URL)
    assert store.delete(ID)
    assert not store.delete(URL)
    assert store.get(URL) is None
    assert store.get_bytes(ID) is None
    assert [] == files(home.hdb)


@pytest.mark.parametrize(
    "key", ["", ".", "..", "../../etc/passwd", "/etc/passwd", ID.upper(), ID + "/..", "é", "\n" + ID]
)
def test_no_key_leads_out_of_the_store(home: Home, store: WirStore, key: str) -> None:
    assert home.hdb == store.path(key).parents[2]
    assert is_id(store.path(key).name)
    assert store.get(key) is None


@pytest.mark.parametrize(
    "fields", [[], [("url", URL)], [("url", URL), ("id", "../../../x")], [("url", URL), ("id", "0" * 32)]]
)
def test_a_record_whose_id_is_not_its_urls_is_not_written(
    home: Home, store: WirStore, fields: list[tuple[str, str]]
) -> None:
    with pytest.raises(RecordError, match="is not the id of"):
        store.put(wir.record(fields))
    assert [] == files(home.path / "hdb")


@pytest.mark.parametrize("damage", [b"", b"WIR/2.0\n", b"WIR/9.9\nid: x\n", b"\0" * 50, b"WIR/2.0\nurl: http"])
def test_a_damaged_file_is_told_with_its_path(store: WirStore, damage: bytes) -> None:
    store.put(a_record(URL))
    store.path(URL).write_bytes(damage)
    if damage == b"WIR/2.0\n":
        assert wir.Record() == store.get(URL)
        return
    with pytest.raises(RecordError, match=f"{store.path(URL)} is damaged: "):
        store.get(URL)
    with pytest.raises(RecordError, match="is damaged"):
        list(store.records())
    told: list[str] = []
    assert [] == list(store.records(lambda error: told.append(str(error))))
    assert 1 == len(told)


def test_walk_is_in_order_and_passes_over_strangers(home: Home, store: WirStore) -> None:
    urls = [f"http://a.test/{number}" for number in range(300)]
    for url in urls:
        store.put(a_record(url))
    place = store.path(urls[0]).parent
    for stranger in (home.hdb / ".DS_Store", home.hdb / "zz", place / "notes", place / ("f" * 32), place / f"{ID}.bak"):
        stranger.write_text("stranger")
    (home.hdb / "ff").mkdir(exist_ok=True)
    (home.hdb / "ff" / "00").write_text("a file where a directory is expected")
    found = list(store.walk())
    assert 300 == len(found)
    assert sorted(record_id(url) for url in urls) == [path.name for path in found]
    assert set(urls) == {record.url for record in store.records()}


def test_a_record_that_goes_during_the_walk_is_passed_over(store: WirStore) -> None:
    for number in range(2):
        store.put(a_record(f"http://a.test/{number}"))
    # Both in one list already, whatever their directories: the second goes while the first is looked at.
    paths = list(store.walk())
    records = store.records()
    next(records)
    paths[1].unlink()
    assert [] == list(records)


def test_walk_of_no_store_is_empty(home: Home) -> None:
    home.hdb.rmdir()
    assert [] == list(WirStore(home).walk())


def test_walk_tells_of_a_directory_that_cannot_be_read(store: WirStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> list[str]:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "listdir", fail)
    with pytest.raises(OSError, match="Input/output"):
        list(store.walk())


def test_a_new_holder_of_a_slot_removes_its_leftovers(home: Home) -> None:
    for name in ("parser-1-7", "parser-11-7", "parser-2-1"):
        (home.tmp / name).write_text("half")
    WirStore(home, "parser-1")
    WirStore(home)
    assert ["parser-11-7", "parser-2-1"] == files(home.tmp)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("short", [True, False])
def test_a_fault_at_any_call_leaves_the_old_record_or_the_new(
    home: Home, monkeypatch: pytest.MonkeyPatch, code: int, old: bool, short: bool
) -> None:
    disk = FaultyDisk(monkeypatch)
    disk.short = short
    store = WirStore(home, "parser-1")
    before, after = a_record(URL, title="before"), a_record(URL, title="after" * 20)
    call = 0
    while True:
        call += 1
        store.delete(URL)
        for level in (home.hdb / ID[:2] / ID[2:4], home.hdb / ID[:2]):
            if level.exists():
                level.rmdir()
        disk.arm(0, 0)
        if old:
            store.put(before)
        disk.arm(call, code)
        failed = None
        try:
            store.put(after)
        except OSError as error:
            failed = error.errno
        if failed is None:
            break
        assert code == failed
        assert (before if old else None) == store.get(URL)
        assert [] == files(home.tmp)
    assert after == store.get(URL)
    assert call > (5 if short else 3)


def test_what_a_failing_disk_does_not_let_go_goes_before_the_next_sync(home: Home, store: WirStore) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        patch.setattr(os, "unlink", fail)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                store.put(a_record(URL))
        assert 2 == len(files(home.tmp))
    store.sync()
    assert [] == files(home.tmp)


WRITER = """
import sys, pathlib
from combine.errors import ConfigError
from combine.keep.home import Home
from combine.keep.store import WirStore
from tests.combine.keep.material import a_record
store = WirStore(Home(pathlib.Path(sys.argv[1])), sys.argv[2])
sys.stdin.readline()
for number in range(200):
    store.put(a_record(f"http://a.test/{number}", title=sys.argv[2], text="x" * 5000))
"""


def test_two_writers_make_the_same_directories_and_readers_see_whole_records(home: Home) -> None:
    root = str(Path(__file__).resolve().parents[3])
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(home.path), f"parser-{number}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=root,
        )
        for number in range(2)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    store = WirStore(home)
    while any(writer.poll() is None for writer in writers):
        assert all(5000 == len(record.get("text")) for record in store.records())
    assert ["", ""] == [writer.communicate()[1] for writer in writers]
    assert 200 == len(list(store.records()))
    assert [] == files(home.tmp)


def test_sync_is_one_syncfs(store: WirStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(a_record(URL))
    store.sync()
    everything: list[bool] = []
    monkeypatch.setattr(os, "sync", lambda: everything.append(True))
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    store.sync()
    assert [True] == everything


def test_a_sync_that_failed_is_told() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        stores.sync_file_system(-1)


@pytest.mark.parametrize("make", [lambda path: path.symlink_to(path.name), os.mkfifo], ids=["loop", "pipe"])
def test_what_is_no_file_counts_as_damaged_and_is_replaced(store: WirStore, make: Callable[[Path], None]) -> None:
    store.path(URL).parent.mkdir(parents=True)
    make(store.path(URL))
    with pytest.raises(RecordError, match="is damaged"):
        store.get(URL)
    store.put(a_record(URL, title="new"))
    assert a_record(URL, title="new") == store.get(URL)


@pytest.mark.parametrize("level", [0, 1, 2], ids=["record", "second", "first"])
@pytest.mark.parametrize(
    "make", [Path.mkdir, lambda path: path.symlink_to(path.name), lambda path: path.symlink_to("nowhere"), os.mkfifo],
    ids=["directory", "loop", "dangling", "pipe"],
)  # fmt: skip
def test_what_is_in_the_way_of_a_record_is_put_aside(
    home: Home, store: WirStore, level: int, make: Callable[[Path], None]
) -> None:
    place = [store.path(URL), *store.path(URL).parents][level]
    place.parent.mkdir(parents=True, exist_ok=True)
    make(place)
    if level and place.is_fifo():
        assert (None, False) == (store.get(URL), store.delete(URL))
    store.put(a_record(URL, title="new"))
    assert a_record(URL, title="new") == store.get(URL)
    assert [] == files(home.tmp)
    is_kept = (level > 0) != (
        make is Path.mkdir
    )  # a directory is wrong in a record's place only, and a link goes there
    assert is_kept == os.path.lexists(home.spool_bad / place.name)


def test_readers_say_where_no_records_can_be(home: Home, store: WirStore) -> None:
    home.hdb.rmdir()
    home.hdb.symlink_to("nowhere")
    with pytest.raises(ConfigError, match="leads to nowhere, where no directory is: mount or make that"):
        list(store.walk())


def test_readers_pass_over_what_is_no_file(store: WirStore) -> None:
    store.path(URL).mkdir(parents=True)
    store.path("http://other.example/").parent.mkdir(parents=True)
    os.mkfifo(store.path("http://other.example/"))
    store.path("http://third.example/").parent.mkdir(parents=True)
    store.path("http://third.example/").symlink_to("/dev/zero")
    told: list[RecordError] = []
    assert [] == list(store.records(told.append))
    assert 3 == len(told)
    assert all("is no file; remove it" in str(error) for error in told)
