"""The daemons as data: their sockets, their verbs, and whom each may call. The architecture, in one table.

Calls go right only: harvester → parser → scheduler → idbd. Any rung may skip to its right and none goes back, so
there is no cycle and no deadlock. Everyone may send events to logd, which answers nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

PROTOCOL = "combine/1"

#: Lines of JCF in one message.
MESSAGE_LINES = 1_000

#: Seconds that one call may take, its answer included.
CALL_S = 30.0

EVERYONE = ("PING", "STAT")


@dataclass(frozen=True, slots=True)
class Service:
    """One kind of process.

    `socket` is its file below run/, or "" for a worker; `rung` its place in the ladder of calls.
    """

    name: str
    unit: str
    rung: int
    socket: str = ""
    verbs: tuple[str, ...] = ()

    def may_call(self, other: Service) -> bool:
        """Calls go right only, and only to daemons that answer."""
        return other.rung > self.rung and bool(other.verbs)


SERVICES: dict[str, Service] = {
    service.name: service
    for service in (
        Service("harvester", "harvester", 1),
        Service("parser", "hdb", 2),
        Service(
            "scheduler",
            "cabin",
            3,
            "scheduler.sock",
            (*EVERYONE, "ADD", "TAKE", "DONE", "STORED", "GATE", "SITE", "WHY", "FORGET"),
        ),
        Service("idbd", "hdb", 4, "idbd.sock", (*EVERYONE, "LOOKUP", "REMEMBER", "DUE", "SAME", "SITE", "FORGET")),
        Service("logd", "cabin", 5, "logd.sock"),
    )
}

#: What a unit's keepalive runs, in the order of starting; workers are many.
UNITS: dict[str, tuple[str, ...]] = {
    "cabin": ("logd", "scheduler"),
    "hdb": ("idbd", "parser"),
    "harvester": ("harvester",),
}

WORKERS = ("harvester", "parser")
