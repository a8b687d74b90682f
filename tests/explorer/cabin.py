"""The real scheduler and the real idbd as pure functions: a state and an operation give a state and an answer.

Their databases are small here, so a state is the rows of all tables (and the little that the scheduler knows beyond
them: the offers that wait for idbd). An operation puts a state back, runs the real code, commits, and reads the rows
again. States have numbers, and what was run once is remembered: however many ways lead to a state of the whole system,
the real code runs once for each state of the scheduler and each message to it.

Time: the boot clock always reads `NOW`, and when time passes the times in the rows become smaller, so that two states
that differ by their age only are one.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from combine.config import Agent, Politeness, Scheduler, Settings
from combine.schedule.duties import LOST_LOOKS, LOST_S, Duties, Outside
from combine.schedule.intake import Offer
from combine.schedule.leases import Holder
from combine.schedule.rows import DEFERRED, FETCHED, LEASED, QUEUED, STORED
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.world import NOON, FakeClock, World, always, at_once

NOW = 1000.0

#: Seconds between two requests to the site, and the time of a lease: two jobs fit in.
DELAY, LEASE_S = 10.0, 20.0

#: When the forced round begins: all that was asked before is older.
ROUND_S = 10.0

SETTINGS = Settings(
    agent=Agent(url="https://example.org/us", email="us@example.org"),
    politeness=Politeness(margin_s=0.0),
    scheduler=replace(Scheduler(), lease_s=LEASE_S, lease_grace_s=0.0, standing=False),
)

_CABIN = ("meta", "site", "scope", "seed", "budget", "lease", "job")
_IDB = ("site", "visit", "digest", "turned", "held", "count")

#: What of a table counts in boot time: the column, and how far in the past it still matters.
_TIMES = {"site": {"next": 0.0, "blocked": 0.0}, "lease": {"until": 1.0}, "job": {"later": 0.0}}

#: What has no bearing on what may happen here: counts of the day, and who had a site last, of two who are alike.
#: And how long a row has been fetched: always long enough for its batch to be missed.
_IDLE: dict[str, dict[str, Any]] = {
    "site": {"day": 0, "requests": 0, "bytes": 0, "holder": "", "rest": DELAY},
    "job": {"at": NOW - LOST_S - 1.0},
}

#: The number of every fetch and lease that no row has any more.
DEAD = 99

#: What a job's row means in each of its states, of the columns that are not read in all.
_MEANT = {
    "fetch": (QUEUED, DEFERRED, LEASED, FETCHED),
    "lease": (LEASED, FETCHED),
    "batch": (FETCHED,),
}

_EVENTS = re.compile(r' EVENTS="[^"]*"')

Rows = tuple[tuple[tuple[Any, ...], ...], ...]
Answer = tuple[str, ...]

#: Of the process in each slot, the start time, by which it is another than the one before.
Lives = tuple[int, int, int, int]

#: The pids of these processes: two harvesters, two parsers.
PIDS = (101, 102, 201, 202)

#: The start time that all have who live, once only what matters is left.
LIVES = 9


class Meant(NamedTuple):
    """A state with the least numbers, and by what these stand for the old ones."""

    cabin: int
    holders: dict[Holder, Holder]
    offers: dict[int, int]
    rows: dict[int, int]


def _told_apart(holders: Iterable[Holder], lives: Lives) -> dict[Holder, Holder]:
    """Names of holders by which those that live can be told from the dead, and the dead of a slot from one another."""
    new = {}
    for pid, start in zip(PIDS, lives, strict=True):
        new[Holder(pid, start)] = Holder(pid, LIVES)
        dead = sorted((holder for holder in holders if holder.pid == pid and holder.start < start), key=repr)
        new |= {holder: Holder(pid, place) for place, holder in enumerate(dead, 1)}
    return new


class Tables:
    """The rows of some tables of a database, to be read and put back."""

    def __init__(self, db: Any, names: Iterable[str]) -> None:
        self._db = db
        self.columns = {name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in names}

    def dump(self) -> Rows:
        return tuple(self._rows(name) for name in self.columns)

    def _rows(self, name: str) -> tuple[tuple[Any, ...], ...]:
        rows = tuple(self._db.execute(f"SELECT * FROM {name}"))
        idle = _IDLE.get(name)
        if idle is None:
            return rows
        names = self.columns[name]
        return tuple(tuple(idle.get(column, value) for column, value in zip(names, row, strict=True)) for row in rows)

    def load(self, rows: Rows) -> None:
        self._db.execute("BEGIN")
        for (name, columns), content in zip(self.columns.items(), rows, strict=True):
            self._db.execute(f"DELETE FROM {name}")
            if content:
                self._db.executemany(f"INSERT INTO {name} VALUES ({','.join('?' * len(columns))})", content)
        self._db.execute("COMMIT")


def other_of(pid: int) -> int:
    """The other worker of its kind."""
    return pid - 1 if pid % 2 == 0 else pid + 1


class Unfenced(Exception):
    """The scheduler heeds a message about a fetch or a lease that is over."""


class Silent:
    """What the duties ask of a server: nothing here, since each operation is committed at its end."""

    def commit_soon(self) -> None:
        """Nothing to do."""


class Cabin:
    """The scheduler, as a function."""

    def __init__(self) -> None:
        self.world = World(SETTINGS, always)
        self.clock: FakeClock = self.world.clock
        self.batches: set[str] = set()
        outside = Outside(lambda: self.batches, lambda: "", lambda host, address: "")
        self.duties = Duties(self.world.frontier, None, outside, Silent(), None)  # type: ignore[arg-type]
        self._tables = Tables(self.world.rows.db, _CABIN)
        self._states: dict[tuple[Rows, Any], int] = {}
        self._rows: list[tuple[Rows, Any]] = []
        self._offers: dict[str, int] = {}
        self._offer_of: list[Offer] = []
        self._memory: dict[Any, tuple[int, Any]] = {}
        self._tables_of: dict[tuple[int, str], list[dict[str, Any]]] = {}
        self._holders: dict[int, tuple[Holder, ...]] = {}
        self._pages: dict[int, tuple[frozenset[tuple[str, bool]], frozenset[str]]] = {}
        self._alive: dict[int, tuple[int, ...]] = {}
        self._meant: dict[Any, Meant] = {}
        self._exchanged: dict[tuple[int, tuple[int, ...]], int] = {}
        self.takes_from_the_living = False
        self.trusts_fences = True

    def close(self) -> None:
        self.world.close()

    def trust_no_fences(self) -> None:
        """From now on no number counts as dead."""
        self.trusts_fences = False
        self._alive.clear()
        self._meant.clear()

    # States ------------------------------------------------------------------------------------------------------

    def start(self, *seeds: Job) -> int:
        """The state in which some seeds were added and nothing was done yet."""
        if self._rows:
            return 0
        for seed in seeds:
            self.world.add(seed)
        return self._read()

    def _read(self) -> int:
        frontier = self.world.frontier
        if not frontier.offers:
            frontier.moves = 0
        state = (self._tables.dump(), (frontier.offers, frontier.moves, tuple(sorted(frontier.gone.items()))))
        number = self._states.get(state)
        if number is None:
            self.world.check()
            number = self._states[state] = len(self._rows)
            self._rows.append(state)
        return number

    def _put_back(self, number: int) -> None:
        rows, (offers, went, gone) = self._rows[number]
        self._tables.load(rows)
        frontier = self.world.frontier
        self.clock.boot_id = frontier.rows.meta("boot")
        frontier.load()
        frontier.offers, frontier.moves, frontier.gone = offers, went, dict(gone)
        self.world.resolve()

    def _run(self, number: int, words: tuple[Any, ...], step: Callable[[], Any]) -> tuple[int, Any]:
        known = self._memory.get((number, words))
        if known is None:
            self._put_back(number)
            answer = step()
            self.world.frontier.commit()
            known = self._memory[number, words] = (self._read(), answer)
        return known

    def table(self, number: int, name: str) -> list[dict[str, Any]]:
        """A table's rows in a state."""
        known = self._tables_of.get((number, name))
        if known is None:
            columns, content = self._tables.columns[name], self._rows[number][0][_CABIN.index(name)]
            known = [dict(zip(columns, row, strict=True)) for row in content]
            self._tables_of[number, name] = known
        return known

    def holders(self, number: int) -> tuple[Holder, ...]:
        """Who holds leases, as far as the scheduler knows."""
        known = self._holders.get(number)
        if known is None:
            known = tuple(Holder(lease["pid"], lease["start"]) for lease in self.table(number, "lease"))
            self._holders[number] = known
        return known

    def exchanged(self, number: int, pids: tuple[int, ...]) -> int:
        """The state in which the other worker of its kind holds each lease that one of these has."""
        known = self._exchanged.get((number, pids))
        if known is None:
            rows, rest = self._rows[number]
            place, columns = _CABIN.index("lease"), self._tables.columns["lease"]
            leases = (dict(zip(columns, row, strict=True)) for row in rows[place])
            moved = tuple(
                tuple((lease | {"pid": other_of(lease["pid"]) if lease["pid"] in pids else lease["pid"]}).values())
                for lease in leases
            )
            known = self._number_of(((*rows[:place], moved, *rows[place + 1 :]), rest))
            self._exchanged[number, pids] = known
        return known

    # What is meant -----------------------------------------------------------------------------------------------

    def alive(self, number: int) -> tuple[int, ...]:
        """The numbers of fetches and leases that still count: those that rows and leases have.

        Raises Unfenced where a message about another one changes something. Where it was told so, all are alive.
        """
        known = self._alive.get(number)
        if known is None:
            rows = self.table(number, "job")
            found = {lease["id"] for lease in self.table(number, "lease")}
            for name in ("fetch", "lease"):
                found |= {row[name] for row in rows if row["state"] in _MEANT[name]}
            found.discard(0)
            if not self.trusts_fences:
                found |= set(range(1, self._last(number) + 1))
            elif not self._is_fenced(number, found):
                raise Unfenced
            known = self._alive[number] = tuple(sorted(found))
        return known

    def _last(self, number: int) -> int:
        """The number that was drawn last."""
        return int(next((row["value"] for row in self.table(number, "meta") if row["key"] == "number"), 0))

    def _is_fenced(self, number: int, alive: set[int]) -> bool:
        """Whether messages about fetches and leases that are over change nothing: rule 3, asked of the real code."""
        over = {DEAD, *range(1, self._last(number) + 1)} - alive
        outcomes = [
            jcf.job(
                URL=row["line"].split('"')[1], FETCH=dead, LEASE=dead, OUTCOME=said, BATCH=said and dead, RECORD="1"
            )
            for row in self.table(number, "job")
            for dead in over
            for said in ("ok", "not-modified", "failed", None)
        ]
        ends = [jcf.job(LEASE=dead, END="1") for dead in over]

        def step() -> bool:
            frontier = self.world.frontier
            is_current = any(frontier.done_all([*outcomes, *ends]))
            frontier.stored_all([line for line in outcomes if line.get("OUTCOME")])
            return is_current

        after, is_current = self._run(number, ("dead",), step)
        return after == number and not is_current

    def pages(self, number: int) -> tuple[frozenset[tuple[str, bool]], frozenset[str]]:
        """The pages that are not stored yet, each with whether it is for the forced round; and those that have rows."""
        known = self._pages.get(number)
        if known is None:
            rows = [(row["line"].split('"')[1], row) for row in self.table(number, "job") if row["kind"] == "page"]
            open_ = frozenset((page, bool(row["since"])) for page, row in rows if row["state"] < STORED)
            known = self._pages[number] = open_, frozenset(page for page, _ in rows)
        return known

    def meant(self, number: int, lives: Lives, asked: tuple[int, ...]) -> Meant:
        """The state with the least numbers that means the same; and what became of processes, of offers and of rows.

        Rows and the counts of moves keep their order. A lease of relink jobs has no time: nobody ends it for its age.
        """
        known = self._meant.get((number, lives, asked))
        if known is None:
            known = self._meant[number, lives, asked] = self._mean(number, lives, asked)
        return known

    def _mean(self, number: int, lives: Lives, asked: tuple[int, ...]) -> Meant:
        alive = self.alive(number)
        new = {0: 0} | {old: place for place, old in enumerate(alive, 1)}
        tables = {name: [dict(row) for row in self.table(number, name)] for name in _CABIN}
        holders = _told_apart(self.holders(number), lives)
        for meta in tables["meta"]:
            meta["value"] = {"number": str(len(alive)), "boot": "first"}.get(meta["key"], meta["value"])
        for lease in tables["lease"]:
            lease["id"], lease["boot"] = new[lease["id"]], "first"
            lease["start"] = holders[Holder(lease["pid"], lease["start"])].start
            if not lease["site"]:
                lease["until"] = NOW
        seqs = {row["seq"]: place for place, row in enumerate(tables["job"], 1)}
        for row in tables["job"]:
            row["seq"] = seqs[row["seq"]]
            for name, states in _MEANT.items():
                if row["state"] not in states:
                    row[name] = type(row[name])()  # 0, or no name
            row["fetch"], row["lease"] = new[row["fetch"]], new[row["lease"]]
            if row["batch"]:
                row["batch"] = "+".join(str(new.get(int(old), DEAD)) for old in row["batch"].split("+"))
        rows = tuple(tuple(tuple(row.values()) for row in tables[name]) for name in _CABIN)
        memory, offers = self._mean_moves(number, asked)
        return Meant(self._number_of((rows, memory)), holders, offers, seqs)

    def _mean_moves(self, number: int, asked: tuple[int, ...]) -> tuple[Any, dict[int, int]]:
        """The counts of moves, by their order; what went before all offers asked is forgotten."""
        offers, moves, gone = self._rows[number][1]
        if not asked:
            return (offers, 0, ()), {}
        noted = {offer: self._offer_of[offer].asked for offer in asked}
        least = min(noted.values())
        kept = {key: value for key, value in gone if value > least}
        order = {old: place for place, old in enumerate(sorted({*noted.values(), *kept.values(), moves}))}
        again = {}
        for offer, old in noted.items():
            held = copy.deepcopy(self._offer_of[offer])
            held.asked = order[old]
            again[offer] = self._keep(held)
        return (offers, order[moves], tuple(sorted((key, order[value]) for key, value in kept.items()))), again

    def _number_of(self, state: tuple[Rows, Any]) -> int:
        number = self._states.setdefault(state, len(self._rows))
        if number == len(self._rows):
            self._rows.append(state)
        return number

    # Time --------------------------------------------------------------------------------------------------------

    def later(self, number: int, seconds: float) -> int:
        """The state after some seconds in which nothing happened."""
        rows, rest = self._rows[number]
        moved = []
        for (name, columns), content in zip(self._tables.columns.items(), rows, strict=True):
            times = _TIMES.get(name)
            if times:
                content = tuple(
                    tuple(
                        max(value - seconds, NOW - times[column]) if column in times and value else value
                        for column, value in zip(columns, row, strict=True)
                    )
                    for row in content
                )
            moved.append(content)
        state = (tuple(moved), rest)
        return self._number_of(state)

    def waits(self, number: int, is_held: Callable[[Holder], bool]) -> list[float]:
        """The seconds until what time alone brings: a site's rest is over, a held lease is."""
        is_wanted = any(row["state"] == QUEUED and row["kind"] == "page" for row in self.table(number, "job"))
        is_free = not any(lease["site"] for lease in self.table(number, "lease"))
        found = [row["next"] - NOW for row in self.table(number, "site") if is_wanted and is_free]
        found += [
            lease["until"] - NOW + 0.5
            for lease in self.table(number, "lease")
            if is_held(Holder(lease["pid"], lease["start"]))
        ]
        return [wait for wait in found if wait > 0]

    # Verbs and duties --------------------------------------------------------------------------------------------

    def take(self, number: int, holder: Holder, held: tuple[int, ...], utc: float) -> tuple[int, Answer]:
        """TAKE: the jobs that go out."""
        frontier = self.world.frontier

        def step() -> Answer:
            self.clock.shift = utc - NOW
            frontier.keep_only(holder, held)
            return tuple(frontier.take(holder, 1))

        return self._run(number, ("take", holder, held, utc), step)

    def has_lease(self, number: int, holder: Holder) -> bool:
        """Whether a process holds a lease, as far as the scheduler knows."""
        return any(
            (lease["pid"], lease["start"]) == (holder.pid, holder.start) for lease in self.table(number, "lease")
        )

    def has_relinks(self, number: int) -> bool:
        """Whether there are relink jobs to take."""
        return any(row["kind"] == "relink" and row["state"] == QUEUED for row in self.table(number, "job"))

    def take_relinks(self, number: int, holder: Holder, held: tuple[int, ...]) -> tuple[int, Answer]:
        """TAKE of relink jobs."""
        frontier = self.world.frontier

        def step() -> Answer:
            frontier.keep_only(holder, held)
            return tuple(frontier.take_relinks(holder, 100))

        return self._run(number, ("relinks", holder, held), step)

    def done(self, number: int, lines: Answer, utc: float) -> tuple[int, tuple[int, ...]]:
        """DONE: the fetch numbers that are current."""

        def step() -> tuple[int, ...]:
            self.clock.shift = utc - NOW
            jobs = [jcf.parse_text(line) for line in lines]
            return tuple(self.world.frontier.done_all(jobs))

        return self._run(number, ("done", lines, utc), step)

    def stored(self, number: int, lines: Answer) -> int:
        """STORED."""

        def step() -> None:
            self.world.frontier.stored_all([jcf.parse_text(line) for line in lines])

        return self._run(number, ("stored", lines), step)[0]

    def died(self, number: int, holder: Holder) -> int:
        """A holder's pidfd says that it is dead."""
        return self._run(number, ("died", holder), lambda: self.world.frontier.keep_only(holder, ()))[0]

    def overdue(self, number: int) -> tuple[int, tuple[Holder, ...]]:
        """The round that looks after leases past their time: the holders to be killed."""
        if all(lease["until"] >= NOW for lease in self.table(number, "lease")):
            return number, ()

        def step() -> tuple[Holder, ...]:
            late = [lease for lease in self.world.frontier.leases.values() if lease.until < NOW]
            if not self.takes_from_the_living:
                return tuple(lease.holder for lease in late)
            for lease in late:
                self.world.frontier.end_lease(lease.id, is_clean=False)
            return ()

        return self._run(number, ("overdue",), step)

    def restarted(self, number: int, living: frozenset[Holder], boot_id: str) -> int:
        """The scheduler after its death, or after the machine's."""

        def step() -> None:
            frontier = self.world.frontier
            self.clock.boot_id = boot_id
            frontier.load()
            for lease in list(frontier.leases.values()):
                if lease.holder not in living:
                    frontier.end_lease(lease.id, is_clean=False)

        return self._run(number, ("restarted", living, boot_id), step)[0]

    def rescue(self, number: int, batches: frozenset[str]) -> int:
        """The round that looks for lost batches, until it believes what it sees."""
        if all(row["state"] != FETCHED or row["batch"] in batches for row in self.table(number, "job")):
            return number

        def step() -> None:
            self.batches = set(batches)
            self.duties.__dict__["_missing"] = {}
            for _ in range(LOST_LOOKS):
                self.duties.rescue()

        return self._run(number, ("rescue", batches), step)[0]

    # ADD ---------------------------------------------------------------------------------------------------------

    def sort(self, number: int, lines: Answer, utc: float) -> tuple[int, int]:
        """The first half of ADD: an offer that waits for idbd, or -1 where that is not needed."""
        frontier = self.world.frontier

        def step() -> int:
            self.clock.shift = utc - NOW
            offer = self.world.intake.sort(lines)
            assert [] == offer.refused
            if not offer.unknown:
                return -1
            frontier.offers += 1
            return self._keep(offer)

        return self._run(number, ("sort", lines, utc), step)

    def admit(self, number: int, offer: int, visits: Answer, utc: float) -> tuple[int, int]:
        """The second half: the offer, if idbd must be asked again, or -1 where the ADD is done."""

        def step() -> int:
            self.clock.shift = utc - NOW
            held = copy.deepcopy(self._offer_of[offer])
            self.world.intake.admit(held, visits)
            if held.unknown:
                return self._keep(held)
            self._close_offer()
            return -1

        return self._run(number, ("admit", offer, visits, utc), step)

    def drop(self, number: int) -> int:
        """An ADD that waits for idbd is given up."""
        return self._run(number, ("drop",), self._close_offer)[0]

    def _close_offer(self) -> None:
        frontier = self.world.frontier
        frontier.offers -= 1
        if not frontier.offers:
            frontier.gone.clear()

    def _keep(self, offer: Offer) -> int:
        offer = copy.deepcopy(offer)
        offer.new = offer.known = offer.outside = 0
        words = repr(offer)
        if words not in self._offers:
            self._offers[words] = len(self._offer_of)
            self._offer_of.append(offer)
        return self._offers[words]

    def questions(self, offer: int) -> Answer:
        """The lines of LOOKUP."""
        return tuple(self._offer_of[offer].questions())

    # What idbd is told -------------------------------------------------------------------------------------------

    def untold(self, number: int) -> tuple[tuple[int, str], ...]:
        """The rows that idbd is to hear of: their numbers and their results."""
        return tuple((row["seq"], row["result"]) for row in self.table(number, "job") if row["state"] == STORED)

    def told(self, number: int, rows: tuple[tuple[int, str], ...], utc: float) -> int:
        """idbd has answered."""
        frontier = self.world.frontier

        def step() -> None:
            self.clock.shift = utc - NOW
            numbers = {seq for seq, _ in rows}
            stored = [row for row in frontier.rows.stored(500) if row.seq in numbers]
            frontier.told(stored)

        return self._run(number, ("told", rows, utc), step)[0]


