"""What happens in one harvest of the fault driver: all of it drawn from a seed, so that a seed says it all."""

from __future__ import annotations

import random
from dataclasses import dataclass

from combine.crashpoints import POINTS

#: What is killed, stopped and cut off, by its name in the status.
DAEMONS = ("scheduler", "idbd", "logd", "harvester", "parser")

#: Kinds of faults, each with its weight.
KINDS = {
    "crash": 10,  # a process ends at a named point between two steps
    "kill": 6,
    "stop": 2,  # SIGSTOP
    "unit": 1,  # a keepalive is killed, and the kernel kills its children
    "everything": 2,  # all processes are killed, and the same command is given again
    "socket": 1,  # a socket is removed
    "cut": 3,  # a connection is cut, whatever is on its way
    "stranger": 1,  # bytes that are no message, half a message, a line without an end
    "full": 2,  # the disk is full for a while
    "disk": 5,  # for a while calls fail that open, read, write, sync or rename files of the home, or writes are short
    "clock": 2,  # the calendar jumps, hours or days forward or back
    "crowd": 1,  # idle connections by the hundred, and such as send a byte now and then
}

#: How a disk fails: with which code, what kinds of calls, and how many of 1,000 of them.
DISK_CODES, DISK_CALLS, DISK_SHARES = (
    ("EIO", "ENOSPC", "short"),
    ("open", "read", "write", "sync", "name"),
    (30, 200, 700),
)

#: Seconds by which the calendar jumps.
JUMPS_S = (-200_000, -7_200, 7_200, 200_000)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: after so many requests to the site (of this round), what kind, and whom or what it hits."""

    after: int
    kind: str
    what: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One harvest: the site, the pace, the workers, and the faults of each round; the second is forced."""

    seed: int
    pages: int
    delay_s: float
    harvesters: int
    parsers: int
    rounds: tuple[tuple[Fault, ...], ...]

    def __str__(self) -> str:
        head = f"seed {self.seed}: {self.pages} pages, delay {self.delay_s:g} s, {self.harvesters} harvesters"
        lines = [
            f"  round {number}, after {fault.after} requests: {fault.kind} {fault.what}".rstrip()
            for number, faults in enumerate(self.rounds, 1)
            for fault in faults
        ]
        return "\n".join([f"{head}, {self.parsers} parsers", *lines])


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    chance = random.Random(seed)
    pages = chance.choice((30, 45, 60))
    rounds = 2 if chance.random() < 0.4 else 1
    return Plan(
        seed,
        pages,
        delay_s=chance.choice((0.0, 0.0, 0.05)),
        harvesters=chance.randint(1, 3),
        parsers=chance.randint(1, 3),
        rounds=tuple(_faults(chance, pages) for _ in range(rounds)),
    )


def _faults(chance: random.Random, pages: int) -> tuple[Fault, ...]:
    kinds = chance.choices(list(KINDS), weights=list(KINDS.values()), k=chance.randint(1, 5))
    faults = [Fault(chance.randint(0, pages * 4 // 5), kind, _whom(chance, kind)) for kind in kinds]
    return tuple(sorted(faults, key=lambda fault: fault.after))


def _whom(chance: random.Random, kind: str) -> str:
    if kind == "crash":
        return chance.choice(list(POINTS))
    if kind == "unit":
        return chance.choice(("cabin", "hdb", "harvester"))
    if kind == "disk":
        code = chance.choice(DISK_CODES)
        calls = "write" if code == "short" else chance.choice(DISK_CALLS)
        return f"{code} {calls} {chance.choice(DISK_SHARES)}"
    if kind == "clock":
        return str(chance.choice(JUMPS_S))
    if kind in ("socket", "stranger", "crowd"):
        return chance.choice(("scheduler", "idbd"))
    return chance.choice(DAEMONS) if kind in ("kill", "stop", "cut") else ""
