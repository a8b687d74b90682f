"""What comes of a sitemap that was fetched.

A sitemap leaves no record. Its URLs are offered one hop from the seed, each with the time of its last change, and the
scheduler decides as for any link; the sitemaps it names become further sitemap jobs, one level down. What comes of it
lies in its visit. This module asks nobody; undoing the content coding is the caller's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from combine.web import sitemaps
from combine.web.announcements import absolute, listed_job, sitemap_job
from formats import jcf
from formats.hrf import Harvest
from formats.jcf import Job


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
        offers = [sitemap_job(job, url, level) for url in _normal(found.sitemaps) if url != job.url]
        times: dict[str, str] = {}
        for address, written in found.urls:
            if url := absolute(job.url, address):
                times.setdefault(url, written)
        offers += [_page_job(job, url, written) for url, written in times.items()]
    elif harvest.outcome == "redirect" and (target := absolute(job.url, harvest.field("location"))):
        level = job.number("DEPTH")
        offers = [sitemap_job(job, target, level).having(HOPS=job.number("HOPS") + 1)]
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


def _page_job(job: Job, url: str, written: str) -> Job:
    moment = sitemaps.moment(written) if written else None
    changed = None if moment is None or not 0 < moment < 1e11 else _utc(moment)
    return listed_job(job, url).having(DEPTH=1, CHANGED=changed)


def _normal(addresses: tuple[str, ...]) -> list[str]:
    found = (absolute("", address) for address in addresses)
    return [url for url in dict.fromkeys(found) if url]


def _utc(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
