"""Leases: whole sites handed to one harvester each, with as many of their jobs as fit; what TAKE does, and its end.

Rules that must hold, and where:

    nothing is taken from the living    `end_lease` is for an END, a lease not named, a dead holder; never for age
    after an unclean end a site rests   `end_lease`: one full delay from now
    sites on one address                go to one holder at a time, who spaces them: `_may_share`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from combine.schedule import politeness
from combine.schedule.board import HOURS, Board
from combine.schedule.rows import LEASED, QUEUED, Row
from combine.schedule.sites import DUE, Site
from combine.services import MESSAGE_LINES
from combine.urls import network_of

#: Due sites that may go looked at for one TAKE, in search of those that its holder had last; and due sites at all.
AFFINITY, LOOKED_AT = 64, 5_000

#: Addresses remembered; above, those that have rested are forgotten.
ADDRESSES = 10_000


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that may hold leases: its pid, and its start time, so that a pid used again is another."""

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


class Leases(Board):
    """The board, and who has what of it in hand."""

    def load(self) -> None:
        """Derive all that is in memory from the rows."""
        super().load()
        self.leases: dict[int, Lease] = {}
        self.addresses: dict[str, tuple[int, Holder | None, float]] = {}  # leases, their holder, end of the last
        self._loaded = self.clock.boot()  # nobody knows any more when an address was asked last
        self._space_at: float | None = None  # when the rest of an address is over that a due site waits for
        self._saved_number = self.number
        self._load_leases()

    def _load_leases(self) -> None:
        for number, site_id, pid, start, boot, until, delay, address, asked in self.rows.leases():
            lease = Lease(number, site_id, Holder(pid, start), until, delay, address)
            self.leases[number] = lease
            if site_id:
                site = self.site(site_id)
                site.lease, site.asked = number, asked
                self._occupy(lease)
                self.settle(site)
            if boot != self.clock.boot_id:
                self.end_lease(number, is_clean=False)

    def next_event(self) -> float | None:
        """The boot time of the next thing that `tick` would do."""
        after = super().next_event()
        due = self.sites.members[DUE]
        times = [time for time in (after, self._space_at if due else None) if time is not None]
        if due and self.line.is_down():
            times.append(self.line.next_probe())
        return min((time for time in times if time > 0), default=None)

    def tick(self) -> None:
        """Do what the passing of time brings: end waits and blocks, queue deferred rows."""
        super().tick()
        if self._space_at is not None and self._space_at <= self.clock.boot():
            self._space_at = None

    def take(self, holder: Holder, count: int) -> list[str]:
        """Lease up to `count` due sites to a holder; gives their jobs, grouped by lease, as many as an answer holds."""
        self.tick()
        now = self.clock.boot()
        if self.gate != "open" or self.stalled:
            return []
        is_probe = self.line.is_down()
        if is_probe:
            count = min(count, 1 if now >= self.line.next_probe() else 0)
        jobs: list[str] = []
        for site in self._due_for(holder, count, now):
            if len(jobs) == MESSAGE_LINES:
                break
            jobs += self._lease(site, holder, now, MESSAGE_LINES - len(jobs))
        if jobs and is_probe:
            self.line.probed(now)
        self._save_number()
        return jobs

    def take_site(self, holder: Holder, name: str) -> Lease | None:
        """Lease one site without a job (`try`); None while it may not be asked."""
        site = self.site_named(name, create=True)
        assert site is not None
        now = self.clock.boot()
        if closed := self.closed_for(site):
            self.block(site, closed, HOURS)
        is_free = not site.lease and not site.shut and site.blocked <= now and site.next <= now
        if not is_free or (site.address and not self._may_share(site, holder, now)):
            self.settle(site)
            return None
        lease = self._open_lease(site, holder, self.delay(site), now)
        self._save_number()
        return lease

    def take_relinks(self, holder: Holder, count: int) -> list[str]:
        """Lease relink jobs, which need no site."""
        rows = self.rows.relinks(count) if self.relinks[QUEUED] and self.gate == "open" else []
        if not rows:
            return []
        lease = self._open_lease(None, holder, 0.0, self.clock.boot())
        jobs = self._hand_out(rows, lease)
        self._save_number()
        return jobs

    def _save_number(self) -> None:
        if self.number != self._saved_number:
            self.rows.set_meta("number", str(self.number))
            self._saved_number = self.number

    def _due_for(self, holder: Holder, count: int, now: float) -> list[Site]:
        """The sites to hand out: those at the front of the round, first those that this holder had last.

        A site that may not go now because of its address goes to the back: it must not hide those behind it.
        """
        if count <= 0:
            return []
        mine: list[Site] = []
        others: list[Site] = []
        for site in list(islice(self.sites.members[DUE].values(), LOOKED_AT)):
            if site.address_until <= now:
                self.settle(site)
            elif closed := self.closed_for(site):
                self.block(site, closed, HOURS)
                self.settle(site)
            elif not self._may_share(site, holder, now):
                self.sites.move(site, DUE)
            else:
                (mine if site.holder in ("", str(holder.pid)) else others).append(site)
                if len(mine) + len(others) >= AFFINITY + count:
                    break
        return [*mine, *others][:count]

    def _may_share(self, site: Site, holder: Holder, now: float) -> bool:
        """Sites on one address go to one holder at a time, who spaces them; then the address rests."""
        delay = self._address_delay(site)
        if delay == 0:
            return True
        leases, owner, ended = self.addresses.get(network_of(site.address), (0, None, self._loaded))
        if leases:
            return owner == holder
        if now >= ended + delay:
            return True
        self._space_at = min(ended + delay, self._space_at or ended + delay)
        return False

    def _address_delay(self, site: Site) -> float:
        limits = self.settings.politeness
        if not limits.address_delay_s or self.is_listed(site.host, site.address):
            return 0.0
        return limits.address_delay_s + limits.margin_s

    def _occupy(self, lease: Lease) -> None:
        """An address has one more lease."""
        network = network_of(lease.address)
        leases, _, ended = self.addresses.get(network, (0, None, self._loaded))
        self.addresses[network] = (leases + 1, lease.holder, ended)

    def _vacate(self, lease: Lease, now: float) -> None:
        """An address has one lease less, and rests from now on."""
        network = network_of(lease.address)
        leases, owner, _ = self.addresses.get(network, (1, None, 0.0))
        self.addresses[network] = (leases - 1, owner if leases > 1 else None, now)
        if len(self.addresses) > ADDRESSES:
            rested = now - max(self.settings.politeness.address_delay_s, 60.0)
            self.addresses = {key: value for key, value in self.addresses.items() if value[0] or value[2] > rested}

    def _lease(self, site: Site, holder: Holder, now: float, most: int) -> list[str]:
        # The run of the first job sets the pace, and the pace how many go with it: mostly as many as the last run's.
        delay = self.delay(site)
        size = min(politeness.lease_size(self.settings, delay), most)
        rows = self._ready(site, size)
        if not rows:
            return []
        asked = self.seeds.get(rows[0].seed).delay if rows[0].seed else site.asked
        if asked != site.asked:
            site.asked = asked
            delay = self.delay(site)
            wanted = min(politeness.lease_size(self.settings, delay), most)
            rows = rows[:wanted] if wanted <= size else self._ready(site, wanted)
        # What failed before goes last: a failure that speaks of the site ends the lease, and one bad page must not be
        # all that is ever tried.
        rows.sort(key=lambda row: row.kind == "page" and row.nrt > 0)
        lease = self._open_lease(site, holder, delay, now)
        jobs = self._hand_out(rows, lease)
        budget = politeness.day_budget(self.settings, site.host, self.is_listed(site.host, site.address))
        if min(budget) < politeness.NO_BUDGET:
            jobs[0] += f' ROOM="{self._room(site, *budget)}"'
        if site.refusals:
            jobs[0] += f' REFUSALS="{site.refusals}"'
        return jobs

    def _room(self, site: Site, requests: int, size: int) -> str:
        """What the site's day still allows: its budget, less what it was asked for since midnight."""
        if site.day == int(self.clock.utc() // politeness.DAY_S):
            requests, size = requests - site.requests, size - site.bytes
        return f"{max(requests, 0)} {max(size, 0)}"

    def _ready(self, site: Site, count: int) -> list[Row]:
        """The next rows of a site that may go: not excluded since, and within their runs' budgets."""
        is_blocked = site.blocked > self.clock.boot()
        left: dict[str, float] = {}
        chosen = []
        for row in self._not_excluded(site, count):
            if row.kind == "robots":
                chosen.append(row)
            elif not is_blocked:
                seed = self.seeds.get(row.seed)
                if left.setdefault(seed.budget, self.seeds.left(seed)) > 0:
                    left[seed.budget] -= row.kind == "page"
                    chosen.append(row)
        if not chosen:
            site.parked = not is_blocked
            self.settle(site)
        return chosen

    def _not_excluded(self, site: Site, count: int) -> list[Row]:
        """The next rows of a site; those that the exclude file forbids by now are dead."""
        while True:
            rows = self.rows.ready(site.id, count, self.seeds.spent)
            if not self.has_rules:
                return rows
            forbidden = [(row, why) for row in rows if (why := self.forbids(row.url))]
            if not forbidden:
                return rows
            for row, why in forbidden:
                self.die(row, why)

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
            self._occupy(lease)
            self.settle(site)
        return lease

    def _hand_out(self, rows: list[Row], lease: Lease) -> list[str]:
        """Rows go out; gives their lines: what they hold, and what this hand-out adds to it."""
        end = f' LEASE="{lease.id}"'
        place = (f' ADDR="{lease.address}"' if lease.address else "") + (
            f' DELAY="{lease.delay:g}"' if lease.site else ""
        )
        pages: Counter[int] = Counter()
        changes, lines = [], []
        for row in rows:
            fetch, scopes = self.next_number(), self.scopes_now(row)
            changes.append((fetch, lease.id, scopes, row.seq))
            if row.seed and row.kind == "page":
                pages[row.seed] += 1
            lines.append(f'{row.line}{self._facts(row, scopes)}{end} FETCH="{fetch}"{place}')
        self.rows.lease(changes)
        for row in rows:
            self.moved(row, LEASED)
        for seed, count in pages.items():
            self.seeds.spend(self.seeds.get(seed), count)
        return lines

    def _facts(self, row: Row, scopes: str) -> str:
        """What a hand-out says beside a row's line."""
        seed = self.seeds.get(row.seed) if row.seed else None
        return (
            (f' SCOPES="{scopes}"' if scopes else "")
            + (f' HOSTS="{seed.hosts}"' if seed and seed.hosts else "")
            + (' REQUISITES="1"' if seed and seed.scope.has_requisites else "")
            + (f' KIND="{row.kind}"' if row.kind != "page" else "")
            + f' DEPTH="{row.depth}"'
            + (f' PRIO="{row.prio}"' if row.prio else "")
            + (f' SINCE="{row.since}"' if row.since else "")
            + (f' NRT="{row.nrt}"' if row.nrt else "")
        )

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
        if (self.site(lease.site).counts if lease.site else self.relinks)[LEASED]:
            self.rows.let_go(number)
            for row in self.rows.of_lease(number):
                self._give_back(row, keeps_number=not is_clean)
        if not lease.site:
            return
        now = self.clock.boot()
        site = self.site(lease.site)
        site.lease = 0
        delay = self.delay(site) if is_clean else lease.delay
        site.next = max(site.next, now + politeness.rest(self.settings, site.host, delay, site.crawl))
        self._vacate(lease, now)
        self.save_site(site)
        self.settle(site)

    def _give_back(self, row: Row, keeps_number: bool) -> None:
        """Queue a row that was handed out and not asked.

        After an unclean end its number still counts: the harvest may yet come.
        """
        self.give_back_page(row)
        self.set_state(row, QUEUED, lease=0, fetch=row.fetch if keeps_number else 0)
        if row.kind != "relink":
            self.site(row.site).parked = False
