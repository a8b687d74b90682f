"""The frontier: rows, sites, seeds and leases as one state, and what TAKE, DONE and STORED do to it.

Theory of operation. The rows on disk are the truth; what is in memory (sites, counts, leases) is derived from them by `load`, at the start
and after any fault. Each method makes one step of a URL's life (docs/life-of-a-url.md) inside the open transaction; the caller commits
before it answers. Rules that must hold, and where:

    a row lives until its page is stored        `stored` marks, `told` deletes, nothing else does
    nothing is taken from the living            `end_lease` is called for an END, a lease not named, a dead holder; never for age
    fetch numbers fence                         every step looks its row up by FETCH
    after an unclean end a site rests           `end_lease`: one full delay from now

What ADD does lies in `intake`, what STAT, SITE and WHY say in `report`. Never does I/O but through `rows`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from combine.config import Settings
from combine.schedule import politeness
from combine.schedule.clock import Clock, utc_text
from combine.schedule.line import Line
from combine.schedule.rows import DEAD, DEFERRED, FETCHED, LEASED, QUEUED, STORED, Row, Rows, job_key
from combine.schedule.scope import Exclusions
from combine.schedule.seeds import UNLIMITED, Seeds
from combine.schedule.sites import DUE, EMPTY, UNRESOLVED, Site, Sites
from combine.schedule.visits import EVENTS, scopes_text
from combine.urls import site_of
from formats import jcf
from formats.jcf import Job

#: Due sites looked at for one TAKE, in search of those that its holder had last.
AFFINITY = 64

#: Look-ups that say "no such name", in a row, after which a site's rows are dead.
NO_SUCH_NAME = 3

#: Of a job's line these have a column of their own, or belong to one hand-out.
IN_COLUMNS = frozenset(
    "SCOPES FETCH LEASE ADDR DELAY DEPTH NRT PRIO SINCE SCOPE MAXDEPTH INCLUDE EXCLUDE LIMIT BUDGET".split()
)


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that may hold leases: its pid, and its start time in clock ticks, so that a pid used again is another."""

    pid: int
    start: int


@dataclass(slots=True)
class Lease:
    """A site handed whole to one holder. A lease of relink jobs has site 0."""

    id: int
    site: int
    holder: Holder
    until: float
    delay: float
    address: str = ""
    killed: bool = False


