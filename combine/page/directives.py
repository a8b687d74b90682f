"""What a page allows robots to do with it: meta robots and X-Robots-Tag, for all agents and for one by name.

As the large engines read them: directives add up, the stricter wins, `none` is noindex and nofollow, and a passed
`unavailable_after` is noindex. Directives for another agent mean nothing here. This module never does I/O.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from email.utils import parsedate_tz

from combine.page.dates import page_date
from combine.zones import numbered

#: Directives whose value follows a colon; a word with a colon that is none of them names an agent.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_AGENT = re.compile(r"\s*([A-Za-z][\w.-]*)\s*:\s*(.*)", re.DOTALL | re.ASCII)
#: Between directives stand commas, or what some take for them; not those of a date, as in "Wed, 01 Jul 2026",
#: "Wednesday, 01-Jul-26" and "July 1, 2026".
_COMMA = re.compile(
    r"(?<!Mon)(?<!Tue)(?<!Wed)(?<!Thu)(?<!Fri)(?<!Sat)(?<!Sun)(?<!day),(?!\s*\d{4}\b)|;", re.IGNORECASE | re.ASCII
)

_NO_CLOCK = re.compile(r"((?:\s[+-]\d{4})?)\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Robots:
    """The directives of one page: what binds us, and all words as they were found, lower-case and sorted."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False
    words: tuple[str, ...] = ()


def robots(metas: list[tuple[str, str]], tags: list[str], agent: str = "", now: float | None = None) -> Robots:
    """Read the metas of a page and its X-Robots-Tag fields; `now` is the epoch time, by default nothing has passed."""
    words: set[str] = set()
    named = agent.lower()
    for name, content in metas:
        if name == "robots" or (named and name == named):
            words.update(_directives(content))
    for tag in tags:
        words.update(_of_field(tag, named))
    if not words:
        return SILENT
    late = now is not None and any(_is_over(word, now) for word in words)
    none = "none" in words
    return Robots(
        noindex=none or late or "noindex" in words,
        nofollow=none or "nofollow" in words,
        noarchive="noarchive" in words or "nocache" in words,
        words=tuple(sorted(words)),
    )


#: What a page says that says nothing.
SILENT = Robots()


def _of_field(value: str, named: str) -> set[str]:
    """The directives of one field that are for us. An agent's name holds for the directives up to the next name."""
    words: set[str] = set()
    for_us = True
    for part in _COMMA.split(value):
        while (match := _AGENT.fullmatch(part)) and match[1].lower() not in _VALUED:
            for_us = match[1].lower() in (named, "*", "robots") and bool(match[1])
            part = match[2]
        if for_us:
            words.update(_directives(part))
    return words


def _directives(text: str) -> list[str]:
    found = []
    for part in _COMMA.split(text):
        word = " ".join(part.lower().split())
        name, colon, value = word.partition(":")
        if colon and name.strip() in _VALUED:
            found.append(f"{name.strip()}:{value.strip()}")
        else:
            # Some sites put blanks where commas belong.
            found.extend(word.split())
    return [word for word in found if word]


def _is_over(word: str, now: float) -> bool:
    name, _, value = word.partition(":")
    if name != "unavailable_after":
        return False
    moment: float | None = page_date(value)
    if moment is None:
        moment = _loose_date(value)
    return moment is not None and moment < now


def _loose_date(value: str) -> float | None:
    """Dates as the engines' own documentation writes them, `25 jun 2010 15:00:00 pst`, and as mail does."""
    value = numbered(value)  # the reader of mail knows America's zones only
    parts = parsedate_tz(value if ":" in value else _NO_CLOCK.sub(r" 00:00:00\1", value, count=1))
    if parts is None:
        return None
    *moment, zone = parts
    try:
        return calendar.timegm((*moment[:6], 0, 0, 0)) - (zone or 0)
    except (ValueError, OverflowError):
        return None
