"""Leases: whole sites handed to one harvester each, with as many of their jobs as fit; what TAKE does, and its end.

Rules that must hold, and where:

    nothing is taken from the living    `end_lease` is for an END, a lease not named, a dead holder; never for age
    after an unclean end a site rests   `end_lease`: one full delay from now
    sites on one address                go to one holder at a time, who spaces them: `_may_share`
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from combine.schedule import politeness
from combine.schedule.board import Board
from combine.schedule.rows import LEASED, QUEUED, Row
from combine.schedule.seeds import UNLIMITED
from combine.schedule.sites import DUE, Site
from combine.schedule.visits import scopes_text
from formats import jcf
from formats.jcf import Job

#: Due sites looked at for one TAKE, in search of those that its holder had last.
AFFINITY = 64


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
        self._load_leases()

    def _load_leases(self) -> None:
        for number, site_id, pid, start, boot, until, delay, address, asked in self.rows.leases():
            lease = Lease(number, site_id, Holder(pid, start), until, delay, address)
            self.leases[number] = lease
            if site_id:
                site = self.site(site_id)
                site.lease, site.asked = number, asked
                leases, _, ended = self.addresses.get(address, (0, None, 0.0))
                self.addresses[address] = (leases + 1, lease.holder, ended)
                self.settle(site)
            if boot != self.clock.boot_id:
                self.end_lease(number, is_clean=False)

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
        """Queue a row that was handed out and not asked.

        After an unclean end its number still counts: the harvest may yet come.
        """
        self._give_back_page(row)
        self.set_state(row, QUEUED, lease=0, fetch=row.fetch if keeps_number else 0)
        if row.kind != "relink":
            self.site(row.site).parked = False
