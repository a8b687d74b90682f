"""The frontier: the whole state of the scheduler, and the last steps of a URL's life in it: STORED, told, relinked.

It is built in layers, each of which knows only those below: `board` (rows and sites), `leases` (who has what),
`handout` (TAKE), `outcomes` (DONE, names), and this one. Each method makes one step of a URL's life
(docs/life-of-a-url.md) inside the open transaction; the caller commits before it answers. Rules that must hold, and
where:

    a row lives until its page is stored        `stored` marks, `told` deletes
    fetch numbers fence                         every step looks its row up by FETCH

What ADD does lies in `intake`, what STAT, SITE and WHY say in `report`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from combine.errors import Rejected, RetryLater
from combine.schedule.board import REASON_LENGTH
from combine.schedule.clock import is_overtaken
from combine.schedule.outcomes import OUTCOMES, Outcomes
from combine.schedule.rows import DEAD, FETCHED, LEASED, QUEUED, STORED, Row, Stored, job_key
from combine.schedule.visit import is_more
from combine.urls import site_of
from formats import jcf
from formats.jcf import Job


class Way(NamedTuple):
    """A way to a URL: the number of the seed, the depth from it, the round, and redirects on the way so far."""

    seed: int
    depth: int
    since: str
    hops: int = 0


#: Better ways noted of a row in work; as many as a visit has scopes.
WAYS = 16

#: What a visit keeps so that the harvester can ask whether the page changed.
VALIDATORS = ("FTIME", "ETAG", "LMOD", "TYP")

#: Of a STORED line these go on to idbd.
FACTS = ("OUTCOME", "STATUS", "REASON", "LAST", "TO", "SIZE", "RECORD", "DIGEST", *VALIDATORS)


class Frontier(Outcomes):
    """The scheduler's whole state. One process owns it."""

    def stored_all(self, lines: list[Job]) -> None:
        """The results of a message."""
        with self.rows.held(line.fetch for line in lines):
            for line in lines:
                self.stored(line)

    def stored(self, line: Job) -> None:
        """A page's result is on disk: commit it here; idbd is told next, and then the row goes."""
        row = self.rows.fetched_as(line.fetch)
        if row is None or row.state in (STORED, DEAD) or row.kind == "robots":
            return
        outcome = line.get("OUTCOME")
        if outcome not in OUTCOMES:
            raise Rejected(f"OUTCOME={outcome[:40]!r}: it is one of {' '.join(OUTCOMES)}")
        self.idle_since = self.clock.boot()
        if outcome == "failed":
            self.die(row, line.get("REASON"))
            return
        if row.kind == "page" and row.state in (LEASED, FETCHED) and not line.get("RECORD"):
            self.give_back_page(row)  # a budget counts pages that have a record
        if row.kind == "page" and outcome == "not-modified" and not line.get("RECORD"):
            self._ask_whole(row)
            return
        if outcome == "ok":
            self.note_same(row.site, row.url, _is_twin(row.url, line.get("SAME")))
        self.set_state(row, STORED, result=jcf.dump_text(self._news(row, line)), lease=0)
        self.settle_row(row)

    def _ask_whole(self, row: Row) -> None:
        """A page has not changed since its record was made, and the record is gone: it is asked for without conditions.

        Else each 304 would confirm a record that is not there.
        """
        line = jcf.parse_text(row.line).having(**dict.fromkeys(VALIDATORS))
        self.set_state(row, QUEUED, fetch=0, lease=0, batch="", line=jcf.dump_text(line))
        self.settle_row(row)

    def _news(self, row: Row, line: Job) -> Job:
        """What idbd is to hear of a row. It says no more of scopes than what the row was handed out with."""
        if row.kind == "relink":
            return jcf.job(URL=row.url, SCOPES=row.scopes)
        said = line.params
        news = {"URL": row.url} if row.kind == "page" else {"URL": row.url, "KIND": row.kind}
        news |= {name: said[name] for name in FACTS if said.get(name)}
        if len(news.get("REASON", "")) > REASON_LENGTH:
            news["REASON"] = news["REASON"][:REASON_LENGTH]
        news |= {"SEED": self.seeds.get(row.seed).url, "DEPTH": str(row.depth), "SCOPES": row.scopes}
        if row.events:
            news["EVENTS"] = row.events
        return Job(news)

    def requeue_batch(self, batch: str) -> None:
        """A batch is lost: its rows are queued again."""
        for row in self.rows.of_batch(batch):
            self.give_back_page(row)
            self.set_state(row, QUEUED, fetch=0, lease=0, batch="")
            self.settle_row(row)

    def untold(self, count: int) -> list[Stored]:
        """Rows whose results idbd is to hear of."""
        return self.rows.stored(count)

    def told(self, rows: list[Stored]) -> None:
        """idbd has the visits, durably: the rows go, and what was found on the way meanwhile is offered again."""
        # A row may have learned of better ways while idbd was told, so it is read again.
        gone = self.rows.delete_stored(rows)
        for row in gone:
            self.discount(row)
        for row in gone:
            self._follow_up(row)
        for site in {row.site for row in gone if row.kind != "relink"}:
            self.settle(self.site(site))

    # FORGET -----------------------------------------------------------------------------------------------------

    def rows_to_forget(self, urls: Iterable[str]) -> list[Row]:
        """The rows of URLs that are to be forgotten; raises RetryLater while one of them is in work."""
        found = []
        for url in urls:
            site = self.site_named(site_of(url))
            if site is None:
                continue
            for kind in ("page", "relink", "sitemap"):
                row = self.rows.find(site.id, job_key(kind, url))
                if row is not None and row.state in (LEASED, FETCHED, STORED):
                    raise RetryLater(f"{url} is in work")
                if row is not None:
                    found.append(row)
            self.settle(site)
        return found

    def forget(self, urls: Iterable[str]) -> None:
        """Delete the rows of URLs; raises RetryLater while one of them is in work."""
        for row in self.rows_to_forget(urls):
            self.delete(row)
            self.settle_row(row)

    # Better ways ------------------------------------------------------------------------------------------------

    def note_way(self, row: Row, way: Way) -> None:
        """Another way to a row's URL was found: when the row is told, its links are offered again for that one."""
        ways = _ways(row)
        own = [_own_way(row)] if row.kind != "page" else []
        if len(ways) < WAYS and not any(self._covers(other, way) for other in own + ways):
            row.relinks = json.dumps([*ways, way])
            self.rows.change("UPDATE job SET relinks = ? WHERE seq = ?", row.relinks, row.seq)

    def offer_relink(self, url: str, way: Way, target: str = "") -> None:
        """Queue a job that offers a stored record's links again, for another seed or from fewer hops."""
        site = self.site_named(site_of(url), create=True)
        assert site is not None
        held = self.rows.find(site.id, job_key("relink", url))
        if held is not None:
            self.note_way(held, way)
        else:
            line = jcf.job(URL=url, SEED=self.seeds.get(way.seed).url, TO=target or None, HOPS=way.hops or None)
            self.insert(url, "relink", 0, way.depth, way.seed, way.since, jcf.dump_text(line))
        self.settle(site)

    def _covers(self, way: Way, other: Way) -> bool:
        """Whether all that another way would bring is brought by this one."""
        if other.depth == 0 and way[:2] != other[:2]:  # what a seed redirects to is taken although it lies outside
            return False
        one, two = self.seeds.get(way.seed), self.seeds.get(other.seed)
        is_as_wide = one.scope_id == two.scope_id and one.left(way.depth) >= two.left(other.depth)
        return is_as_wide and way.since >= other.since

    def _follow_up(self, row: Row) -> None:
        """Go the better ways that were found while a row was in work."""
        ways = _ways(row)
        is_wider = is_more(self.scopes_now(row), row.scopes)  # its seed was widened, or it came nearer to one
        if not (ways or is_wider or row.since):
            return
        result = jcf.parse_text(row.result) if row.result else jcf.job()
        job = jcf.parse_text(row.line)
        if is_wider or self._is_overtaken(result, row.since):
            ways.insert(0, _own_way(row))
        if row.kind == "sitemap":
            if row.result:  # nothing of it is kept that could be offered again
                self._ask_again(row, job, result, ways[0])
            return
        for way in ways:
            if row.kind == "page" and self._is_overtaken(result, way.since):
                self._ask_again(row, job, result, way)
                return
            if row.kind == "relink" or result.get("RECORD") or result.get("TO"):
                self.offer_relink(job.url, way, result.get("TO") or job.get("TO"))

    def _is_overtaken(self, result: Job, since: str) -> bool:
        """Whether a page was asked for before a round began: also in a hand-out whose harvest came late."""
        return bool(result.get("LAST")) and is_overtaken(result.get("LAST"), since, self.clock.utc())

    def _ask_again(self, row: Row, job: Job, result: Job, way: Way) -> None:
        """A page was asked for before the round began that has come to it meanwhile: it is asked for in that round."""
        known = {name: result.get(name) or None for name in VALIDATORS}
        line = job.having(SEED=self.seeds.get(way.seed).url, **known)
        self.insert(job.url, row.kind, row.prio, way.depth, way.seed, way.since, jcf.dump_text(line))
        again = self.rows.find(row.site, row.h)
        assert again is not None
        for other in _ways(row):
            if other != way:
                self.note_way(again, other)


def _ways(row: Row) -> list[Way]:
    return [Way(*way) for way in json.loads(row.relinks)] if row.relinks else []


def _own_way(row: Row) -> Way:
    return Way(row.seed, row.depth, row.since, jcf.parse_text(row.line).number("HOPS"))


def _is_twin(url: str, same: str) -> bool:
    """Whether a page with the same text is another one of the same site, and not this one by another scheme."""
    return bool(same) and site_of(url) == site_of(same) and url.partition("://")[2] != same.partition("://")[2]
