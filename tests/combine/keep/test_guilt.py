from __future__ import annotations

import os
from pathlib import Path

import pytest

from combine.keep import guilt
from combine.keep.guilt import DEATHS, Marks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "batch.mark"


def die_at(path: Path, offset: int, alone: bool = False) -> None:
    """A parser marks a record and is never heard of again."""
    marks = Marks(path)
    marks.at(offset, alone)
    marks.close()


def test_nobody_is_guilty_of_nothing(path: Path) -> None:
    with Marks(path) as marks:
        assert frozenset() == marks.suspects == marks.condemned
        marks.clear()
    assert not path.exists()


def test_only_the_marked_record_is_suspected(path: Path) -> None:
    with Marks(path) as marks:
        for offset in (0, 151, 302):
            marks.at(offset)
    with Marks(path) as marks:
        assert frozenset({302}) == marks.suspects
        assert [0, 0] == [marks.attempts(302), marks.attempts(0)]


def test_a_record_that_killed_three_parsers_alone_is_condemned(path: Path) -> None:
    die_at(path, 151)
    for deaths in range(DEATHS):
        with Marks(path) as marks:
            assert deaths == marks.attempts(151)
            assert frozenset({151}) == marks.suspects
            assert frozenset() == marks.condemned
        die_at(path, 151, alone=True)
    with Marks(path) as marks:
        assert frozenset({151}) == marks.condemned
        assert frozenset() == marks.suspects


def test_each_death_is_counted_once(path: Path) -> None:
    die_at(path, 151, alone=True)
    for _ in range(3):
        with Marks(path) as marks:
            assert 1 == marks.attempts(151)


def test_deaths_in_company_never_condemn(path: Path) -> None:
    for _ in range(9):
        die_at(path, 0)
    with Marks(path) as marks:
        assert frozenset({0}) == marks.suspects


def test_an_innocent_suspect_does_not_hinder_another(path: Path) -> None:
    die_at(path, 0)
    die_at(path, 151)
    with Marks(path) as marks:
        assert frozenset({0, 151}) == marks.suspects
        marks.at(0, alone=True)
        marks.clear()
        marks.at(151, alone=True)
    with Marks(path) as marks:
        assert [0, 1] == [marks.attempts(0), marks.attempts(151)]


def test_a_cleared_mark_counts_nothing(path: Path) -> None:
    with Marks(path) as marks:
        marks.at(10**14)
        marks.at(0)
        marks.clear()
    with Marks(path) as marks:
        assert frozenset() == marks.suspects


def test_an_exception_is_not_a_death(path: Path) -> None:
    with pytest.raises(OSError, match="disk"), Marks(path) as marks:  # noqa: PT012
        marks.at(151, alone=True)
        raise OSError("the disk is full")
    with Marks(path) as marks:
        assert frozenset() == marks.suspects


def test_the_death_of_the_machine_is_nobodys_guilt(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    die_at(path, 151, alone=True)
    with Marks(path):
        pass
    die_at(path, 151, alone=True)
    monkeypatch.setattr(guilt, "this_boot", lambda: "another!")
    with Marks(path) as marks:
        assert 1 == marks.attempts(151)


def test_a_mark_is_whole_where_writes_are_short(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, offset: write(descriptor, data[:7], offset))
    with Marks(path) as marks:
        marks.at(151, alone=True)
        assert 40 == path.stat().st_size


@pytest.mark.parametrize("junk", [b"", b"\n", b"\xff\xfe\0\0", b"at x alone\ndead 1\ndead one two\n" * 100])
def test_junk_in_a_mark_file_accuses_nobody(path: Path, junk: bytes) -> None:
    path.write_bytes(junk)
    with Marks(path) as marks:
        assert frozenset() == marks.suspects
        marks.at(5)
    with Marks(path) as marks:
        assert frozenset({5}) == marks.suspects
