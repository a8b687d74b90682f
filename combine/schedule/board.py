"""The board: rows, sites and seeds as one state. Where every job and every site stands; no decision is made here.

Theory of operation. The rows on disk are the truth; what is in memory (sites, counts) is derived from them by `load`,
at the start and after any fault. All changes of a row go through `set_state`, `insert` and `delete`, which keep the
counts; all changes of a site end in `settle` (`roster`). Nothing is durable before the caller commits. Never does I/O
but through `rows`.
"""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Callable
from itertools import islice

from combine import hours
from combine.config import Settings
from combine.schedule import politeness, traps
from combine.schedule.clock import Clock, utc_text
from combine.schedule.exclusions import Exclusions
from combine.schedule.line import Line
from combine.schedule.roster import PART, Roster
from combine.schedule.rows import DEAD, QUEUED, Ready, Row, Rows, job_key
from combine.schedule.seeds import Seeds
from combine.schedule.sites import EMPTY, Site, Sites
from combine.schedule.visit import one_scope, with_event
from combine.urls import host_of, site_of
from formats import jcf
from formats.jcf import Job

#: Of a job's line these have a column of their own, or belong to one hand-out.
IN_COLUMNS = frozenset(
    "SCOPES HOSTS FETCH LEASE ADDR DELAY DEPTH NRT PRIO SINCE CHANGED SCOPE MAXDEPTH INCLUDE EXCLUDE LIMIT"
    " BUDGET REQUISITES REQUISITE".split()
)


#: How the block of a site begins whose robots.txt is redirected to another site.
ROBOTS_ELSEWHERE = "its robots.txt is read at"

#: Why a site rests outside the hours that its rule gives.
HOURS = "its site rule lets it be asked at other hours"

#: Characters of a reason that are kept: a sentence.
REASON_LENGTH = 300