class Idb:
    """idbd, as a function."""

    def __init__(self) -> None:
        self._world = World(SETTINGS, always)
        self._tables = Tables(self._world.visits._db, _IDB)
        self._states: dict[Rows, int] = {}
        self._rows: list[Rows] = []
        self._memory: dict[Any, Any] = {}

    def close(self) -> None:
        self._world.close()

    def start(self) -> int:
        """The state in which nothing was visited."""
        return self._read()

    def _put_back(self, number: int) -> None:
        self._tables.load(self._rows[number])
        self._world.visits.rollback()  # what it remembers of the tables is forgotten

    def _read(self) -> int:
        rows = tuple(tuple(tuple(map(_without_events, row)) for row in table) for table in self._tables.dump())
        if rows not in self._states:
            self._states[rows] = len(self._rows)
            self._rows.append(rows)
        return self._states[rows]

    def lookup(self, number: int, questions: Answer, utc: float) -> Answer:
        """LOOKUP: the visits of those URLs that have one."""
        words = ("lookup", number, questions, utc)
        if words not in self._memory:
            self._put_back(number)
            self._world.clock.shift = utc - NOW
            self._memory[words] = tuple(at_once(self._world.look_up(list(questions))))
        found: Answer = self._memory[words]
        return found

    def remember(self, number: int, news: Answer, utc: float) -> int:
        """REMEMBER: the state after it."""
        words = ("remember", number, news, utc)
        if words not in self._memory:
            self._put_back(number)
            self._world.visits.remember([jcf.parse_text(line) for line in news], utc)
            self._world.visits.commit()
            self._memory[words] = self._read()
        found: int = self._memory[words]
        return found


def _without_events(value: Any) -> Any:
    """A visit's line without what is told of it and nobody decides by: its last outcomes."""
    return _EVENTS.sub("", value) if isinstance(value, str) else value


def utc_at(forced: int) -> float:
    """The calendar before and after the forced round began."""
    return NOON + ROUND_S * forced
