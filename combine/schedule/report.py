"""What the scheduler says of itself: the lines that STAT, SITE and WHY answer. Reads the frontier, changes nothing."""

from __future__ import annotations

from itertools import islice

from combine.schedule.frontier import Frontier
from combine.schedule.rows import DEAD, DEFERRED, FETCHED, LEASED, QUEUED, STATE_NAMES, STORED, Row, job_key
from combine.schedule.seeds import UNLIMITED
from combine.schedule.sites import BLOCKED, DUE, UNRESOLVED, WAITING, Site
from combine.urls import host_of, site_of
from formats import jcf
from formats.jcf import Job

#: Outcomes counted since the start, by their names in STAT.
OUTCOMES = {
    "OK": "ok",
    "UNCHANGED": "not-modified",
    "REDIRECTED": "redirect",
    "GONE": "gone",
    "REFUSED": "refused",
    "DENIED": "denied",
    "FAILED": "failed",
}

#: Sites named in a STAT, those that hold up the end of a harvest.
NAMED = 10


def stat(frontier: Frontier, pages: int, size: int) -> list[Job]:
    """The counters, the budgets, and the sites that wait for something."""
    totals = _totals(frontier)
    members = frontier.sites.members
    now = frontier.clock.boot()
    public = frontier.sites.asleep_public + sum(
        1 for site in frontier.sites if (site.counts[QUEUED] or site.counts[DEFERRED]) and is_public(frontier, site)
    )
    after = next_in(frontier)
    first = jcf.job(
        NAME="scheduler",
        GATE=frontier.gate,
        QUEUED=totals[QUEUED] + totals[DEFERRED],
        LEASED=totals[LEASED],
        FETCHED=totals[FETCHED] + totals[STORED],
        DEAD=totals[DEAD],
        UNRESOLVED=len(members[UNRESOLVED]),
        WAITING=len(members[WAITING]),
        DUE=len(members[DUE]),
        LEASEDSITES=len(members["leased"]),
        BLOCKED=len(members[BLOCKED]),
        PUBLIC=public,
        PAGES=pages,
        BYTES=size,
        NEXT=None if after is None else f"{after:.3f}",
        IDLE=f"{max(now - frontier.idle_since, 0):.3f}",
        SINCE=frontier.rows.forced_since() or None,
        STALLED=frontier.stalled or frontier.line.sentence() or None,
        **{name: frontier.outcomes[outcome] for name, outcome in OUTCOMES.items()},
    )
    out = _out_by_budget(frontier)
    budgets = [jcf.job(BUDGET=name, LEFT=max(left, 0), OUT=out.get(name, 0)) for name, left in frontier.seeds.budgets()]
    waiting = islice((number for state in (BLOCKED, WAITING, UNRESOLVED) for number in members[state]), NAMED)
    return [first, *budgets[:900], *(site_line(frontier, site) for site in frontier.awaken(waiting))]


def _totals(frontier: Frontier) -> list[int]:
    """Rows by state, relink jobs as well."""
    awake = [site.counts for site in frontier.sites]
    return [sum(counts) for counts in zip(frontier.relinks, frontier.sites.asleep_counts, *awake, strict=True)]


def is_public(frontier: Frontier, site: Site) -> bool:
    """Whether the site's host is anything but a listed private one."""
    return not frontier.is_listed(site.host, site.address)


def _out_by_budget(frontier: Frontier) -> dict[str, int]:
    statement = (
        "SELECT seed.budget, count(*) FROM job JOIN seed ON seed.id = job.seed"
        " WHERE job.fetch > 0 AND job.state = 2 AND seed.budget <> '' GROUP BY 1"
    )
    return dict(frontier.rows.db.execute(statement))


def next_in(frontier: Frontier) -> float | None:
    """Seconds until something may be handed out: 0 while work is under way, None where nothing waits."""
    members = frontier.sites.members
    totals = _totals(frontier)
    if (
        any(totals[LEASED : STORED + 1])
        or any(frontier.relinks[:5])
        or members[DUE]
        or members[UNRESOLVED]
        or members["leased"]
    ):
        return 0.0
    after = frontier.next_event()
    return None if after is None else max(after - frontier.clock.boot(), 0.0)


def site_line(frontier: Frontier, site: Site) -> Job:
    """What is known of a site."""
    now = frontier.clock.boot()
    after = max(site.next, site.blocked) - now
    lease = frontier.leases.get(site.lease)
    return jcf.job(
        SITE=site.name,
        STATE="blocked" if site.shut else site.state,
        DELAY=f"{frontier.delay(site):g}",
        NEXT=f"{max(after, 0):.3f}",
        QUEUED=site.counts[QUEUED] + site.counts[DEFERRED],
        LEASED=site.counts[LEASED],
        FETCHED=site.counts[FETCHED] + site.counts[STORED],
        DEAD=site.counts[DEAD],
        ADDR=site.address or None,
        HOLDER=lease.holder.pid if lease else None,
        REQUESTS=site.requests,
        FAILURES=site.failures or None,
        REASON="blocked by the operator"
        if site.shut
        else site.reason
        if site.blocked > now or not site.address
        else None,
    )


