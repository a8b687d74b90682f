"""The power fails at some of the calls of one recorded harvest; `make power` tries as many as there is time for."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests import shim
from tests.power import recording
from tests.power.disk import KEPT, LOST, Disk, fates, lay
from tests.power.recording import Call
from tests.power.trial import KINDS, Trial, cost, points

WHY_NOT = recording.why_not() or shim.why_not()

recorded = [pytest.mark.system, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    with (
        tempfile.TemporaryDirectory(prefix="cmb", ignore_cleanup_errors=True) as place,
        closing(Trial(Path(place), 9)) as made,
    ):
        yield made


def call(name: str, *arguments: str, value: int = 0, opened: str = "", began: int = -1) -> Call:
    return Call(1, name, arguments, value, opened, began)


def hexed(text: str) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"'


def fd(path: str) -> str:
    return "3<" + hexed(path).strip('"') + ">"


def made(*more: Call) -> Disk:
    """A file that is written under one name, and then what is done more."""
    began = [
        call("openat", "AT_FDCWD", hexed("/d/a"), "O_RDWR|O_CREAT", value=3, opened="/d/a"),
        call("pwrite64", fd("/d/a"), hexed("new"), "3", "0", value=3),
    ]
    return Disk("/d").take([one if one.began >= 0 else _at(one, n) for n, one in enumerate([*began, *more])])


def _at(one: Call, number: int) -> Call:
    return Call(one.pid, one.name, one.arguments, one.value, one.opened, number)


SYNC_A, SYNC_D = call("fsync", fd("/d/a")), call("fsync", fd("/d"))
RENAME = call("rename", hexed("/d/a"), hexed("/d/b"))


@pytest.mark.parametrize(
    ("more", "nothing_kept", "names_kept"),
    [
        ((), {}, {"a": b""}),
        ((SYNC_A,), {}, {"a": b"new"}),
        ((SYNC_D,), {"a": b""}, {"a": b""}),
        ((SYNC_A, RENAME), {}, {"b": b"new"}),
        ((SYNC_A, SYNC_D, RENAME), {"a": b"new"}, {"b": b"new"}),
        ((SYNC_A, RENAME, SYNC_D), {"b": b"new"}, {"b": b"new"}),
        ((RENAME, SYNC_D), {"b": b""}, {"b": b""}),
        ((call("syncfs", fd("/d")), call("unlink", hexed("/d/a"))), {"a": b"new"}, {}),
        ((call("fsync", fd("/d"), began=1),), {"a": b""}, {"a": b""}),
        ((call("fsync", fd("/d"), began=0),), {}, {"a": b""}),  # it began before the name was there
    ],
)
def test_the_disk_keeps_what_was_synced(
    more: tuple[Call, ...], nothing_kept: dict[str, bytes], names_kept: dict[str, bytes]
) -> None:
    disk = made(*more)
    assert nothing_kept == disk.tree(disk.length, lambda change, page: LOST)
    assert names_kept == disk.tree(disk.length, lambda change, page: KEPT if change.is_of_names else LOST)


def test_a_tree_is_laid(tmp_path: Path) -> None:
    lay({"a": None, "a/b": b"x", "c": "a"}, tmp_path / "t")
    assert b"x" == (tmp_path / "t" / "c" / "b").read_bytes()


class TestRecorded:
    """One harvest, recorded call by call."""

    pytestmark = recorded

    def test_the_recording_is_whole(self, trial: Trial) -> None:
        assert [] == trial.unlike()

    def test_a_durable_step_costs_one_sync_a_batch(self, trial: Trial) -> None:
        counted = cost(trial.disk(), 9)
        assert counted["batches"] < counted["pages"]
        assert counted["batches"] == counted["harvester: a batch"] == counted["harvester: its name"]
        assert counted["parser: records"] <= counted["batches"]

    def test_no_promise_is_broken_at_a_sync(self, trial: Trial) -> None:
        disk, chance = trial.disk(), random.Random(1)
        for sync in chance.sample(disk.syncs, 40):
            name, fate = chance.choice(list(fates(chance).items()))
            at = sync.ended + chance.randint(0, 1)
            assert [] == trial.broken(disk, at, fate), f"{name}, at call {at}"

    @pytest.mark.parametrize("kind", KINDS)
    def test_without_one_kind_of_sync_a_promise_is_broken(self, trial: Trial, kind: str) -> None:
        disk, ways = trial.disk(kind), fates(random.Random(1))
        moments = [sync.ended + 1 for sync in disk.syncs if trial.promises.before(sync.ended)[0]]
        assert any(trial.broken(disk, at, ways[name]) for at in moments[::2] for name in ("nothing", "names"))

    def test_combine_goes_on_from_what_is_left(self, trial: Trial) -> None:
        disk, chance = trial.disk(), random.Random(1)
        at = chance.choice(points(disk))
        name, fate = chance.choice(list(fates(chance).items()))
        assert [] == trial.goes_on(disk, at, fate, chance), f"{name}, at call {at}"
