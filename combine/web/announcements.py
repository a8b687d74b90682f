"""Which sitemaps a robots.txt calls for, and the jobs that come of it. This module asks nobody."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from combine.urls import BadURL, normalise, resolve
from combine.web.robots import origin_of
from formats import jcf
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
        found = (absolute(f"{key[0]}/robots.txt", href) for href in permission.sitemaps[:NAMED])
        return [sitemap_job(job, url, 0) for url in dict.fromkeys(found) if url]


def sitemap_job(job: Job, url: str, level: int) -> Job:
    """The ADD line of a sitemap that a job leads to; `level` sitemaps lie above it."""
    return listed_job(job, url).having(KIND="sitemap", DEPTH=level)


def listed_job(job: Job, url: str) -> Job:
    """The ADD line of what a job leads to, for the same seed."""
    return jcf.job(
        URL=url,
        SEED=job.get("SEED"),
        TAG=job.get("TAG") or None,
        VIA=job.url,
        SINCE=job.get("SINCE") or None,
        HDB=job.get("HDB") or None,
    )


def absolute(base: str, href: str) -> str:
    """The normalised URL that is meant; "" where there is none."""
    target = (resolve(base, href) if base else href) if href else ""
    try:
        return normalise(target) if target else ""
    except BadURL:
        return ""
