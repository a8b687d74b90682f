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

_VALIDATORS = ("FTIME", "ETAG", "LMOD", "TYP", "DIGEST")


def merged(old: Job | None, news: Job, now: float, settings: Settings) -> Job:
    """The visit after one more request: what the news say, and what stays of the old one. News may come twice."""
    outcome = news.get("OUTCOME")
    last = news.get("LAST") or utc_text(now)
    if old is not None and (old.get("LAST"), old.get("OUTCOME")) == (last, outcome):
        return old.having(SCOPES=merged_scopes(old.get("SCOPES"), news.get("SCOPES")) or None)
    event = " ".join((last, outcome, news.get("STATUS") or "-", news.get("REASON"))).strip().replace(";", ",")
    earlier = [known.get("EVENTS") for known in (old, news) if known is not None and known.get("EVENTS")]
    events = [*";".join(earlier).split(";"), event] if earlier else [event]
    has_record = news.get("RECORD") == "1"
    if outcome == "not-modified" and old is not None:
        has_record = bool(old.get("RECORD"))
    visit: dict[str, str | None] = {
        "URL": news.url,
        "KIND": news.get("KIND"),
        "OUTCOME": outcome,
        "STATUS": news.get("STATUS"),
        "REASON": news.get("REASON"),
        "LAST": last,
        "DUE": utc_text(next_due(old, news, now, settings)),
        "EVERY": f"{interval(old, news, settings):.0f}" if settings.scheduler.revisit == "adaptive" else "",
        "TO": news.get("TO"),
        "RECORD": "1" if has_record else "",
        "SEED": news.get("SEED") or (old.get("SEED") if old else ""),
        "DEPTH": news.get("DEPTH") or (old.get("DEPTH") if old else ""),
        "SCOPES": merged_scopes(old.get("SCOPES") if old else "", news.get("SCOPES")),
        "EVENTS": ";".join(events[-EVENTS:]),
        "GONE": gone_since(old, news, last),
    }
    if has_record:
        source = news if outcome == "ok" else old
        visit |= {name: source.get(name) for name in _VALIDATORS} if source else {}
    return Job({name: value for name, value in visit.items() if value})


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
