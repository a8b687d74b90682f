"""What a harvest does to its home, call by call, as strace sees it: the writes with their data, the names, the syncs.

A recorded run is a list of calls in the order in which they ended. `began` is the number of calls that had ended when
a call began: a sync covers those and no others. Nothing here knows what the calls mean; that is `disk.py`.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: What changes files and names, what makes them durable, and what a blocking client and its daemon say to each other.
CALLS = (
    "openat,open,creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,copy_file_range,sendfile,"
    "rename,renameat,renameat2,unlink,unlinkat,link,linkat,symlink,symlinkat,mkdir,mkdirat,rmdir,lseek,mmap,"
    "fsync,fdatasync,syncfs,sync,sync_file_range,sendto,recvfrom,io_uring_setup"
)

_LINE = re.compile(r"(?P<pid>\d+) +(?P<rest>.*)", re.DOTALL)
_WHOLE = re.compile(r"(?P<name>\w+)\((?P<args>.*)\)\s+= (?P<value>-?\w+)(?P<path><[^>]*>)?", re.DOTALL)
_BEGUN = re.compile(r"(?P<name>\w+)\((?P<args>.*) <unfinished \.\.\.>$", re.DOTALL)
_ENDED = re.compile(r"<\.\.\. \w+ resumed>(?P<args>.*)\)\s+= (?P<value>-?\w+)(?P<path><[^>]*>)?", re.DOTALL)
_ARGUMENT = re.compile(r'(?:\[\{[^]]*\}\]|\[[^]]*\]|"[^"]*"(?:\.\.\.)?|[^,]+)(?:, |$)')
_STRING = re.compile(r'"([^"]*)"')
_DESCRIPTOR = re.compile(r"(-?\w+)<([^>]*)>(\(deleted\))?")


@dataclass(frozen=True, slots=True)
class Call:
    """One call that succeeded. `path` is what its (first) descriptor is, "" for one of a file that has no name."""

    pid: int
    name: str
    arguments: tuple[str, ...]
    value: int
    opened: str
    began: int

    def text(self, number: int) -> bytes:
        """An argument that is a string, or strings one after another."""
        return b"".join(map(_bytes, _STRING.findall(self.arguments[number])))

    def number(self, number: int) -> int:
        """An argument that is a number, alone in brackets or not."""
        return int(self.arguments[number].strip("[]"), 0)

    def path(self, number: int = 0) -> str:
        """What a descriptor is; "" where its file has no name any more, or where it is none."""
        match = _DESCRIPTOR.fullmatch(self.arguments[number])
        return "" if match is None or match[3] else os.fsdecode(_bytes(match[2]))

    def named(self, number: int, directory: int | None = None) -> str:
        """A path that is given by name, from a directory or from where its caller is."""
        name = os.fsdecode(self.text(number))
        return os.path.normpath(os.path.join(self.path(directory) if directory is not None else "/", name))


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


@functools.cache
def why_not() -> str:
    """Why nothing can be recorded here; "" where it can."""
    if shutil.which("strace") is None:
        return "there is no strace"
    with tempfile.NamedTemporaryFile() as log:
        words = ["strace", "-f", "--seccomp-bpf", "-y", "-xx", "-e", "trace=fsync", "-o", log.name, "true"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"strace may not trace here: {done.stderr.strip()[:200]}"


def record(command: list[str], log: Path, **more: object) -> subprocess.CompletedProcess[str]:
    """Run a command, and all processes that it starts, and write what they call."""
    words = ["strace", "-f", "--seccomp-bpf", "-y", "-xx", "-s", str(1 << 28), "-e", f"trace={CALLS}", "-o", str(log)]
    return subprocess.run([*words, *command], capture_output=True, text=True, check=False, timeout=300, **more)  # type: ignore[call-overload, no-any-return]


def calls(log: Path) -> list[Call]:
    """What was recorded: the calls that succeeded, in the order of their ends."""
    with log.open(encoding="ascii", newline="\n") as lines:
        return list(_calls(lines))


def _calls(lines: Iterable[str]) -> Iterator[Call]:
    begun: dict[int, tuple[str, str, int]] = {}
    ended = 0
    for line in lines:
        head = _LINE.fullmatch(line.rstrip("\n"))
        if head is None:
            raise ValueError(f"strace wrote what is no line of a log: {line[:200]}")
        pid, rest = int(head["pid"]), head["rest"]
        if match := _BEGUN.fullmatch(rest):
            begun[pid] = (match["name"], match["args"], ended)
            continue
        if match := _ENDED.match(rest):
            name, first, began = begun.pop(pid)
            arguments = first + match["args"]
        elif match := _WHOLE.match(rest):
            name, arguments, began = match["name"], match["args"], ended
        else:
            continue  # a signal, an end, or a call that never returned
        if not match["value"].startswith(("-", "?")):
            opened = os.fsdecode(_bytes(match["path"][1:-1])) if match["path"] else ""
            yield Call(pid, name, _arguments(arguments), int(match["value"], 0), opened, began)
            ended += 1


def _arguments(text: str) -> tuple[str, ...]:
    return tuple(part.rstrip().removesuffix(",") for part in _ARGUMENT.findall(text))
