"""How long to wait: between two requests to a site, after a failure, after refusals. Pure arithmetic.

The delay of a site is the first of these that is given: a site rule of combine.toml, what the operator told the
scheduler, what the run that harvests it asks for, 0 where the host is a listed private one, the mode of the settings.
robots.txt's Crawl-delay is a floor under all but the site rule.
"""

from __future__ import annotations

import random

from combine.config import Politeness, Settings

DAY_S = 86400.0

#: Kinds of failure that speak of the site, not of one URL: its other jobs would meet the same.
SITE_FAILURES = frozenset({"connect", "dns", "tls", "timeout", "reset"})

#: Kinds of failure that may be our own line's.
LINE_FAILURES = frozenset({"connect", "dns"})


def is_auto(settings: Settings, asked: str, listed: bool) -> bool:
    """Whether a site under this run adapts its delay to its answers."""
    if asked:
        return asked == "auto" and not listed
    return settings.politeness.mode == "auto" and not listed


def base_delay(
    settings: Settings, host: str, told: float | None, asked: str, listed: bool, learned: float | None = None
) -> float:
    """The delay before crawl-delay, in seconds.

    `asked` is the run's: "", "auto" or seconds as text; `learned` is what an `auto` site has come to.
    """
    rule = settings.site_rule(host)
    if rule is not None and rule.delay_s is not None:
        return rule.delay_s
    if told is not None:
        return told
    if asked and asked != "auto":
        delay = float(asked)
    elif listed:
        delay = 0.0
    elif is_auto(settings, asked, listed):
        delay = settings.politeness.auto_start_s if learned is None else learned
    else:
        delay = settings.politeness.delay_s
    if not listed and not settings.agent.has_contact:
        delay = max(delay, settings.harvest.anonymous_delay_s)
    return delay


def with_crawl_delay(settings: Settings, host: str, delay: float, crawl_delay: float) -> float:
    """The delay with robots.txt's floor under it, which only a site rule may lower."""
    rule = settings.site_rule(host)
    if rule is not None and rule.delay_s is not None:
        return delay
    return max(delay, crawl_delay)


def rest(settings: Settings, host: str, delay: float, crawl_delay: float) -> float:
    """Seconds from the end of a lease to the site's next request.

    A margin is in it, as in every gap: a site notes the end of an answer a little later than we have it.
    """
    delay = with_crawl_delay(settings, host, delay, crawl_delay)
    return delay + settings.politeness.margin_s if delay > 0 else 0.0


def adapted(settings: Politeness, delay: float, latency_s: float, is_success: bool) -> float:
    """The next delay of an `auto` site: the mean of the old one and latency / concurrency.

    Only a 2xx answer may lower it.
    """
    target = latency_s / max(settings.auto_concurrency, 0.01)
    new = (delay + target) / 2
    if not is_success:
        new = max(new, delay)
    return min(max(new, settings.auto_floor_s), settings.auto_ceiling_s)


def back_off(settings: Politeness, tries: int, chance: random.Random) -> float:
    """Seconds to wait after so many failures in a row: base to the power of the tries, with jitter, capped."""
    wait = settings.retry_base ** min(tries, 64)
    return float(min(wait * chance.uniform(0.875, 1.125), settings.retry_ceiling_s))


#: Requests or bytes that no site comes to in a day.
NO_BUDGET = 10**15


def refusal_rest(settings: Politeness, refusals: int) -> float:
    """Seconds a site rests after so many refusals in a row: 0, or a day, doubled for each further score."""
    score = refusals // settings.refusals if settings.refusals else 0
    return 0.0 if score == 0 else DAY_S * 2.0 ** min(score - 1, 5)


def day_budget(settings: Settings, host: str, listed: bool) -> tuple[int, int]:
    """How many requests a site gets a day, and how many bytes are taken from it; a listed one by a site rule only."""
    rule, limits = settings.site_rule(host), settings.politeness
    return (
        (rule and rule.requests_day) or (NO_BUDGET if listed else limits.site_requests_day),
        (rule and rule.bytes_day) or (NO_BUDGET if listed else limits.site_bytes_day),
    )


def lease_size(settings: Settings, delay: float) -> int:
    """How many jobs fit into a lease at this delay; at least one."""
    most = settings.scheduler.lease_jobs
    if delay <= 0:
        return most
    return max(1, min(most, int(settings.scheduler.lease_s / delay)))


def lease_time(settings: Settings, delay: float) -> float:
    """Seconds after which a lease's holder is taken for dead."""
    return settings.scheduler.lease_s + delay + settings.scheduler.lease_grace_s
