"""What ADD does: which of the offered jobs become rows.

Theory of operation. `sort` judges the lines of one ADD: refused, outside (scope, depth, exclude file), merged into a
row that exists, or not in the queue. For the last idbd is asked, and `admit` queues what was never visited or is due,
and makes a relink job where the offer has more hops left, or another scope, than those for which the record's links
were offered. While idbd is asked, rows may come and go: `admit` looks again, and asks again for those whose row went
meanwhile, since idbd's answer may be older than that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from combine.errors import RecordError, Rejected, RetryLater
from combine.schedule import traps
from combine.schedule.board import ROBOTS_ELSEWHERE
from combine.schedule.clock import Clock, epoch_of, is_overtaken, is_younger, utc_text
from combine.schedule.frontier import VALIDATORS, Frontier, Way
from combine.schedule.judge import Judge, bounded
from combine.schedule.offered import Candidate, Lead, question, read
from combine.schedule.rows import DEAD, FETCHED, LEASED, QUEUED, STORED, Brief, Row, job_key
from combine.schedule.visit import scopes_of
from combine.urls import BadURL, normalise, site_of
from formats import jcf
from formats.jcf import Job

#: Hops of a robots.txt that is redirected from site to site (RFC 9309, 2.3.1.2), and how long a site waits for one.
ROBOTS_HOPS, ROBOTS_S = 5, 86400.0

#: Asks idbd for the visits that lines of LOOKUP name.
LookUp = Callable[[list[str]], Awaitable[Iterable[str]]]

#: Where the URL of a visit begins, and how what follows it does.
_URL_AT, _KIND, _DUE, _SCOPES = len(f'{jcf.VERSION} URL="'), '" KIND="', '" DUE="', '" SCOPES="'


@dataclass(slots=True)
class Offer:
    """The lines of one ADD and what became of them. A URL may be offered in several ways at once."""

    new: int = 0
    known: int = 0
    outside: int = 0
    refused: list[Job] = field(default_factory=list)
    unknown: dict[tuple[str, int], list[Candidate]] = field(default_factory=dict)
    asked: int = 0  # how many rows had come and gone when idbd was asked

    def questions(self) -> list[str]:
        """The lines of LOOKUP: what idbd must be asked for."""
        return [question(candidates[0].url, candidates[0].lead.kind) for candidates in self.unknown.values()]

    def text(self) -> str:
        """The counts, as ADD answers them."""
        return f"new={self.new} known={self.known} outside={self.outside} refused={len(self.refused)}"


class Intake:
    """Offers jobs to a frontier."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier

    async def offer(self, lines: Iterable[str], look_up: LookUp, is_due: bool = False) -> Offer:
        """Offer jobs; with `is_due` they are asked for whatever their visits say.

        Raises RecordError for what is no line; RetryLater where idbd is away, or the queue was read again meanwhile.
        """
        frontier = self._frontier
        epoch = frontier.epoch
        offer = self.sort(lines, is_due)
        frontier.offers += 1
        try:
            while questions := offer.questions():
                visits = await look_up(questions)
                if frontier.epoch != epoch:
                    raise RetryLater("the queues were read again meanwhile")
                self.admit(offer, visits)
        finally:
            if frontier.epoch == epoch:
                frontier.offers -= 1
                if not frontier.offers:
                    frontier.gone.clear()
        return offer

    def sort(self, lines: Iterable[str], is_due: bool = False) -> Offer:
        """Sort the lines of an ADD; `unknown` of the offer are those that idbd must be asked for."""
        frontier = self._frontier
        offer = Offer(asked=frontier.moves)
        judge = Judge(frontier)
        found: list[Candidate] = []
        for url, site, lead in read(lines):
            try:
                if lead.kind == "robots":
                    self._errand(judge.normal(url), lead.said, offer)
                    continue
                candidate = judge.judge(url, site, lead)
            except (BadURL, Rejected, RecordError) as error:
                offer.refused.append(jcf.job(URL=url[:2000] or None, REASON=str(error)[:500]))
                continue
            if candidate is None:
                offer.outside += 1
                continue
            candidate.lead.is_due = is_due
            found.append(candidate)
        self._meet(found, offer)
        return offer

    def _meet(self, candidates: list[Candidate], offer: Offer) -> None:
        """Merge candidates into the rows that they have; of the others idbd must be asked."""
        rows = self._find(candidates)
        for candidate in candidates:
            place = candidate.place
            held = rows.get(place)
            if held is None:
                offer.unknown.setdefault(place, []).append(candidate)
            elif _is_as_good(held, candidate.lead, self._frontier.clock):
                offer.known += 1
            else:
                rows[place] = CHANGED
                row = self._row(candidate)
                assert row is not None, "a row was found a moment ago"
                self._merge(row, candidate, offer)

    def _find(self, candidates: list[Candidate]) -> dict[tuple[str, int], Brief]:
        """The rows that candidates have, in brief."""
        places = [candidate.place for candidate in candidates]
        numbers = self._frontier.numbers_of({name for name, _ in places})
        names = {number: name for name, number in numbers.items()}
        keys = [(number, key) for name, key in places if (number := numbers.get(name)) is not None]
        return {(names[number], key): brief for number, key, brief in self._frontier.rows.find_many(keys)}

    def _errand(self, url: str, line: Job, offer: Offer) -> None:
        """A robots job: another site's robots.txt is read here, and that site waits."""
        frontier = self._frontier
        front = normalise(line.get("FOR"))
        origin = front.removesuffix("/")
        if origin.count("/") != 2:
            raise Rejected(f"FOR={front[:200]!r} is no site's front page")
        if bounded(line, "HOPS") > ROBOTS_HOPS:
            raise Rejected("robots.txt is redirected too often")
        waiting = frontier.site_named(site_of(front), create=True)
        site = frontier.site_named(site_of(url), create=True)
        assert waiting is not None
        assert site is not None
        if frontier.rows.find(site.id, job_key("robots", url, origin)) is None:
            job = jcf.job(URL=url, FOR=origin, HOPS=line.get("HOPS") or None)
            frontier.insert(url, "robots", -1, 0, 0, "", jcf.dump_text(job), waiting=origin)
            offer.new += 1
        else:
            offer.known += 1
        frontier.block(waiting, ROBOTS_S, f"{ROBOTS_ELSEWHERE} {site.name}")
        frontier.settle(waiting)

    # What the queue and the visits say -----------------------------------------------------------------------------

    def admit(self, offer: Offer, answers: Iterable[str]) -> None:
        """Queue what is new or due, now that idbd has answered; what it must be asked again stays in `unknown`."""
        frontier = self._frontier
        visits = _by_url(answers)
        again: dict[tuple[str, int], list[Candidate]] = {}
        late: list[Candidate] = []
        fresh: list[Candidate] = []
        has_moved = frontier.moves != offer.asked
        now, year = utc_text(frontier.clock.utc()), int(utc_text(frontier.clock.utc())[:4])
        for key, candidates in offer.unknown.items():
            candidate = candidates[0]
            if has_moved and self._went_since(key, offer.asked):
                again[key] = candidates
            elif has_moved or len(candidates) > 1:
                late += candidates
            elif (visit := visits.get((candidate.lead.kind, candidate.url))) is None:
                if candidate.lead.is_seed or not self._is_trap(candidate.url, year):
                    fresh.append(candidate)
                else:
                    offer.outside += 1
            elif _stands(visit, candidate.lead, now):
                offer.known += 1
            else:
                self._admit(candidate, jcf.parse_text(visit), offer)
        self._queue(fresh, offer)
        for candidate in late:
            row = self._row(candidate)
            if row is not None:
                self._merge(row, candidate, offer)
            else:
                visit = visits.get((candidate.lead.kind, candidate.url))
                self._admit(candidate, jcf.parse_text(visit) if visit else None, offer)
        offer.unknown, offer.asked = again, frontier.moves

    def _queue(self, candidates: list[Candidate], offer: Offer) -> None:
        rows = [(*candidate.place, *candidate.lead.columns, candidate.text()) for candidate in candidates]
        self._frontier.insert_many(rows)
        offer.new += len(rows)

    def _is_trap(self, url: str, year: int) -> bool:
        """Whether a new URL belongs to a trap that is full. Most URLs look like none, which is told at once."""
        frontier = self._frontier
        if not frontier.same and traps.trap_of(url, year, frontier.settings.traps) is None:
            return False
        return bool(frontier.trap(url, is_taken=True))

    def _went_since(self, key: tuple[str, int], asked: int) -> bool:
        """Whether a row with this key went after idbd was asked."""
        site = self._frontier.site_named(key[0]) if self._frontier.gone else None
        return site is not None and self._frontier.gone.get((site.id, key[1]), 0) > asked

    def _row(self, candidate: Candidate) -> Row | None:
        name, key = candidate.place
        numbers = self._frontier.numbers_of([name])
        return self._frontier.rows.find(numbers[name], key) if numbers else None

    def _admit(self, candidate: Candidate, visit: Job | None, offer: Offer) -> None:
        frontier, lead = self._frontier, candidate.lead
        seed = lead.given
        if visit is None and not lead.is_seed and frontier.trap(candidate.url, is_taken=True):
            offer.outside += 1
            return
        if visit is None or lead.is_due or self._is_due(visit, lead):
            line = candidate.line()
            if visit is not None and visit.get("RECORD"):
                line = line.having(**{name: visit.get(name) or None for name in VALIDATORS})
            text = jcf.dump_text(line)
            frontier.insert(candidate.url, lead.kind, lead.prio, lead.depth, seed.id, lead.since, text)
            offer.new += 1
            return
        offer.known += 1
        if lead.kind != "page":
            return
        held = scopes_of(visit.get("SCOPES"))
        has_links = visit.get("RECORD") or visit.get("TO")
        is_start = lead.depth == 0 and (visit.get("SEED") != seed.url or visit.number("DEPTH") > 0)
        is_wider = lead.left > held.get(str(seed.scope_id), -1.0)
        if (has_links and is_wider) or (visit.get("TO") and is_start):
            frontier.offer_relink(candidate.url, lead.way, visit.get("TO"))

    def _is_due(self, visit: Job, lead: Lead) -> bool:
        """Whether a visited URL is asked for again; a sitemap also for a scope in which its URLs were not offered."""
        now, least = self._frontier.clock.utc(), self._frontier.settings.scheduler.sitemap_s
        if is_due(visit, lead.since, now) or has_changed(visit, lead.changed, now, least):
            return True
        held = scopes_of(visit.get("SCOPES")).get(str(lead.given.scope_id), -1.0)
        return lead.kind == "sitemap" and lead.left > held

    def _merge(self, row: Row, candidate: Candidate, offer: Offer) -> None:
        """An offered job has a row: the better way to it counts."""
        frontier, lead = self._frontier, candidate.lead
        seed = lead.given
        is_newer = is_younger(lead.since, row.since, frontier.clock.utc())
        if row.state == DEAD and (lead.is_seed or is_newer or self._is_old_sitemap(row)):
            self._revive(row, candidate)
            offer.new += 1
            return
        offer.known += 1
        held = frontier.seeds.get(row.seed)
        is_same_scope = held.scope_id == seed.scope_id
        row_left = held.left(1 if row.kind == "sitemap" else row.depth)
        is_wider = lead.left > row_left
        # What a seed redirects to is taken although it lies outside, so depth 0 is more than its hops left.
        is_start = lead.depth == 0 and (row.depth > 0 or row.seed != seed.id) and row.kind == "page"
        if row.state in (LEASED, FETCHED, STORED):
            if is_newer or not is_same_scope or is_wider or is_start:
                frontier.note_way(row, lead.way)
            return
        can_pay = held.budget in frontier.seeds.spent and seed.budget not in frontier.seeds.spent
        is_nearer = lead.left == row_left and (lead.depth < row.depth or can_pay)
        if is_same_scope and (is_wider or is_nearer):
            self._rewrite(row, candidate)
        elif not is_same_scope or is_start:
            frontier.note_way(row, lead.way)
        if is_newer or lead.prio < row.prio:
            since = lead.since if is_newer else row.since
            frontier.rows.change(
                "UPDATE job SET since = ?, prio = ? WHERE seq = ?", since, min(lead.prio, row.prio), row.seq
            )

    def _is_old_sitemap(self, row: Row) -> bool:
        """A sitemap that was given up is tried again after its time."""
        frontier = self._frontier
        last = epoch_of(row.events.rpartition(";")[2].partition(" ")[0])
        return row.kind == "sitemap" and last + frontier.settings.scheduler.sitemap_s <= frontier.clock.utc()

    def _revive(self, row: Row, candidate: Candidate) -> None:
        """A dead row is tried again, as a new one."""
        frontier = self._frontier
        self._rewrite(row, candidate)
        frontier.set_state(row, QUEUED, nrt=0, first_failed=0)
        site = frontier.site(row.site)
        site.parked, site.name_failures = False, 0
        frontier.settle(site)

    def _rewrite(self, row: Row, candidate: Candidate) -> None:
        """A row goes the way of a candidate, and keeps what its visit taught it."""
        frontier = self._frontier
        old = jcf.parse_text(row.line)
        line = candidate.line().having(**{name: old.get(name) or None for name in VALIDATORS})
        since = max(row.since, candidate.lead.since, key=epoch_of)
        prio = min(row.prio, candidate.lead.prio)
        frontier.rows.change(
            "UPDATE job SET line = ?, seed = ?, depth = ?, prio = ?, since = ? WHERE seq = ?",
            jcf.dump_text(line), candidate.lead.given.id, candidate.lead.depth, prio, since, row.seq,
        )  # fmt: skip
        if row.seed != candidate.lead.given.id:
            if row.depth == 0:
                frontier.note_way(row, Way(row.seed, row.depth, row.since, old.number("HOPS")))
            site = frontier.site(row.site)
            site.parked = False
            frontier.settle(site)