class Board(Roster):
    """What there is to do, and what may be done now."""

    def __init__(
        self,
        rows: Rows,
        settings: Settings,
        clock: Clock,
        chance: random.Random,
        is_listed: Callable[[str, str], bool],
    ) -> None:
        self.rows, self.settings, self.clock, self.chance = rows, settings, clock, chance
        self.is_listed = is_listed
        self.exclusions = self.allowed = Exclusions()
        self.stalled = ""
        self.line = Line()
        self.epoch = 0
        self.outcomes: Counter[str] = Counter()  # of hand-outs since the start, as far as they are committed
        self.counted: Counter[str] = Counter()  # those since the last commit
        self.load()

    def commit(self) -> None:
        """Make durable what was changed, and count it."""
        self.rows.commit()
        self.outcomes.update(self.counted)
        self.counted.clear()

    def load(self) -> None:
        """Derive all that is in memory from the rows."""
        now = self.clock.boot()
        self.epoch += 1
        self.counted.clear()
        if self.rows.meta("boot") != self.clock.boot_id:
            self.rows.reboot(now)
            self.rows.set_meta("boot", self.clock.boot_id)
        self.number = int(self.rows.meta("number", "0"))
        self.gate = self.rows.meta("gate", "open")
        self.seeds = Seeds(self.rows)
        self.sites = Sites()
        self.runs = traps.Runs(self.settings.traps)
        self.same = self.rows.sites_trapped()
        self.relinks = [0] * 6
        self.offers = 0  # ADDs that wait for idbd
        self.moves = 0  # rows that came or went while an ADD waited
        self.gone: dict[tuple[int, int], int] = {}  # the keys of those that went, with the value of `moves` at that
        self.idle_since = now
        gc.disable()  # 200,000 sites that come at once are no garbage: to look for some takes a third of the time
        self.load_sites(now)
        gc.enable()

    def set_gate(self, word: str) -> None:
        """Open or pause."""
        self.gate = word
        self.rows.set_meta("gate", word)

    def instruct(self, site: Site, line: Job) -> None:
        """What the operator says of a site: its delay, and whether it is left alone."""
        if line.get("DELAY"):
            site.told = None if line.get("DELAY") == "default" else line.seconds("DELAY")
        if line.get("BLOCK"):
            site.shut = line.get("BLOCK") == "1"
            site.blocked = site.blocked if site.shut else 0.0
        self.save_site(site)

    def delay(self, site: Site) -> float:
        """The delay of a site now, in seconds."""
        host = site.host
        listed = self.is_listed(host, site.address)
        delay = politeness.base_delay(self.settings, host, site.told, site.asked, listed, site.auto)
        return politeness.with_crawl_delay(self.settings, host, delay, site.crawl) if site.crawl > delay else delay

    def tick(self) -> None:
        """Do what the passing of time brings: waits and blocks end, deferred rows are queued. Nobody holds a site."""
        self.doze()
        now = self.clock.boot()
        for row in self.rows.ripe(now, 1000):
            self.set_state(row, QUEUED)
            self.settle_row(row)
        if self.seeds.is_refilled:
            self.seeds.is_refilled = False
            parked = self.sites.parked()
            for start in range(0, len(parked), PART):
                for site in self.awaken(parked[start : start + PART]):
                    site.parked = False
                    self.settle(site)
                self.doze()
        for number in islice(self.sites.ripe(now), PART):
            self.settle(self.site(number))
        for site in self.sites.rested(now):
            self.settle(site)

    def next_event(self) -> float | None:
        """The boot time of the next thing that `tick` would do."""
        times = [time for time in (self.sites.next_wake(), self.rows.next_later()) if time is not None]
        return min(times) if times else None

    def use(self, settings: Settings) -> None:
        """Other settings are in effect from now on; what rests for a site rule's hours is looked at anew."""
        self.settings = settings
        # Asked of the table, for those that sleep: whoever blocks a site writes it.
        resting = "SELECT id FROM site WHERE reason = ? AND blocked > 0"
        for site in self.awaken(number for (number,) in self.rows.db.execute(resting, (HOURS,)).fetchall()):
            site.blocked = 0.0
            self.save_site(site)
            self.settle(site)

    def closed_for(self, site: Site) -> float:
        """Seconds until the hours begin in which a site rule lets a site be asked."""
        rule = self.settings.site_rule(site.host) if self.settings.site else None
        return hours.parse(rule.hours).closed_for(self.clock.utc()) if rule is not None and rule.hours else 0.0

    @property
    def has_rules(self) -> bool:
        """Whether there is anything by which a URL could be forbidden."""
        return bool(self.settings.site or self.exclusions or self.allowed.is_anything)

    def forbids(self, url: str) -> str:
        """Why a normalised URL is never asked, "" where it may be."""
        rule = self.settings.site_rule(host_of(url)) if self.settings.site else None
        if rule is not None and rule.blocked:
            return "a site rule blocks its host"
        if self.allowed.is_anything and not self.allowed.names(url):
            return "the allow file does not name it"
        return "the exclude file forbids it" if self.exclusions.names(url) else ""

    def counts_of(self, row: Row) -> list[int]:
        """The counters that a row is counted in."""
        return self.relinks if row.kind == "relink" else self.site(row.site).counts

    def set_state(self, row: Row, state: int, **columns: object) -> None:
        """Move a row to a state, and set columns with it."""
        self.rows.set_state(row.seq, state, columns)
        self.moved(row, state)

    def moved(self, row: Row, state: int) -> None:
        """A row was moved to a state, and is counted there now."""
        counts = self.counts_of(row)
        counts[row.state] -= 1
        counts[state] += 1
        self._count_errand(row.kind, row.state, row.site, -1)
        self._count_errand(row.kind, state, row.site, 1)
        row.state = state

    def _count_errand(self, kind: str, state: int, site: int, change: int) -> None:
        if kind == "robots" and state == QUEUED:
            self.site(site).errands += change

    def delete(self, row: Row) -> None:
        """Delete a row."""
        self.rows.change("DELETE FROM job WHERE seq = ?", row.seq)
        self.discount(row)

    def discount(self, row: Row) -> None:
        """A row was deleted."""
        self.counts_of(row)[row.state] -= 1
        self._count_errand(row.kind, row.state, row.site, -1)
        if self.offers:
            self.moves += 1
            self.gone[(row.site, row.h)] = self.moves

    def insert(
        self, url: str, kind: str, prio: int, depth: int, seed: int, since: str, line: str, waiting: str = ""
    ) -> None:
        """Queue a new job."""
        site = self.site_named(site_of(url), create=True)
        assert site is not None
        self.rows.insert(site.id, job_key(kind, url, waiting), kind, prio, depth, seed, since, line)
        self.moves += bool(self.offers)
        if kind == "relink":
            self.relinks[QUEUED] += 1
            return
        site.counts[QUEUED] += 1
        self._count_errand(kind, QUEUED, site.id, 1)
        site.parked = False
        self.settle(site)

    def insert_many(self, rows: list[tuple[str, int, str, int, int, int, str, str]]) -> None:
        """Queue new jobs of pages and sitemaps: site, key, kind, priority, depth, seed, since and line of each."""
        counts = Counter(row[0] for row in rows)
        numbers = self.numbers_of(counts)
        # To one that sleeps, and not without work, a queued row more changes nothing else.
        asleep = {name: state for name, number in numbers.items() if (state := self.sites.sleeps_in(number))}
        sites = self.sites_of(numbers, [name for name in counts if asleep.get(name, EMPTY) == EMPTY])
        numbers |= {site.name: site.id for site in sites}
        self.rows.insert_many([(numbers[row[0]], *row[1:]) for row in rows])
        self.moves += len(rows) * bool(self.offers)
        for name, state in asleep.items():
            if state != EMPTY:
                self.sites.add_asleep(numbers[name], state, counts[name])
        for site in sites:
            site.counts[QUEUED] += counts[site.name]
            site.parked = False
            self.settle(site)

    def trap(self, url: str, is_taken: bool = False) -> str:
        """The trap that is full and to which a URL belongs, "" where it may be taken; with `is_taken` it is counted."""
        limits = self.settings.traps
        found = traps.trap_of(url, int(utc_text(self.clock.utc())[:4]), limits)
        if found is None and not self.same:
            return ""
        site = self.site_named(site_of(url), create=found is not None and is_taken)
        if site is None:
            return ""
        taken = self.rows.trapped(site.id, found.pattern) if found is not None else 0
        if found is not None and taken >= traps.cap(found, limits):
            name = found.name
        elif site.id in self.same and self.rows.trapped(site.id, traps.kind_of(url).pattern):
            name = traps.SAME_CONTENT
        else:
            if found is not None and is_taken:
                self.rows.trap(site.id, found.pattern, taken + 1)
            return ""
        self.settle(site)
        return name

    def note_same(self, site: int, url: str, is_same: bool) -> None:
        """A page was stored, with a text that another page of its site has, or not."""
        found = self.runs.note(site, url, is_same)
        if found is not None:
            self.rows.trap(site, found.pattern, self.settings.traps.same_run)
            self.same.add(site)

    def scopes_now(self, row: Row | Ready) -> str:
        """For which scope, and with how many hops left, a row's links would be offered now."""
        if not row.seed:
            return ""
        seed = self.seeds.get(row.seed)
        return one_scope(seed.scope_id, seed.left(1 if row.kind == "sitemap" else row.depth))

    def next_number(self) -> int:
        """A number never used before, for a lease or a fetch; committed with what it numbers."""
        self.number += 1
        return self.number

    def settle_row(self, row: Row) -> None:
        """Put a row's site where its facts say it belongs."""
        if row.kind != "relink":
            self.settle(self.site(row.site))

    def block(self, site: Site, seconds: float, reason: str) -> None:
        """Nobody asks a site for some seconds; the longest of several blocks stands."""
        until = self.clock.boot() + min(seconds, politeness.DAY_S * 32)
        if until > site.blocked:
            site.blocked, site.reason = until, reason
            self.save_site(site)

    def die(self, row: Row, reason: str) -> None:
        """A row will not be tried any more; a replay or a seed revives it."""
        line = jcf.job(OUTCOME="failed", REASON=reason)
        self.bury(row, reason, with_event(row.events, self._event(line)))
        self.settle_row(row)

    def bury(self, row: Row, reason: str, events: str, **columns: object) -> None:
        """Make a row dead.

        A robots job goes altogether: the site that waits for it stays blocked for its day, and then asks anew.
        """
        if row.kind == "robots":
            self.delete(row)
        else:
            self.set_state(row, DEAD, fetch=0, lease=0, reason=reason[:REASON_LENGTH], events=events, **columns)

    def _event(self, line: Job) -> str:
        reason = ": ".join(filter(None, (line.get("REASON"), line.get("DETAIL"))))[:REASON_LENGTH]
        words = (utc_text(self.clock.utc()), line.get("OUTCOME"), line.get("STATUS") or "-", reason)
        return " ".join(words).strip().replace(";", ",")

    def give_back_page(self, row: Row) -> None:
        """A page that was handed out has no record: its run's budget gets it back."""
        if row.seed and row.kind == "page":
            self.seeds.spend(self.seeds.get(row.seed), -1)
