"""Targets that read what lies in a home: files that an operator wrote, or that a disk or a stranger has spoilt."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from dataclasses import replace
from pathlib import Path

from combine.cli import units
from combine.cli.status import put_daemon
from combine.errors import Rejected
from combine.keep.batch import this_boot
from combine.keep.guilt import Marks
from combine.keep.home import Home, Lock
from combine.keep.locks import who_holds
from combine.schedule.exclusions import read_exclusions
from combine.status import read_status
from tests.fuzz.target import URL, Target


def run_exclude(data: bytes) -> None:
    """An exclude file; of expressions only that they are read, since how long they take is the operator's affair."""
    try:
        found = read_exclusions(data.decode("utf-8"))
    except (Rejected, UnicodeError):
        return
    assert found.is_anything in (True, False)
    for url in (URL, "https://[::1]:8080/", "http://a.example/" + "a" * 2_000):
        assert replace(found, host_expressions=(), url_expressions=()).names(url) in (True, False)


def run_marks(data: bytes) -> None:
    """The marks of a batch, read after a death, and used."""
    with tempfile.TemporaryDirectory(prefix="cmb") as place:
        path = Path(place) / "a.mark"
        path.write_bytes(data)
        with Marks(path) as marks:
            assert not marks.suspects & marks.condemned
            marks.at(7, alone=True)
            marks.clear()
        Marks(path)


def run_status(data: bytes) -> None:
    """What a unit says of itself: its pid file up to an empty line, then its status, as all its readers see them."""
    with tempfile.TemporaryDirectory(prefix="cmb") as place, Lock(_locked(Path(place)), Path(place)) as held:
        home, (said, _, status) = Home(Path(place)), data.partition(b"\n\n")
        home.status_file("hdb").write_bytes(status.replace(b"PID", str(os.getpid()).encode()))
        home.pid_file("hdb").write_bytes(said + b"\n")
        pid, since = who_holds(home.pid_file("hdb"))
        assert 0 <= pid < 1 << 30
        assert since.isprintable()
        held.write(os.getpid())
        units.unfit(home.path, "hdb")
        for unit in read_status(home.path):
            for child in unit["children"]:
                with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
                    put_daemon(child)


def _locked(place: Path) -> int:
    (place / "run").mkdir()
    descriptor = os.open(Home(place).pid_file("hdb"), os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


IN_A_HOME = (
    Target(
        "exclude",
        run_exclude,
        (
            b"HOST: ",
            b"URL: ",
            b"\n",
            b".",
            b"/",
            b"?",
            b"#",
            b"[::1]",
            b"://",
            b"(",
            b")",
            b"[[",
            b"{9,99}",
            b"*",
            b"\\",
            b"(?P<a>",
            b"(?<=",
            b"(?i)",
            b"\xef\xbb\xbf",
            b"\xff",
            b"\x85",
            b"xn--",
            b"\xc3\xa4",
        ),
        (b".b.example\nhttps://a.example/dir\na.example/x?\nHOST: ^www[0-9]+\nURL: /calendar/.*[?]\n# none\n",),
    ),
    Target(
        "marks",
        run_marks,
        (b"at ", b"dead ", b" alone ", b" company ", b"0", b"1" * 5_000, b"\n", b" ", b"-", b"\x00", b"\xff", b" 3\n"),
        (
            f"at 0 alone {this_boot()}".ljust(39).encode() + b"\ndead 0 2\ndead 7 3\n",
            b"-".ljust(39) + b"\ndead 12 1\n",
        ),
    ),
    Target(
        "status",
        run_status,
        (
            b'"children": ',
            b"[",
            b"]",
            b"{",
            b"}",
            b'"pid": PID',
            b'"name": ',
            b'"note": ',
            b'"state": ',
            b"null",
            b"1e999",
            b"9" * 5_000,
            b'"',
            b"\\u001b",
            b"\x1b[2J",
            b"\n",
            b",",
            b"-1",
            b'"exit 78"',
            b"NaN",
            b"\xff",
            b"99999999999999",
        ),
        (
            b'12\n2026-11-30T08:00:00Z\n\n{"unit": "hdb", "pid": PID, "since": "", "children": [{"name": "idbd",'
            b' "pid": 7, "since": "", "restarts": 1, "state": "waiting", "note": "why", "last_exit": "exit 78"}]}',
        ),
    ),
)
