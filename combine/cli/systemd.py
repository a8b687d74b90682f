"""Units under a service manager.

Where systemd runs the home, start and stop go through it, or it would undo what was done.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from combine.errors import CombineError
from combine.keep.home import Home

#: The home of the packaged services: StateDirectory=combine.
SERVICE_HOME = Path("/var/lib/combine")

_UNIT_DIRECTORIES = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)

#: What exists where systemd is the running service manager, as sd_booted(3) has it.
_BOOTED = Path("/run/systemd/system")


def runs(home: Home) -> bool:
    """Whether this is the home of installed services, on a machine that systemd runs."""
    return (
        home.path.resolve() == SERVICE_HOME.resolve()
        and _BOOTED.is_dir()
        and shutil.which("systemctl") is not None
        and any(Path(directory, service("cabin")).exists() for directory in _UNIT_DIRECTORIES)
    )


def service(unit: str) -> str:
    """The name of a unit's service."""
    return f"combine-{unit}.service"


def order(verb: str, units: tuple[str, ...]) -> None:
    """Let systemd start, stop or restart units; raises CombineError with what it says."""
    done = subprocess.run(
        ["systemctl", verb, *map(service, units)], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise CombineError(f"systemctl {verb} failed: {done.stderr.strip() or done.returncode}")


def state(unit: str) -> str:
    """What systemd says of a unit, such as active or failed."""
    done = subprocess.run(
        ["systemctl", "is-active", service(unit)], capture_output=True, text=True, errors="replace", check=False
    )
    return done.stdout.strip() or "unknown"
