"""Which offered jobs belong: scope, depth, rules of sites, exclude and allow files, and the form of the URL."""

from __future__ import annotations

from dataclasses import replace

from combine.errors import Rejected
from combine.schedule.frontier import Frontier
from combine.schedule.offered import JOB_BYTES, SURELY_FITS, Candidate, Lead
from combine.schedule.rows import job_key
from combine.schedule.scope import bare_host, seed_rule
from combine.schedule.seeds import Seed
from combine.urls import host_of, normalise, registrable_domain, site_of
from formats.jcf import Job


class Judge:
    """Judges the lines of one ADD. What the lines of a page share is judged once."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        settings = frontier.settings
        self._limit, self._options = settings.scheduler.url_bytes, settings.urls.options()
        self._has_rules = frontier.has_rules
        self._seeds = frontier.seeds

    def judge(self, url: str, site: str, lead: Lead) -> Candidate | None:
        """An offered job that belongs, or None where it is outside; a line with a scope is put into the seed table.

        `site` is that of a URL known to be in its normal form, else "". Raises Rejected, BadURL or RecordError for what
        cannot be meant.
        """
        if site and len(url) <= lead.longest and lead.version == self._seeds.version:
            is_inside = lead.given.scope.admits_site(site)  # as of nearly all links, all else is judged with the lead
            return Candidate(url, (site, job_key(lead.kind, url)), lead) if is_inside else None
        if not site or self._options is not None or len(url) > self._limit:
            url = self.normal(url)
            site = site_of(url)
        if lead.seed is None:
            _measure(lead)
        if self._has_rules and (why := self._frontier.forbids(url)):
            if lead.is_seed:
                raise Rejected(why)
            return None
        if lead.seed is None or lead.is_seed or lead.version != self._frontier.seeds.version:
            lead = self._bound(url, lead)
        if not self._is_inside(url, lead):
            return None
        candidate = Candidate(url, (site, job_key(lead.kind, url)), lead)
        if not candidate.fits():
            raise Rejected(f"the job's line has more than {JOB_BYTES} bytes")
        return candidate

    def normal(self, url: str) -> str:
        """The normal form of a URL; raises BadURL."""
        return normalise(url, self._limit, self._options)

    def _bound(self, url: str, lead: Lead) -> Lead:
        """A lead with its seed as it is now."""
        seeds = self._frontier.seeds
        if lead.is_seed:
            lead = replace(lead, seed=seeds.put(url, lead.said))
        if lead.seed is None or lead.version != seeds.version:
            self._bind(lead)
        return lead

    def _bind(self, lead: Lead) -> None:
        seeds = self._frontier.seeds
        seed = seeds.get(lead.seed.id) if lead.seed is not None else seeds.find(lead.said.get("SEED"))
        if seed is None:
            raise Rejected("the job names no known SEED, and has no SCOPE to be one")
        lead.bind(seed, seeds.version)
        limits = self._frontier.settings.scheduler
        most = limits.max_depth if seed.maxdepth is None else seed.maxdepth
        lead.is_near = lead.depth <= most and lead.hops <= limits.redirects
        is_sure = lead.is_by_site and lead.is_near and not self._has_rules and self._options is None
        lead.longest = min(self._limit, SURELY_FITS - len(lead.tail)) if is_sure else 0

    def _is_inside(self, url: str, lead: Lead) -> bool:
        if lead.hops > self._frontier.settings.scheduler.redirects:
            return False
        is_inside = self._leads_inside if lead.kind == "sitemap" else self._belongs
        belongs = lead.is_seed or is_inside(url, lead.given, lead.depth, lead.hops, lead.said)
        if lead.version != self._frontier.seeds.version:
            self._bind(lead)  # a redirect has widened its seed
        return belongs

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


def bounded(line: Job, name: str, most: int = 1_000_000) -> int:
    """A whole number in a line, within its bounds; raises Rejected or RecordError."""
    value = line.number(name)
    if not 0 <= value <= most:
        raise Rejected(f"{name}={value} is not within 0 and {most}")
    return value


def _measure(lead: Lead) -> None:
    if lead.kind not in ("page", "sitemap"):
        raise Rejected(f"KIND={lead.kind[:40]!r} is not known")
    lead.depth, lead.hops = bounded(lead.said, "DEPTH"), bounded(lead.said, "HOPS")
    lead.prio = bounded(lead.said, "PRIO", 9)


def _domain(url: str) -> str:
    return registrable_domain(host_of(url))