def why(frontier: Frontier, url: str, visit: Job | None) -> list[Job]:
    """Why a URL was, or was not, asked: its row, its visit, its last outcomes."""
    site = frontier.site_named(site_of(url))
    row = frontier.rows.find(site.id, job_key("page", url)) if site else None
    if row is None and site is not None:
        row = frontier.rows.find(site.id, job_key("sitemap", url))
    first = jcf.job(URL=url, SITE=site_of(url))
    if row is not None and site is not None:
        first = _row_line(frontier, first, row, site)
    elif visit is not None:
        first = first.having(STATE="stored", REASON=_visit_reason(visit), SEED=visit.get("SEED") or None)
    else:
        first = first.having(STATE="unknown", REASON=_unknown_reason(frontier, url))
    events = ";".join(known for known in (visit.get("EVENTS") if visit else "", row.events if row else "") if known)
    lines = [first]
    if visit is not None:
        lines.append(visit.without(("EVENTS",)).having(KIND="visit"))
    if site is not None and row is None:
        frontier.settle(site)
    return lines + [_event_line(event) for event in events.split(";") if event]


def _row_line(frontier: Frontier, first: Job, row: Row, site: Site) -> Job:
    job = jcf.parse_text(row.line)
    now = frontier.clock.boot()
    after = max(row.later if row.state == DEFERRED else 0.0, site.next, site.blocked) - now
    return first.having(
        STATE=STATE_NAMES[row.state],
        REASON=_row_reason(frontier, row, site),
        SEED=job.get("SEED") or None,
        VIA=job.get("VIA") or None,
        DEPTH=row.depth,
        NRT=row.nrt or None,
        NEXT=f"{max(after, 0):.0f}" if row.state in (QUEUED, DEFERRED) else None,
    )


def _row_reason(frontier: Frontier, row: Row, site: Site) -> str:
    now = frontier.clock.boot()
    if row.state == DEAD:
        return f"given up: {row.reason}"
    if row.state == LEASED:
        return "a harvester has it"
    if row.state in (FETCHED, STORED):
        return "it was fetched, and a parser is to store it"
    if row.state == DEFERRED:
        return f"try {row.nrt} failed ({row.reason}); the next in {max(row.later - now, 0):.0f} s"
    return _queue_reason(frontier, row, site, now)


def _queue_reason(frontier: Frontier, row: Row, site: Site, now: float) -> str:
    """Why a row that may go is not handed out yet."""
    if frontier.gate != "open":
        return "the gate is paused"
    if frontier.stalled:
        return frontier.stalled
    if site.shut:
        return "its site is blocked by the operator"
    if site.parked and frontier.seeds.left(frontier.seeds.get(row.seed)) < UNLIMITED:
        return "its run's budget of pages is spent"
    if site.state == BLOCKED or (site.state == UNRESOLVED and site.blocked > now):
        return f"its site rests for {max(site.blocked - now, 0):.0f} s: {site.reason}"
    if site.state == UNRESOLVED:
        if site.resolving:
            return f"the address of {site.host} is being looked up"
        return f"the address of {site.host} is looked up as soon as a harvester asks for jobs{_before(row, site)}"
    if site.state == WAITING:
        return f"its site may be asked again in {site.next - now:.1f} s"
    return "it waits for its turn"


def _before(row: Row, site: Site) -> str:
    """What held the row up before: with no daemon about, that is what its reader wants to know."""
    said = [f"try {row.nrt} failed ({row.reason})"] if row.nrt and row.reason else []
    return "".join(f"; before, {reason}" for reason in (*said, site.reason) if reason)


def _visit_reason(visit: Job) -> str:
    outcome, last = visit.get("OUTCOME"), visit.get("LAST") or "a time when the clock was ahead"
    words = {
        "ok": "it was read as a sitemap" if visit.kind == "sitemap" else "it was fetched and has a record",
        "not-modified": "it had not changed",
        "redirect": f"it redirects to {visit.get('TO') or 'nowhere'}",
        "gone": f"it is gone ({visit.get('STATUS')})",
        "refused": f"it was refused ({visit.get('REASON') or visit.get('STATUS')})",
        "denied": "robots.txt forbids it",
    }
    return f"{words.get(outcome, outcome)} at {last}; due again {visit.get('DUE')}"


def _unknown_reason(frontier: Frontier, url: str) -> str:
    if why := frontier.forbids(url):
        return why
    seeds = frontier.rows.db.execute("SELECT id FROM seed LIMIT 1000").fetchall()
    if not seeds:
        return "no seed was ever given"
    if trap := frontier.trap(url):
        return f"it looks like a trap ({trap}), of which as many URLs were taken as the settings of traps let"
    if any(frontier.seeds.get(number).scope.admits(url) for (number,) in seeds):
        hops = frontier.settings.scheduler.redirects
        return f"no page that was stored leads to it within its seed's depth and {hops} redirects"
    return f"{host_of(url)} is outside the scope of every seed"


def _event_line(event: str) -> Job:
    time, outcome, status, *reason = event.split(" ", 3) + [""] * 3
    return jcf.job(KIND="event", TIME=time, OUTCOME=outcome, STATUS=status.strip("-") or None, REASON=reason[0] or None)
