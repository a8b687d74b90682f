"""When to ask again: at a fixed interval, or at one that follows how often a page changes. Pure.

`adaptive` halves the interval of a page that changed and makes that of an unchanged one half as long again, within
bounds. A page is unchanged where the server says so (304) or where its text has the digest it had before; what was no
page this time leaves the interval as it is.
"""

from __future__ import annotations

from combine.config import Settings
from combine.urls import host_of
from formats.jcf import Job

#: What the interval of a page is multiplied with.
CHANGED, UNCHANGED = 0.5, 1.5


def interval(old: Job | None, news: Job, settings: Settings) -> float:
    """The seconds between two visits of a page, after one more."""
    rule = settings.site_rule(host_of(news.url)) if settings.site else None
    limits = settings.scheduler
    base = limits.revisit_s if rule is None or rule.revisit_s is None else rule.revisit_s
    if limits.revisit == "fixed":
        return base
    every = (old.seconds("EVERY") if old is not None else 0.0) or base
    return min(max(every * _factor(old, news), limits.revisit_least_s), limits.revisit_most_s)


def _factor(old: Job | None, news: Job) -> float:
    if news.get("OUTCOME") == "not-modified":
        return UNCHANGED
    before, now = old.get("DIGEST") if old is not None else "", news.get("DIGEST")
    if news.get("OUTCOME") != "ok" or not before or not now:
        return 1.0
    return UNCHANGED if before == now else CHANGED


def next_due(old: Job | None, news: Job, now: float, settings: Settings) -> float:
    """When to ask again, in epoch seconds: after the interval; a first 404 again after a day, a sitemap, too."""
    if news.kind == "sitemap":
        return now + settings.scheduler.sitemap_s
    first_gone = news.get("OUTCOME") == "gone" and news.get("STATUS") != "410" and not (old and old.get("GONE"))
    if first_gone:
        return now + settings.scheduler.gone_again_s
    return now + interval(old, news, settings)
