"""Seeds: from what an operator types, or lists in a file, to the lines that ADD takes.

A line is a URL, with or without its scheme, or a line of JCF. Everything is read and checked before anything starts, so
a slip in line 7,000 of a list costs nothing. This module asks nobody: names are resolved by the scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import IO

from combine import urls
from combine.errors import UsageError
from formats import jcf
from formats.jcf import Job

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?!\d+(?:[/?#]|$))")

#: What a hand-out adds to a job, and what only daemons say: a line that comes from outside keeps none of it.
_NOT_FROM_OUTSIDE = (
    "FETCH",
    "LEASE",
    "ADDR",
    "NRT",
    "FTIME",
    "ETAG",
    "LMOD",
    "TYP",
    "OUTCOME",
    "STATUS",
    "END",
    "FOR",
    "KIND",
)


@dataclass(frozen=True, slots=True)
class Seed:
    """A URL that the operator gave.

    `fallback` is its http form where no scheme was given; `params` those of a JCF line.
    """

    url: str
    fallback: str = ""
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_sitemap(self) -> bool:
        """Whether it lists the pages, and is none itself."""
        return self.params.get("KIND") == "sitemap"


@dataclass(frozen=True, slots=True)
class Wish:
    """How far and how fast the seeds of one command go; what is empty is left to the settings."""

    scope: str = "host"
    depth: int | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    tag: str = ""
    delay: str = ""
    budget: str = ""
    limit: int | None = None
    since: str = ""
    requisites: bool = False

    def checked(self) -> Wish:
        """The same wish, its patterns compiled once and its prefix normalised.

        Raises UsageError for what cannot be meant.
        """
        for option, patterns in (("--include", self.include), ("--exclude", self.exclude)):
            for pattern in patterns:
                try:
                    re.compile(pattern)
                except re.error as error:
                    raise UsageError(f"{option} {pattern!r} is no regular expression: {error}") from None
        kind, _, prefix = self.scope.partition(":")
        return replace(self, scope=f"under:{parse(prefix).url}") if kind == "under" else self

    def job(self, seed: Seed) -> Job:
        """The line of ADD for one seed; what a JCF line says of itself stands."""
        job = jcf.job(
            URL=seed.url,
            SCOPE=self.scope,
            ELSE=seed.fallback or None,
            MAXDEPTH=self.depth,
            INCLUDE=_any_of(self.include),
            EXCLUDE=_any_of(self.exclude),
            TAG=self.tag or None,
            DELAY=self.delay or None,
            BUDGET=self.budget or None,
            LIMIT=self.limit,
            SINCE=self.since or None,
            REQUISITES="1" if self.requisites else None,
        )
        return Job({**job.params, **seed.params})


def parse(text: str) -> Seed:
    """Read one URL as people write it; raises UsageError with a sentence."""
    if not text.strip():
        raise UsageError(f"{text!r} is no URL: it is empty")
    if any(sign.isspace() for sign in text):
        raise UsageError(f"{text!r} is no URL: a URL holds no blanks; write %20 for one inside it")
    scheme = _SCHEME.match(text)
    if scheme and scheme[1].lower() not in ("http", "https"):
        raise UsageError(f"{text!r} cannot be harvested: only http and https can, not {scheme[1].lower()}")
    if scheme:
        return Seed(_normal(text, text))
    rest = text.removeprefix("//")
    if rest[:1] in ("", "/", "?", "#", "."):
        raise UsageError(f"{text!r} is no URL: it names no host")
    return Seed(_normal(f"https://{rest}", text), _normal(f"http://{rest}", text))


def read(given: Iterable[str], file: IO[str] | None = None, sitemaps: Iterable[str] = ()) -> list[Seed]:
    """Read the URLs of a command line, then of a file, then of sitemaps, each once.

    Raises UsageError for the first that cannot be meant.
    """
    found: dict[tuple[str, bool], Seed] = {}
    for seed in (*map(parse, given), *(_read_lines(file) if file else ())):
        found.setdefault((seed.url, False), seed)
    for seed in map(parse, sitemaps):
        found.setdefault((seed.url, True), replace(seed, params={"KIND": "sitemap"}))
    return list(found.values())


def _read_lines(file: IO[str]) -> Iterator[Seed]:
    name = getattr(file, "name", "the list")
    try:
        for number, line in enumerate(file, 1):
            text = line.strip()
            if text and not text.startswith("#"):
                yield _read_line(text, f"{name}, line {number}")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: {error.reason}") from None


def _read_line(text: str, place: str) -> Seed:
    try:
        return _parse_jcf(text) if text.startswith("JCF/") else parse(text)
    except (UsageError, jcf.RecordError) as error:
        raise UsageError(f"{place}: {error}") from None


def _parse_jcf(text: str) -> Seed:
    job = jcf.parse_text(text)
    if not job.url:
        raise UsageError("the JCF line has no URL")
    return Seed(_normal(job.url, job.url), params=job.without((*_NOT_FROM_OUTSIDE, "URL")).params)


def _normal(url: str, given: str) -> str:
    try:
        return urls.normalise(url)
    except urls.BadURL as error:
        raise UsageError(f"{given!r} cannot be harvested: {error}") from None


def _any_of(patterns: tuple[str, ...]) -> str | None:
    if len(patterns) < 2:
        return patterns[0] if patterns else None
    return "|".join(f"(?:{pattern})" for pattern in patterns)
