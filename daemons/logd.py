"""logd: write everyone's events into one row of files.

Takes   datagrams on run/logd.sock: lines of JCF, many a datagram, from processes of this user.
Calls   nobody, and answers nobody.
Keeps   log/events-YYYY-MM-DD[.n].log, each line with the UTC time at which it came in.
Fails   what is no JCF, comes from another user, or finds a full disk is dropped and counted; the count is written when
it can be. Limits  a sender that is faster than logd loses datagrams and counts them itself; the order is that of
arrival.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import struct
import time
from collections import Counter
from datetime import UTC, datetime

from combine.channel import Channel, Context
from combine.config import load
from combine.errors import ConfigError
from combine.eventlog import EventLog
from combine.keep.home import Home
from combine.keep.locks import lock
from formats.jcf import RecordError, dump, job, parse

log = logging.getLogger("logd")

#: Bytes of a datagram; senders stay below a half of it.
DATAGRAM_BYTES = 64 * 1024

#: Datagrams taken in one turn, and written by one write.
TURN = 64

#: Bytes asked of the kernel for what waits; it grants what net.core.rmem_max allows.
RECEIVE_BYTES = 4 * 1024 * 1024

#: Seconds between two lines that say how much was dropped.
REPORT_S = 60.0

_CREDENTIALS = struct.Struct("3i")


class Logd:
    """Takes datagrams from one socket and writes their lines; `dropped` counts lines, or whole datagrams, by reason."""

    def __init__(self, sock: socket.socket, events: EventLog) -> None:
        self.sock = sock
        self.events = events
        self.dropped: Counter[str] = Counter()
        self.report_at = 0.0
        self.is_failing = False

    def turn(self) -> bool:
        """Take what waits, at most TURN datagrams, and write it; False where nothing waited."""
        now = datetime.now(UTC)
        prefix = f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}Z ".encode("ascii")
        lines: list[bytes] = []
        taken = 0
        while taken < TURN and (datagram := self._receive()) is not None:
            taken += 1
            lines += [prefix + line for line in self._checked(datagram)]
        lines += [prefix + line for line in self._report()]
        if lines:
            self._write(lines, now)
        return taken > 0

    def _receive(self) -> bytes | None:
        """One datagram, b"" where it was dropped, None where none waits."""
        try:
            data, ancillary, flags, _ = self.sock.recvmsg(DATAGRAM_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
        except (BlockingIOError, InterruptedError):
            return None
        if flags & socket.MSG_TRUNC:
            self.dropped["too long"] += 1
            return b""
        if sender_uid(ancillary) not in (os.getuid(), 0):
            self.dropped["another user"] += 1
            return b""
        return data

    def _checked(self, datagram: bytes) -> list[bytes]:
        """The lines of a datagram that are JCF, written anew: what a line may not hold is then not in the file."""
        good = []
        for line in datagram.split(b"\n"):
            if line:
                try:
                    good.append(dump(parse(line)) + b"\n")
                except RecordError:
                    self.dropped["no JCF"] += 1
        return good

    def _report(self) -> list[bytes]:
        """A line for each reason for which something was dropped, once a minute."""
        if not self.dropped or self.is_failing or time.monotonic() < self.report_at:
            return []
        self.report_at = time.monotonic() + REPORT_S
        counts, self.dropped = self.dropped, Counter()
        for reason, count in counts.items():
            log.warning("events were dropped reason=%s count=%d", reason, count)
        return [
            dump(job(EVENT="dropped", NAME="logd", REASON=reason, COUNT=count)) + b"\n"
            for reason, count in counts.items()
        ]

    def _write(self, lines: list[bytes], now: datetime) -> None:
        try:
            self.events.write(b"".join(lines), now)
        except OSError as error:
            self.dropped[error.strerror or "I/O error"] += len(lines)
            if not self.is_failing:
                log.warning("events cannot be written: %s", error.strerror)
            self.is_failing = True
            return
        if self.is_failing:
            self.is_failing = False
            self.report_at = 0.0
            log.warning("events are written again")


def sender_uid(ancillary: list[tuple[int, int, bytes]]) -> int:
    """The user who sent a datagram, as the kernel says; -1 where it does not say."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) >= _CREDENTIALS.size:
            return int(_CREDENTIALS.unpack_from(data)[1])
    return -1


def listen(home: Home) -> socket.socket:
    """Bind the home's logd.sock, in place of one that an earlier logd left; the caller holds logd's lock."""
    path = home.socket("logd")
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    # Before bind, so that no datagram comes without its sender's name.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    sock.bind(os.fspath(path))
    path.chmod(0o600)
    return sock


def main(context: Context) -> int:
    """Write events until told to stop."""
    home = Home(context.home)
    channel = Channel(context.channel)
    keep = context.settings.keep
    events = EventLog(home.log, keep.log_bytes, keep.log_files)
    with lock(home, "logd"), listen(home) as sock, selectors.DefaultSelector() as selector:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        for source in (sock, channel, ours):
            selector.register(source, selectors.EVENT_READ)
        logd = Logd(sock, events)
        channel.ready()
        is_wanted = True
        while is_wanted:
            awake = {key.fileobj for key, _ in selector.select()}
            is_wanted = channel.answer_pings()
            if ours in awake:
                is_wanted = is_wanted and not _heard(ours.recv(64), context, events)
            while logd.turn() and not is_wanted:
                pass  # Told to stop: what waits by now is still written.
    return 0


def _heard(signals: bytes, context: Context, events: EventLog) -> bool:
    """Act on signals; True where one of them says stop."""
    if signal.SIGHUP in signals:
        events.close()
        with contextlib.suppress(ConfigError):
            keep = load(context.home, context.overrides).keep
            events.limit_bytes, events.files = keep.log_bytes, keep.log_files
    return signal.SIGTERM in signals
