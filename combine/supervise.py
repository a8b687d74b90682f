"""Supervision: the table of transitions by which keepalive looks after a child.

Theory of operation. keepalive turns all that happens into events (`Started`, `Ready`, `Pong`, `Tick`, `Exited`, `Stop`,
`Retire`) and gives them to `decide`, which answers with the child's new state and with actions (`Fork`, `Send`,
`Signal`, `Say`). The table is the whole policy:

    state        event     next
    backing-off  Tick      starting when the wait is over        (Fork)
    starting     Ready     running
    running      Tick      a PING when it is time; silence after a PING is answered by SIGKILL
    any living   Exited    backing-off, or at once starting for a worker whose life is over
    any living   Stop      stopping (SIGTERM and a PING, and SIGKILL when the time is over), then stopped
    any living   Retire    stopping, then starting again: no fault

A child that is silent is dead, whatever the process table says. A child is never assumed to be ready: it says so.
This module never does I/O and never looks at a clock. What a child holds of it all, `Context` and `Channel`, is in
combine/channel.py.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from combine.channel import Channel as Channel
from combine.channel import Context as Context
from combine.config import Settings, Supervise
from combine.errors import EXIT_CONFIG
from combine.services import UNITS, WORKERS

#: Seconds a child may be silent before its first READY: a daemon that opens a large database after a power loss reads
#: its journal.
START_SILENCE_S = 60.0

#: Seconds of running after which earlier faults are forgotten, and within which they are counted.
GOOD_MINUTE_S = 60.0

#: Seconds that a killed child may stay in the process table before its keepalive calls itself unwell.
UNREAPED_S = 10.0


class State(StrEnum):
    """What a child is doing, in the words of `combine status`."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    BACKING_OFF = "backing-off"


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits of one child: seconds, but for `crash_loop`, which counts faults in a minute."""

    is_worker: bool
    ping_s: float
    silence_s: float
    stop_s: float
    back_off_s: float
    back_off_ceiling_s: float
    crash_loop: int


def rules_of(service: str, supervise: Supervise) -> Rules:
    """The limits that the settings give a kind of child."""
    return Rules(
        is_worker=service in WORKERS,
        ping_s=supervise.ping_s,
        silence_s=supervise.parser_silence_s if service == "parser" else supervise.silence_s,
        stop_s=supervise.stop_s,
        back_off_s=supervise.back_off_s,
        back_off_ceiling_s=supervise.back_off_ceiling_s,
        crash_loop=supervise.crash_loop,
    )


@dataclass(frozen=True, slots=True)
class Child:
    """One place that keepalive keeps filled.

    All times are seconds of one monotonic clock; in `asked` and `killed` 0 means that it was not.
    """

    name: str
    service: str
    slot: int
    rules: Rules
    state: State = State.BACKING_OFF
    pid: int = 0
    since: float = 0.0  # of the state
    heard: float = 0.0  # last READY or PONG
    asked: float = 0.0  # the PING that is not yet answered
    wake: float = 0.0  # when a wait is over: back-off, or SIGKILL of a stop
    killed: float = 0.0
    restarts: int = 0
    faults: tuple[float, ...] = ()  # of the last minute
    tries: int = 0  # faults since the last good minute
    is_crash_loop: bool = False
    is_retiring: bool = False
    note: str = ""
    reason: str = ""  # why it was killed, until it is gone
    last_exit: str = ""

    @property
    def is_alive(self) -> bool:
        """True while there is a process."""
        return self.state in (State.STARTING, State.RUNNING, State.STOPPING)

    @property
    def shown_state(self) -> str:
        """The state for people: a crash loop is named."""
        return "crash loop" if self.is_crash_loop and self.state is not State.RUNNING else str(self.state)

    def is_stuck(self, now: float) -> bool:
        """True where it was killed long ago and is still there."""
        return self.is_alive and 0 < self.killed <= now - UNREAPED_S

    def due(self) -> float:
        """When the next Tick may change something."""
        match self.state:
            case State.BACKING_OFF:
                return self.wake
            case State.STOPPED:
                return float("inf")
            case State.STOPPING:
                return float("inf") if self.killed else self.wake
            case _:
                if self.killed:
                    return float("inf")
                return self.asked + _silence_s(self) if self.asked else self.heard + self.rules.ping_s


def children_of(unit: str, workers: int, settings: Settings) -> list[Child]:
    """The children of a unit, in the order of starting; `workers` 0 means what the settings say."""
    number = {"parser": settings.page.workers, "harvester": settings.harvest.workers}
    children = []
    for service in UNITS[unit]:
        rules = rules_of(service, settings.supervise)
        if service in WORKERS:
            slots = range(1, max(1, workers or number[service]) + 1)
            children += [Child(f"{service}-{slot}", service, slot, rules) for slot in slots]
        else:
            children.append(Child(service, service, 0, rules))
    return children


@dataclass(frozen=True, slots=True)
class Started:
    """The fork was made."""

    pid: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The child says that it can work."""


