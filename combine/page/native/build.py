"""Build the accelerator when Combine is installed; where there is no C compiler, go on without it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
FLAGS = ("-O3", "-shared", "-fPIC", "-std=c99", "-fvisibility=default")


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling for a wheel and for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile reader.c beside itself, and say that the wheel is of this platform."""
        if self.target_name != "wheel" or not compiled(HERE / "reader.c", HERE / "reader.so"):
            return
        build_data["artifacts"].append("combine/page/native/reader.so")
        build_data["pure_python"] = False
        # No header of Python is used, so that one library does for every version of it.
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def compiled(source: Path, library: Path) -> bool:
    """Compile a library; false where that cannot be done here."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return False
    made = library.with_suffix(".new")
    of = f'-DSOURCE_DIGEST="{hashlib.sha256(source.read_bytes()).hexdigest()}"'
    try:
        subprocess.run(
            [compiler, *FLAGS, of, "-o", str(made), str(source)], check=True, capture_output=True, timeout=120
        )
        made.replace(library)  # never under a process that has it loaded
    except (OSError, subprocess.SubprocessError):
        return False
    return True
