"""What the processes of one home cost: looked up in /proc while they live, and settled exactly when they end.

Theory of operation. Every process of a home has the home's path on its command line. `Watch.look` notes the CPU, memory
and writes of each; what a process spends after its last look is missing there. So this process makes itself the reaper
of all its orphans (PR_SET_CHILD_SUBREAPER): whoever detaches still ends here, and wait4 tells exactly what it and all
children that it waited for have spent. The difference is told as `between looks`.

Limits  Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TICKS_S = os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER = 36


@dataclass(slots=True)
class Cost:
    """What one process has spent at its last look."""

    name: str
    cpu_s: float = 0.0
    kernel_s: float = 0.0  # of that
    written_bytes: int = 0


@dataclass
class Watch:
    """All processes of one home."""

    home: Path
    costs: dict[tuple[int, str], Cost] = field(default_factory=dict)
    peak_anonymous_bytes: int = 0
    settled_cpu_s: float = 0.0

    def look(self, memory: bool = False) -> None:
        """Note what each process has spent so far, and what all hold in memory now if asked: that look is dear."""
        anonymous = 0
        for pid, name in self._living():
            with contextlib.suppress(OSError):
                anonymous += self._note(pid, name, memory)
        self.peak_anonymous_bytes = max(self.peak_anonymous_bytes, anonymous)

    def settle(self, *others: int) -> bool:
        """Take over the last account of those that ended; True when only the `others` are left of our children."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return True
            if found is None or found.si_pid in others:
                return not self._children() - set(others)
            _, _, used = os.wait4(found.si_pid, 0)
            self.settled_cpu_s += used.ru_utime + used.ru_stime

    def by_name(self) -> dict[str, list[Cost]]:
        """The costs of the processes of one name, dearest names first."""
        names: dict[str, list[Cost]] = {}
        for cost in self.costs.values():
            names.setdefault(cost.name, []).append(cost)
        return dict(sorted(names.items(), key=lambda item: -sum(cost.cpu_s for cost in item[1])))

    def _note(self, pid: int, name: str, memory: bool) -> int:
        cpu_s, kernel_s, began = _spent(pid)
        # To a parent's count the kernel adds what its ended children wrote, which is counted as theirs here.
        is_parent = "keepalive" in name or name == "command"
        written = 0 if is_parent else int(_field(Path(f"/proc/{pid}/io").read_text(), "write_bytes"))
        cost = self.costs.setdefault((pid, began), Cost(name))
        cost.name, cost.cpu_s, cost.kernel_s, cost.written_bytes = name, cpu_s, kernel_s, written
        if not memory:
            return 0
        return int(_field(Path(f"/proc/{pid}/smaps_rollup").read_text(), "Pss_Anon")) * 1024

    def _living(self) -> Iterator[tuple[int, str]]:
        mark = os.fsencode(self.home)
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                with contextlib.suppress(OSError):
                    line = Path(f"/proc/{entry}/cmdline").read_bytes()
                    if mark in line:
                        yield int(entry), _name(line)

    def _children(self) -> set[int]:
        path = Path(f"/proc/self/task/{os.getpid()}/children")
        return {int(pid) for pid in path.read_text().split()}


def adopt_orphans() -> None:
    """Become the reaper of every process below this one that detaches."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has spent."""
    return _spent(pid)[0]


def _spent(pid: int) -> tuple[float, float, str]:
    """CPU, that of it which the kernel took, and when the process began."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, kernel = int(fields[11]), int(fields[12])
    return (user + kernel) / TICKS_S, kernel / TICKS_S, fields[19]


def _name(line: bytes) -> str:
    """`combine: parser-2 --home …` is a parser, and `combine --home … harvest` the command."""
    text = line.replace(b"\0", b" ").decode("utf-8", "replace")
    if found := re.match(r"combine: keepalive (\w+)", text):
        return f"keepalive {found[1]}"
    if found := re.match(r"combine: ([a-z]+)", text):
        return found[1]
    return "starting" if "keepalive" in text else "command"


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{name}: +(\d+)", text, re.MULTILINE)
    return found[1] if found else "0"
