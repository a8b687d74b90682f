"""What ADD does: which of the offered jobs become rows.

Theory of operation. `Offer` sorts the lines of one ADD: refused, outside (scope, depth, exclude file), merged into a
row that exists, or not in the queue. For the last the caller asks idbd, and hands the visits to `admit`, which queues
what was never visited or is due, and makes a relink job where the offer has more hops left, or another scope, than
those for which the record's links were offered. While idbd is asked, rows may come and go: `admit` looks again, and
asks again for those whose row went meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from combine.errors import Rejected
from combine.schedule.board import IN_COLUMNS
from combine.schedule.clock import epoch_of
from combine.schedule.frontier import Frontier
from combine.schedule.rows import DEAD, DEFERRED, FETCHED, LEASED, QUEUED, STORED, Row, job_key
from combine.schedule.scope import bare_host, seed_rule
from combine.schedule.seeds import Seed
from combine.schedule.visits import scopes_of
from combine.urls import BadURL, host_of, normalise, registrable_domain, site_of
from formats import jcf
from formats.jcf import Job

#: Of a visit these go with the job, so that the harvester can ask whether the page changed.
_VALIDATORS = ("FTIME", "ETAG", "LMOD", "TYP")

#: Hops of a robots.txt that is redirected from site to site (RFC 9309, 2.3.1.2).
ROBOTS_HOPS = 5


@dataclass(slots=True)
class Candidate:
    """One offered job, judged to belong."""

    url: str
    key: int
    seed: Seed
    depth: int
    prio: int
    since: str
    line: Job
    is_seed: bool


@dataclass(slots=True)
class Offer:
    """The lines of one ADD and what became of them."""

    new: int = 0
    known: int = 0
    outside: int = 0
    refused: list[Job] = field(default_factory=list)
    unknown: dict[tuple[str, int], Candidate] = field(default_factory=dict)

    def urls(self) -> list[str]:
        """The URLs that idbd must be asked for."""
        return [candidate.url for candidate in self.unknown.values()]

    def text(self) -> str:
        """The counts, as ADD answers them."""
        return f"new={self.new} known={self.known} outside={self.outside} refused={len(self.refused)}"


class Intake:
    """Offers jobs to a frontier."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier

    def sort(self, lines: Iterable[Job]) -> Offer:
        """Sort the lines of an ADD; `unknown` of the offer are those that idbd must be asked for."""
        offer = Offer()
        for line in lines:
            try:
                self._sort(line, offer)
            except (BadURL, Rejected) as error:
                offer.refused.append(jcf.job(URL=line.url[:2000] or None, REASON=str(error)[:500]))
        return offer

    def _sort(self, line: Job, offer: Offer) -> None:
        frontier = self._frontier
        url = normalise(line.url, frontier.settings.scheduler.url_bytes)
        if line.kind == "robots":
            self._errand(url, line, offer)
            return
        if line.kind != "page":
            raise Rejected(f"KIND={line.kind!r} is not known")
        depth, hops, prio = self._bounded(line, "DEPTH"), self._bounded(line, "HOPS"), self._bounded(line, "PRIO", 9)
        is_seed = bool(line.get("SCOPE"))
        if frontier.exclusions.forbids(url):
            if is_seed:
                raise Rejected("the exclude file forbids it")
            offer.outside += 1
            return
        seed = frontier.seeds.put(url, line) if is_seed else frontier.seeds.find(line.get("SEED"))
        if seed is None:
            raise Rejected("the job names no known SEED, and has no SCOPE to be one")
        most = frontier.settings.scheduler.max_depth if seed.maxdepth is None else seed.maxdepth
        if (
            depth > most
            or hops > frontier.settings.scheduler.redirects
            or not (is_seed or self._belongs(url, seed, depth, hops))
        ):
            offer.outside += 1
            return
        if not is_seed and depth == 0:
            seed = frontier.seeds.get(seed.id)
        kept = line.without(IN_COLUMNS | {"URL", "SEED", "KIND"})
        job = jcf.job(URL=url, SEED=seed.url, TAG=line.get("TAG") or seed.tag or None).having(
            **{name: value for name, value in kept.params.items() if name != "TAG"}
        )
        candidate = Candidate(url, job_key("page", url), seed, depth, prio, line.get("SINCE"), job, is_seed)
        row = self._row(candidate)
        if row is not None:
            self._merge(row, candidate, offer)
        elif (site_of(url), candidate.key) in offer.unknown:
            self._better(offer.unknown[(site_of(url), candidate.key)], candidate, offer)
        else:
            offer.unknown[(site_of(url), candidate.key)] = candidate

    def _bounded(self, line: Job, name: str, most: int = 1_000_000) -> int:
        value = line.number(name)
        if not 0 <= value <= most:
            raise Rejected(f"{name}={value} is not within 0 and {most}")
        return value

    def _belongs(self, url: str, seed: Seed, depth: int, hops: int) -> bool:
        """Is a link in its seed's scope? A seed's redirect may widen the scope, or be taken as one page."""
        if seed.scope.admits(url):
            return True
        if depth > 0 or hops == 0:
            return False
        host = host_of(url)
        if registrable_domain(host) == registrable_domain(host_of(seed.url)):
            self._frontier.seeds.widen(seed, seed_rule("host", f"https://{bare_host(host)}/"))
        return True

    def _better(self, held: Candidate, candidate: Candidate, offer: Offer) -> None:
        offer.known += 1
        if candidate.seed.left(candidate.depth) > held.seed.left(held.depth) or candidate.depth < held.depth:
            held.seed, held.depth, held.line = candidate.seed, candidate.depth, candidate.line

    def _errand(self, url: str, line: Job, offer: Offer) -> None:
        """A robots job: another site's robots.txt is read here, and that site waits."""
        frontier = self._frontier
        origin = normalise(line.get("FOR"))
        waiting = frontier.site_named(site_of(origin), create=True)
        assert waiting is not None
        if self._bounded(line, "HOPS") > ROBOTS_HOPS:
            raise Rejected("robots.txt is redirected too often")
        site = frontier.site_named(site_of(url), create=True)
        assert site is not None
        if frontier.rows.find(site.id, job_key("robots", url, origin)) is not None:
            offer.known += 1
            return
        job = jcf.job(URL=url, FOR=origin, HOPS=line.get("HOPS") or None)
        frontier.rows.insert(site.id, job_key("robots", url, origin), "robots", -1, 0, 0, "", jcf.dump_text(job))
        site.counts[QUEUED] += 1
        site.errands += 1
        frontier.block(waiting, 86400.0, f"its robots.txt is read at {site.name}")
        frontier.settle(site)
        frontier.settle(waiting)
        offer.new += 1

    # What the queue and the visits say -----------------------------------------------------------------------------

    def admit(self, offer: Offer, visits: dict[str, Job]) -> list[str]:
        """Queue what is new or due, now that idbd has answered; gives the URLs that must be asked again."""
        frontier = self._frontier
        again: dict[tuple[str, int], Candidate] = {}
        for key, candidate in offer.unknown.items():
            site = frontier.site_named(key[0])
            row = self._row(candidate)
            if row is not None:
                self._merge(row, candidate, offer)
            elif site is not None and (site.id, candidate.key) in frontier.deleted and candidate.url not in visits:
                again[key] = candidate
            else:
                self._admit(candidate, visits.get(candidate.url), offer)
        offer.unknown = again
        return [candidate.url for candidate in again.values()]

    def _row(self, candidate: Candidate) -> Row | None:
        site = self._frontier.site_named(site_of(candidate.url))
        if site is None:
            return None
        row = self._frontier.rows.find(site.id, candidate.key)
        if row is None:
            self._frontier.settle(site)
        return row

    def _admit(self, candidate: Candidate, visit: Job | None, offer: Offer) -> None:
        frontier = self._frontier
        if visit is None or is_due(visit, candidate.since, frontier.clock.utc()):
            line = candidate.line
            if visit is not None and visit.get("RECORD"):
                line = line.having(**{name: visit.get(name) or None for name in _VALIDATORS})
            frontier.insert(
                candidate.url,
                "page",
                candidate.prio,
                candidate.depth,
                candidate.seed.id,
                candidate.since,
                jcf.dump_text(line),
            )
            offer.new += 1
            return
        offer.known += 1
        held = scopes_of(visit.get("SCOPES"))
        seed = candidate.seed
        has_links = visit.get("RECORD") or visit.get("TO")
        if has_links and seed.left(candidate.depth) > held.get(str(seed.scope_id), -1.0):
            frontier.offer_relink(candidate.url, seed.id, candidate.depth, candidate.since, visit.get("TO"))

    def _merge(self, row: Row, candidate: Candidate, offer: Offer) -> None:
        """An offered job has a row: the better way to it counts."""
        frontier, seed = self._frontier, candidate.seed
        is_newer = epoch_of(candidate.since) > epoch_of(row.since)
        if row.state == DEAD:
            if candidate.is_seed or is_newer:
                line = candidate.line.having(**{n: jcf.parse_text(row.line).get(n) or None for n in _VALIDATORS})
                self._rewrite(row, candidate, jcf.dump_text(line))
                frontier.set_state(row, QUEUED, nrt=0, first_failed=0)
                site = frontier.site(row.site)
                site.parked, site.name_failures = False, 0
                frontier.settle(site)
                offer.new += 1
            else:
                offer.known += 1
            return
        offer.known += 1
        old = frontier.seeds.get(row.seed)
        is_same_scope = old.scope_id == seed.scope_id
        is_wider = seed.left(candidate.depth) > old.left(row.depth)
        if row.state in (LEASED, FETCHED, STORED):
            if is_newer or not is_same_scope or is_wider:
                self._note_relink(row, candidate)
            return
        if is_same_scope and (is_wider or candidate.depth < row.depth):
            validators = {n: jcf.parse_text(row.line).get(n) or None for n in _VALIDATORS}
            self._rewrite(row, candidate, jcf.dump_text(candidate.line.having(**validators)))
        elif not is_same_scope:
            self._note_relink(row, candidate)
        if is_newer or candidate.prio < row.prio:
            since = candidate.since if is_newer else row.since
            frontier.rows.change(
                "UPDATE job SET since = ?, prio = ? WHERE seq = ?", since, min(candidate.prio, row.prio), row.seq
            )
        if candidate.is_seed and row.state == DEFERRED:
            frontier.site(row.site).parked = False

    def _rewrite(self, row: Row, candidate: Candidate, line: str) -> None:
        self._frontier.rows.change(
            "UPDATE job SET line = ?, seed = ?, depth = ?, prio = ?, since = ? WHERE seq = ?",
            line, candidate.seed.id, candidate.depth, candidate.prio, candidate.since or row.since, row.seq,
        )  # fmt: skip

    def _note_relink(self, row: Row, candidate: Candidate) -> None:
        """The row is in work: when it is stored its links are offered again, for this seed, too."""
        entries = json.loads(row.relinks) if row.relinks else []
        entry = [candidate.seed.id, candidate.depth, candidate.since]
        covered = any(
            self._frontier.seeds.get(seed).scope_id == candidate.seed.scope_id
            and self._frontier.seeds.get(seed).left(depth) >= candidate.seed.left(candidate.depth)
            and since >= candidate.since
            for seed, depth, since in entries
        )
        if not covered and len(entries) < 16:
            row.relinks = json.dumps([*entries, entry])
            self._frontier.rows.change("UPDATE job SET relinks = ? WHERE seq = ?", row.relinks, row.seq)


def is_due(visit: Job, since: str, now: float) -> bool:
    """May a visited URL be asked again? When its time has come, or when a round is younger than its last visit."""
    return epoch_of(visit.get("DUE")) <= now or (bool(since) and epoch_of(visit.get("LAST")) < epoch_of(since))
