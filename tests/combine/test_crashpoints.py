"""The points at which tests end processes: each is in the code, once, and only a charge makes it do anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from combine.crashpoints import POINTS, reached
from tests.tree import ROOT

#: Passes two points, and says so.
PASSES = "from combine.crashpoints import reached; reached('batch.synced'); reached('batch.renamed'); print('alive')"


def test_each_point_lies_in_the_code_once() -> None:
    files = [*(ROOT / "combine").rglob("*.py"), *(ROOT / "daemons").rglob("*.py")]
    found = [name for path in files for name in re.findall(r'reached\("([a-z.]+)"\)', path.read_text("utf-8"))]
    assert sorted(POINTS) == sorted(found)


def passes(plan: Path | str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COMBINE_CRASH_PLAN": str(plan)}
    return subprocess.run([sys.executable, "-c", PASSES], env=environment, capture_output=True, text=True, cwd=ROOT)


def test_a_charge_ends_the_first_that_comes_by_and_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "batch.renamed").touch()
    assert (-9, "") == ((died := passes(tmp_path)).returncode, died.stdout)
    assert [] == list(tmp_path.iterdir())
    assert (0, "alive\n") == ((lived := passes(tmp_path)).returncode, lived.stdout)


def test_without_a_plan_nothing_happens() -> None:
    assert reached.__name__ == "_pass"
    assert (0, "alive\n") == ((lived := passes("")).returncode, lived.stdout)
