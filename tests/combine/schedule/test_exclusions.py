from __future__ import annotations

import os
from pathlib import Path

import pytest

from combine.errors import Rejected
from combine.keep.home import FIRST_EXCLUDE
from combine.schedule.exclusions import ExcludeFile, Exclusions, fault_of, read_exclusions

#: a line of the file: a URL that it forbids, and one that it does not
LINES = [
    ("a.example", "http://a.example:8080/x", "http://www.a.example/"),
    ("A.Example", "https://a.example/", "http://ba.example/"),
    ("[::1]", "http://[::1]:81/", "http://[::2]/"),
    (".a.example", "http://b.c.a.example/", "http://aa.example/"),
    (".a.example", "http://a.example/", "http://a.example.org/"),
    ("http://a.example/private", "http://a.example/private/x", "https://a.example/private"),
    ("http://a.example", "http://a.example/", "http://a.example.org/"),
    ("HTTP://A.example:80/x", "http://a.example/x1", "http://a.example/X"),
    ("a.example/private/", "https://a.example/private/1", "http://a.example/private"),
    ("a.example:8080", "http://a.example:8080/x", "http://a.example/x"),
    (r"HOST: ^ads?\d*\.", "http://ad7.example/", "http://bad7.example/"),
    (r"URL: \?sid=", "http://a.example/?sid=1", "http://a.example/?x=1"),
    ("  a.example  \r", "http://a.example/", "http://b.example/"),
]


@pytest.mark.parametrize(("line", "forbidden", "free"), LINES)
def test_what_a_line_forbids(line: str, forbidden: str, free: str) -> None:
    exclusions = read_exclusions(f"\ufeff# a comment\n\n{line}\n   # another\n")
    assert exclusions.names(forbidden)
    assert not exclusions.names(free)


@pytest.mark.parametrize("line", ["HOST: (", "URL: [", "two words", "ftp://a.example/", "http://", "a.example:99999/"])
def test_a_line_that_means_nothing_is_named(line: str) -> None:
    with pytest.raises(Rejected, match="line 2 of the exclude file"):
        read_exclusions(f"a.example\n{line}\n")


def test_a_new_homes_file_forbids_nothing() -> None:
    assert Exclusions() == read_exclusions(FIRST_EXCLUDE)
    assert not Exclusions().names("http://a.example/")


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "exclude"
    file = ExcludeFile(path)
    assert Exclusions() == file.look()
    path.write_text("a.example\n")
    assert file.look().names("http://a.example/")
    assert file.look() is file.look()
    path.write_text("b.example\nc.example\n")
    assert not file.look().names("http://a.example/")
    assert file.look().names("http://c.example/")
    path.unlink()
    assert Exclusions() == file.look()
    assert "" == file.fault


def test_while_it_cannot_be_read_the_fault_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "exclude"
    path.write_text("a.example\n")
    file = ExcludeFile(path)
    file.look()
    path.write_bytes(b"b.example\nHOST: (\n")
    for _ in range(3):
        assert file.look().names("http://a.example/")
        assert file.fault.startswith("line 2 of the exclude file: '(' is no regular expression")
    assert 1 == len(caplog.records)
    path.write_bytes(b"x\xff\xfe")
    file.look()
    assert "the exclude file is not UTF-8: see its byte 2" == file.fault == fault_of(tmp_path / "allow", path)
    path.unlink()
    path.symlink_to("exclude")
    file.look()
    assert "the exclude file cannot be read: Too many levels of symbolic links" == file.fault
    path.unlink()
    path.mkdir()
    file.look()
    assert "the exclude file is a directory: put a file there" == file.fault
    path.rmdir()
    assert "" == fault_of(tmp_path / "allow", path)
    path.write_text("b.example\n")
    os.utime(path, ns=(1, 1))
    assert file.look().names("http://b.example/")
    assert "" == file.fault


def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "exclude")
    file = ExcludeFile(tmp_path / "exclude")
    file.look()
    assert "the exclude file is a named pipe: put a file there" == file.fault
