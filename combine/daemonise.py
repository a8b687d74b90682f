"""Detaching keepalive from the terminal and the session that started it: the one place that imports python-daemon."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import daemon

from combine.errors import ConfigError


def detach(output: Path, keep: Iterable[int] = (), *, as_orphan: bool = True) -> None:
    """Go on in a session of its own, with stdout and stderr appended to `output`.

    The calling process ends with exit code 0; without `as_orphan` it is the one that goes on, and stays its parent's
    child. All descriptors but those in `keep` are closed. Raises ConfigError, still in the caller's session, where
    `output` cannot be opened.
    """
    mask = os.umask(0o022)
    os.umask(mask)
    try:
        log = output.open("ab", buffering=0)
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}") from None
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    context = daemon.DaemonContext(
        detach_process=as_orphan,
        files_preserve=list(keep),
        stdout=log,
        stderr=log,
        umask=mask,
        working_directory="/",
        signal_map={},
    )
    if not as_orphan:
        os.setsid()
    context.open()


def cap(limit_bytes: int) -> None:
    """Keep what a detached process and its children write on stderr below a limit: the old part moves to `<name>.1`.

    All of them append, so a file that is cut goes on at its new end, and nobody has to open it again.
    """
    try:
        size = os.fstat(2).st_size
        if size <= limit_bytes:
            return
        path = Path(os.readlink("/proc/self/fd/2"))
        shutil.copyfile(path, path.with_name(path.name + ".1"))
        os.ftruncate(2, 0)
    except OSError:
        return
