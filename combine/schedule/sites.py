"""The sites in memory: each in exactly one of six sets, and what wakes them. No rows, no clock of its own.

Invariant, asserted at every move: a site that is in memory is in exactly one of

    unresolved   it has jobs, and its host no address yet
    waiting      it has jobs, and its next request may not go yet
    due          it has jobs and may be handed out now
    leased       a harvester has it
    blocked      nobody may ask it until a time, or until the operator says so
    empty        it has no job that may go (all are deferred, fetched, or over their run's budget)

Memory grows with the sites that have rows, never with URLs. Those that were looked at lately are awake, and an object
each. The others sleep: of them a set holds the facts that no table has, in some thirty bytes, and the rest is read when
they wake. A site that sleeps has no fact that is not either there or in its table.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from combine.schedule.wakes import Wakes
from combine.urls import BadURL, normalise, site_of

UNRESOLVED, WAITING, DUE, LEASED, BLOCKED, EMPTY = "unresolved", "waiting", "due", "leased", "blocked", "empty"
STATES = (UNRESOLVED, WAITING, DUE, LEASED, BLOCKED, EMPTY)

#: The sets in which a site may sleep, first those of the most.
_IDLE = (DUE, WAITING, UNRESOLVED, EMPTY, BLOCKED)


def is_site(name: str) -> bool:
    """Whether a name is that of a site: a host, with its port where that is not the scheme's own."""
    try:
        return any(site_of(normalise(f"{scheme}://{name}/")) == name for scheme in ("https", "http"))
    except BadURL:
        return False


#: Sites awake, but for those that a harvester has; half as many more may be for a moment.
AWAKE = 2_000

#: A set that has had so many times as many sites as it has now, and more than a few, is made anew: a dict only grows.
SHRINK, FEW = 8, 1_000

#: Of a site that sleeps: queued rows, flags, times of its wake and of its address; an IPv4 address follows in four
#: bytes. That is all of most, 64 bytes at most, a size in which Python gives memory. Where there is MORE there follow
#: rows of the other states, the first of the look-ups that failed and how many, robots jobs, the address's turn, and as
#: text the run's pace and the address. It has no leased rows, since it has no lease.
_ASLEEP, _MORE = struct.Struct("<IBdd"), struct.Struct("<4IfBHB")
_QUEUED = struct.Struct("<I")  # with these it begins
_FLAGS = 4  # where they are
_WAKE = 2  # the place of its time among these facts
_PARKED, _PUBLIC, _HAS_MORE = 1, 2, 4
_LEASED = 2  # the place of leased rows among the counts
_MOST = 0xFFFF

#: A block without an end: the operator's.
FOREVER = float("inf")


@dataclass(slots=True)
class Site:
    """One host with its port. Times are boot times; delays are seconds."""

    id: int
    name: str
    state: str = EMPTY
    counts: list[int] = field(default_factory=lambda: [0] * 6)  # rows by state, as in `rows`
    errands: int = 0  # queued robots jobs, which go although the site is blocked
    told: float | None = None  # the operator's delay
    auto: float | None = None  # the adapted delay of an `auto` run
    crawl: float = 0.0  # robots.txt's Crawl-delay
    asked: str = ""  # the pace that the run of its next job asks for
    next: float = 0.0  # no request before
    shut: bool = False  # blocked by the operator
    blocked: float = 0.0  # no request before, with a reason
    reason: str = ""
    failures: int = 0  # in a row
    refusals: int = 0  # in a row
    day: int = 0
    requests: int = 0  # today
    bytes: int = 0  # today
    address: str = ""
    address_until: float = 0.0
    turn: int = 0  # which of its host's addresses is looked up: another after each that no connection was had to
    resolving: bool = False
    name_failures: int = 0
    name_failed: float = 0.0  # the first of them
    lease: int = 0
    holder: str = ""  # who had it last
    parked: bool = False  # its ready jobs are all over their run's budget
    wake: float = 0.0  # when its wait or its block is over, 0 unless it waits or is blocked
    written: tuple[object, ...] = ()  # its facts as its table has them

    @property
    def host(self) -> str:
        """The host without its port."""
        if self.name.startswith("["):
            return self.name.partition("]")[0] + "]"
        return self.name.partition(":")[0]

    @property
    def facts(self) -> tuple[object, ...]:
        """What its table keeps of it."""
        return (
            self.told, self.auto, self.crawl, self.next, self.shut, self.blocked, self.reason, self.failures,
            self.refusals, self.day, self.requests, self.bytes, self.holder,
        )  # fmt: skip

    @property
    def ready(self) -> int:
        """Rows that may be handed out as far as they themselves are concerned."""
        return self.counts[0]


