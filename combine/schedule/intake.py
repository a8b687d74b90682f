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

from combine.errors import RecordError, Rejected, RetryLater
from combine.schedule.board import IN_COLUMNS, ROBOTS_ELSEWHERE
from combine.schedule.clock import epoch_of, is_overtaken
from combine.schedule.frontier import VALIDATORS, Frontier, Way
from combine.schedule.rows import DEAD, FETCHED, LEASED, QUEUED, STORED, Row, job_key
from combine.schedule.scope import bare_host, seed_rule
from combine.schedule.seeds import Seed
from combine.schedule.visits import scopes_of
from combine.urls import BadURL, host_of, normalise, registrable_domain, site_of
from formats import jcf
from formats.jcf import LINE_BYTES, Job

#: Hops of a robots.txt that is redirected from site to site (RFC 9309, 2.3.1.2), and how long a site waits for one.
ROBOTS_HOPS, ROBOTS_S = 5, 86400.0

#: Bytes of a job's line. What a hand-out adds to it must fit into a line, too, or the job could never be handed out.
JOB_BYTES = LINE_BYTES - 6 * 1024

#: Characters of names and values of which the line is never longer than that: four bytes each, four signs around each
#: parameter, and a seed's URL.
SURELY_FITS = 1_000

#: What only a hand-out or a visit says of a job: an offered line keeps none of it.
NOT_OFFERED = IN_COLUMNS | {"URL", "SEED", "KIND", "FOR", "OUTCOME", "STATUS", "REASON", "BATCH", "END", *VALIDATORS}

#: Asks idbd for the visits that lines of LOOKUP name.
LookUp = Callable[[list[Job]], Awaitable[Iterable[Job]]]


@dataclass(slots=True)
class Candidate:
    """One offered job, judged to belong."""

    url: str
    key: int
    seed: Seed
    depth: int
    prio: int
    since: str
    offered: Job
    is_seed: bool
    is_due: bool  # whatever its visit says
    changed: str = ""  # when its page last changed, as a sitemap says
    kind: str = "page"

    @property
    def left(self) -> float:
        """The hops left; a sitemap's URLs are one hop from the seed, however deep it lies below others."""
        return self.seed.left(1 if self.kind == "sitemap" else self.depth)

    @property
    def way(self) -> Way:
        """How it came here."""
        return Way(self.seed.id, self.depth, self.since, self.offered.number("HOPS"))

    def line(self) -> Job:
        """The line to queue. Most of what is offered is known, and never needs it."""
        params = self.offered.params
        kept = {name: value for name, value in params.items() if name not in NOT_OFFERED and name != "TAG"}
        return jcf.job(URL=self.url, SEED=self.seed.url, TAG=params.get("TAG") or self.seed.tag or None, **kept)

    def fits(self) -> bool:
        """Whether its line is one that can be handed out; the dear look is for those that may be too long."""
        params = self.offered.params
        characters = sum(map(len, params)) + sum(map(len, params.values())) + len(self.seed.tag)
        return characters <= SURELY_FITS or len(jcf.dump(self.line())) <= JOB_BYTES


@dataclass(slots=True)
class Offer:
    """The lines of one ADD and what became of them. A URL may be offered in several ways at once."""

    new: int = 0
    known: int = 0
    outside: int = 0
    refused: list[Job] = field(default_factory=list)
    unknown: dict[tuple[str, int], list[Candidate]] = field(default_factory=dict)
    asked: int = 0  # how many rows had gone when idbd was asked

    def questions(self) -> list[Job]:
        """The lines of LOOKUP: what idbd must be asked for."""
        return [question(candidates[0].url, candidates[0].kind) for candidates in self.unknown.values()]

    def text(self) -> str:
        """The counts, as ADD answers them."""
        return f"new={self.new} known={self.known} outside={self.outside} refused={len(self.refused)}"


