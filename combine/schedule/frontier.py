"""The frontier: the whole state of the scheduler, and the last steps of a URL's life in it: STORED, told, relinked.

It is built in layers, each of which knows only those below: `board` (rows and sites), `leases` (TAKE), `outcomes`
(DONE, names), and this one. Each method makes one step of a URL's life (docs/life-of-a-url.md) inside the open
transaction; the caller commits before it answers. Rules that must hold, and where:

    a row lives until its page is stored        `stored` marks, `told` deletes
    fetch numbers fence                         every step looks its row up by FETCH

What ADD does lies in `intake`, what STAT, SITE and WHY say in `report`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from combine.schedule.outcomes import Outcomes
from combine.schedule.rows import DEAD, QUEUED, STORED, Row, job_key
from combine.schedule.visits import scopes_text
from combine.urls import site_of
from formats import jcf
from formats.jcf import Job


class Frontier(Outcomes):
    """The scheduler's whole state. One process owns it."""

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