class Frontier:
    """The scheduler's whole state. One process owns it."""

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
        self.exclusions = Exclusions()
        self.stalled = ""
        self.line = Line()
        self.epoch = 0
        self.outcomes: Counter[str] = Counter()  # of hand-outs since the start
        self.load()

    def load(self) -> None:
        """Derive all that is in memory from the rows."""
        now = self.clock.boot()
        self.epoch += 1
        if self.rows.meta("boot") != self.clock.boot_id:
            self.rows.reboot(now)
            self.rows.set_meta("boot", self.clock.boot_id)
        self.number = int(self.rows.meta("number", "0"))
        self.gate = self.rows.meta("gate", "open")
        self.seeds = Seeds(self.rows)
        self.sites = Sites()
        self.relinks = [0] * 6
        self.leases: dict[int, Lease] = {}
        self.addresses: dict[str, tuple[int, Holder | None, float]] = {}  # leases, their holder, end of the last
        self.offers = 0  # ADDs that wait for idbd
        self.deleted: set[tuple[int, int]] = set()  # keys of rows that went meanwhile
        self.idle_since = now
        self._load_sites()
        self._load_leases()
        for site in list(self.sites):
            self.sites.settle(site, now)

    def _load_sites(self) -> None:
        counts = self.rows.counts()
        for state, count in counts.pop(0, {}).items():
            self.relinks[state] = count
        for number, by_state in counts.items():
            site = self._read_site("id = ?", number)
            assert site is not None, "a row's site is in the site table"
            for state, count in by_state.items():
                site.counts[state] = count
            self.sites.enter(site)
        for number, count in self.rows.errands():
            self.sites.by_id[number].errands = count

    def _load_leases(self) -> None:
        for number, site_id, pid, start, boot, until, delay, address, asked in self.rows.leases():
            lease = Lease(number, site_id, Holder(pid, start), until, delay, address)
            self.leases[number] = lease
            if site_id:
                site = self.site(site_id)
                site.lease, site.asked = number, asked
                leases, _, ended = self.addresses.get(address, (0, None, 0.0))
                self.addresses[address] = (leases + 1, lease.holder, ended)
            if boot != self.clock.boot_id:
                self.end_lease(number, is_clean=False)

    # Sites ------------------------------------------------------------------------------------------------------

    def site(self, number: int) -> Site:
        """A site by its number, taken into memory if it is not."""
        site = self.sites.by_id.get(number) or self._read_site("id = ?", number)
        assert site is not None, "a row's site is in the site table"
        if number not in self.sites.by_id:
            self.sites.enter(site)
        return site

    def site_named(self, name: str, create: bool = False) -> Site | None:
        """A site by its name, taken into memory; None where nothing is known of it."""
        site = self.sites.by_name.get(name)
        if site is not None:
            return site
        site = self._read_site("name = ?", name)
        if site is None and create:
            self.rows.change("INSERT INTO site(name) VALUES (?)", name)
            site = self._read_site("name = ?", name)
        if site is not None:
            self.sites.enter(site)
        return site

    def _read_site(self, where: str, value: object) -> Site | None:
        row = self.rows.db.execute(
            "SELECT id, name, told, auto, crawl, next, shut, blocked, reason, failures, refusals, day, requests, bytes, holder"
            f" FROM site WHERE {where}",
            (value,),
        ).fetchone()
        if row is None:
            return None
        names = "id name told auto crawl next shut blocked reason failures refusals day requests bytes holder".split()
        site = Site(**dict(zip(names, row, strict=True)))
        site.shut = bool(site.shut)
        return site

    def save_site(self, site: Site) -> None:
        """Write what must survive of a site: its pace, its blocks, when it may be asked next."""
        now = self.clock.boot()
        self.rows.change(
            "UPDATE site SET told=?, auto=?, crawl=?, next=?, rest=?, shut=?, blocked=?, block_s=?, reason=?, failures=?,"
            " refusals=?, day=?, requests=?, bytes=?, holder=? WHERE id=?",
            site.told, site.auto, site.crawl, site.next, max(site.next - now, 0), site.shut, site.blocked,
            max(site.blocked - now, 0), site.reason, site.failures, site.refusals, site.day, site.requests, site.bytes,
            site.holder, site.id,
        )  # fmt: skip

    def delay(self, site: Site) -> float:
        """The delay of a site now, in seconds."""
        listed = self.is_listed(site.host, site.address)
        delay = politeness.base_delay(self.settings, site.host, site.told, site.asked, listed)
        if site.auto is not None and site.told is None and politeness.is_auto(self.settings, site.asked, listed):
            delay = site.auto
        return politeness.with_crawl_delay(self.settings, site.host, delay, site.crawl)

    def settle(self, site: Site) -> None:
        """Put a site where its facts say it belongs; one without rows, whose rest is over, leaves memory."""
        now = self.clock.boot()
        self.sites.settle(site, now)
        is_idle = site.state == EMPTY and not any(site.counts) and not site.lease
        if is_idle and site.next <= now and site.blocked <= now and not site.resolving:
            self.sites.leave(site)

    def tick(self) -> None:
        """Do what the passing of time brings: end waits and blocks, queue deferred rows."""
        now = self.clock.boot()
        for row in self.rows.ripe(now, 1000):
            self.set_state(row, QUEUED)
            self._settle_row(row)
        if self.seeds.is_refilled:
            self.seeds.is_refilled = False
            for site in [site for site in self.sites if site.parked]:
                site.parked = False
                self.settle(site)
        for site in list(self.sites.ripe(now)):
            self.settle(site)

    def next_event(self) -> float | None:
        """The boot time of the next thing that `tick` would do."""
        times = [time for time in (self.sites.next_wake(), self.rows.next_later()) if time is not None]
        return min(times) if times else None

    # Rows -------------------------------------------------------------------------------------------------------

    def counts_of(self, row: Row) -> list[int]:
        """The counters that a row is counted in."""
        return self.relinks if row.kind == "relink" else self.site(row.site).counts

    def set_state(self, row: Row, state: int, **columns: object) -> None:
        """Move a row to a state, and set columns with it."""
        names = "".join(f", {name} = ?" for name in columns)
        self.rows.change(f"UPDATE job SET state = ?{names} WHERE seq = ?", state, *columns.values(), row.seq)
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
        self.counts_of(row)[row.state] -= 1
        self._count_errand(row.kind, row.state, row.site, -1)
        if self.offers:
            self.deleted.add((row.site, row.h))

    def insert(
        self, url: str, kind: str, prio: int, depth: int, seed: int, since: str, line: str, waiting: str = ""
    ) -> None:
        """Queue a new job."""
        site = self.site_named(site_of(url), create=True)
        assert site is not None
        self.rows.insert(site.id, job_key(kind, url, waiting), kind, prio, depth, seed, since, line)
        if kind == "relink":
            self.relinks[QUEUED] += 1
            return
        site.counts[QUEUED] += 1
        self._count_errand(kind, QUEUED, site.id, 1)
        site.parked = False
        self.settle(site)

    def next_number(self) -> int:
        """A number never used before, for a lease or a fetch; committed with what it numbers."""
        self.number += 1
        return self.number

    # TAKE -------------------------------------------------------------------------------------------------------

    def take(self, holder: Holder, count: int) -> list[Job]:
        """Lease up to `count` due sites to a holder; gives their jobs, grouped by lease."""
        self.tick()
        now = self.clock.boot()
        if self.gate != "open" or self.stalled:
            return []
        if self.line.is_down(now):
            count = 1 if self.sites.members[DUE] and self.line.may_probe(now) else 0
        jobs: list[Job] = []
        for site in self._due_for(holder, count, now):
            jobs += self._lease(site, holder, now)
        self.rows.set_meta("number", str(self.number))
        return jobs

    def take_site(self, holder: Holder, name: str) -> Lease | None:
        """Lease one site without a job (`try`); None while it may not be asked. Raises nothing."""
        site = self.site_named(name, create=True)
        assert site is not None
        now = self.clock.boot()
        if site.lease or site.shut or site.blocked > now or site.next > now:
            return None
        lease = self._open_lease(site, holder, self.delay(site), now)
        self.rows.set_meta("number", str(self.number))
        return lease

    def take_relinks(self, holder: Holder, count: int) -> list[Job]:
        """Lease relink jobs, which need no site."""
        rows = self.rows.relinks(count) if self.relinks[QUEUED] and self.gate == "open" else []
        if not rows:
            return []
        lease = self._open_lease(None, holder, 0.0, self.clock.boot())
        jobs = [self._hand_out(row, lease) for row in rows]
        self.rows.set_meta("number", str(self.number))
        return jobs

    def _due_for(self, holder: Holder, count: int, now: float) -> list[Site]:
        """The sites to hand out: those at the front of the round, first those that this holder had last."""
        near = list(islice(self.sites.members[DUE].values(), AFFINITY + count)) if count > 0 else []
        mine = str(holder.pid)
        near.sort(key=lambda site: site.holder not in ("", mine))
        chosen: list[Site] = []
        for site in near:
            if len(chosen) == count:
                break
            if site.address_until <= now:
                self.settle(site)
            elif self._may_share(site, holder, now):
                chosen.append(site)
        return chosen

    def _may_share(self, site: Site, holder: Holder, now: float) -> bool:
        """Sites on one address go to one holder at a time, who spaces them; then the address rests."""
        leases, owner, ended = self.addresses.get(site.address, (0, None, 0.0))
        if leases:
            return owner == holder or self._address_delay(site) == 0
        return now >= ended + self._address_delay(site)

    def _address_delay(self, site: Site) -> float:
        return 0.0 if self.is_listed(site.host, site.address) else self.settings.politeness.address_delay_s

    def _lease(self, site: Site, holder: Holder, now: float) -> list[Job]:
        rows = self._ready(site, 1)
        if not rows:
            return []
        seed = self.seeds.get(rows[0].seed) if rows[0].seed else None
        site.asked = seed.delay if seed else ""
        delay = self.delay(site)
        size = politeness.lease_size(self.settings, delay)
        if size > 1:
            rows = self._ready(site, size)
        lease = self._open_lease(site, holder, delay, now)
        return [self._hand_out(row, lease) for row in rows]

    def _ready(self, site: Site, count: int) -> list[Row]:
        """The next rows of a site that may go: not excluded since, and within their runs' budgets."""
        while True:
            rows = self.rows.ready(site.id, count, self.seeds.spent)
            forbidden = [row for row in rows if self.exclusions.forbids(jcf.parse_text(row.line).url)]
            for row in forbidden:
                self.die(row, "excluded by the exclude file")
            if not forbidden:
                break
        allowed: dict[int, float] = {}
        chosen = []
        is_blocked = site.blocked > self.clock.boot()
        for row in rows:
            if is_blocked and row.kind != "robots":
                continue
            left = allowed.setdefault(row.seed, self.seeds.left(self.seeds.get(row.seed)) if row.seed else UNLIMITED)
            if left > 0 or row.kind != "page":
                allowed[row.seed] = left - 1
                chosen.append(row)
        if not chosen:
            site.parked = not is_blocked
            self.settle(site)
        return chosen

    def _open_lease(self, site: Site | None, holder: Holder, delay: float, now: float) -> Lease:
        until = now + politeness.lease_time(self.settings, delay)
        lease = Lease(self.next_number(), site.id if site else 0, holder, until, delay, site.address if site else "")
        self.rows.change(
            "INSERT INTO lease VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            lease.id, lease.site, holder.pid, holder.start, self.clock.boot_id, until, delay,
            lease.address, site.asked if site else "",
        )  # fmt: skip
        self.leases[lease.id] = lease
        if site is not None:
            site.lease, site.holder = lease.id, str(holder.pid)
            leases, _, ended = self.addresses.get(site.address, (0, None, 0.0))
            self.addresses[site.address] = (leases + 1, holder, ended)
            self.settle(site)
        return lease

    def _hand_out(self, row: Row, lease: Lease) -> Job:
        row.fetch, row.lease = self.next_number(), lease.id
        self.set_state(row, LEASED, fetch=row.fetch, lease=lease.id)
        if row.seed and row.kind == "page":
            self.seeds.spend(self.seeds.get(row.seed), 1)
        line = jcf.parse_text(row.line)
        if row.seed:
            seed = self.seeds.get(row.seed)
            line = line.having(SCOPES=scopes_text({str(seed.scope_id): seed.left(row.depth)}))
        return line.having(
            KIND=row.kind if row.kind != "page" else None,
            DEPTH=row.depth,
            PRIO=row.prio or None,
            SINCE=row.since or None,
            NRT=row.nrt or None,
            LEASE=lease.id,
            FETCH=row.fetch,
            ADDR=lease.address or None,
            DELAY=f"{lease.delay:g}" if lease.site else None,
        )

    # DONE -------------------------------------------------------------------------------------------------------

    def keep_only(self, holder: Holder, held: Iterable[int]) -> None:
        """A holder names the leases it still has; those it does not name are over."""
        named = set(held)
        for lease in [lease for lease in self.leases.values() if lease.holder == holder and lease.id not in named]:
            self.end_lease(lease.id, is_clean=False)

    def end_lease(self, number: int, is_clean: bool) -> None:
        """A lease is over: its rows without an outcome are queued again, and its site rests one delay from now."""
        lease = self.leases.pop(number, None)
        if lease is None:
            return
        self.rows.change("DELETE FROM lease WHERE id = ?", number)
        for row in self.rows.of_lease(number):
            self._give_back(row, keeps_number=not is_clean)
        if not lease.site:
            return
        now = self.clock.boot()
        site = self.site(lease.site)
        site.lease = 0
        delay = self.delay(site) if is_clean else lease.delay
        site.next = max(site.next, now + politeness.rest(self.settings, site.host, delay, site.crawl))
        leases, owner, _ = self.addresses.get(lease.address, (1, None, 0.0))
        self.addresses[lease.address] = (leases - 1, owner if leases > 1 else None, now)
        if len(self.addresses) > 10_000:
            self.addresses = {key: value for key, value in self.addresses.items() if value[0] or value[2] > now - 60}
        self.save_site(site)
        self.settle(site)

    def _give_back(self, row: Row, keeps_number: bool) -> None:
        """Queue a row that was handed out and not asked. After an unclean end its number still counts: the harvest may yet come."""
        self._give_back_page(row)
        self.set_state(row, QUEUED, lease=0, fetch=row.fetch if keeps_number else 0)
        if row.kind != "relink":
            self.site(row.site).parked = False

    def _give_back_page(self, row: Row) -> None:
        if row.seed and row.kind == "page":
            self.seeds.spend(self.seeds.get(row.seed), -1)

    def done(self, line: Job) -> bool:
        """One outcome of a hand-out; true where its harvest, in a batch, is the row's current one."""
        row = self.rows.fetched_as(line.fetch)
        is_current = False
        if row is not None and row.state in (QUEUED, DEFERRED, LEASED, FETCHED):
            is_current = self._done(row, line)
        if line.get("END"):
            self.end_lease(line.number("LEASE"), is_clean=True)
        return is_current

    def _done(self, row: Row, line: Job) -> bool:
        outcome = line.get("OUTCOME")
        if row.state == LEASED and row.kind != "relink":
            self._learn(self.site(row.site), line)
        if not outcome:
            if row.state == LEASED:
                self._unasked(row, line)
            return False
        if row.state == LEASED:
            self.outcomes[outcome] += 1
        self.idle_since = self.clock.boot() if outcome != "failed" else self.idle_since
        if row.kind == "robots" and outcome != "failed":
            self.answer_robots(row)
        elif outcome == "failed":
            self.fail(row, line)
        elif row.state == FETCHED:
            return True
        else:
            if row.state != LEASED and row.seed and row.kind == "page":
                self.seeds.spend(self.seeds.get(row.seed), 1)
            self.set_state(row, FETCHED, batch=line.get("BATCH"), at=self.clock.boot(), later=0)
            self._settle_row(row)
            return True
        return False

    def _unasked(self, row: Row, line: Job) -> None:
        """A job is handed back; a seed without a scheme whose https cannot be reached at all is asked by http."""
        job = jcf.parse_text(row.line)
        if job.get("ELSE") and line.get("DETAIL") in politeness.SITE_FAILURES:
            self._give_back_page(row)
            self._try_else(row, job)
        else:
            self._give_back(row, keeps_number=False)

    def _settle_row(self, row: Row) -> None:
        if row.kind != "relink":
            self.settle(self.site(row.site))

    def answer_robots(self, row: Row) -> None:
        """A robots job is answered: FOR's copy is written, so its row goes and the site that waited is free, in one commit."""
        waiting = self.site_named(site_of(jcf.parse_text(row.line).get("FOR")))
        self.delete(row)
        self._settle_row(row)
        if waiting is not None:
            waiting.blocked, waiting.reason = 0.0, ""
            self.save_site(waiting)
            self.settle(waiting)

    def _learn(self, site: Site, line: Job) -> None:
        """What an outcome says of its site: pace, failures, refusals, what it has been asked for today."""
        now, outcome, status = self.clock.boot(), line.get("OUTCOME"), line.number("STATUS")
        day = int(self.clock.utc() // politeness.DAY_S)
        if site.day != day:
            site.day, site.requests, site.bytes = day, 0, 0
        if line.get("DELAY"):
            site.crawl = line.seconds("DELAY")
        after = line.seconds("AFTER")
        if not outcome:
            if after:
                self.block(site, after, line.get("REASON"))
            return
        site.requests += 1
        site.bytes += line.number("SIZE")
        self.line.note(site.id, outcome == "failed" and line.get("REASON") in politeness.LINE_FAILURES, now)
        listed = self.is_listed(site.host, site.address)
        if outcome != "denied" and politeness.is_auto(self.settings, site.asked, listed):
            old = self.delay(site) if site.auto is None else site.auto
            site.auto = politeness.adapted(
                self.settings.politeness, old, line.number("TOOK") / 1000, 200 <= status < 300
            )
        self._learn_refusal(site, outcome, status)
        self._learn_failure(site, outcome, line, after, now)
        if not listed:
            self._learn_budget(site, now)

    def _learn_refusal(self, site: Site, outcome: str, status: int) -> None:
        if outcome == "refused" and status in (401, 403, 451):
            site.refusals += 1
            if site.refusals % max(self.settings.politeness.refusals, 1) == 0:
                rest = politeness.refusal_rest(self.settings.politeness, site.refusals)
                self.block(site, rest, f"{site.refusals} refusals in a row")
        elif outcome in ("ok", "not-modified"):
            site.refusals = 0

    def _learn_failure(self, site: Site, outcome: str, line: Job, after: float, now: float) -> None:
        if outcome != "failed":
            site.failures = site.failures // 2 if outcome in ("ok", "not-modified", "redirect") else site.failures
            if after:
                site.next = max(site.next, now + after)
            return
        reason = line.get("REASON")
        if self.line.is_down(now):
            return
        if after:
            self.block(site, after, f"Retry-After of {after:g} s")
        elif reason in politeness.SITE_FAILURES or line.number("STATUS") in (429, 503):
            site.failures += 1
            wait = politeness.back_off(self.settings.politeness, site.failures, self.chance)
            self.block(site, wait, f"{site.failures} failures in a row, the last by {reason or line.get('STATUS')}")

    def _learn_budget(self, site: Site, now: float) -> None:
        rule = self.settings.site_rule(site.host)
        requests = (rule and rule.requests_day) or self.settings.politeness.site_requests_day
        size = (rule and rule.bytes_day) or self.settings.politeness.site_bytes_day
        if site.requests >= requests or site.bytes >= size:
            rest = politeness.DAY_S - self.clock.utc() % politeness.DAY_S
            self.block(site, rest, f"asked for {site.requests} pages and {site.bytes} bytes today")

    def block(self, site: Site, seconds: float, reason: str) -> None:
        """Nobody asks a site for some seconds; the longest of several blocks stands."""
        until = self.clock.boot() + min(seconds, politeness.DAY_S * 32)
        if until > site.blocked:
            site.blocked, site.reason = until, reason
            self.save_site(site)

    def fail(self, row: Row, line: Job) -> None:
        """A try failed for now: again after a wait that grows, or dead after many tries in a long time."""
        now = self.clock.boot()
        job = jcf.parse_text(row.line)
        reason = line.get("REASON") or line.get("STATUS")
        if row.state == LEASED:
            self._give_back_page(row)
        if job.get("ELSE") and reason in politeness.SITE_FAILURES:
            self._try_else(row, job)
            return
        is_ours = self.line.is_down(now)
        tries = row.nrt + (not is_ours)
        first = row.first_failed or now
        events = _with_event(row.events, self._event(line))
        if tries >= self.settings.politeness.tries and now - first >= self.settings.politeness.tries_s:
            self.set_state(row, DEAD, fetch=0, lease=0, nrt=tries, reason=reason, events=events)
        else:
            wait = politeness.back_off(self.settings.politeness, max(tries, 1), self.chance)
            wait = min(max(wait, line.seconds("AFTER")), self.settings.politeness.retry_ceiling_s)
            self.set_state(
                row, DEFERRED, fetch=0, lease=0, nrt=tries, first_failed=first, later=now + wait, wait=wait,
                reason=reason, events=events,
            )  # fmt: skip
        self._settle_row(row)

    def die(self, row: Row, reason: str) -> None:
        """A row will not be tried any more; a replay or a seed revives it."""
        line = jcf.job(OUTCOME="failed", REASON=reason)
        events = _with_event(row.events, self._event(line))
        self.set_state(row, DEAD, fetch=0, lease=0, reason=reason, events=events)
        self._settle_row(row)

    def _event(self, line: Job) -> str:
        words = (utc_text(self.clock.utc()), line.get("OUTCOME"), line.get("STATUS") or "-", line.get("REASON"))
        return " ".join(words).strip().replace(";", ",")

    def _try_else(self, row: Row, job: Job) -> None:
        """A seed given without a scheme: https could not be reached, so http is asked."""
        url = job.get("ELSE")
        line = jcf.dump_text(job.having(URL=url, ELSE=None))
        self.delete(row)
        site = self.site_named(site_of(url), create=True)
        assert site is not None
        if self.rows.find(site.id, job_key("page", url)) is None:
            self.insert(url, "page", row.prio, row.depth, row.seed, row.since, line)
        self._settle_row(row)

    # STORED -----------------------------------------------------------------------------------------------------

    def stored(self, line: Job) -> None:
        """A page's result is on disk: commit it here; idbd is told next, and then the row goes."""
        row = self.rows.fetched_as(line.fetch)
        if row is None or row.state in (STORED, DEAD):
            return
        self.idle_since = self.clock.boot()
        if line.get("OUTCOME") == "failed":
            self.die(row, line.get("REASON"))
            return
        seed = self.seeds.get(row.seed)
        scopes = scopes_text({str(seed.scope_id): seed.left(row.depth)})
        url = jcf.parse_text(row.line).url
        if row.kind == "relink":
            news = jcf.job(URL=url, SCOPES=scopes)
        else:
            facts = line.without(("FETCH", "LEASE", "BATCH", "END", "SCOPES"))
            news = facts.having(URL=url, SEED=seed.url, DEPTH=row.depth, SCOPES=scopes)
            if row.events:
                news = news.having(EVENTS=row.events)
            if row.kind == "page" and not line.get("RECORD"):
                self.seeds.spend(seed, -1)  # a budget counts pages that have a record
        self.set_state(row, STORED, result=jcf.dump_text(news), lease=0)
        self._settle_row(row)

    def requeue_batch(self, batch: str) -> None:
        """A batch is lost: its rows are queued again."""
        for row in self.rows.of_batch(batch):
            self.set_state(row, QUEUED, fetch=0, lease=0, batch="")
            self._settle_row(row)

    def untold(self, count: int) -> list[Row]:
        """Rows whose results idbd is to hear of."""
        return self.rows.stored(count)

    def told(self, rows: Iterable[Row]) -> None:
        """idbd has the visits, durably: the rows go, and what was found on the way meanwhile is offered again."""
        for row in rows:
            self.delete(row)
            self._relink(row)
            self._settle_row(row)

    def _relink(self, row: Row) -> None:
        """Make the relink job of a row to which a better way was found while it was in work."""
        entries = json.loads(row.relinks) if row.relinks else []
        result = jcf.parse_text(row.result) if row.result else jcf.job(URL="")
        if not entries or not (row.kind == "relink" or result.get("RECORD") or result.get("TO")):
            return
        url = jcf.parse_text(row.line).url
        seed, depth, since = entries[0]
        self.offer_relink(url, seed, depth, since, result.get("TO"), entries[1:])

    def offer_relink(
        self, url: str, seed: int, depth: int, since: str, target: str = "", more: Iterable[list[object]] = ()
    ) -> None:
        """Queue a job that offers a stored record's links again, for another seed or from fewer hops."""
        site = self.site_named(site_of(url), create=True)
        assert site is not None
        entries = [[seed, depth, since], *more]
        old = self.rows.find(site.id, job_key("relink", url))
        if old is None:
            line = jcf.dump_text(jcf.job(URL=url, SEED=self.seeds.get(seed).url, TO=target or None))
            self.insert(url, "relink", 0, depth, seed, since, line)
            old = self.rows.find(site.id, job_key("relink", url))
            assert old is not None
            entries = entries[1:]
        held = json.loads(old.relinks) if old.relinks else []
        merged = held + [entry for entry in entries if entry not in held]
        self.rows.change("UPDATE job SET relinks = ? WHERE seq = ?", json.dumps(merged[:16]) if merged else "", old.seq)
        self.settle(site)

    # Names ------------------------------------------------------------------------------------------------------

    def unresolved(self, count: int) -> list[Site]:
        """Sites whose names are to be looked up."""
        waiting = (site for site in self.sites.members[UNRESOLVED].values() if not site.resolving)
        return list(islice(waiting, count))

    def resolved(self, site: Site, address: str) -> None:
        """A site's host has an address."""
        site.address, site.address_until = address, self.clock.boot() + self.settings.scheduler.name_s
        site.name_failures = 0
        self.settle(site)

    def unresolvable(self, site: Site, reason: str, no_such_name: bool, is_refused: bool = False) -> None:
        """A site's host has no address that may be asked: one try of its first job failed, or all its jobs are dead."""
        now = self.clock.boot()
        site.name_failures += no_such_name
        site.reason = reason
        if is_refused or site.name_failures >= NO_SUCH_NAME:
            while rows := self.rows.ready(site.id, 500, set()):
                for row in rows:
                    self.die(row, reason)
            return
        self.line.note(site.id, True, now)
        rows = self._ready(site, 1)
        if rows:
            self.fail(rows[0], jcf.job(OUTCOME="failed", REASON="dns"))
        if not self.line.is_down(now):
            site.failures += 1
        self.block(site, politeness.back_off(self.settings.politeness, max(site.failures, 1), self.chance), reason)
        if site.id in self.sites.by_id:
            self.settle(site)


def _with_event(events: str, event: str) -> str:
    return ";".join([*(events.split(";") if events else []), event][-EVENTS:])
