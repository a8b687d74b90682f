"""Daemons that say what a test wants: real sockets, the real protocol, no process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from combine.ipc.message import Message, Reader, dump, message
from combine.services import PROTOCOL
from formats.jcf import Job, job

Answer = Callable[[list[Job]], Message]


def ok(*lines: Job, text: str = "") -> Message:
    """An OK with lines."""
    return message("OK", lines, text)


def stat(**counters: str | int | float | None) -> Job:
    """The first line of the scheduler's STAT; what is not given is 0."""
    zeros = "QUEUED LEASED FETCHED DEAD UNRESOLVED WAITING DUE LEASEDSITES BLOCKED PAGES BYTES IDLE".split()
    return job(NAME="scheduler", GATE="open").having(**dict.fromkeys(zeros, 0)).having(**counters)


class FakeDaemon:
    """Listens on a socket and answers each verb by a function, or by the next of some messages, the last for ever."""

    def __init__(self, path: Path, service: str, answers: dict[str, Answer | Iterable[Message]]) -> None:
        self.asked: list[tuple[str, list[Job]]] = []
        self._service = service
        self._answers = {verb: answer if callable(answer) else _in_turn(answer) for verb, answer in answers.items()}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path.unlink(missing_ok=True)
        self._socket.bind(str(path))
        self._socket.listen()
        self._path = path
        threading.Thread(target=self._accept, daemon=True).start()

    def lines(self, verb: str) -> list[Job]:
        """All lines that came with a verb."""
        return [line for asked, lines in self.asked if asked == verb for line in lines]

    def close(self) -> None:
        """Go away."""
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        reader = Reader()
        with connection, contextlib.suppress(OSError):
            connection.sendall(f"{PROTOCOL} {self._service}\n".encode())
            while data := connection.recv(65536):
                reader.feed(data)
                while (request := reader.take()) is not None:
                    self.asked.append((request.word, request.jobs()))
                    answer = self._answers.get(request.word)
                    reply = answer(request.jobs()) if answer else message("REJECT", text=f"no {request.word} here")
                    connection.sendall(dump(reply))


def _in_turn(messages: Iterable[Message]) -> Answer:
    waiting = list(messages)
    return lambda _: waiting.pop(0) if len(waiting) > 1 else waiting[0]