@dataclass(frozen=True, slots=True)
class Pong:
    """The child answers a PING."""


@dataclass(frozen=True, slots=True)
class Note:
    """The child says what it does or waits for."""

    text: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Exited:
    """The process is gone: an exit code, or minus a signal's number; `reason` where there never was one."""

    code: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop it for good; SIGKILL at `deadline`, or after stop_s."""

    deadline: float = 0.0


@dataclass(frozen=True, slots=True)
class Retire:
    """Stop it and start another in its place."""


Event = Started | Ready | Pong | Note | Tick | Exited | Stop | Retire


@dataclass(frozen=True, slots=True)
class Fork:
    """Start a process for this child."""


@dataclass(frozen=True, slots=True)
class Send:
    """Write a line on its channel."""

    line: bytes


@dataclass(frozen=True, slots=True)
class Signal:
    """Send it a signal."""

    number: signal.Signals


@dataclass(frozen=True, slots=True)
class Say:
    """A sentence for the log; `is_warning` where an operator may want to look."""

    text: str
    is_warning: bool = False


Action = Fork | Send | Signal | Say
Outcome = tuple[Child, tuple[Action, ...]]


def decide(child: Child, event: Event, now: float) -> Outcome:
    """What becomes of the child, and what is to be done; an event that its state does not know changes nothing."""
    step = _TABLE.get((child.state, type(event)))
    return (child, ()) if step is None else step(child, event, now)


#: A signal does not end a wait for the channel, as a parser's between two looks; a line does.
_END = (Signal(signal.SIGTERM), Send(b"PING\n"))


def _start(child: Child, event: Event, now: float) -> Outcome:
    if now < child.wake:
        return child, ()
    return replace(child, state=State.STARTING, since=now, heard=now, asked=0.0, killed=0.0, reason="", note=""), (
        Fork(),
    )


def _started(child: Child, event: Event, now: float) -> Outcome:
    assert isinstance(event, Started)
    return replace(child, pid=event.pid, since=now, heard=now), ()


def _ready(child: Child, event: Event, now: float) -> Outcome:
    return replace(child, state=State.RUNNING, since=now, heard=now, asked=0.0), (Say("is ready"),)


def _pong(child: Child, event: Event, now: float) -> Outcome:
    return replace(child, heard=now, asked=0.0), ()


def _note(child: Child, event: Event, now: float) -> Outcome:
    assert isinstance(event, Note)
    return replace(child, note=event.text), ()


def _look(child: Child, event: Event, now: float) -> Outcome:
    """A living child: forgive, ask, or end its silence."""
    if child.state is State.RUNNING and child.tries and now - child.since >= GOOD_MINUTE_S:
        child = replace(child, tries=0, faults=(), is_crash_loop=False)
    if child.killed:
        return child, ()
    if child.asked:
        if now - child.asked < _silence_s(child):
            return child, ()
        reason = f"silent for {_silence_s(child):g} s"
        said = Say(f"was silent for {_silence_s(child):g} s: it is killed and replaced", is_warning=True)
        return replace(child, killed=now, reason=reason), (said, Signal(signal.SIGKILL))
    if now - child.heard < child.rules.ping_s:
        return child, ()
    return replace(child, asked=now), (Send(b"PING\n"),)


def _stop(child: Child, event: Event, now: float) -> Outcome:
    assert isinstance(event, Stop)
    wake = event.deadline or now + child.rules.stop_s
    stopping = replace(child, state=State.STOPPING, since=now, wake=wake, is_retiring=False)
    return stopping, (() if child.killed or child.state is State.STOPPING else _END)


def _stop_waiting(child: Child, event: Event, now: float) -> Outcome:
    return replace(child, state=State.STOPPED, since=now, pid=0), ()


def _retire(child: Child, event: Event, now: float) -> Outcome:
    # Nobody waits for it, so a parser may finish a page that takes long.
    wake = now + max(child.rules.stop_s, child.rules.silence_s)
    retiring = replace(child, state=State.STOPPING, since=now, wake=wake, is_retiring=True)
    return retiring, (() if child.killed else _END)


def _stop_look(child: Child, event: Event, now: float) -> Outcome:
    if child.killed or now < child.wake:
        return child, ()
    reason = "did not stop in time"
    return replace(child, killed=now, reason=reason), (
        Say("did not stop in time: it is killed", is_warning=True),
        Signal(signal.SIGKILL),
    )


def _stopped(child: Child, event: Event, now: float) -> Outcome:
    assert isinstance(event, Exited)
    gone = replace(child, pid=0, since=now, last_exit=describe_exit(event, child.reason))
    if not child.is_retiring:
        return replace(gone, state=State.STOPPED), ()
    return _start(replace(gone, is_retiring=False, wake=now, restarts=child.restarts + 1), Tick(), now)


def _exited(child: Child, event: Event, now: float) -> Outcome:
    """Gone unasked: a worker's good end, or a fault that makes the next start wait."""
    assert isinstance(event, Exited)
    last_exit = describe_exit(event, child.reason)
    gone = replace(child, pid=0, since=now, restarts=child.restarts + 1, last_exit=last_exit, asked=0.0, killed=0.0)
    if child.rules.is_worker and event.code == 0 and child.state is State.RUNNING:
        return _start(replace(gone, wake=now), Tick(), now)
    if child.state is State.RUNNING and now - child.since >= GOOD_MINUTE_S:
        gone = replace(gone, tries=0, faults=(), is_crash_loop=False)
    faults = (*(at for at in gone.faults if now - at < GOOD_MINUTE_S), now)[-100:]
    tries = gone.tries + 1
    ceiling_s = child.rules.back_off_ceiling_s
    # 78 is the operator's to mend: asking again soon would only fill the log.
    wait_s = (
        ceiling_s if event.code == EXIT_CONFIG else min(ceiling_s, child.rules.back_off_s * 2 ** min(tries - 1, 30))
    )
    is_crash_loop = gone.is_crash_loop or len(faults) > child.rules.crash_loop
    said = [Say(f"ended ({last_exit}): started again in {wait_s:g} s", is_warning=True)]
    if is_crash_loop and not gone.is_crash_loop:
        said.append(Say(f"is in a crash loop: {len(faults)} faults within a minute", is_warning=True))
    waiting = replace(
        gone, state=State.BACKING_OFF, wake=now + wait_s, faults=faults, tries=tries, is_crash_loop=is_crash_loop
    )
    return waiting, tuple(said)


