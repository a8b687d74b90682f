"""One visit, a JCF line: what one more request makes of it, and for which scopes its links were offered. Pure."""

from __future__ import annotations

from functools import lru_cache

from combine.config import Settings
from combine.schedule.clock import utc_text
from combine.schedule.revisit import interval, next_due
from formats.jcf import Job

#: Outcomes kept in a visit, newest last.
EVENTS = 8

#: Pairs of scope and hops left kept in a visit. More overlapping scopes than this on one page no longer relink it.
SCOPES = 16

_NOTHING = Job()
_VALIDATORS = ("FTIME", "ETAG", "LMOD", "TYP", "DIGEST")


def merged(old: Job | None, news: Job, now: float, settings: Settings) -> Job:
    """The visit after one more request: what the news say, and what stays of the old one. News may come twice."""
    said, held = news.params.get, (old or _NOTHING).params.get
    outcome, last = said("OUTCOME", ""), said("LAST") or utc_text(now)
    if old is not None and (held("LAST"), held("OUTCOME")) == (last, outcome):
        return old.having(SCOPES=merged_scopes(held("SCOPES", ""), said("SCOPES", "")) or None)
    has_record = bool(held("RECORD")) if outcome == "not-modified" and old is not None else said("RECORD") == "1"
    visit = {
        "URL": news.url,
        "KIND": said("KIND"),
        "OUTCOME": outcome,
        "STATUS": said("STATUS"),
        "REASON": said("REASON"),
        "LAST": last,
        "DUE": utc_text(next_due(old, news, now, settings)),
        "EVERY": f"{interval(old, news, settings):.0f}" if settings.scheduler.revisit == "adaptive" else "",
        "TO": said("TO"),
        "RECORD": "1" if has_record else "",
        "SEED": said("SEED") or held("SEED"),
        "DEPTH": said("DEPTH") or held("DEPTH"),
        "SCOPES": merged_scopes(held("SCOPES", ""), said("SCOPES", "")),
        "EVENTS": _events(held("EVENTS"), said("EVENTS"), _event(last, outcome, news)),
        "GONE": gone_since(old, news, last) if outcome == "gone" else "",
    }
    if has_record:
        source = said if outcome == "ok" else held
        for name in _VALIDATORS:
            visit[name] = source(name)
    return Job({name: value for name, value in visit.items() if value})


def _event(last: str, outcome: str, news: Job) -> str:
    words = (last, outcome, news.get("STATUS") or "-", news.get("REASON"))
    return " ".join(words).strip().replace(";", ",")


def _events(held: str | None, said: str | None, event: str) -> str:
    """The last outcomes of a visit, those that the news had of failed tries, and one more."""
    earlier = ";".join(filter(None, (held, said)))
    return with_event(earlier, event)


def gone_since(old: Job | None, news: Job, last: str) -> str:
    """Since when a page has been gone, "" where it is not."""
    if news.get("OUTCOME") != "gone":
        return ""
    return (old.get("GONE") if old else "") or last


def scopes_of(text: str) -> dict[str, float]:
    """The map of scope number to hops left from its text `3:1 7:*`."""
    pairs = (pair.partition(":") for pair in text.split())
    return {
        scope: float("inf") if left == "*" else float(left) for scope, _, left in pairs if left == "*" or left.isdigit()
    }


def scopes_text(scopes: dict[str, float]) -> str:
    """The text of a map of scope number to hops left."""
    return " ".join(f"{scope}:{'*' if left == float('inf') else int(left)}" for scope, left in scopes.items())


def is_more(new: str, old: str) -> bool:
    """Whether one map has a scope, or more hops left in one, that the other has not."""
    if new == old:
        return False
    held = scopes_of(old)
    return any(left > held.get(scope, -1.0) for scope, left in scopes_of(new).items())


@lru_cache(maxsize=4096)
def merged_scopes(old: str, new: str) -> str:
    """Both maps, with the more hops left where both know a scope."""
    if old == new or not new:
        return old
    scopes = scopes_of(old)
    for scope, left in scopes_of(new).items():
        scopes[scope] = max(left, scopes.get(scope, -1.0))
    return scopes_text(dict(list(scopes.items())[-SCOPES:]))


@lru_cache(maxsize=4096)
def one_scope(scope: int, left: float) -> str:
    """The text of one scope and the hops left in it."""
    return scopes_text({str(scope): left})


def with_event(events: str, event: str) -> str:
    """The last outcomes of a URL with one more."""
    return ";".join([*(events.split(";") if events else []), event][-EVENTS:])
