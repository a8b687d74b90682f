"""The library of failing disks and jumping clocks does what a test believes that it does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import shim
from tests.shim import Shim

pytestmark = pytest.mark.skipif(bool(shim.why_not()), reason=shim.why_not())


def _run(shimmed: Shim, code: str, *arguments: Path) -> str:
    words = [sys.executable, "-S", "-c", code, *map(str, arguments)]
    return subprocess.run(
        words, env={**os.environ, **shimmed.environment}, capture_output=True, text=True, check=True
    ).stdout


TRY = """import os, sys
path, calls = sys.argv[1], 0
def do(call, *args):
    global calls
    try: call(*args)
    except OSError as error: assert error.errno == 5; calls += 1
for _ in range(200):
    d = os.open(path, os.O_RDWR | os.O_CREAT)
    do(os.pwrite, d, b"data", 0); do(os.fsync, d); do(os.rename, path, path); do(os.pread, d, 4, 0)
    os.close(d)
print(calls)
"""


@pytest.mark.parametrize("calls", [shim.READ, shim.WRITE, shim.SYNC, shim.NAME])
def test_calls_below_a_directory_fail_as_the_seed_says(tmp_path: Path, calls: int) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with Shim(tmp_path / "control", home) as shimmed:
        said = []
        for seed in (1, 1, 2):
            shimmed.fail(calls, shim.CODES["EIO"], 200, seed)
            said.append(int(_run(shimmed, TRY, home / "file")))
            assert said[-1] == shimmed.heal()
        assert said[0] == said[1]
        assert 20 <= said[0] <= 60
        shimmed.fail(calls, shim.CODES["EIO"], 1000, 1)
        assert "0\n" == _run(shimmed, TRY, tmp_path / "elsewhere")


def test_writes_are_short(tmp_path: Path) -> None:
    with Shim(tmp_path / "control", tmp_path) as shimmed:
        shimmed.fail(shim.WRITE, shim.SHORT, 1000, 1)
        opened = "import os, sys; d = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); "
        for call in ("os.pwrite(d, b'123456', 0)", "os.pwritev(d, [b'1', b'2', b'3', b'4', b'5', b'6'], 0)"):
            assert "2\n" == _run(shimmed, f"{opened}print({call})", tmp_path / "file")


def test_clocks_jump_and_the_machine_seems_another(tmp_path: Path) -> None:
    code = (
        "import time; print(round(time.time() - time.clock_gettime(11)), round(time.clock_gettime(time.CLOCK_BOOTTIME)"
        " - time.monotonic()), open('/proc/sys/kernel/random/boot_id').read())"
    )
    with Shim(tmp_path / "control", tmp_path) as shimmed:
        before, boot, name = _run(shimmed, code).split()
        shimmed.clocks(real_s=-86_400.5, boot_s=1_000)
        shimmed.boot("another")
        after, later, other = _run(shimmed, code).split()
    assert (-86_400, 1_000) == (round(int(after) - int(before), -1), int(later) - int(boot))
    assert ("another", 36) == (other, len(name))
