"""Outcomes: what DONE says of a job and of its site, and what a look-up says of a site's name.

Theory of operation. Every outcome is looked up by FETCH, so what a row does not wait for changes nothing. One outcome
teaches two things: where the row goes (fetched, again later, dead, queued), and how its site is to be treated (pace,
back-off, refusals, the day's budget).
"""

from __future__ import annotations

import logging
from itertools import islice

from combine.errors import Rejected
from combine.schedule import politeness
from combine.schedule.board import REASON_LENGTH, ROBOTS_ELSEWHERE
from combine.schedule.handout import Handout
from combine.schedule.line import GOOD, NEW, PROBE_S, SILENT
from combine.schedule.rows import DEFERRED, FETCHED, LEASED, QUEUED, Row, job_key
from combine.schedule.sites import UNRESOLVED, Site
from combine.schedule.visit import with_event
from combine.urls import site_of
from formats import jcf
from formats.jcf import Job

log = logging.getLogger(__name__)

#: All outcomes, as DONE and STORED say them.
OUTCOMES = ("ok", "not-modified", "redirect", "gone", "refused", "denied", "failed")

#: Kinds of failure of https for which a seed without a scheme is asked by http: its host is there, and https is not.
NO_HTTPS = politeness.SITE_FAILURES - {"dns"}

#: Look-ups that say "no such name", in a row and within so many seconds, after which a site's rows are dead.
NO_SUCH_NAME, NO_SUCH_NAME_S = 3, 60.0


