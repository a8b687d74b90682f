"""A pretended internet: with this directory on PYTHONPATH a process has names and public addresses, all on loopback.

COMBINE_TEST_INTERNET names a directory. Its `names.json` says what each name resolves to: a list of answers, the first
for the first look-up of all processes, the last for all that follow; an answer is an address, a list of them, or "" for
no such name. Each look-up is a line of `lookups` (pid, name, answer). A connection to 45.X.Y.Z is made to 127.X.Y.Z,
and says that its other end is 45.X.Y.Z. What is asked for an address that is no loopback one fails: nothing leaves the
machine.

uvloop speaks to the kernel by itself, so it is hidden here, and daemons run on asyncio.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

PLACE = os.environ.get("COMBINE_TEST_INTERNET", "")
PUBLIC, LOOPBACK = "45.", "127."


def _answer(name: str) -> list[str]:
    """The addresses of a name; the look-up is noted."""
    answers = json.loads((Path(PLACE) / "names.json").read_text()).get(name, [""])
    log = Path(PLACE) / "lookups"
    before = log.read_text().split("\n") if log.exists() else []
    number = sum(1 for line in before if line.split(" ")[1:2] == [name])
    answer = answers[min(number, len(answers) - 1)]
    found = [answer] if isinstance(answer, str) else list(answer)
    with log.open("a") as file:
        file.write(f"{os.getpid()} {name} {','.join(found)}\n")
    return [address for address in found if address]


class Socket(socket.socket):
    """A socket for which 45.X.Y.Z lies at 127.X.Y.Z."""

    def connect(self, address: Any) -> None:
        if self.family == socket.AF_INET:
            host = str(address[0])
            if host.startswith(PUBLIC):
                address = (LOOPBACK + host.removeprefix(PUBLIC), *address[1:])
            elif not host.startswith(LOOPBACK):
                raise OSError(101, "Network is unreachable")
        super().connect(address)

    def getpeername(self) -> Any:
        peer = super().getpeername()
        if self.family == socket.AF_INET and not str(peer[0]).startswith("127.0."):
            return (PUBLIC + str(peer[0]).removeprefix(LOOPBACK), *peer[1:])
        return peer


def getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> list[Any]:
    """What names.json says; literal addresses as ever."""
    name = host.decode() if isinstance(host, bytes) else host
    if not name or name.replace(".", "").isdigit() or ":" in name:
        return _real(host, port, family, type, proto, flags)
    found = _answer(name)
    if not found:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return [entry for address in found for entry in _real(address, port, family, type, proto, flags)]


if PLACE:
    _real = socket.getaddrinfo
    socket.getaddrinfo = getaddrinfo
    socket.socket = Socket  # type: ignore[misc]
    sys.modules["uvloop"] = None  # type: ignore[assignment]  # as if it were not installed
