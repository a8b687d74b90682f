"""The hands of the fault driver: each function does one kind of fault to a home whose harvest goes on."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from combine.status import running
from tests import shim
from tests.shim import Shim
from tests.system.harness import Harness

#: Size of the file system of a home that can be full, and seconds for which it is, or for which its calls fail.
DISK_BYTES, FULL_S = 64 << 20, 1.5

#: Connections of a crowd to one daemon, of which every third sends a byte now and then, and seconds for which it stays.
CROWD, CROWD_S = 1_000, 1.5

_PIDFD_GETFD = 438  # x86-64 and arm64

_libc = ctypes.CDLL(None, use_errno=True)


def kill(home: Harness, name: str) -> bool:
    """SIGKILL to a daemon or worker."""
    return signalled(home.pid(name), signal.SIGKILL)


def stop(home: Harness, name: str) -> bool:
    """SIGSTOP to one."""
    return signalled(home.pid(name), signal.SIGSTOP)


def unit(home: Harness, name: str) -> bool:
    """SIGKILL to a keepalive."""
    return signalled(running(home.home).get(name, 0), signal.SIGKILL)


def remove_socket(home: Harness, name: str) -> bool:
    """A daemon's socket is gone."""
    try:
        (home.home / "run" / f"{name}.sock").unlink()
    except FileNotFoundError:
        return False
    return True


def cut(home: Harness, name: str) -> bool:
    """One of a process's connections ends, whatever is on its way."""
    pid = home.pid(name)
    if not pid:
        return False
    with contextlib.suppress(OSError):
        for entry in sorted(Path(f"/proc/{pid}/fd").iterdir(), key=lambda entry: int(entry.name)):
            if os.readlink(entry).startswith("socket:") and _shut(pid, int(entry.name)):
                return True
    return False


def _shut(pid: int, number: int) -> bool:
    """Shut a process's connected Unix socket, unless it is keepalive's channel."""
    pidfd = os.pidfd_open(pid)
    try:
        descriptor = _libc.syscall(_PIDFD_GETFD, pidfd, number, 0)
    finally:
        os.close(pidfd)
    if descriptor < 0:
        return False
    with socket.socket(fileno=descriptor) as held:
        try:
            named = [held.getsockname(), held.getpeername()]
        except OSError:
            return False
        if held.family != socket.AF_UNIX or not any(named):
            return False
        held.shutdown(socket.SHUT_RDWR)
    return True


def stranger(home: Harness, name: str) -> bool:
    """Somebody sends what is no message, half of one, and a line without an end."""
    done = False
    for sent in (b"\0\xff\n\n GET / HTTP/1.1\r\n\r\n", b"ADD 3\nJCF/0.0 URL=", b"A" * 200_000, b"DONE 999999\n"):
        with socket.socket(socket.AF_UNIX) as end, contextlib.suppress(OSError):
            end.settimeout(1)
            end.connect(str(home.home / "run" / f"{name}.sock"))
            end.sendall(sent)
            done = True
    return done


def fill(home: Harness) -> bool:
    """The disk is full for a while."""
    ballast = home.home.parent / "ballast"
    free = shutil.disk_usage(ballast.parent).free
    with contextlib.suppress(OSError), open(ballast, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(free - 4096, 1))
        while True:
            file.seek(0, os.SEEK_END)
            file.write(bytes(4096))
            file.flush()
    threading.Event().wait(FULL_S)
    ballast.unlink(missing_ok=True)
    return True


def break_disk(broken: Shim, what: str, seed: int) -> bool:
    """For a while calls of one kind fail, or write less than they were given."""
    code, calls, share = what.split()
    broken.fail(getattr(shim, calls.upper()), shim.CODES[code], int(share), seed)
    threading.Event().wait(FULL_S)
    return broken.heal() > 0


def crowd(home: Harness, name: str) -> bool:
    """Connections that say nothing, half a line, or a line byte by byte, more of them than a daemon holds."""
    with contextlib.ExitStack() as held:
        slow = []
        for number in range(CROWD):
            end = held.enter_context(socket.socket(socket.AF_UNIX))
            end.settimeout(1)
            with contextlib.suppress(OSError):
                end.connect(str(home.home / "run" / f"{name}.sock"))
                if number % 3:
                    end.sendall(b"ADD 3\nJCF/0.0 URL=" if number % 3 == 1 else b"S")
                    slow.append(end)
        for byte in b"TAT 0\n":
            threading.Event().wait(CROWD_S / 6)
            for end in slow:
                with contextlib.suppress(OSError):
                    end.send(bytes([byte]))
    return bool(slow)


def charge(plan: Path, point: str) -> bool:
    """The next process that comes to a point ends there."""
    (plan / point).touch()
    return True


@contextmanager
def disk(place: Path) -> Iterator[bool]:
    """A small file system of its own below a place, as far as that may be made; says whether it was."""
    made = _run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place))
    try:
        yield made
    finally:
        if made:
            _run("umount", "--lazy", str(place))


def _run(*words: str) -> bool:
    if os.getuid() != 0 or shutil.which(words[0]) is None:
        return False
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def signalled(pid: int, number: int) -> bool:
    if not pid:
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


#: What each kind does, as far as it needs a name only.
BY_NAME: dict[str, Callable[[Harness, str], bool]] = {
    "kill": kill,
    "stop": stop,
    "unit": unit,
    "socket": remove_socket,
    "cut": cut,
    "stranger": stranger,
    "crowd": crowd,
}