class Sites:
    """All sites in memory: those that are awake by id and by name, and each of all in its set, awake or asleep."""

    def __init__(self) -> None:
        self.by_id: dict[int, Site] = {}
        self.by_name: dict[str, Site] = {}
        # A dict, which keeps its order, takes a third of an OrderedDict.
        self.members: dict[str, dict[int, Site | bytes]] = {state: {} for state in STATES}
        self._most = dict.fromkeys(STATES, 0)  # members that each dict has had
        self.asleep = 0
        self.asleep_counts = [0] * 6  # rows by state of those that sleep
        self.asleep_public = 0
        self._wakes = Wakes(self._time_of)
        self._resting = Wakes(self._rest_of)

    def __iter__(self) -> Iterator[Site]:
        """Those that are awake."""
        return iter(self.by_id.values())

    def __len__(self) -> int:
        """All in memory, awake or asleep."""
        return len(self.by_id) + self.asleep

    def enter(self, site: Site) -> None:
        """Take a site into memory, as its table has it; one that sleeps wakes."""
        assert site.id not in self.by_id, "a site is in memory once"
        state = self.sleeps_in(site.id)
        self.by_id[site.id] = self.by_name[site.name] = site
        if state:
            self._rouse(site, state)
        else:
            self.members[site.state][site.id] = site

    def leave(self, site: Site) -> None:
        """Let a site go."""
        assert site.state == EMPTY, "only a site without work leaves"
        del self.members[site.state][site.id], self.by_id[site.id], self.by_name[site.name]

    def move(self, site: Site, state: str) -> None:
        """Put a site into one set, at its end; the end of `due` is the back of the round."""
        held = self.members[site.state].pop(site.id, None)
        assert held is site, f"{site.name} is in exactly one set, {site.state}"
        site.state = state
        if state not in (WAITING, BLOCKED):
            site.wake = 0.0
        self.members[state][site.id] = site

    def settle(self, site: Site, now: float) -> None:
        """Put a site where its facts say it belongs."""
        state = self.state_of(site, now)
        if state != site.state:
            self.move(site, state)

    def state_of(self, site: Site, now: float) -> str:
        """The set where a site belongs by its facts; it will be woken when they change by themselves."""
        if site.lease:
            return LEASED
        if site.counts[0] == 0 or site.parked:
            return EMPTY
        until = FOREVER if site.shut else site.blocked
        if until > now and (site.shut or not site.errands):
            self._wake_at(site, until)
            return BLOCKED
        if not site.address or site.address_until <= now:
            return UNRESOLVED
        if site.next > now:
            self._wake_at(site, site.next)
            return WAITING
        return DUE

    # Those that sleep -------------------------------------------------------------------------------------------

    def sleeps_in(self, number: int) -> str:
        """The set in which a site sleeps, "" where it is awake or not in memory."""
        if self.asleep and number not in self.by_id:
            for state in _IDLE:
                if number in self.members[state]:
                    return state
        return ""

    def tired(self) -> list[Site]:
        """Those of the sites awake that woke longest ago, where there are too many; not those that are under way."""
        count = len(self.by_id) - len(self.members[LEASED]) - AWAKE
        if count <= AWAKE // 2:
            return []
        # At a start rows are leased whose leases have not been read yet.
        free = (s for s in self if not (s.lease or s.counts[_LEASED] or s.resolving or s.errands > _MOST))
        return list(islice(free, count))

    def put_to_sleep(self, site: Site, is_public: bool) -> None:
        """Keep of a site, which nobody holds any more, only what its table has not."""
        self.members[site.state][site.id] = _packed(site, _PARKED * site.parked | _PUBLIC * is_public)
        del self.by_id[site.id], self.by_name[site.name]
        self._count(site.counts, is_public, 1)

    def add_asleep(self, number: int, state: str, rows: int) -> None:
        """A site that sleeps in a set, and not without work, has more rows queued."""
        members = self.members[state]
        held = members[number]
        assert isinstance(held, bytes), "who sleeps is no object"
        members[number] = _QUEUED.pack(_QUEUED.unpack_from(held)[0] + rows) + held[_QUEUED.size :]
        self.asleep_counts[0] += rows

    def move_asleep(self, number: int, old: str, state: str) -> None:
        """A site that sleeps goes into another set, at its end, or to the back of its own."""
        self.members[state][number] = self.members[old].pop(number)

    def shrink(self) -> None:
        """Give back the memory of sets that have become small."""
        for state, members in self.members.items():
            most = self._most[state] = max(self._most[state], len(members))
            if most > FEW and most > SHRINK * len(members):
                self.members[state], self._most[state] = dict(members), len(members)

    def parked(self) -> list[int]:
        """The sites whose jobs are over their run's budget, asleep ones too."""
        return sorted(
            number
            for number, held in self.members[EMPTY].items()
            if (held.parked if isinstance(held, Site) else held[_FLAGS] & _PARKED)
        )

    def counts(self) -> Iterator[tuple[int, list[int], int]]:
        """All sites: number, rows by state, and queued robots jobs."""
        for members in self.members.values():
            for number, held in members.items():
                if isinstance(held, Site):
                    yield number, held.counts, held.errands
                else:
                    yield number, *_rows_of(held)

    def _rouse(self, site: Site, state: str) -> None:
        held = self.members[state][site.id]
        assert isinstance(held, bytes), "who sleeps is no object"
        _, flags, wake, site.address_until = _ASLEEP.unpack_from(held)
        site.counts, site.errands = _rows_of(held)
        site.address, site.parked = _address_of(held, flags), bool(flags & _PARKED)
        if flags & _HAS_MORE:
            *_, site.name_failed, site.name_failures, _, site.turn = _MORE.unpack_from(held, _ASLEEP.size)
            site.asked = held[_ASLEEP.size + _MORE.size :].decode().partition("\n")[0]
        site.state = state
        site.wake = wake if state in (WAITING, BLOCKED) else 0.0
        self.members[state][site.id] = site
        self._count(site.counts, bool(flags & _PUBLIC), -1)

    def _count(self, counts: list[int], is_public: bool, change: int) -> None:
        self.asleep += change
        self.asleep_public += is_public * change
        for state, count in enumerate(counts):
            if count:
                self.asleep_counts[state] += count * change

    # What wakes them --------------------------------------------------------------------------------------------

    def ripe(self, now: float) -> Iterator[int]:
        """Sites whose wait or block is over; they are to be settled. Of those that sleep most need not be woken."""
        for number in self._wakes.due(now):
            site = self.by_id.get(number)
            if site is not None:
                site.wake = 0.0
            elif number in self.members[WAITING]:
                self.move_asleep(number, WAITING, DUE if self.address_of(number, WAITING)[1] > now else UNRESOLVED)
                continue
            yield number

    def address_of(self, number: int, state: str) -> tuple[str, float]:
        """The address of a site that sleeps in a set, and the time until which it is good."""
        held = self.members[state][number]
        assert isinstance(held, bytes), "who sleeps is no object"
        _, flags, _, until = _ASLEEP.unpack_from(held)
        return _address_of(held, flags), until

    def next_wake(self) -> float | None:
        """When the next wait or block is over."""
        return self._wakes.next()

    def rest(self, site: Site, until: float) -> None:
        """A site without rows stays in memory until a time: its rest is not over."""
        self._resting.add(site.id, until)

    def rested(self, now: float) -> list[Site]:
        """Sites awake whose rest is over; they are to be settled, and those that have no rows leave."""
        return [self.by_id[number] for number in self._resting.due(now)]

    def _time_of(self, number: int) -> float:
        site = self.by_id.get(number)
        if site is not None:
            return site.wake
        held = self.members[WAITING].get(number) or self.members[BLOCKED].get(number)
        return float(_ASLEEP.unpack_from(held)[_WAKE]) if isinstance(held, bytes) else 0.0

    def _rest_of(self, number: int) -> float:
        site = self.by_id.get(number)
        return max(site.next, site.blocked) if site is not None and site.state == EMPTY else 0.0

    def _wake_at(self, site: Site, time: float) -> None:
        if time != FOREVER and site.wake != time:
            site.wake = time
            self._wakes.add(site.id, time)


