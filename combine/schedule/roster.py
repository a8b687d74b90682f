"""The roster: the sites as their table has them and as memory does; which are awake, and what is written of them.

Theory of operation. A site is in memory from its first row until its last row has gone and its rest is over. It wakes
when it is looked at, and is an object then. Where too many are awake, those that woke longest ago go to sleep, which
only `doze` does: whoever calls it holds no site. All changes of a site end in `settle`, which puts it into the one set
where its facts say it belongs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from combine.schedule.clock import Clock
from combine.schedule.rows import DEFERRED, QUEUED, Rows
from combine.schedule.sites import EMPTY, Site, Sites

_SITE_COLUMNS = "id name told auto crawl next shut blocked reason failures refusals day requests bytes holder".split()

#: Of these, what `Site.facts` are.
_FACTS = slice(2, None)

#: Sites read at once where there may be many.
PART = 2_000


class Roster:
    """The sites of the board."""

    rows: Rows
    clock: Clock
    is_listed: Callable[[str, str], bool]
    sites: Sites
    relinks: list[int]

    def load_sites(self, now: float) -> None:
        """Derive the sites that have rows, and how many relink jobs there are, from the tables."""
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

    def busy_asleep(self, names: Iterable[str]) -> dict[str, int]:
        """Those of these sites that sleep, and not without work: one queued row more changes nothing else of them."""
        if not self.sites.asleep:
            return {}
        held = self.held_as({name for name in names if name not in self.sites.by_name})
        return {name: number for number, name in held.items() if self.sites.sleeps_in(number) not in ("", EMPTY)}

    def held_as(self, names: set[str]) -> dict[int, str]:
        """The names of those of these sites that may have rows, by their numbers; none is woken."""
        by_name = self.sites.by_name
        found = {by_name[name].id: name for name in names if name in by_name}
        if self.sites.asleep and len(found) < len(names):
            others = json.dumps([name for name in names if name not in by_name])
            statement = "SELECT id, name FROM site WHERE name IN (SELECT value FROM json_each(?))"
            found |= dict(self.rows.db.execute(statement, (others,)).fetchall())
        return found

    def site_named(self, name: str, create: bool = False) -> Site | None:
        """A site by its name, taken into memory; None where nothing is known of it."""
        site = self.sites.by_name.get(name)
        if site is not None:
            return site
        site = self._read_site("name = ?", name)
        if site is None and create:
            site = Site(self.rows.insert_site(name), name)
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

    def sites_named(self, names: set[str]) -> dict[str, Site]:
        """Sites taken into memory, or made, all at once."""
        by_name = self.sites.by_name
        others = [name for name in names if name not in by_name]
        if others:
            for site in self._read_sites("name IN (SELECT value FROM json_each(?))", json.dumps(others)):
                self.sites.enter(site)
            new = [name for name in others if name not in by_name]
            for number, name in zip(self.rows.insert_sites(new), new, strict=True):
                self.sites.enter(Site(number, name))
        return {name: by_name[name] for name in names}
