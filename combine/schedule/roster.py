"""The roster: the sites as their table has them and as memory does; which are awake, and what is written of them.

Theory of operation. A site is in memory from its first row until its last row has gone and its rest is over. It wakes
when it is looked at, and is an object then. Where too many are awake, those that woke longest ago go to sleep, which
only `doze` does: whoever calls it holds no site. All changes of a site end in `settle`, which puts it into the one set
where its facts say it belongs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice

from combine.schedule.clock import Clock
from combine.schedule.rows import DEFERRED, QUEUED, Rows
from combine.schedule.sites import EMPTY, Site, Sites

_SITE_COLUMNS = "id name told auto crawl next shut blocked reason failures refusals day requests bytes holder".split()

#: Of these, what `Site.facts` are.
_FACTS = slice(2, None)

#: Sites read at once where there may be many.
PART = 2_000

#: Names whose sites' numbers are remembered, or that they have none; above, all are forgotten.
NAMES = 50_000


class Roster:
    """The sites of the board."""

    rows: Rows
    clock: Clock
    is_listed: Callable[[str, str], bool]
    sites: Sites
    relinks: list[int]
    numbers: dict[str, int]

    def load_sites(self, now: float) -> None:
        """Derive the sites that have rows, and how many relink jobs there are, from the tables."""
        self.numbers = {}
        errands = dict(self.rows.errands())
        counts = self.rows.counts()
        self.relinks = next(counts)[1]
        # Many at once: with 200,000 sites a look for each takes seconds. All at once would take their memory twice.
        while part := dict(islice(counts, PART)):
            for site in self._read_sites("id IN (SELECT value FROM json_each(?))", json.dumps(list(part))):
                site.counts, site.errands = part[site.id], errands.get(site.id, 0)
                site.state = self.sites.state_of(site, now)
                self.sites.enter(site)
            self.doze()

    def site(self, number: int) -> Site:
        """A site by its number, taken into memory if it is not."""
        site = self.sites.by_id.get(number)
        if site is None:
            site = self._read_site("id = ?", number)
            assert site is not None, "a row's site is in the site table"
            self.sites.enter(site)
        return site

    def awaken(self, numbers: Iterable[int]) -> list[Site]:
        """Those of these sites that are in memory, awake from now on, in the order of their numbers given."""
        wanted = list(numbers)
        asleep = [number for number in wanted if self.sites.sleeps_in(number)]
        if asleep:
            for site in self._read_sites("id IN (SELECT value FROM json_each(?))", json.dumps(asleep)):
                self.sites.enter(site)
        by_id = self.sites.by_id
        return [by_id[number] for number in wanted if number in by_id]

    def doze(self) -> None:
        """Put sites to sleep where too many are awake. Who holds one over this holds nothing any more."""
        self.sites.shrink()
        for site in self.sites.tired():
            if site.facts != site.written:
                self.save_site(site)
            if any(site.counts):
                has_work = site.counts[QUEUED] or site.counts[DEFERRED]
                self.sites.put_to_sleep(site, bool(has_work) and not self.is_listed(site.host, site.address))
            else:
                self.sites.leave(site)

    def numbers_of(self, names: Collection[str]) -> dict[str, int]:
        """The numbers of those of these sites that have one; none is woken."""
        known = self.numbers
        others = [name for name in names if name not in known]
        if others:
            if len(known) > NAMES:
                known.clear()
                others = list(names)
            known.update(dict.fromkeys(others, 0))
            statement = "SELECT name, id FROM site WHERE name IN (SELECT value FROM json_each(?))"
            known.update(self.rows.db.execute(statement, (json.dumps(others),)).fetchall())
        return {name: number for name in names if (number := known[name])}

    def site_named(self, name: str, create: bool = False) -> Site | None:
        """A site by its name, taken into memory; None where nothing is known of it."""
        site = self.sites.by_name.get(name)
        if site is not None:
            return site
        site = self._read_site("name = ?", name)
        if site is None and create:
            site = self._born(self.rows.insert_site(name), name)
        if site is not None:
            self.sites.enter(site)
        return site

    def _read_site(self, where: str, value: object) -> Site | None:
        return next(self._read_sites(where, value), None)

    def _read_sites(self, where: str, *values: object) -> Iterator[Site]:
        for row in self.rows.db.execute(f"SELECT {', '.join(_SITE_COLUMNS)} FROM site WHERE {where}", values):
            number, name, told, auto, crawl, after, shut, blocked, reason, *counted, holder = row
            failures, refusals, day, requests, size = counted
            yield Site(
                number, name, told=told, auto=auto, crawl=crawl, next=after, shut=bool(shut), blocked=blocked,
                reason=reason, failures=failures, refusals=refusals, day=day, requests=requests, bytes=size,
                holder=holder, written=row[_FACTS],
            )  # fmt: skip

    def save_site(self, site: Site) -> None:
        """Write what must survive of a site: its pace, its blocks, when it may be asked next."""
        now = self.clock.boot()
        site.written = site.facts
        self.rows.change(
            "UPDATE site SET told=?, auto=?, crawl=?, next=?, rest=?, shut=?, blocked=?, block_s=?, reason=?,"
            " failures=?, refusals=?, day=?, requests=?, bytes=?, holder=? WHERE id=?",
            site.told, site.auto, site.crawl, site.next, max(site.next - now, 0), site.shut, site.blocked,
            max(site.blocked - now, 0), site.reason, site.failures, site.refusals, site.day, site.requests, site.bytes,
            site.holder, site.id,
        )  # fmt: skip

    def settle(self, site: Site) -> None:
        """Put a site where its facts say it belongs; one without rows, whose rest is over, leaves memory."""
        if self.sites.by_id.get(site.id) is not site:
            return  # it left with its last row
        now = self.clock.boot()
        if site.blocked and site.blocked <= now:
            site.blocked = 0.0
            self.save_site(site)  # or it would begin again in full after a reboot
        self.sites.settle(site, now)
        if site.state == EMPTY and not any(site.counts):
            until = max(site.next, site.blocked)
            if until > now:
                self.sites.rest(site, until)
            elif not site.resolving:
                self.sites.leave(site)

    def sites_of(self, numbers: dict[str, int], names: Iterable[str]) -> list[Site]:
        """Sites taken into memory, or made, all at once; `numbers` are those that `numbers_of` gives."""
        by_id, wanted = self.sites.by_id, list(names)
        others = [number for name in wanted if (number := numbers.get(name)) and number not in by_id]
        if others:
            for site in self._read_sites("id IN (SELECT value FROM json_each(?))", json.dumps(others)):
                self.sites.enter(site)
        if new := [name for name in wanted if name not in numbers]:
            for number, name in zip(self.rows.insert_sites(new), new, strict=True):
                self.sites.enter(self._born(number, name))
        by_name = self.sites.by_name
        return [by_name[name] for name in wanted]

    def _born(self, number: int, name: str) -> Site:
        """A site that was made a moment ago."""
        self.numbers[name] = number
        site = Site(number, name)
        site.written = site.facts
        return site