def _packed(site: Site, flags: int) -> bytes:
    """What is kept of a site that sleeps."""
    others = (
        *site.counts[1:_LEASED], *site.counts[_LEASED + 1 :], site.name_failed if site.name_failures else 0.0,
        min(site.name_failures, 0xFF), site.errands, site.turn & 0xFF,
    )  # fmt: skip
    address = _four_bytes(site.address)
    has_more = any(others) or bool(site.asked) or (site.address != "" and not address)
    kept = _ASLEEP.pack(site.counts[0], flags | _HAS_MORE * has_more, site.wake, site.address_until)
    return kept + (_MORE.pack(*others) + f"{site.asked}\n{site.address}".encode() if has_more else address)


def _rows_of(held: bytes) -> tuple[list[int], int]:
    """Rows by state, and queued robots jobs, of a site that sleeps."""
    queued, flags, _, _ = _ASLEEP.unpack_from(held)
    if not flags & _HAS_MORE:
        return [queued, 0, 0, 0, 0, 0], 0
    *others, _, _, errands, _ = _MORE.unpack_from(held, _ASLEEP.size)
    return [queued, *others[: _LEASED - 1], 0, *others[_LEASED - 1 :]], errands


def _address_of(held: bytes, flags: int) -> str:
    if flags & _HAS_MORE:
        return held[held.index(b"\n", _ASLEEP.size + _MORE.size) + 1 :].decode()
    return socket.inet_ntoa(held[_ASLEEP.size :]) if len(held) > _ASLEEP.size else ""


def _four_bytes(address: str) -> bytes:
    """An IPv4 address; empty for what is none, or is written in another way than in four numbers."""
    if address.count(".") != 3:
        return b""
    try:
        packed = socket.inet_aton(address)
    except OSError:
        return b""
    return packed if socket.inet_ntoa(packed) == address else b""
