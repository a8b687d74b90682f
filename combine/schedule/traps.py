"""Traps: URLs without end that a site makes of few pages. Told by the URL, bounded rather than banned. Pure.

    session id         a session's token in path or query: the same page under ever new names
    repeated segments  a path in which a segment comes again and again, as relative links make it
    growing query      a query of many parameters, or of one many times, as filters make it
    calendar           a date far from today in path or query, as calendars link on for ever
    same content       page after page of one kind with a text that another page has, soft 404s too

A trap has a pattern, which URLs of the same trap share; so many of them are taken and no more (the section `traps` of
the settings). Which were taken is counted on the board.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from typing import NamedTuple

from combine.config import Traps as Limits

SAME_CONTENT = "same content"

#: Runs of the same content followed at once.
RUNS = 10_000

_SESSION = re.compile(
    r"(?:[?&;/]|^)(?:phpsessid|jsessionid|aspsessionid\w*|asp\.net_sessionid|cfid|cftoken|sessionid|session_id|sessid"
    r"|sid|zenid|oscsid)=([\w.-]{8,})|(\(s\([a-z0-9]{24}\)\))",
    re.IGNORECASE | re.ASCII,
)
_DATED = re.compile(r"\d{4}[/-]", re.ASCII)
_DIGITS = re.compile(r"\d+", re.ASCII)
#: A year with its month, in a path or a value.
_DATE = re.compile(r"(?<![\w-])(\d{4})[-/](?:0?[1-9]|1[0-2])(?![\d])", re.ASCII)
_NAMES = "year|date|month|day|cal|jahr|leto"
#: One of these is in every URL that `_SESSION` finds, and in every query that names a day.
_SIGNS = ("sid", "sess", "cfid", "cftoken", "zenid", "(s(", "time", *_NAMES.split("|"))
#: A year, alone or at the head of a date without signs.
_YEAR = re.compile(
    rf"(?:^|[&;])[\w.\[\]-]*(?:{_NAMES})[\w.\[\]-]*=(\d{{4}})(?:(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])?)?(?!\d)",
    re.IGNORECASE | re.ASCII,
)
#: Seconds since 1970, as some calendars have it.
_SECONDS = re.compile(
    rf"(?:^|[&;])[\w.\[\]-]*(?:{_NAMES}|time)[\w.\[\]-]*=(\d{{9,10}})(?!\d)", re.IGNORECASE | re.ASCII
)


#: What a page with a text of its own takes from the length of its kind's run.
OWN = 2


class Trap(NamedTuple):
    """A kind of trap, and what its URLs share."""

    name: str
    pattern: str


def trap_of(url: str, year: int, limits: Limits) -> Trap | None:
    """The trap that a normalised URL looks like; `year` is the present one."""
    if _is_plain(url, limits):
        return None
    path, query = _path_and_query(url)
    if ("=" in url or "(" in url) and (_SESSION.search(path) or _SESSION.search(query)):
        return Trap("session id", _SESSION.sub("*", url))
    segments = [segment for segment in path.split("/") if segment]
    if _repeats(segments, limits):
        return Trap("repeated segments", "/".join(sorted(set(segments))))
    names = [pair.partition("=")[0] for pair in re.split("[&;]", query) if pair] if query else []
    if len(names) > limits.parameters or _repeats(names, limits):
        return Trap("growing query", path + "?" + "&".join(sorted(set(names))))
    if any(_is_far(found, year, limits) for found in _years(path, query)):
        return Trap("calendar", _DIGITS.sub("0", f"{path}?{query}"))
    return None


def _is_plain(url: str, limits: Limits) -> bool:
    """Whether a URL, as most, is too short and plain for a trap; each new one is looked at, and a search costs 5 µs."""
    if url.count("/") >= limits.repeats + 2:
        return False
    if "?" in url and url.count("&") + url.count(";") + 1 >= min(limits.repeats, limits.parameters + 1):
        return False
    if "=" in url or "(" in url:
        lowered = url.lower()
        for sign in _SIGNS:
            if sign in lowered:
                return False
    return _DATED.search(url) is None


def _path_and_query(url: str) -> tuple[str, str]:
    start = url.find("/", url.find("://") + 3)
    path, _, query = url[start:].partition("?") if start >= 0 else ("", "", "")
    return path, query


def _repeats(words: list[str], limits: Limits) -> bool:
    return len(words) >= max(limits.repeats, 1) and max(Counter(words).values()) >= limits.repeats


def _years(path: str, query: str) -> list[int]:
    found = _DATE.findall(path)
    if query:
        found += _DATE.findall(query.replace("=", " ").replace("&", " ")) + _YEAR.findall(query)
        found += [1970 + int(seconds) // 31_556_952 for seconds in _SECONDS.findall(query)]
    return [int(year) for year in found]


def _is_far(found: int, year: int, limits: Limits) -> bool:
    return found > year + limits.years_ahead or found < year - limits.years_back


def cap(trap: Trap, limits: Limits) -> int:
    """How many URLs of a trap are taken."""
    return limits.variants if trap.name == "session id" else limits.urls


def kind_of(url: str) -> Trap:
    """What URLs of pages of one kind share: the path without its last segment and numbers, and the query's names."""
    path, query = _path_and_query(url)
    directory, _, name = path.rpartition("/")
    names = sorted({pair.partition("=")[0] for pair in query.split("&") if pair})
    # Where a query tells pages apart, the name belongs to the kind.
    name = _DIGITS.sub("0", name) if names else ""
    return Trap(SAME_CONTENT, f"{_DIGITS.sub('0', directory)}/{name}?{'&'.join(names)}")


class Runs:
    """How many pages of a kind came, nearly in a row, with a text that another page of their site has."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lengths: OrderedDict[tuple[int, str], int] = OrderedDict()

    def note(self, site: int, url: str, is_same: bool) -> Trap | None:
        """Count a stored page; gives the trap when its run has become too long."""
        if not is_same and not self._lengths:
            return None
        trap = kind_of(url)
        key = (site, trap.pattern)
        if not is_same:
            # A flood in which a page of its own swims now and then is one all the same.
            if (length := self._lengths.pop(key, 0) - OWN) > 0:
                self._lengths[key] = length
            return None
        length = self._lengths[key] = self._lengths.get(key, 0) + 1
        self._lengths.move_to_end(key)
        while len(self._lengths) > RUNS:
            self._lengths.popitem(last=False)
        return trap if length >= self._limits.same_run else None
