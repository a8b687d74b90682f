from __future__ import annotations

import fcntl
import subprocess
import sys

import pytest

from combine.errors import RetryLater
from combine.keep import slots
from combine.keep.home import Home
from combine.keep.slots import Slot, is_slot_name


def test_a_slot_is_one_workers_at_a_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_PATIENCE_S", 0.0)
    assert Slot.is_free(home, "parser-1")
    with Slot.acquire(home, "parser", 1) as slot:
        assert "parser-1" == slot.name
        assert not Slot.is_free(home, "parser-1")
        assert Slot.is_free(home, "parser-2")
        assert Slot.take_if_free(home, "parser-1") is None
        with pytest.raises(RetryLater, match=r"the slot parser-1 of .* is held by a living worker"):
            Slot.acquire(home, "parser", 1)
    assert Slot.is_free(home, "parser-1")
    slot.release()
    Slot.acquire(home, "parser", 1).release()


def test_a_slot_is_free_at_its_holders_death(home: Home) -> None:
    code = (
        "import sys, pathlib; from combine.keep.home import Home; from combine.keep.slots import Slot\n"
        "slot = Slot.acquire(Home(pathlib.Path(sys.argv[1])), 'parser', 1); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(home.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        assert not Slot.is_free(home, "parser-1")
        holder.kill()
        holder.wait()
    assert Slot.is_free(home, "parser-1")


def test_a_slot_that_cannot_be_locked_leaves_no_descriptor(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(OSError, match="no locks"):
        Slot.take_if_free(home, "parser-1")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("parser-2", True), ("parser", False), ("parser-", False), ("../x-1", False), ("a-1-2", False)],
)
def test_names_of_slots(name: str, expected: bool) -> None:
    assert expected == is_slot_name(name)
