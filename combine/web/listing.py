"""Sitemap jobs: which ones a robots.txt calls for, and what comes of one that was fetched.

A sitemap leaves no record. Its URLs are offered one hop from the seed, each with the time of its last change, and the
scheduler decides as for any link; the sitemaps it names become further sitemap jobs, one level down. What comes of it
lies in its visit. This module asks nobody; undoing the content coding is the caller's.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from combine.urls import BadURL, normalise, resolve
from combine.web import sitemaps
from combine.web.robots import origin_of
from formats import jcf
from formats.hrf import Harvest
from formats.jcf import Job

if TYPE_CHECKING:  # parsers need this module, and have no use for an HTTP client: half of what they would load
    from combine.web.gate import Permission

#: Sitemaps of one robots.txt that become jobs: one message.
NAMED = 1000

#: Pairs of origin and seed remembered, and seconds for which: a day, as for robots.txt.
REMEMBERED, REMEMBER_S = 10_000, 86_400.0


class Announcements:
    """Says once for each seed and round, and for each fresh robots.txt, which sitemaps to read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: OrderedDict[tuple[str, ...], float] = OrderedDict()

    def of(self, job: Job, permission: Permission) -> list[Job]:
        """The ADD lines for a page's job; none where they were given a while ago."""
        key = origin_of(job.url), job.get("SEED"), job.get("SINCE")
        now = self._clock()
        if not permission.requests_made and now - self._said.get(key, -REMEMBER_S) < REMEMBER_S:
            return []
        self._said[key] = now
        self._said.move_to_end(key)
        while len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        found = (_absolute(f"{key[0]}/robots.txt", href) for href in permission.sitemaps[:NAMED])
        return [_sitemap_job(job, url, 0) for url in dict.fromkeys(found) if url]


@dataclass(frozen=True, slots=True)
class Listing:
    """What a sitemap's harvest came to: the ADD lines, and the line of STORED."""

    offers: list[Job]
    stored: Job


def read(harvest: Harvest, body: bytes, most: int) -> Listing:
    """Read a sitemap's harvest, whose body is given without its content coding; `most` URLs of it are offered."""
    job = harvest.job
    offers: list[Job] = []
    target = ""
    if harvest.outcome == "ok":
        found = sitemaps.parse(body, job.url, limit_urls=most)
        level = job.number("DEPTH") + 1
        offers = [_sitemap_job(job, url, level) for url in _normal(found.sitemaps) if url != job.url]
        times: dict[str, str] = {}
        for address, written in found.urls:
            if url := _absolute(job.url, address):
                times.setdefault(url, written)
        offers += [_page_job(job, url, written) for url, written in times.items()]
    elif harvest.outcome == "redirect" and (target := _absolute(job.url, harvest.field("location"))):
        level = job.number("DEPTH")
        offers = [_sitemap_job(job, target, level).having(HOPS=job.number("HOPS") + 1)]
    return Listing(offers, _stored(harvest, target))


def _stored(harvest: Harvest, target: str) -> Job:
    denied = harvest.outcome == "denied"
    return jcf.job(
        URL=harvest.job.url,
        FETCH=harvest.job.fetch,
        OUTCOME=harvest.outcome,
        STATUS=harvest.status or None,
        REASON="robots.txt forbids it" if denied else None,
        LAST=harvest.fetched,
        TO=target or None,
        SIZE=len(harvest.body),
    )


def _sitemap_job(job: Job, url: str, level: int) -> Job:
    return _job(job, url).having(KIND="sitemap", DEPTH=level)


def _page_job(job: Job, url: str, written: str) -> Job:
    moment = sitemaps.moment(written) if written else None
    changed = None if moment is None or not 0 < moment < 1e11 else _utc(moment)
    return _job(job, url).having(DEPTH=1, CHANGED=changed)


def _job(job: Job, url: str) -> Job:
    return jcf.job(
        URL=url,
        SEED=job.get("SEED"),
        TAG=job.get("TAG") or None,
        VIA=job.url,
        SINCE=job.get("SINCE") or None,
        HDB=job.get("HDB") or None,
    )


def _normal(addresses: tuple[str, ...]) -> list[str]:
    found = (_absolute("", address) for address in addresses)
    return [url for url in dict.fromkeys(found) if url]


def _absolute(base: str, href: str) -> str:
    """The normalised URL that is meant; "" where there is none."""
    target = (resolve(base, href) if base else href) if href else ""
    try:
        return normalise(target) if target else ""
    except BadURL:
        return ""


def _utc(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
