"""Events never wait and never raise; log lines cannot be forged."""

from __future__ import annotations

import io
import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from combine.events import (
    DATAGRAM_BYTES,
    DATAGRAM_LINES,
    TEXT_LIMIT,
    Events,
    Sentences,
    configure_logging,
    escaped,
    sentence,
    values,
)
from formats.jcf import Job, job, parse


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path


@pytest.fixture
def logd(home: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(home / "run" / "logd.sock"))
        sock.setblocking(False)
        yield sock


@pytest.fixture
def events(home: Path) -> Iterator[Events]:
    sender = Events(home, "harvester-1")
    yield sender
    sender.close()


def received(sock: socket.socket) -> list[list[Job]]:
    """The lines of each datagram that waits."""
    datagrams: list[list[Job]] = []
    while True:
        try:
            data = sock.recv(1 << 20)
        except BlockingIOError:
            return datagrams
        assert data.endswith(b"\n")
        datagrams.append([parse(line) for line in data[:-1].split(b"\n")])


def test_lines_wait_for_a_flush_and_share_a_datagram(events: Events, logd: socket.socket) -> None:
    events.event("fetched", URL="http://a.example/", STATUS=200, REASON=None)
    events.send(job(EVENT="stored", URL="http://a.example/"))
    assert [] == received(logd)
    events.flush()
    events.flush()
    [[first, second]] = received(logd)
    assert {"EVENT": "fetched", "NAME": "harvester-1", "URL": "http://a.example/", "STATUS": "200"} == first.params
    assert "stored" == second.get("EVENT")


def test_a_full_datagram_goes_out_by_itself(events: Events, logd: socket.socket) -> None:
    for number in range(DATAGRAM_LINES + 1):
        events.event("x", COUNT=number)
    [lines] = received(logd)
    assert DATAGRAM_LINES == len(lines)


def test_a_datagram_stays_below_its_bytes(events: Events, logd: socket.socket) -> None:
    for _ in range(30):
        events.event("x", DETAIL="y" * 3000)
    events.flush()
    datagrams = received(logd)
    assert 30 == sum(map(len, datagrams))
    assert len(datagrams) == 3
    assert all(len(lines) * 3000 <= DATAGRAM_BYTES for lines in datagrams)


def test_what_nobody_takes_is_counted_and_reported_later(events: Events, home: Path) -> None:
    for _ in range(3):
        events.event("x")
    events.flush()
    assert 3 == events.lost
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(home / "run" / "logd.sock"))
        sock.setblocking(False)
        events.event("y")
        events.flush()
        events.event("z")
        events.flush()
        [[report, first], [second]] = received(sock)
    assert {"EVENT": "lost", "NAME": "harvester-1", "COUNT": "3"} == report.params
    assert ["y", "z"] == [first.get("EVENT"), second.get("EVENT")]
    assert 3 == events.lost


def test_a_logd_that_does_not_read_costs_events_and_no_time(events: Events, logd: socket.socket) -> None:
    for _ in range(2000):
        events.event("x", DETAIL="y" * 3000)
    events.flush()
    taken = sum(map(len, received(logd)))
    assert 2000 == taken + events.lost
    assert events.lost > 0


@pytest.mark.parametrize("bad", [Job({}), job(URL='http://a/"'), job(DETAIL="x" * 20_000), job(DETAIL="\ud800")])
def test_an_event_that_no_line_can_hold_is_lost_and_nothing_raised(
    events: Events, logd: socket.socket, bad: Job
) -> None:
    events.send(bad)
    assert 1 == events.lost


def test_a_closed_sender_still_does_not_raise(home: Path) -> None:
    events = Events(home)
    events.close()
    events.event("x")
    events.flush()
    assert 1 == events.lost


def record(text: str, *args: object, level: int = logging.INFO, **extra: object) -> logging.LogRecord:
    return logging.getLogger("x").makeRecord("x", level, "f", 1, text, args, None, extra=extra or None)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (record("is ready"), "is ready"),
        (record("%s is ready", "idbd"), "idbd is ready"),
        (record("page stored", **values("3f2a", outcome="ok", ms=12)), "3f2a: page stored outcome=ok ms=12"),
        (record("x", **values(reason="no route")), 'x reason="no route"'),
        (record("x", **values(reason='say "a=b"')), 'x reason="say \\"a=b\\""'),
        (record("x", **values(reason="")), 'x reason=""'),
        (record("a\nb\r\x1b[31m\u2028\x85c"), "a\\nb\\r\\x1b[31m\\u2028\\x85c"),
        (record("x", **values("a\nb", key="c\nd")), "a\\nb: x key=c\\nd"),
        (record("\ud800"), "\\ud800"),
        (record("ö 漢"), "ö 漢"),
    ],
)
def test_a_sentence_is_one_line(said: logging.LogRecord, line: str) -> None:
    assert line == sentence(said)


def test_long_text_is_cut() -> None:
    assert TEXT_LIMIT + 1 == len(escaped("x" * 100_000))
    assert TEXT_LIMIT + 1 == len(escaped("\0" * 100_000))
    assert "x" * TEXT_LIMIT == escaped("x" * TEXT_LIMIT)


def test_a_line_has_time_daemon_pid_and_level_first() -> None:
    said = record("page stored", level=logging.WARNING, **values("3f2a", ms=1))
    said.created, said.msecs = 1_700_000_000.25, 250
    line = Sentences("parser-1").format(said)
    start, _, rest = line.partition("[")
    assert "2023-11-14T22:13:20.250Z parser-1" == start
    assert "] WARNING 3f2a: page stored ms=1" == rest.lstrip("0123456789")


def test_a_traceback_cannot_forge_a_line() -> None:
    try:
        raise ValueError("x\n2023-11-14T22:13:20.250Z scheduler[1] ERROR forged")
    except ValueError:
        said = logging.getLogger("x").makeRecord("x", logging.ERROR, "f", 1, "failed", (), sys.exc_info())
    first, *rest = Sentences("parser-1").format(said).split("\n")
    assert first.endswith("ERROR failed")
    assert len(rest) > 3
    assert all(line.startswith(" | ") for line in rest)


@pytest.fixture
def root() -> Iterator[None]:
    """Give Python's logging back as it was."""
    logger = logging.getLogger()
    before, level, raising = logger.handlers[:], logger.level, logging.raiseExceptions
    yield
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        handler.close()
    for handler in before:
        logger.addHandler(handler)
    logger.setLevel(level)
    logging.raiseExceptions = raising
    logging.captureWarnings(False)


@pytest.mark.usefixtures("root")
def test_warnings_go_to_stderr_and_to_logd(home: Path, logd: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    configure_logging("idbd", home)
    configure_logging("idbd", home)
    log = logging.getLogger("combine.anything")
    log.debug("unseen")
    log.info("seen")
    log.warning("a warning", extra=values("3f2a", n=1))
    assert ["INFO seen", "WARNING 3f2a: a warning n=1"] == [
        line.split("] ", 1)[1] for line in stderr.getvalue().splitlines()
    ]
    [[event]] = received(logd)
    assert {"EVENT": "log", "NAME": "idbd", "STATE": "WARNING", "DETAIL": "3f2a: a warning n=1"} == event.params


@pytest.mark.usefixtures("root")
def test_a_broken_stderr_raises_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    configure_logging("idbd")
    configure_logging("idbd", home)
    stderr.close()
    logging.getLogger("x").warning("nobody hears this")
    logging.getLogger("x").warning("%d", "no number")
