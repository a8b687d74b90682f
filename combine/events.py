"""Telling what happens: events to logd, and Python's logging in the form that all daemons share.

Events are lines of JCF, many a datagram. A sender never waits and never raises: what logd misses changes nothing, it is
only counted. Log lines go to stderr, `time daemon[pid] LEVEL url_id: sentence key=value`; WARNING and above are events
too. No text that comes from outside can forge a line: control characters are escaped.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from combine.keep.home import Home
from formats.jcf import Job, RecordError, dump, job

#: Lines and bytes of one datagram. The kernel queues few datagrams (10 by default), so many lines go in one; the bytes
#: stay far below the default send buffer of 208 KiB.
DATAGRAM_LINES = 100
DATAGRAM_BYTES = 32 * 1024

#: Characters of a sentence or a value in a log line.
TEXT_LIMIT = 4_000


class Events:
    """Sends events to a home's logd.

    `lost` counts the lines that nobody took; they are reported with the next datagram that gets through.
    """

    def __init__(self, home: Path, name: str = "") -> None:
        self._home = Home(home)
        self._name = name
        self._lines: list[bytes] = []
        self._bytes = 0
        self._unreported = 0
        self.lost = 0
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    def send(self, event: Job) -> None:
        """Take one event; it goes out when a datagram is full, or with `flush`."""
        try:
            line = dump(event)
        except (RecordError, UnicodeError):
            self._lose(1)
            return
        if self._bytes + len(line) + 1 > DATAGRAM_BYTES:
            self.flush()
        self._lines.append(line)
        self._bytes += len(line) + 1
        if len(self._lines) >= DATAGRAM_LINES:
            self.flush()

    def event(self, name: str, **params: str | int | float | None) -> None:
        """Take one event made of keyword arguments; None leaves a parameter out."""
        self.send(job(EVENT=name, NAME=self._name or None, **params))

    def flush(self) -> None:
        """Send what waits, or count it as lost; for the end of a tick and for the end of a process."""
        if not self._lines:
            return
        lines, self._lines, self._bytes = self._lines, [], 0
        report = [dump(job(EVENT="lost", NAME=self._name or None, COUNT=self._unreported))] if self._unreported else []
        try:
            # The path is looked up each time: a logd that was started again has a new socket there.
            self._sock.sendto(b"\n".join([*report, *lines]) + b"\n", os.fspath(self._home.socket("logd")))
            self._unreported = 0
        except OSError:
            self._lose(len(lines))

    def close(self) -> None:
        """Send what waits and close the socket."""
        self.flush()
        self._sock.close()

    def _lose(self, lines: int) -> None:
        self.lost += lines
        self._unreported += lines


def values(url_id: str = "", **keys: object) -> dict[str, Any]:
    """The `extra` of a log call: `log.info("page stored", extra=values(url_id, outcome="ok"))`."""
    return {"url_id": url_id, "keys": keys}


def escaped(text: str) -> str:
    """Text on one line: control characters and line ends as escapes, cut at TEXT_LIMIT."""
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text[: TEXT_LIMIT + 1])
    return text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT] + "…"


class Sentences(logging.Formatter):
    """`time daemon[pid] LEVEL url_id: sentence key=value` on one line; a traceback follows, each line after a bar."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def format(self, record: logging.LogRecord) -> str:
        """One log line, with its traceback below it if there is one."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = f"{at}.{int(record.msecs):03}Z {self._name}[{os.getpid()}] {record.levelname} {sentence(record)}"
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            line += "".join("\n | " + escaped(part) for part in trace.split("\n"))
        return line


def sentence(record: logging.LogRecord) -> str:
    """The part of a log line that says what happened: `url_id: sentence key=value`."""
    url_id = getattr(record, "url_id", "")
    said = escaped(record.getMessage())
    keys = "".join(f" {key}={_quoted(str(value))}" for key, value in getattr(record, "keys", {}).items())
    return f"{escaped(url_id)}: {said}{keys}" if url_id else said + keys


def _quoted(value: str) -> str:
    value = escaped(value)
    if value and not any(sign in value for sign in ' "='):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _ToEvents(logging.Handler):
    """Sends WARNING and above to logd, at once: they are few, and the process may be about to end."""

    def __init__(self, events: Events) -> None:
        super().__init__(logging.WARNING)
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._events.event("log", STATE=record.levelname, DETAIL=sentence(record))
            self._events.flush()
        except (TypeError, ValueError):
            # A sentence whose values do not fit it; `raiseExceptions` is off, so a log call never raises.
            self.handleError(record)

    def close(self) -> None:
        self._events.close()
        super().close()


def configure_logging(name: str, home: Path | None = None, level: int = logging.INFO) -> None:
    """Set up this process's logging, replacing what was there; with a home, WARNING and above go to its logd too."""
    logging.raiseExceptions = False  # A full disk must not stop a daemon that wants to say so.
    to_stderr = logging.StreamHandler(sys.stderr)
    to_stderr.setFormatter(Sentences(name))
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        with contextlib.suppress(OSError):
            handler.close()
    root.addHandler(to_stderr)
    if home is not None:
        root.addHandler(_ToEvents(Events(home, name)))
    root.setLevel(level)
    logging.captureWarnings(True)