def describe_exit(event: Exited, reason: str = "") -> str:
    """How a process ended, in a few words."""
    if event.reason:
        return event.reason
    if event.code < 0:
        try:
            name = signal.Signals(-event.code).name
        except ValueError:
            name = f"signal {-event.code}"
        return f"{name}: {reason}" if reason else name
    return "exit 0" if event.code == 0 else f"exit {event.code}"


def _silence_s(child: Child) -> float:
    return max(child.rules.silence_s, START_SILENCE_S) if child.state is State.STARTING else child.rules.silence_s


_Step = Callable[[Child, Event, float], Outcome]

_TABLE: dict[tuple[State, type], _Step] = {
    (State.BACKING_OFF, Tick): _start,
    (State.BACKING_OFF, Stop): _stop_waiting,
    (State.STARTING, Started): _started,
    (State.STARTING, Ready): _ready,
    (State.STARTING, Pong): _pong,
    (State.STARTING, Note): _note,
    (State.STARTING, Tick): _look,
    (State.STARTING, Exited): _exited,
    (State.STARTING, Stop): _stop,
    (State.STARTING, Retire): _retire,
    (State.RUNNING, Pong): _pong,
    (State.RUNNING, Note): _note,
    (State.RUNNING, Tick): _look,
    (State.RUNNING, Exited): _exited,
    (State.RUNNING, Stop): _stop,
    (State.RUNNING, Retire): _retire,
    (State.STOPPING, Note): _note,
    (State.STOPPING, Stop): _stop,
    (State.STOPPING, Tick): _stop_look,
    (State.STOPPING, Exited): _stopped,
}


def parse_line(line: bytes) -> Event | None:
    """Read one line of a child; None for what no child says."""
    if line == b"READY":
        return Ready()
    if line == b"PONG":
        return Pong()
    if line.startswith(b"NOTE "):
        text = line[5:].decode("utf-8", "replace")
        return Note("".join(character for character in text if character.isprintable()).strip())
    return None