class Outcomes(Handout):
    """The leases, and what comes of them."""

    def done_all(self, lines: list[Job]) -> list[int]:
        """The outcomes of a message; gives the fetch numbers of those whose harvests, in batches, are current."""
        numbers = [line.fetch for line in lines]
        # A parser repeats what the harvester has said, of a batch in one message, and nearly all of it is known.
        known = self.rows.fetched(numbers) if all(map(_is_repeat, lines)) else set()
        if known:
            self.idle_since = self.clock.boot()
        with self.rows.held(fetch for fetch in numbers if fetch not in known):
            return [fetch for fetch, line in zip(numbers, lines, strict=True) if fetch in known or self.done(line)]

    def done(self, line: Job) -> bool:
        """One outcome of a hand-out; true where its harvest, in a batch, is the row's current one."""
        outcome = line.get("OUTCOME")
        if outcome and outcome not in OUTCOMES:
            raise Rejected(f"OUTCOME={outcome[:40]!r}: it is one of {' '.join(OUTCOMES)}")
        row = self.rows.fetched_as(line.fetch)
        is_current = False
        if row is not None and row.state in (QUEUED, DEFERRED, LEASED, FETCHED):
            is_current = self._done(row, line)
        if line.get("END"):
            self.end_lease(line.number("LEASE"), is_clean=True)
        return is_current

    def _done(self, row: Row, line: Job) -> bool:
        outcome = line.get("OUTCOME")
        if row.kind != "relink" and line.get("LEASE") and line.number("LEASE") == row.lease:
            self._learn(self.site(row.site), line)  # of the harvester's own word, once; a parser repeats less of it
            if row.state == FETCHED:
                self.rows.change("UPDATE job SET lease = 0 WHERE seq = ?", row.seq)
        if not outcome:
            if row.state == LEASED:
                self._unasked(row, line)
            return False
        if row.state == LEASED:
            self.counted[outcome] += 1
        self.idle_since = self.clock.boot() if outcome != "failed" else self.idle_since
        if row.kind == "robots" and outcome != "failed":
            self.answer_robots(row, frees=outcome != "redirect")
        elif outcome == "failed":
            self.fail(row, line)
        elif row.state == FETCHED:
            return True
        else:
            if row.state != LEASED and row.seed and row.kind == "page":
                self.seeds.spend(self.seeds.get(row.seed), 1)
            lease = 0 if line.get("LEASE") else row.lease
            self.set_state(row, FETCHED, batch=line.get("BATCH"), at=self.clock.boot(), later=0, lease=lease)
            self.settle_row(row)
            return True
        return False

    def _unasked(self, row: Row, line: Job) -> None:
        """A job is handed back; a seed without a scheme whose https cannot be reached at all is asked by http."""
        job = jcf.parse_text(row.line)
        if job.get("ELSE") and self._has_no_https(line.get("DETAIL")):
            self.give_back_page(row)
            site = self.site(row.site)
            site.blocked, site.reason = 0.0, ""  # it was https that could not be had, and http may be asked at once
            self.save_site(site)
            self._try_else(row, job)
        else:
            self._give_back(row, keeps_number=False)

    def answer_robots(self, row: Row, frees: bool) -> None:
        """A robots job is answered, so its row goes; where FOR's copy is written, the site that waited is free."""
        waiting = self.waits_for(row.line)
        self.delete(row)
        self.settle_row(row)
        if waiting is not None and frees and waiting.reason.startswith(ROBOTS_ELSEWHERE):
            waiting.blocked, waiting.reason = 0.0, ""
            self.save_site(waiting)
            self.settle(waiting)

    def bury(self, row: Row, reason: str, events: str, **columns: object) -> None:
        """Make a row dead; the site that waits for a robots job says why it goes on waiting."""
        waiting = self.waits_for(row.line) if row.kind == "robots" else None
        if waiting is not None and waiting.reason.startswith(ROBOTS_ELSEWHERE):
            waiting.reason = f"robots.txt cannot be read: {reason}"[:REASON_LENGTH]
            self.save_site(waiting)
        super().bury(row, reason, events, **columns)

    def _learn(self, site: Site, line: Job) -> None:
        """What an outcome says of its site: pace, failures, refusals, what it has been asked for today."""
        now, outcome, status = self.clock.boot(), line.get("OUTCOME"), line.number("STATUS")
        day = int(self.clock.utc() // politeness.DAY_S)
        if site.day != day:
            site.day, site.requests, site.bytes = day, 0, 0
        if line.get("DELAY") or line.get("ROBOTS") == "changed":
            site.crawl = line.seconds("DELAY")
            if site.crawl > self.settings.politeness.crawl_delay_report_s:
                log.warning(
                    "a robots.txt asks for a long delay, which is kept site=%s seconds=%g", site.name, site.crawl
                )
        after = line.seconds("AFTER")
        if "connect" in (line.get("REASON"), line.get("DETAIL")):
            site.turn, site.address_until = site.turn + 1, 0.0  # its name may have another address
        # Of a job that was not asked for robots.txt may have been, and what is beside it.
        site.requests += max(line.number("ASKED"), 0 if outcome in ("", "denied") else 1)
        if not outcome:
            if after:
                self.block(site, after, line.get("REASON"))
            return
        if outcome == "denied":
            return
        failed = outcome == "failed" and line.get("REASON") in politeness.LINE_FAILURES
        self.line.note(site.id, failed, now, _known(site))
        site.bytes += line.number("SIZE")
        listed = self.is_listed(site.host, site.address)
        if politeness.is_auto(self.settings, site.asked, listed):
            old = self.settings.politeness.auto_start_s if site.auto is None else site.auto
            site.auto = politeness.adapted(
                self.settings.politeness, old, line.number("TOOK") / 1000, 200 <= status < 300
            )
        self._learn_refusal(site, outcome, status, line.get("REASON") == "challenge")
        self._learn_failure(site, outcome, line, after, now)
        self._learn_budget(site, listed)

    def _learn_refusal(self, site: Site, outcome: str, status: int, is_challenge: bool) -> None:
        if outcome == "refused" and (status in (401, 403, 451) or is_challenge):
            site.refusals += 1
            if site.refusals % max(self.settings.politeness.refusals, 1) == 0:
                rest = politeness.refusal_rest(self.settings.politeness, site.refusals)
                self.block(site, rest, f"{site.refusals} refusals in a row")
        elif outcome in ("ok", "not-modified"):
            site.refusals = 0

    def _learn_failure(self, site: Site, outcome: str, line: Job, after: float, now: float) -> None:
        if outcome != "failed":
            site.failures = site.failures // 2 if outcome in ("ok", "not-modified", "redirect") else site.failures
            if after:
                site.next = max(site.next, now + after)
            return
        reason = line.get("REASON")
        if self.line.is_down():
            return
        if after:
            self.block(site, after, f"Retry-After of {after:g} s")
        elif reason in politeness.SITE_FAILURES or line.number("STATUS") in (429, 503):
            site.failures += 1
            wait = politeness.back_off(self.settings.politeness, site.failures, self.chance)
            self.block(site, wait, f"{site.failures} failures in a row, the last by {reason or line.get('STATUS')}")

    def _learn_budget(self, site: Site, listed: bool) -> None:
        requests, size = politeness.day_budget(self.settings, site.host, listed)
        if site.requests >= requests or site.bytes >= size:
            rest = politeness.DAY_S - self.clock.utc() % politeness.DAY_S
            self.block(site, rest, f"asked for {site.requests} pages and {site.bytes} bytes today")

    def fail(self, row: Row, line: Job) -> None:
        """A try failed for now: again after a wait that grows, or dead after many tries in a long time."""
        now = self.clock.boot()
        job = jcf.parse_text(row.line)
        reason = line.get("REASON") or line.get("STATUS")
        if row.state == LEASED:
            self.give_back_page(row)
        if job.get("ELSE") and self._has_no_https(reason):
            self._try_else(row, job)
            return
        is_ours = self.line.is_down()
        tries = row.nrt + (not is_ours)
        first = row.first_failed or now
        events = with_event(row.events, self._event(line))
        if self._is_hopeless(row, tries, now - first):
            self.bury(row, reason, events, nrt=tries)
        else:
            wait = politeness.back_off(self.settings.politeness, max(tries, 1), self.chance)
            wait = min(max(wait, line.seconds("AFTER")), self.settings.politeness.retry_ceiling_s)
            self.set_state(
                row, DEFERRED, fetch=0, lease=0, nrt=tries, first_failed=first, later=now + wait, wait=wait,
                reason=reason, events=events,
            )  # fmt: skip
        self.settle_row(row)

    def _is_hopeless(self, row: Row, tries: int, failing_s: float) -> bool:
        if row.kind == "sitemap":
            return tries >= self.settings.scheduler.sitemap_tries
        return tries >= self.settings.politeness.tries and failing_s >= self.settings.politeness.tries_s

    def _has_no_https(self, reason: str) -> bool:
        """Whether a failure says that a host has no https, rather than that our own line is down."""
        return reason in NO_HTTPS and not self.line.is_down()

    def _try_else(self, row: Row, job: Job) -> None:
        """A seed given without a scheme: https could not be reached, so http is asked."""
        url = job.get("ELSE")
        line = jcf.dump_text(job.having(URL=url, ELSE=None))
        self.delete(row)
        site = self.site_named(site_of(url), create=True)
        assert site is not None
        if self.rows.find(site.id, job_key(row.kind, url)) is None:
            self.insert(url, row.kind, row.prio, row.depth, row.seed, row.since, line)
        self.settle_row(row)

    def unresolved(self, count: int) -> list[Site]:
        """Sites whose names are to be looked up."""
        self.doze()
        members = self.sites.members[UNRESOLVED].items()
        free = (number for number, held in members if isinstance(held, bytes) or not held.resolving)
        return self.awaken(islice(free, count))

    def resolved(self, site: Site, address: str) -> None:
        """A site's host has an address."""
        site.address, site.address_until = address, self.clock.boot() + self.settings.scheduler.name_s
        site.name_failures = 0
        self.settle(site)

    def unresolvable(self, site: Site, reason: str, no_such_name: bool, is_refused: bool = False) -> None:
        """A site's host has no address that may be asked: one try of its first job failed, or all its jobs are dead."""
        now = self.clock.boot()
        if site.name_failures == 0 or now - site.name_failed > NO_SUCH_NAME_S:
            site.name_failures, site.name_failed = 0, now
        site.name_failures += no_such_name
        site.reason = reason
        if is_refused or site.name_failures >= NO_SUCH_NAME:
            while rows := self.rows.ready(site.id, 500, set()):
                for ready in rows:
                    self.die(self.rows.row(ready.seq), reason)
            return
        self.line.note(site.id, True, now, _known(site))
        if (row := self.first_ready(site)) is not None:
            self.fail(row, jcf.job(OUTCOME="failed", REASON="dns"))
        wait = PROBE_S
        if not self.line.is_down():
            site.failures += 1
            wait = politeness.back_off(self.settings.politeness, site.failures, self.chance)
        self.block(site, wait, reason)
        if site.id in self.sites.by_id:
            self.settle(site)


def _known(site: Site) -> str:
    """What is known of a site before a try, as far as its row says it, which outlives the process."""
    return SILENT if site.failures else GOOD if site.bytes else NEW


def _is_repeat(line: Job) -> bool:
    """Whether a line says no more than that a harvest lies in a batch."""
    params = line.params
    outcome = params.get("OUTCOME", "")
    return outcome != "failed" and outcome in OUTCOMES and "LEASE" not in params and "END" not in params
