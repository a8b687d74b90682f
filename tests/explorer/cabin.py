"""The real scheduler as a function: a state and an operation give a state and an answer.

Its database is small here, so a state is the rows of all tables (and the little that it knows beyond them: the offers
that wait for idbd). An operation puts a state back, runs the real code, commits, and reads the rows
again. States have numbers, and what was run once is remembered: however many ways lead to a state of the whole system,
the real code runs once for each state of the scheduler and each message to it.

Time: the boot clock always reads `NOW`, and when time passes the times in the rows become smaller, so that two states
that differ by their age only are one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from combine.schedule.duties import LOST_LOOKS, Duties, Outside
from combine.schedule.intake import Offer
from combine.schedule.leases import Holder
from combine.schedule.rows import FETCHED, QUEUED, STORED
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.world import FakeClock, World, always
from tests.explorer.tables import NOW, SETTINGS, Answer, Rows, Tables

#: The tables of the scheduler of which something depends.
TABLES = ("meta", "site", "scope", "seed", "budget", "lease", "job")

#: What of a table counts in boot time: the column, and how far in the past it still matters.
_TIMES = {"site": {"next": 0.0, "blocked": 0.0}, "lease": {"until": 1.0}, "job": {"later": 0.0}}

#: The rows of all tables, and what waits for idbd: offers, moves, the rows that went.
Content = tuple[Rows, Any]


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
        self._tables = Tables(self.world.rows.db, TABLES)
        self._states: dict[Content, int] = {}
        self._rows: list[Content] = []
        self._offers: dict[str, int] = {}
        self._offer_of: list[Offer] = []
        self._memory: dict[Any, tuple[int, Any]] = {}
        self._tables_of: dict[tuple[int, str], list[dict[str, Any]]] = {}
        self._holders: dict[int, tuple[Holder, ...]] = {}
        self.takes_from_the_living = False

    def close(self) -> None:
        self.world.close()

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

    def ask(self, number: int, words: tuple[Any, ...], step: Callable[[], Any]) -> tuple[int, Any]:
        """Do something in a state; gives the state after it, and the answer. What has the same words is done once."""
        known = self._memory.get((number, words))
        if known is None:
            self._put_back(number)
            answer = step()
            self.world.frontier.commit()
            known = self._memory[number, words] = (self._read(), answer)
        return known

    def content(self, number: int) -> Content:
        """A state."""
        return self._rows[number]

    def columns(self, name: str) -> list[str]:
        """The columns of a table."""
        return self._tables.columns[name]

    def offer(self, number: int) -> Offer:
        """An offer."""
        return self._offer_of[number]

    def table(self, number: int, name: str) -> list[dict[str, Any]]:
        """A table's rows in a state."""
        known = self._tables_of.get((number, name))
        if known is None:
            columns, content = self._tables.columns[name], self._rows[number][0][TABLES.index(name)]
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

    def number_of(self, state: Content) -> int:
        """The number of a state with these rows, and of what waits for idbd."""
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
        return self.number_of(state)

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

        return self.ask(number, ("take", holder, held, utc), step)

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

        return self.ask(number, ("relinks", holder, held), step)

    def done(self, number: int, lines: Answer, utc: float) -> tuple[int, tuple[int, ...]]:
        """DONE: the fetch numbers that are current."""

        def step() -> tuple[int, ...]:
            self.clock.shift = utc - NOW
            jobs = [jcf.parse_text(line) for line in lines]
            return tuple(self.world.frontier.done_all(jobs))

        return self.ask(number, ("done", lines, utc), step)

    def stored(self, number: int, lines: Answer) -> int:
        """STORED."""

        def step() -> None:
            self.world.frontier.stored_all([jcf.parse_text(line) for line in lines])

        return self.ask(number, ("stored", lines), step)[0]

    def died(self, number: int, holder: Holder) -> int:
        """A holder's pidfd says that it is dead."""
        return self.ask(number, ("died", holder), lambda: self.world.frontier.keep_only(holder, ()))[0]

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

        return self.ask(number, ("overdue",), step)

    def restarted(self, number: int, living: frozenset[Holder], boot_id: str) -> int:
        """The scheduler after its death, or after the machine's."""

        def step() -> None:
            frontier = self.world.frontier
            self.clock.boot_id = boot_id
            frontier.load()
            for lease in list(frontier.leases.values()):
                if lease.holder not in living:
                    frontier.end_lease(lease.id, is_clean=False)

        return self.ask(number, ("restarted", living, boot_id), step)[0]

    def rescue(self, number: int, batches: frozenset[str]) -> int:
        """The round that looks for lost batches, until it believes what it sees."""
        if all(row["state"] != FETCHED or row["batch"] in batches for row in self.table(number, "job")):
            return number

        def step() -> None:
            self.batches = set(batches)
            self.duties.__dict__["_missing"] = {}
            for _ in range(LOST_LOOKS):
                self.duties.rescue()

        return self.ask(number, ("rescue", batches), step)[0]

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
            return self.keep(offer)

        return self.ask(number, ("sort", lines, utc), step)

    def admit(self, number: int, offer: int, visits: Answer, utc: float) -> tuple[int, int]:
        """The second half: the offer, if idbd must be asked again, or -1 where the ADD is done."""

        def step() -> int:
            self.clock.shift = utc - NOW
            held = copy.deepcopy(self._offer_of[offer])
            self.world.intake.admit(held, visits)
            if held.unknown:
                return self.keep(held)
            self._close_offer()
            return -1

        return self.ask(number, ("admit", offer, visits, utc), step)

    def drop(self, number: int) -> int:
        """An ADD that waits for idbd is given up."""
        return self.ask(number, ("drop",), self._close_offer)[0]

    def _close_offer(self) -> None:
        frontier = self.world.frontier
        frontier.offers -= 1
        if not frontier.offers:
            frontier.gone.clear()

    def keep(self, offer: Offer) -> int:
        """The number of an offer."""
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

        return self.ask(number, ("told", rows, utc), step)[0]
