"""Handing out: which due sites go to a holder, with which of their jobs, and the lines that say so.

Theory of operation. A TAKE gets sites in turns: so many as will fill its answer, one after another. The rows of all of
them are read by one statement, judged, put into lines as text, and written by one statement for leases and one for
rows. What a look at each row would cost thousands of times is done once for all rows that are alike.

Rules that must hold, and where:

    sites take turns, and who had one last gets it again     `_due_for`
    what must not be asked any more is not handed out        `_judge`: excluded since, or its kind has ended as a trap
    a run's budget is never overdrawn                        `_within_budgets`, at the moment of leasing
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from combine.schedule import politeness, traps
from combine.schedule.board import HOURS
from combine.schedule.leases import Holder, Lease, Leases
from combine.schedule.rows import LEASED, QUEUED, Ready, Row
from combine.schedule.sites import DUE, UNRESOLVED, Site
from combine.services import MESSAGE_LINES

#: Due sites that may go looked at for one TAKE, in search of those that its holder had last; and due sites at all.
AFFINITY, LOOKED_AT = 64, 5_000
LOOKED_AT_ONCE = 100


@dataclass(slots=True)
class Turn:
    """A site whose turn it is: its delay, how many jobs may go with it at most, and which."""

    site: Site
    delay: float = 0.0
    size: int = 0
    rows: list[Ready] = field(default_factory=list)


@dataclass(slots=True)
class Answer:
    """What one TAKE gets, and what is to be written of it."""

    holder: Holder
    now: float
    lines: list[str] = field(default_factory=list)
    changes: list[tuple[int, int, str, int]] = field(default_factory=list)
    facts: dict[tuple[int | str, ...], tuple[str, str]] = field(default_factory=dict)

    @property
    def room(self) -> int:
        """How many more lines it holds."""
        return MESSAGE_LINES - len(self.lines)


class Handout(Leases):
    """The leases, and what goes out with them."""

    def take(self, holder: Holder, count: int) -> list[str]:
        """Lease up to `count` due sites to a holder; gives their jobs, grouped by lease, as many as an answer holds."""
        self.tick()
        now = self.clock.boot()
        if self.gate != "open" or self.stalled:
            return []
        is_probe = self.line.is_down()
        if is_probe:
            count = min(count, 1 if now >= self.line.next_probe() else 0)
        answer = Answer(holder, now)
        due = deque(self._due_for(holder, count, now))
        while due and answer.room:
            self._lease_all(self._next_turns(due, answer.room), answer)
        self._write(answer)
        if answer.lines and is_probe:
            self.line.probed(now)
        return answer.lines

    def take_relinks(self, holder: Holder, count: int) -> list[str]:
        """Lease relink jobs, which need no site."""
        rows = self.rows.relinks(count) if self.relinks[QUEUED] and self.gate == "open" else []
        if not rows:
            return []
        answer = Answer(holder, self.clock.boot())
        self._put(rows, self.open_lease(None, holder, 0.0, answer.now), self.relinks, answer)
        self._write(answer)
        return answer.lines

    # Which sites ------------------------------------------------------------------------------------------------

    def _due_for(self, holder: Holder, count: int, now: float) -> list[Turn]:
        """The sites to hand out: those at the front of the round, first those that this holder had last.

        A site that may not go now because of its address goes to the back: it must not hide those behind it. No more
        are looked at than will fill an answer.
        """
        if count <= 0:
            return []
        mine: list[Turn] = []
        others: list[Turn] = []
        who, lines = ("", str(holder.pid)), 0
        for site in self._due(holder, now):
            if site.address_until <= now:
                self.settle(site)
            elif closed := self.closed_for(site):
                self.block(site, closed, HOURS)
                self.settle(site)
            elif not self.may_share(site.host, site.address, holder, now):
                self.sites.move(site, DUE)
            else:
                turn = Turn(site)
                (mine if site.holder in who else others).append(turn)
                seen = len(mine) + len(others)
                lines += self._measure(turn) if seen > AFFINITY else 0
                if seen >= AFFINITY + count or lines >= MESSAGE_LINES:
                    break
        return [*mine, *others][:count]

    def _due(self, holder: Holder, now: float) -> Iterator[Site]:
        """The sites in the set `due`, as the round has them, but for those that sleep and need not be woken.

        Of a site that sleeps the name is not known: one that only its name lists waits for its address as others do.
        """
        numbers = list(islice(self.sites.members[DUE], LOOKED_AT))
        for start in range(0, len(numbers), LOOKED_AT_ONCE):
            part = numbers[start : start + LOOKED_AT_ONCE]
            goes = {number: self._asleep_goes(number, holder, now) for number in part}
            self.awaken(number for number, state in goes.items() if not state)
            for number, state in goes.items():
                if state:
                    self.sites.move_asleep(number, DUE, state)
                elif number in self.sites.by_id:
                    yield self.sites.by_id[number]

    def _asleep_goes(self, number: int, holder: Holder, now: float) -> str:
        """The set into which a due site goes without being woken, "" where it is awake, or must wake."""
        if number in self.sites.by_id:
            return ""
        address, until = self.sites.address_of(number, DUE)
        return UNRESOLVED if until <= now else "" if self.may_share("", address, holder, now) else DUE

    def _measure(self, turn: Turn) -> int:
        """Say how many jobs may go with a site at its delay; gives how many do, as far as its counts tell."""
        turn.delay = self.delay(turn.site)
        turn.size = politeness.lease_size(self.settings, turn.delay)
        return min(turn.size, turn.site.ready)

    def _next_turns(self, due: deque[Turn], room: int) -> list[Turn]:
        """The next sites that fill so many lines, as far as their counts tell, with their rows."""
        turns: list[Turn] = []
        left = room
        while due and left > 0:
            turn = due.popleft()
            left -= self._measure(turn) if not turn.size else min(turn.size, turn.site.ready)
            turns.append(turn)
        self._fill(turns)
        fitting = self._set_pace(turns, room)
        due.extendleft(reversed(turns[fitting:]))
        return turns[:fitting]

    # Which of their rows ----------------------------------------------------------------------------------------

    def first_ready(self, site: Site) -> Row | None:
        """The next row of a site that may go; None where there is none."""
        turn = Turn(site, size=1)
        self._fill([turn])
        return self.rows.row(turn.rows[0].seq) if self._within_budgets(turn) else None

    def _fill(self, turns: list[Turn]) -> None:
        """Read the next rows of some sites: all with one statement whose rows are no more than fit."""
        whole = {turn.site.id: turn for turn in turns if turn.site.ready <= turn.size}
        for turn in turns:
            turn.rows = [] if turn.site.id in whole else self.rows.ready(turn.site.id, turn.size, self.seeds.spent)
        for row in self.rows.ready_of(whole, self.seeds.spent):
            whole[row.site].rows.append(row)
        for turn in turns:
            self._judge(turn)

    def _judge(self, turn: Turn) -> None:
        """Rows that must not be asked any more give their places to others.

        Those that are excluded by now are dead; those whose kind has ended go, as later links of it are not taken.
        """
        site = turn.site
        if not self.has_rules and site.id not in self.same:
            return
        while turn.rows:
            forbidden = [(row.seq, why) for row in turn.rows if (why := self.forbids(row.url))]
            trapped = self._trapped(turn) if site.id in self.same else []
            if not forbidden and not trapped:
                return
            for row in self.rows.delete_many(trapped):
                self.discount(row)
            for number, why in forbidden:
                if number not in trapped:
                    self.die(self.rows.row(number), why)
            self.settle(site)
            turn.rows = self.rows.ready(site.id, turn.size, self.seeds.spent)

    def _trapped(self, turn: Turn) -> list[int]:
        """The numbers of those of a turn's rows that would not be taken now: pages of a kind that has ended.

        What the operator gave stays, and so does what has a record, or may lie in a batch.
        """
        ended: dict[str, bool] = {}
        found = []
        for row in turn.rows:
            if row.kind == "page" and row.depth > 0 and not row.fetch and not row.is_known:
                pattern = traps.kind_of(row.url).pattern
                if pattern not in ended:
                    ended[pattern] = self.rows.trapped(row.site, pattern) > 0
                if ended[pattern]:
                    found.append(row.seq)
        return found

    def _set_pace(self, turns: list[Turn], room: int) -> int:
        """The run of a site's first job sets its pace, and the pace how many go with it: mostly as many as before.

        Gives how many of these sites will fill so many lines.
        """
        short, count = [], 0
        while count < len(turns) and room > 0:
            turn, count = turns[count], count + 1
            site, asked = turn.site, self._pace(turn)
            if asked != site.asked:
                site.asked, size = asked, turn.size
                self._measure(turn)
                if turn.size > size and site.ready > size:
                    short.append(turn)
                turn.rows = turn.rows[: turn.size]
            room -= min(turn.size, site.ready)
        self._fill(short)
        return count

    def _pace(self, turn: Turn) -> str:
        """A robots job belongs to no run: it goes at the pace of its site's next job, or of the site that waits."""
        if not turn.rows:
            return turn.site.asked
        first = turn.rows[0]
        if first.seed:
            return self.seeds.get(first.seed).delay
        waiting = self.waits_for(first.line)
        return self.pace_of(*(site for site in (turn.site, waiting) if site is not None))

    def _within_budgets(self, turn: Turn) -> bool:
        """Keep those of a turn's rows that may go: their runs can pay for them, and their site is not blocked for them.

        Whether there are any; a site without rests until its run gets more.
        """
        site = turn.site
        is_blocked = site.blocked > self.clock.boot()
        left: dict[str, float] = {}
        chosen = []
        for row in turn.rows:
            if row.kind == "robots":
                chosen.append(row)
            elif not is_blocked:
                seed = self.seeds.get(row.seed)
                if not seed.budget:
                    chosen.append(row)
                elif left.setdefault(seed.budget, self.seeds.left(seed)) > 0:
                    left[seed.budget] -= row.kind == "page"
                    chosen.append(row)
        has_more = len(chosen) < len(turn.rows) and not is_blocked
        turn.rows = chosen
        if not chosen and has_more:  # a site before it took the last of the budget, and other runs have rows here, too
            self._fill([turn])
            self._set_pace([turn], MESSAGE_LINES)
            if turn.rows:
                return self._within_budgets(turn)
        if not chosen:
            site.parked = not is_blocked
            self.settle(site)
        return bool(chosen)

    # The leases and their lines ---------------------------------------------------------------------------------

    def _lease_all(self, turns: Iterable[Turn], answer: Answer) -> None:
        for turn in turns:
            if answer.room and self._within_budgets(turn):
                turn.rows = turn.rows[: answer.room]
                self._lease(turn, answer)

    def _lease(self, turn: Turn, answer: Answer) -> None:
        site, rows, first = turn.site, turn.rows, len(answer.lines)
        if any(row.nrt for row in rows):
            # What failed before goes last: a failure that speaks of the site ends the lease, and one bad page must not
            # be all that is ever tried.
            rows.sort(key=lambda row: row.kind == "page" and row.nrt > 0)
        self._put(rows, self.open_lease(site, answer.holder, turn.delay, answer.now), site.counts, answer)
        site.errands -= sum(row.kind == "robots" for row in rows)
        host = site.host
        budget = politeness.day_budget(self.settings, host, self.is_listed(host, site.address))
        if min(budget) < politeness.NO_BUDGET:
            answer.lines[first] += f' ROOM="{self._room(site, *budget)}"'
        if site.refusals:
            answer.lines[first] += f' REFUSALS="{site.refusals}"'

    def _room(self, site: Site, requests: int, size: int) -> str:
        """What the site's day still allows: its budget, less what it was asked for since midnight."""
        if site.day == int(self.clock.utc() // politeness.DAY_S):
            requests, size = requests - site.requests, size - site.bytes
        return f"{max(requests, 0)} {max(size, 0)}"

    def _put(self, rows: list[Ready], lease: Lease, counts: list[int], answer: Answer) -> None:
        """Rows go out: their lines are what they hold, and what this hand-out adds to it."""
        place = (f' ADDR="{lease.address}"' if lease.address else "") + (
            f' DELAY="{lease.delay:g}"' if lease.site else ""
        )
        end = f' LEASE="{lease.id}" FETCH="'
        fetch, alike, scopes, facts = self.number, None, "", ""
        for row in rows:
            if row.alike != alike:
                alike = row.alike
                scopes, facts = answer.facts.get(alike) or self._learn_facts(row, answer)
            fetch += 1
            answer.changes.append((fetch, lease.id, scopes, row.seq))
            answer.lines.append(f'{row.line}{facts}{end}{fetch}"{place}')
        self.number = fetch
        pages = Counter(row.seed for row in rows if row.kind == "page")
        counts[QUEUED] -= len(rows)
        counts[LEASED] += len(rows)
        for seed, count in pages.items():
            if seed:
                self.seeds.spend(self.seeds.get(seed), count)

    def _learn_facts(self, row: Ready, answer: Answer) -> tuple[str, str]:
        """Scopes of a row, and what a hand-out says beside its line; the same for all rows that are alike in these."""
        scopes = self.scopes_now(row)
        seed = self.seeds.get(row.seed) if row.seed else None
        facts = (
            (f' SCOPES="{scopes}"' if scopes else "")
            + (f' HOSTS="{seed.hosts}"' if seed and seed.hosts else "")
            + (' REQUISITES="1"' if seed and seed.scope.has_requisites else "")
            + (f' KIND="{row.kind}"' if row.kind != "page" else "")
            + f' DEPTH="{row.depth}"'
            + (f' PRIO="{row.prio}"' if row.prio else "")
            + (f' SINCE="{row.since}"' if row.since else "")
            + (f' NRT="{row.nrt}"' if row.nrt else "")
        )
        answer.facts[row.alike] = scopes, facts
        return scopes, facts

    def _write(self, answer: Answer) -> None:
        """Write what went out; the lease that a number names is committed with it."""
        if answer.changes:
            self.rows.lease(answer.changes)
        self.save_leases()
