"""Which errors pass, and that they are one sentence and exit 75 wherever a program begins."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from combine import config, status
from combine.errors import ConfigError, RetryLater, passes
from combine.keep.home import Home, create, lock


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return create(tmp_path / "h")


def _of_sqlite(path: Path, statement: str) -> Exception:
    database = None
    try:
        database = sqlite3.connect(path)
        database.execute(statement)
    except sqlite3.Error as error:
        return error
    finally:
        if database is not None:
            database.close()
    raise AssertionError(statement)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, ""), True),
        (OSError(errno.EIO, ""), True),
        (OSError(errno.EMFILE, ""), True),
        (OSError(errno.ENOENT, ""), False),
        (PermissionError(errno.EACCES, ""), False),
        (ValueError(), False),
        (KeyError("x"), False),
    ],
)
def test_what_passes(error: Exception, expected: bool) -> None:
    assert expected == passes(error)


def test_what_passes_of_sqlite(tmp_path: Path) -> None:
    assert not passes(_of_sqlite(tmp_path / "q", "SELECT no_such_column"))
    assert passes(_of_sqlite(tmp_path / "none" / "q", "SELECT 1"))


def _failing(code: int) -> object:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize(("code", "kind"), [(errno.EIO, RetryLater), (errno.EACCES, ConfigError)])
def test_settings_that_cannot_be_read(
    home: Home, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    monkeypatch.setattr(Path, "read_bytes", _failing(code))
    with pytest.raises(kind, match=r"combine\.toml cannot be read"):
        config.load(home.path)


def test_who_runs_is_never_guessed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.pid_file("cabin")
    assert 0 == status.holder(path)
    with lock(home, "cabin"):
        assert os.getpid() == status.holder(path)
        path.write_text("")
        with pytest.raises(RetryLater, match="is held, and it cannot be read by whom"):
            status.holder(path)
        monkeypatch.setattr(os, "open", _failing(errno.EIO))
        with pytest.raises(RetryLater, match="cannot be read: Input/output error"):
            status.holder(path)


def test_a_full_disk_leaves_the_holders_name(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with lock(home, "cabin") as held:
        monkeypatch.setattr(os, "ftruncate", _failing(errno.ENOSPC))
        with pytest.raises(OSError, match="No space"):
            held.write(12345)
        assert 12345 == status.holder(home.pid_file("cabin"))