#: Stands for a row that was changed since it was looked up: it must be read again.
CHANGED = Brief(-1, "", 0, 0, 0, "")


def _is_as_good(row: Brief, lead: Lead, clock: Clock) -> bool:
    """Whether a live row is known to be at least as near, for the same seed, as one more offer: as nearly all are."""
    if row.seed != lead.given.id or row.state in (DEAD, CHANGED.state):
        return False
    is_newer = bool(lead.since) and is_younger(lead.since, row.since, clock.utc())
    is_page = row.kind == "page" == lead.kind
    return is_page and lead.depth >= row.depth and lead.prio >= row.prio and not is_newer


def _by_url(answers: Iterable[str]) -> dict[tuple[str, str], str]:
    """The visits by kind and URL."""
    found = {}
    for line in answers:
        end = line.index('"', _URL_AT)
        kind = "page"
        if line.startswith(_KIND, end):
            kind = line[end + len(_KIND) : line.index('"', end + len(_KIND))]
        found[kind, line[_URL_AT:end]] = line
    return found


def _stands(visit: str, lead: Lead, now: str) -> bool:
    """Whether a visit is known, without being read, to be neither due nor of fewer hops left than one more offer."""
    if lead.since or lead.changed or lead.is_due or lead.depth == 0 or lead.kind != "page":
        return False
    due = visit.find(_DUE) + len(_DUE)
    scopes = visit.find(_SCOPES, due) + len(_SCOPES)
    if due < len(_DUE) or scopes < len(_SCOPES) or visit[due : due + len(now)] <= now:
        return False
    return _covers(visit[scopes : visit.index('"', scopes)], lead.given.scope_id, lead.given.left(lead.depth))


@lru_cache(maxsize=1024)
def _covers(scopes: str, scope: int, left: float) -> bool:
    return left <= scopes_of(scopes).get(str(scope), -1.0)


def has_changed(visit: Job, changed: str, now: float, least_s: float) -> bool:
    """Whether a page changed after its last visit, as a sitemap says; none is asked again sooner than `least_s` for it.

    The second it tells is a whole one: a page that was visited within it may have changed after that. A time in the
    future says nothing.
    """
    last = epoch_of(visit.get("LAST"))
    return int(last) <= epoch_of(changed) <= now and last + least_s <= now


def is_due(visit: Job, since: str, now: float) -> bool:
    """Whether a visited URL may be asked again: its time has come, or a round is younger than its last visit."""
    return epoch_of(visit.get("DUE")) <= now or is_overtaken(visit.get("LAST"), since, now)
