"""The living children of a keepalive: their forks, their channels, and their ends, on one selector.

This module decides nothing: what a child says or does becomes an event for `tell`, and what is decided comes back as an
action. The parent is its only owner; in a child everything here is closed by `let_go`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from combine import spawn
from combine.supervise import Event, Exited, Started, parse_line

#: Bytes of an unfinished line of a child that are kept.
LINE_BYTES = 2_000

Tell = Callable[[str, Event], None]
Body = Callable[[socket.socket], int]


class Closable(Protocol):
    """What the parent holds open and no child may keep."""

    def close(self) -> None:
        """Close it."""
        ...


@dataclass(slots=True)
class _Process:
    pid: int
    pidfd: int
    channel: socket.socket
    tell: Tell
    pending: bytes = b""


class Processes:
    """Children by name. `held` is what else the parent has open; it is closed in every child."""

    def __init__(self, held: list[Closable]) -> None:
        self.held = held
        self._selector = selectors.DefaultSelector()
        self._living: dict[str, _Process] = {}

    def watch(self, source: int | socket.socket, act: Callable[[], None]) -> None:
        """Call `act` when a descriptor is readable."""
        self._selector.register(source, selectors.EVENT_READ, act)

    def forget(self, source: int | socket.socket) -> None:
        """Watch it no more."""
        self._selector.unregister(source)

    def wait(self, patience_s: float) -> None:
        """Wait for something to happen, at most so long, and let it be heard."""
        for key, _ in self._selector.select(patience_s):
            key.data()

    def fork(self, name: str, title: str, body: Body, tell: Tell) -> None:
        """Start a child; `tell` hears of it from Started, or at once from Exited where there is no process."""
        try:
            pid, channel = spawn.fork(title, self.let_go, body)
        except OSError as error:
            tell(name, Exited(1, f"no process: {error.strerror}"))
            return
        process = self._living[name] = _Process(pid, os.pidfd_open(pid), channel, tell)
        self.watch(process.pidfd, functools.partial(self._gone, name, process))
        self.watch(channel, functools.partial(self._hear, name, process))
        tell(name, Started(pid))

    def send(self, name: str, line: bytes) -> None:
        """Write on a child's channel; a full buffer belongs to a child that does not read: its silence will tell."""
        if name in self._living:
            with contextlib.suppress(OSError):
                self._living[name].channel.send(line)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Signal a child, if it is there: never another process that was given its number."""
        if name in self._living:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._living[name].pidfd, number)

    def let_go(self) -> None:
        """Close all that is the parent's, through the objects that own it: no number is closed twice."""
        self._selector.close()
        for process in self._living.values():
            process.channel.close()
            os.close(process.pidfd)
        for thing in self.held:
            thing.close()

    def _hear(self, name: str, process: _Process) -> None:
        if self._living.get(name) is not process:
            return  # Its end was heard in the same turn, and with it its last words.
        try:
            data = process.channel.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.forget(process.channel)
            return
        *lines, process.pending = (process.pending + data).split(b"\n")
        process.pending = process.pending[-LINE_BYTES:]
        for line in lines:
            event = parse_line(line)
            if event is not None:
                process.tell(name, event)

    def _gone(self, name: str, process: _Process) -> None:
        # Its last words come first: a worker that was ready and ended is not one that never was.
        if process.channel in self._selector.get_map():
            self._hear(name, process)
        code = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        self.forget(process.pidfd)
        if process.channel in self._selector.get_map():
            self.forget(process.channel)
        os.close(process.pidfd)
        process.channel.close()
        del self._living[name]
        process.tell(name, Exited(code))
