"""Leases: whole sites, each in the hands of one holder: how a lease begins and ends, and who shares an address.

Rules that must hold, and where:

    nothing is taken from the living    `end_lease` is for an END, a lease not named, a dead holder; never for age
    after an unclean end a site rests   `end_lease`: one full delay from now
    sites on one address                go to one holder at a time, who spaces them: `may_share`
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from combine.schedule import politeness
from combine.schedule.board import HOURS, Board
from combine.schedule.rows import LEASED, QUEUED, Row
from combine.schedule.sites import DUE, Site
from combine.urls import network_of, site_of
from formats import jcf

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
        self._opened: list[tuple[Lease, str]] = []  # leases that are to be written, each with the pace of its run
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
        """Do what the passing of time brings: the rest of an address ends, too."""
        super().tick()
        if self._space_at is not None and self._space_at <= self.clock.boot():
            self._space_at = None

    def take_site(self, holder: Holder, name: str) -> Lease | None:
        """Lease one site without a job (`try`); None while it may not be asked."""
        site = self.site_named(name, create=True)
        assert site is not None
        now = self.clock.boot()
        if closed := self.closed_for(site):
            self.block(site, closed, HOURS)
        is_free = not site.lease and not site.shut and site.blocked <= now and site.next <= now
        if not is_free or (site.address and not self.may_share(site.host, site.address, holder, now)):
            self.settle(site)
            return None
        site.asked = self.pace_of(site)
        lease = self.open_lease(site, holder, self.delay(site), now)
        self.save_leases()
        return lease

    def pace_of(self, *sites: Site) -> str:
        """The pace of the run of a site's next job; of several sites, of the first that has one.

        Without a job it is that of the last, which nobody knows after a start.
        """
        seeds = (self.rows.seed_of(site.id, self.seeds.spent) for site in sites)
        if seed := next(filter(None, seeds), 0):
            return self.seeds.get(seed).delay
        return next((site.asked for site in sites if site.asked), "")

    def waits_for(self, line: str) -> Site | None:
        """The site that waits for the robots job on a line."""
        return self.site_named(site_of(jcf.parse_text(line).get("FOR")))

    def save_leases(self) -> None:
        """Write the leases that began, and the last number that was used."""
        if self._opened:
            boot = self.clock.boot_id
            self.rows.open_leases(
                (it.id, it.site, it.holder.pid, it.holder.start, boot, it.until, it.delay, it.address, asked)
                for it, asked in self._opened
            )
            self._opened.clear()
        if self.number != self._saved_number:
            self.rows.set_meta("number", str(self.number))
            self._saved_number = self.number

    def may_share(self, host: str, address: str, holder: Holder, now: float) -> bool:
        """Sites on one address go to one holder at a time, who spaces them; then the address rests."""
        delay = self._address_delay(host, address)
        if delay == 0:
            return True
        leases, owner, ended = self.addresses.get(network_of(address), (0, None, self._loaded))
        if leases:
            return owner == holder
        if now >= ended + delay:
            return True
        self._space_at = min(ended + delay, self._space_at or ended + delay)
        return False

    def _address_delay(self, host: str, address: str) -> float:
        limits = self.settings.politeness
        if not limits.address_delay_s or self.is_listed(host, address):
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

    def open_lease(self, site: Site | None, holder: Holder, delay: float, now: float) -> Lease:
        """A lease of a site, or of relink jobs, begins; to be written by `save_leases`."""
        until = now + politeness.lease_time(self.settings, delay)
        lease = Lease(self.next_number(), site.id if site else 0, holder, until, delay, site.address if site else "")
        self.leases[lease.id] = lease
        self._opened.append((lease, site.asked if site else ""))
        if site is not None:
            site.lease, site.holder = lease.id, str(holder.pid)
            self._occupy(lease)
            self.settle(site)
        return lease

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
