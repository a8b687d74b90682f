"""The child's end of supervision: what a child is given, and the socketpair between it and keepalive.

On the channel a child says READY and NOTE and answers PING by PONG. The parent that closes it, or dies, wants its child
to stop. This module never blocks and never raises for the parent's sake.
"""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass
from pathlib import Path

from combine.config import Settings

#: Bytes of one line on the channel; a longer one is cut.
LINE_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class Context:
    """All that a child gets: its `main(context)` returns an exit code."""

    home: Path
    name: str
    slot: int
    settings: Settings
    channel: socket.socket
    overrides: tuple[str, ...] = ()


class Channel:
    """A child's end of its socketpair. No method blocks or raises; all do nothing once the parent is gone."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._pending = b""
        self._note = ""
        self._is_open = True
        sock.setblocking(False)

    def fileno(self) -> int:
        """For selectors and event loops: readable when `answer_pings` has something to do."""
        return self._sock.fileno()

    def ready(self) -> None:
        """Say that the socket listens, or that work can be done; the note is cleared."""
        self._note = ""
        self._send(b"NOTE \nREADY\n")  # in this order: who is ready waits for nothing

    def note(self, text: str) -> None:
        """Say in one sentence what is done or waited for; `combine status` shows the latest, "" clears it."""
        if text != self._note:
            self._note = text
            line = "".join(character if character.isprintable() else " " for character in text)
            self._send(b"NOTE " + line.encode("utf-8", "replace")[: LINE_BYTES - 6] + b"\n")

    def answer_pings(self) -> bool:
        """Answer what was asked; False when the parent is gone or has closed the channel, which means stop."""
        while self._is_open:
            try:
                data = self._sock.recv(4096)
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:
                data = b""
            if not data:
                self._is_open = False
                break
            *lines, self._pending = (self._pending + data).split(b"\n")
            self._pending = self._pending[-LINE_BYTES:]
            for line in lines:
                if line == b"PING":
                    self._send(b"PONG\n")
        return False

    def close(self) -> None:
        """Close this end."""
        self._is_open = False
        self._sock.close()

    def _send(self, line: bytes) -> None:
        # A full buffer means that the parent has not read for long: a lost line costs at most one silence.
        with contextlib.suppress(OSError):
            self._sock.send(line)
