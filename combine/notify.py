"""Telling the service manager READY, STATUS, WATCHDOG and STOPPING, on the socket that systemd names to us."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import MutableMapping


class Notify:
    """The line to the service manager, if there is one; `watchdog_s` is half its patience, 0 for none."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        # Taken out of the environment: it speaks of this process and not of its children.
        path = environ.pop("NOTIFY_SOCKET", "")
        usec = environ.pop("WATCHDOG_USEC", "0")
        is_ours = environ.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._path = "\0" + path[1:] if path.startswith("@") else path
        self.watchdog_s = int(usec) / 2e6 if is_ours and usec.isdigit() else 0.0

    def say(self, *lines: str) -> None:
        """Send lines such as READY=1; never raises."""
        if not self._path:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
        ):
            sock.sendto("\n".join(lines).encode(), self._path)
