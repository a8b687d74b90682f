"""logd: what reaches the files, what is dropped, and how the files turn over."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from combine.eventlog import EventLog, event_files
from combine.events import Events
from combine.keep.home import Home, create
from daemons.logd import Logd, listen, sender_uid
from formats.jcf import parse
from tests.daemons.units import PATIENCE_S, all_running, keepalive, make_home, until

DAY = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
NEXT_DAY = datetime(2026, 12, 1, 0, 0, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return create(tmp_path / "h")


@pytest.fixture
def logd(home: Home) -> Iterator[Logd]:
    events = EventLog(home.log, 1_000_000, 20)
    with listen(home) as sock:
        yield Logd(sock, events)
    events.close()


def send(home: Home, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(data, str(home.socket("logd")))


def written(home: Home) -> list[str]:
    return [line for file in event_files(home.log) for line in file.read_text(encoding="utf-8").splitlines()]


def test_lines_are_written_with_the_time_they_came_in(home: Home, logd: Logd) -> None:
    send(home, b'JCF/0.0 EVENT="a" URL="http://a.example/"\nJCF/0.0 event="b"  X="y" \n')
    send(home, b'JCF/0.0 EVENT="c"')
    assert logd.turn()
    assert not logd.turn()
    lines = written(home)
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z JCF/0\.0 ", line) for line in lines)
    assert ["a", "b", "c"] == [parse(line.split(" ", 1)[1].encode()).get("EVENT") for line in lines]
    assert {f"events-{line[:10]}.log" for line in lines} == {file.name for file in event_files(home.log)}


GARBAGE = [
    b"\n",
    b"\0" * 500,
    b"GET / HTTP/1.1\r\n\r\n",
    b'JCF/0.0 EVENT="unclosed',
    b'JCF/0.0 EVENT="a" EVENT="b"',
    b'JCF/0.0 EVENT="' + b"x" * 17_000 + b'"',
    b'JCF/0.0 EVENT="\xff"',
    b'JCF/0.0 EVENT="tab\there"',
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_is_dropped_and_its_neighbours_are_kept(home: Home, logd: Logd, garbage: bytes) -> None:
    send(home, b'JCF/0.0 EVENT="before"\n' + garbage + b'\nJCF/0.0 EVENT="after"\n')
    logd.turn()
    lines = [line for line in written(home) if "dropped" not in line]
    assert ['EVENT="before"', 'EVENT="after"'] == [line.split(" ")[2] for line in lines]


def test_what_was_dropped_is_counted_and_said_once_a_minute(
    home: Home, logd: Logd, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        send(home, b"x\ny\n")
        logd.turn()
    [line] = [line for line in written(home) if "dropped" in line]
    assert line.endswith('EVENT="dropped" NAME="logd" REASON="no JCF" COUNT="2"')
    assert {"no JCF": 4} == logd.dropped
    assert 1 == caplog.text.count("events were dropped")


def test_a_datagram_over_the_limit_is_dropped_whole(home: Home, logd: Logd) -> None:
    send(home, b'JCF/0.0 EVENT="a"\n' * 4000)
    logd.turn()
    [line] = written(home)
    assert line.endswith('REASON="too long" COUNT="1"')


@pytest.mark.skipif(os.getuid() != 0, reason="only root can send as another user")
def test_a_datagram_of_another_user_is_dropped(home: Home, logd: Logd) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect(str(home.socket("logd")))
        forged = (socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", os.getpid(), 65534, 65534))
        sock.sendmsg([b'JCF/0.0 EVENT="a"'], [forged])
    logd.turn()
    [line] = written(home)
    assert line.endswith('REASON="another user" COUNT="1"')


def test_a_sender_that_the_kernel_does_not_name_is_nobody() -> None:
    assert -1 == sender_uid([])
    assert -1 == sender_uid([(socket.SOL_SOCKET, socket.SCM_RIGHTS, b"\0" * 12)])
    assert -1 == sender_uid([(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, b"\0" * 4)])


def test_the_socket_is_ours_alone_and_replaces_one_that_was_left(home: Home) -> None:
    listen(home).close()
    with listen(home):
        assert 0o600 == home.socket("logd").stat().st_mode & 0o777


def test_a_full_disk_is_said_once_and_what_it_cost_afterwards(
    home: Home, logd: Logd, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(logd.events, "write", full)
        for _ in range(3):
            send(home, b'JCF/0.0 EVENT="a"\nJCF/0.0 EVENT="b"')
            logd.turn()
    send(home, b'JCF/0.0 EVENT="c"')
    logd.turn()
    send(home, b'JCF/0.0 EVENT="d"')
    logd.turn()
    assert 1 == caplog.text.count("events cannot be written")
    assert 1 == caplog.text.count("events are written again")
    ends = [line.split(" ", 2)[2] for line in written(home)]
    dropped = 'EVENT="dropped" NAME="logd" REASON="No space left on device" COUNT="6"'
    assert ['EVENT="c"', 'EVENT="d"', dropped] == ends


class TestEventLog:
    def names(self, home: Home) -> list[str]:
        return [file.name for file in event_files(home.log)]

    def test_a_new_file_each_day_and_each_limit(self, home: Home) -> None:
        log = EventLog(home.log, 10, 20)
        for now, line in (
            (DAY, b"123456\n"),
            (DAY, b"12\n"),
            (DAY, b"3\n"),
            (DAY, b"longer than all\n"),
            (NEXT_DAY, b"4\n"),
        ):
            log.write(line, now)
        log.close()
        assert [
            "events-2026-11-30.log",
            "events-2026-11-30.1.log",
            "events-2026-11-30.2.log",
            "events-2026-12-01.log",
        ] == self.names(home)
        assert b"123456\n12\n" == event_files(home.log)[0].read_bytes()

    def test_the_oldest_are_removed_and_nothing_else(self, home: Home) -> None:
        others = ("events-2026-11-30.log.keep", "cabin.out", "events-x.log")
        for name in others:
            (home.log / name).touch()
        log = EventLog(home.log, 5, 3)
        for number in range(13):
            log.write(b"%d...\n" % number, DAY)
        log.close()
        assert [f"events-2026-11-30.{number}.log" for number in (10, 11, 12)] == self.names(home)
        assert all((home.log / name).exists() for name in others)

    def test_it_goes_on_with_the_newest_file(self, home: Home) -> None:
        for number in (2, 10):
            (home.log / f"events-2026-11-30.{number}.log").write_bytes(b"old\n")
        log = EventLog(home.log, 100, 20)
        log.write(b"new\n", DAY)
        log.close()
        assert b"old\nnew\n" == (home.log / "events-2026-11-30.10.log").read_bytes()

    def test_a_file_moved_away_is_let_go(self, home: Home) -> None:
        log = EventLog(home.log, 100, 20)
        log.write(b"a\n", DAY)
        [file] = event_files(home.log)
        file.rename(home.log / "moved")
        log.write(b"b\n", DAY)
        log.close()
        log.write(b"c\n", DAY)
        log.close()
        assert (b"a\nb\n", b"c\n") == ((home.log / "moved").read_bytes(), file.read_bytes())

    def test_half_a_write_is_taken_back(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        log = EventLog(home.log, 100, 20)
        log.write(b"whole\n", DAY)
        real = os.write
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:3]))
            with pytest.raises(OSError, match="No space left"):
                log.write(b"half a line\n", DAY)
        log.write(b"again\n", DAY)
        log.close()
        assert b"whole\nagain\n" == event_files(home.log)[0].read_bytes()

    def test_a_directory_that_is_away_is_an_oserror(self, tmp_path: Path) -> None:
        log = EventLog(tmp_path / "nowhere", 100, 20)
        with pytest.raises(OSError, match="No such file"):
            log.write(b"x\n", DAY)


@pytest.mark.system
def test_logd_as_a_process_writes_reopens_and_writes_what_waits_at_its_end(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    _only_scheduler_is_fake(tmp_path)
    events = Events(home.path, "test")
    with keepalive(home, "cabin") as process:
        all_running(home, "cabin")
        events.event("first")
        events.flush()
        until(lambda: any("first" in line for line in written(home)))
        [file] = event_files(home.log)
        file.rename(home.log / "moved")
        process.send_signal(signal.SIGHUP)
        until(lambda: _wrote(home, events, "second"))
        for number in range(5):
            events.event("last", COUNT=number)
        events.close()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
        assert 0 == process.returncode
    assert 0 == events.lost
    assert 5 == len([line for line in written(home) if 'EVENT="last"' in line])


def _wrote(home: Home, events: Events, name: str) -> bool:
    """Send until it is in the new file: HUP arrives when it arrives."""
    events.event(name)
    events.flush()
    return any(name in line for line in written(home))


def _only_scheduler_is_fake(path: Path) -> None:
    file = path / "fakes" / "sitecustomize.py"
    file.write_text(file.read_text().replace(', "logd")', ")"))


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_what_has_the_name_of_an_event_file_and_is_none_is_passed_over(
    home: Home, make: Callable[[Path], None]
) -> None:
    log = EventLog(home.log, 1_000, 20)
    make(home.log / "events-2026-11-30.log")
    make(home.log / "events-2026-11-30.1.log")
    log.write(b"a line\n", datetime(2026, 11, 30, tzinfo=UTC))
    log.close()
    (file,) = event_files(home.log)
    assert ("events-2026-11-30.2.log", b"a line\n") == (file.name, file.read_bytes())