class Intake:
    """Offers jobs to a frontier."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier

    async def offer(self, lines: Iterable[Job], look_up: LookUp, is_due: bool = False) -> Offer:
        """Offer jobs; with `is_due` they are asked for whatever their visits say.

        Raises RetryLater where idbd is away, or where the queue was read again meanwhile.
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
                self.admit(offer, {(visit.kind, visit.url): visit for visit in visits})
        finally:
            if frontier.epoch == epoch:
                frontier.offers -= 1
                if not frontier.offers:
                    frontier.gone.clear()
        return offer

    def sort(self, lines: Iterable[Job], is_due: bool = False) -> Offer:
        """Sort the lines of an ADD; `unknown` of the offer are those that idbd must be asked for."""
        offer = Offer(asked=self._frontier.went)
        for line in lines:
            try:
                self._sort(line, offer, is_due)
            except (BadURL, Rejected, RecordError) as error:
                offer.refused.append(jcf.job(URL=line.url[:2000] or None, REASON=str(error)[:500]))
        return offer

    def _sort(self, line: Job, offer: Offer, is_due: bool) -> None:
        frontier = self._frontier
        url = normalise(line.url, frontier.settings.scheduler.url_bytes, frontier.settings.urls.options())
        if line.kind == "robots":
            self._errand(url, line, offer)
            return
        if line.kind not in ("page", "sitemap"):
            raise Rejected(f"KIND={line.kind[:40]!r} is not known")
        candidate = self._judge(url, line, is_due)
        if candidate is None:
            offer.outside += 1
            return
        row = self._row(candidate)
        if row is not None:
            self._merge(row, candidate, offer)
        else:
            offer.unknown.setdefault((site_of(url), candidate.key), []).append(candidate)

    def _judge(self, url: str, line: Job, is_due: bool) -> Candidate | None:
        """An offered page, or None where it is outside; a line with a scope is put into the seed table."""
        frontier = self._frontier
        depth, hops, prio = self._bounded(line, "DEPTH"), self._bounded(line, "HOPS"), self._bounded(line, "PRIO", 9)
        is_seed = bool(line.get("SCOPE"))
        if why := frontier.forbids(url):
            if is_seed:
                raise Rejected(why)
            return None
        seed = frontier.seeds.put(url, line) if is_seed else frontier.seeds.find(line.get("SEED"))
        if seed is None:
            raise Rejected("the job names no known SEED, and has no SCOPE to be one")
        is_inside = self._leads_inside if line.kind == "sitemap" else self._belongs
        if hops > frontier.settings.scheduler.redirects or not (is_seed or is_inside(url, seed, depth, hops, line)):
            return None
        seed = frontier.seeds.get(seed.id)  # a redirect may have widened it
        since, changed = (line.get(name) if epoch_of(line.get(name)) else "" for name in ("SINCE", "CHANGED"))
        key = job_key(line.kind, url)
        candidate = Candidate(url, key, seed, depth, prio, since, line, is_seed, is_due, changed, line.kind)
        if not candidate.fits():
            raise Rejected(f"the job's line has more than {JOB_BYTES} bytes")
        return candidate

    def _bounded(self, line: Job, name: str, most: int = 1_000_000) -> int:
        value = line.number(name)
        if not 0 <= value <= most:
            raise Rejected(f"{name}={value} is not within 0 and {most}")
        return value

    def _leads_inside(self, url: str, seed: Seed, level: int, hops: int, line: Job) -> bool:
        """Whether a page in scope, or a sitemap of its own domain, led to this one, which may lie on any host."""
        limits, via = self._frontier.settings.scheduler, line.get("VIA")
        if level > limits.sitemap_levels or seed.left(1) < 0:
            return False
        if not via or seed.scope.admits(via if level == 0 and not hops else url):
            return True
        return bool(level or hops) and _domain(url) == _domain(via)

    def _belongs(self, url: str, seed: Seed, depth: int, hops: int, line: Job) -> bool:
        """Is a link in its seed's scope? A seed's redirect may widen the scope, or be taken as one page."""
        if depth > (self._frontier.settings.scheduler.max_depth if seed.maxdepth is None else seed.maxdepth):
            return False
        rule = self._frontier.settings.site_rule(host_of(url)) if self._frontier.settings.site else None
        if rule is not None and rule.depth is not None and depth > rule.depth:
            return False
        if line.get("REQUISITE"):
            near = seed.scope.admits(url) or _domain(url) == _domain(line.get("VIA") or seed.url)
            return near and seed.scope.has_requisites
        if seed.scope.admits(url):
            return True
        if depth > 0 or hops == 0:
            return False
        if _domain(url) == _domain(seed.url):
            self._frontier.seeds.widen(seed, seed_rule("host", f"https://{bare_host(host_of(url))}/"))
        return True

    def _errand(self, url: str, line: Job, offer: Offer) -> None:
        """A robots job: another site's robots.txt is read here, and that site waits."""
        frontier = self._frontier
        front = normalise(line.get("FOR"))
        origin = front.removesuffix("/")
        if origin.count("/") != 2:
            raise Rejected(f"FOR={front[:200]!r} is no site's front page")
        if self._bounded(line, "HOPS") > ROBOTS_HOPS:
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

    def admit(self, offer: Offer, visits: dict[tuple[str, str], Job]) -> None:
        """Queue what is new or due, now that idbd has answered; what it must be asked again stays in `unknown`."""
        frontier = self._frontier
        again: dict[tuple[str, int], list[Candidate]] = {}
        for key, candidates in offer.unknown.items():
            if self._went_since(key, offer.asked):
                again[key] = candidates
                continue
            for candidate in candidates:
                row = self._row(candidate)
                if row is not None:
                    self._merge(row, candidate, offer)
                else:
                    self._admit(candidate, visits.get((candidate.kind, candidate.url)), offer)
        offer.unknown, offer.asked = again, frontier.went

    def _went_since(self, key: tuple[str, int], asked: int) -> bool:
        """Whether a row with this key went after idbd was asked."""
        site = self._frontier.site_named(key[0]) if self._frontier.gone else None
        return site is not None and self._frontier.gone.get((site.id, key[1]), 0) > asked

    def _row(self, candidate: Candidate) -> Row | None:
        # A site with rows is in memory, so most of what is known costs no look at the disk here.
        site = self._frontier.sites.by_name.get(site_of(candidate.url))
        return self._frontier.rows.find(site.id, candidate.key) if site is not None else None

    def _admit(self, candidate: Candidate, visit: Job | None, offer: Offer) -> None:
        frontier, seed = self._frontier, candidate.seed
        if visit is None and not candidate.is_seed and frontier.trap(candidate.url, is_taken=True):
            offer.outside += 1
            return
        if visit is None or candidate.is_due or self._is_due(visit, candidate):
            line = candidate.line()
            if visit is not None and visit.get("RECORD"):
                line = line.having(**{name: visit.get(name) or None for name in VALIDATORS})
            text = jcf.dump_text(line)
            depth, since = candidate.depth, candidate.since
            frontier.insert(candidate.url, candidate.kind, candidate.prio, depth, seed.id, since, text)
            offer.new += 1
            return
        offer.known += 1
        if candidate.kind != "page":
            return
        held = scopes_of(visit.get("SCOPES"))
        has_links = visit.get("RECORD") or visit.get("TO")
        is_start = candidate.depth == 0 and (visit.get("SEED") != seed.url or visit.number("DEPTH") > 0)
        is_wider = candidate.left > held.get(str(seed.scope_id), -1.0)
        if (has_links and is_wider) or (visit.get("TO") and is_start):
            frontier.offer_relink(candidate.url, candidate.way, visit.get("TO"))

    def _is_due(self, visit: Job, candidate: Candidate) -> bool:
        """Whether a visited URL is asked for again; a sitemap also for a scope in which its URLs were not offered."""
        now, least = self._frontier.clock.utc(), self._frontier.settings.scheduler.sitemap_s
        if is_due(visit, candidate.since, now) or has_changed(visit, candidate.changed, now, least):
            return True
        held = scopes_of(visit.get("SCOPES")).get(str(candidate.seed.scope_id), -1.0)
        return candidate.kind == "sitemap" and candidate.left > held

    def _merge(self, row: Row, candidate: Candidate, offer: Offer) -> None:
        """An offered job has a row: the better way to it counts."""
        frontier, seed = self._frontier, candidate.seed
        is_newer = epoch_of(candidate.since) > epoch_of(row.since)
        if row.state == DEAD and (candidate.is_seed or is_newer or self._is_old_sitemap(row)):
            self._revive(row, candidate)
            offer.new += 1
            return
        offer.known += 1
        held = frontier.seeds.get(row.seed)
        is_same_scope = held.scope_id == seed.scope_id
        row_left = held.left(1 if row.kind == "sitemap" else row.depth)
        is_wider = candidate.left > row_left
        # What a seed redirects to is taken although it lies outside, so depth 0 is more than its hops left.
        is_start = candidate.depth == 0 and (row.depth > 0 or row.seed != seed.id) and row.kind == "page"
        if row.state in (LEASED, FETCHED, STORED):
            if is_newer or not is_same_scope or is_wider or is_start:
                frontier.note_way(row, candidate.way)
            return
        can_pay = held.budget in frontier.seeds.spent and seed.budget not in frontier.seeds.spent
        is_nearer = candidate.left == row_left and (candidate.depth < row.depth or can_pay)
        if is_same_scope and (is_wider or is_nearer):
            self._rewrite(row, candidate)
        elif not is_same_scope or is_start:
            frontier.note_way(row, candidate.way)
        if is_newer or candidate.prio < row.prio:
            since = candidate.since if is_newer else row.since
            frontier.rows.change(
                "UPDATE job SET since = ?, prio = ? WHERE seq = ?", since, min(candidate.prio, row.prio), row.seq
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
        since = max(row.since, candidate.since, key=epoch_of)
        prio = min(row.prio, candidate.prio)
        frontier.rows.change(
            "UPDATE job SET line = ?, seed = ?, depth = ?, prio = ?, since = ? WHERE seq = ?",
            jcf.dump_text(line), candidate.seed.id, candidate.depth, prio, since, row.seq,
        )  # fmt: skip
        if row.seed != candidate.seed.id:
            if row.depth == 0:
                frontier.note_way(row, Way(row.seed, row.depth, row.since, old.number("HOPS")))
            site = frontier.site(row.site)
            site.parked = False
            frontier.settle(site)


def question(url: str, kind: str = "page") -> Job:
    """The line of LOOKUP for a URL's visit."""
    return jcf.job(URL=url, KIND=None if kind == "page" else kind)


def _domain(url: str) -> str:
    return registrable_domain(host_of(url))


def has_changed(visit: Job, changed: str, now: float, least_s: float) -> bool:
    """Whether a page changed after its last visit, as a sitemap says; none is asked again sooner than `least_s` for it.

    A time in the future says nothing.
    """
    last = epoch_of(visit.get("LAST"))
    return last < epoch_of(changed) <= now and last + least_s <= now


def is_due(visit: Job, since: str, now: float) -> bool:
    """Whether a visited URL may be asked again: its time has come, or a round is younger than its last visit."""
    return epoch_of(visit.get("DUE")) <= now or is_overtaken(visit.get("LAST"), since, now)
