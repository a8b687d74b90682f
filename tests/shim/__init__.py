"""A disk that fails, clocks that jump, another boot: what a small C library does to the processes of a test.

`environment` is given to the processes, and changes made here reach all of them at once. Calls that may fail are
counted over all processes, and the seed says which numbers fail. See shim.c.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import mmap
import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

#: Kinds of calls below the home that can fail.
OPEN, READ, WRITE, SYNC, NAME, SIZE = 1, 2, 4, 8, 16, 32

#: The code that makes a write short, where others make it fail.
SHORT = 0

#: Codes by their names, as a plan of faults names them.
CODES = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "short": SHORT}

_LAYOUT = struct.Struct("=qqIIIIII64s256s")
_SOURCE = Path(__file__).with_name("shim.c")


@functools.cache
def why_not() -> str:
    """Why there is no such library here; "" where there is."""
    compiler = shutil.which("cc")
    if compiler is None:
        return "there is no C compiler (cc)"
    try:
        _library()
    except subprocess.CalledProcessError as error:
        return f"the library cannot be built: {error.stderr[:300]}"
    return ""


@functools.cache
def _library() -> Path:
    """The library, built once for each text of its source."""
    name = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    built = Path(tempfile.gettempdir()) / f"combine-shim-{os.getuid()}-{name}.so"
    if not built.exists():
        fresh = built.with_suffix(f".{os.getpid()}")
        words = ["cc", "-shared", "-fPIC", "-O1", "-w", "-o", str(fresh), str(_SOURCE), "-ldl"]
        subprocess.run(words, capture_output=True, text=True, check=True)
        fresh.rename(built)
    return built


class Shim:
    """One control file. Clocks are shifted by seconds; `fail` begins a time of failing calls, `heal` ends it."""

    def __init__(self, control: Path, below: Path) -> None:
        self.environment = {"LD_PRELOAD": str(_library()), "SHIM_CONTROL": str(control)}
        control.write_bytes(_LAYOUT.pack(0, 0, 0, 0, 0, 0, 0, 0, b"", os.fsencode(below)))
        with control.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _LAYOUT.size)

    def clocks(self, real_s: float = 0.0, boot_s: float = 0.0) -> None:
        """Shift the calendar, and the time since boot."""
        self._shared[0:16] = struct.pack("=qq", int(real_s * 1e9), int(boot_s * 1e9))

    def boot(self, name: str) -> None:
        """Let the machine seem to have been started anew; for processes that start after this."""
        self._shared[40:104] = name.encode().ljust(64, b"\0")

    def fail(self, calls: int, code: int, share: int, seed: int) -> None:
        """From now on so many of 1,000 calls of some kinds fail with a code, as the seed says."""
        self._shared[16:40] = struct.pack("=IIIIII", 0, code, share, seed, 0, 0)
        self._shared[16:20] = struct.pack("=I", calls)  # last: what a process reads before it is no fault yet

    def heal(self) -> int:
        """No call fails any more; answers how many did."""
        self._shared[16:20] = struct.pack("=I", 0)
        return int(struct.unpack("=I", self._shared[36:40])[0])

    def close(self) -> None:
        """Let go of the control file."""
        self._shared.close()

    def __enter__(self) -> Shim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
