"""The service files: systemd finds nothing to say against them, and their sandbox is a tight one."""

from __future__ import annotations

import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from combine.config import Supervise
from combine.services import UNITS

CLONE = Path(__file__).resolve().parents[1]
SYSTEMD = CLONE / "etc" / "systemd"
SERVICES = [f"combine-{unit}.service" for unit in UNITS]

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
needs_sysusers = pytest.mark.skipif(
    shutil.which("systemd-sysusers") is None, reason="systemd-sysusers is not installed"
)


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """Copies of the files whose commands are there on every machine."""
    copies = []
    for file in sorted(SYSTEMD.iterdir()):
        copy = tmp_path / file.name
        copy.write_text(re.sub(r"/opt/combine/bin/[a-z-]+", "/bin/true", file.read_text()))
        copies.append(copy)
    return copies


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, check=False)


def service(name: str) -> dict[str, str]:
    parser = ConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read_string((SYSTEMD / name).read_text())
    return dict(parser["Service"])


@needs_systemd
def test_systemd_has_nothing_to_say_against_them(units: list[Path]) -> None:
    assert sorted([*SERVICES, "combine.target"]) == [file.name for file in units]
    done = analyze("verify", "--man=no", *units)
    assert (0, "") == (done.returncode, done.stdout + done.stderr)


@needs_systemd
@pytest.mark.parametrize("name", SERVICES)
def test_each_sandbox_is_rated_below_three(units: list[Path], name: str) -> None:
    [file] = [file for file in units if file.name == name]
    done = analyze("security", "--offline=true", "--no-pager", "--threshold=30", file)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) < 3.0
    assert 0 == done.returncode


@pytest.mark.parametrize("unit", UNITS)
def test_what_keepalive_relies_on(unit: str) -> None:
    found = service(f"combine-{unit}.service")
    assert ("notify", "main", "mixed") == (found["Type"], found["NotifyAccess"], found["KillMode"])
    assert f"/opt/combine/bin/start-{unit} --foreground --home /var/lib/combine" == found["ExecStart"]
    assert ("combine", "combine", "yes") == (
        found["StateDirectory"],
        found["RuntimeDirectory"],
        found["RuntimeDirectoryPreserve"],
    )
    # keepalive's own limits come first, so that systemd never has to kill.
    assert int(found["TimeoutStopSec"]) > Supervise().stop_s + 2
    assert int(found["WatchdogSec"]) > 2 * Supervise().silence_s


def test_the_parts_are_the_units() -> None:
    wants = re.search(r"^Wants=(.*)$", (SYSTEMD / "combine.target").read_text(), re.MULTILINE)
    assert wants
    assert SERVICES == wants[1].split()


@needs_sysusers
def test_the_user_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    file = CLONE / "etc" / "sysusers.d" / "combine.conf"
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", str(file)], check=True, capture_output=True)
    assert re.search(r"^combine:[^\n]*:/var/lib/combine:", (tmp_path / "etc" / "passwd").read_text(), re.MULTILINE)
