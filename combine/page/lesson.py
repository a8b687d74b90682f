"""What one harvest teaches: which record to write or remove, which links to offer, and what STORED says of it.

Two steps, with idbd's answer between them: `learn` reads the harvest and asks its question (has this digest, or this
removal, company?), and `Lesson.settle` decides with the answer. Pure: the record that stands is given, nothing is
written here.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from combine.config import Page as Limits
from combine.page import records
from combine.page.extract import Page, extract
from combine.page.fate import KEEP, REMOVE, STALE, Sights, fate
from combine.urls import BadURL, is_plain, normalise, of_bytes, resolve
from formats import jcf
from formats.hrf import Harvest
from formats.jcf import Job
from formats.wir import Link, Record

#: Kinds of links that become jobs.
FOLLOWED = frozenset({"a", "area", "frame", "iframe", "redirect", "refresh", "sitemap"})

#: The kind of link under which images, styles and scripts are offered.
REQUISITE = "requisite"

#: Why a page that came counts as a redirect.
CANONICAL = "canonical"

#: Characters of a media type that the visit keeps: RFC 6838 4.2 allows 127 on each side of the slash.
TYPE_LENGTH = 255

WRITE = "write"


@dataclass(frozen=True, slots=True)
class Lesson:
    """A harvest, read. `action` is what to do with its record once `settle` has decided; `question` is for idbd."""

    harvest: Harvest
    url: str
    raw: tuple[str, int, int]
    previous: Record | None
    page: Page | None
    outcome: str
    reason: str
    target: str
    question: Job | None
    action: str = KEEP
    record: Record | None = None

    @property
    def links(self) -> list[Link]:
        """The links to offer: those of the page, or of the record that still holds, or a redirect's target."""
        if self.target and self.reason != CANONICAL:
            return [Link("redirect", self.target, "", "")]
        has_requisites = bool(self.harvest.job.get("REQUISITES"))
        if self.outcome == "not-modified" and self.previous is not None:
            return links_of(self.previous, has_requisites)
        if self.page is None or self.page.robots.nofollow:
            return []
        return _followed(self.page.links, has_requisites)

    def settle(self, answer: Job | None, now: float, parser: str) -> Lesson:
        """Decide, with idbd's answer (None: it has nothing to say); `now` is the epoch time."""
        if self.outcome == "ok":
            assert self.page is not None
            same_as = answer.get("SAME") if answer else ""
            made = records.build(self.harvest, self.page, self.previous, self.raw, same_as, parser)
            return replace(self, action=WRITE, record=made)
        if self.previous is None:
            return self
        if self.outcome == "not-modified":
            return replace(self, action=WRITE, record=records.checked(self.previous, self.harvest))
        sights = sights_of(self.previous)
        if not self._is_repeated():
            sights = sights.again(self.outcome, _epoch(self.harvest.fetched[:19] + "Z"))
        status = 301 if self.reason == CANONICAL else self.harvest.status
        becomes = fate(self.outcome, status, self.reason == "noindex", sights, now)
        if becomes == REMOVE and answer is not None and answer.get("HOLD"):
            becomes = STALE
        if becomes == STALE:
            return replace(self, action=WRITE, record=records.stale(self.previous, sights, self.harvest))
        return replace(self, action=becomes)

    @property
    def canonical(self) -> str:
        """The other URL, normalised, that a page names as its canonical one; "" where there is none."""
        if self.outcome != "ok" or self.page is None or not self.page.canonical:
            return ""
        target = _normal(self.page.canonical)
        return target if target != self.url else ""

    def yielding(self) -> Lesson:
        """The same lesson where the canonical URL is taken for this one: it has no record, and leads there."""
        question = jcf.job(URL=self.url, OUTCOME="redirect") if self.previous is not None else None
        return replace(self, outcome="redirect", reason=CANONICAL, target=self.canonical, question=question)

    def _is_repeated(self) -> bool:
        """Whether a parser that died meanwhile has counted this very sight."""
        assert self.previous is not None
        fetched = self.harvest.fetched[:19] + "Z"
        sights = sights_of(self.previous)
        return sights.outcome == self.outcome and (
            fetched == self.previous.get("checked") or _epoch(fetched) == sights.since
        )

    def stored(self) -> Job:
        """The line of STORED: the outcome, and what the visit keeps."""
        harvest, record = self.harvest, self.record
        line = jcf.job(
            URL=self.url,
            FETCH=harvest.job.fetch,
            OUTCOME=self.outcome,
            STATUS=harvest.status or None,
            REASON=self.reason or None,
            LAST=harvest.fetched,
            TO=self.target or None,
            SIZE=len(harvest.body),
            RECORD="1" if self.has_record else None,
        )
        if self.outcome != "ok" or record is None:
            return line
        return line.having(
            FTIME=harvest.fetched,
            ETAG=harvest.field("etag")[:1024] or None,
            LMOD=harvest.field("last-modified")[:64] or None,
            TYP=record.get("type")[:TYPE_LENGTH] or None,
            DIGEST=record.get("text_digest") or None,
            SAME=record.get("same_as") or None,
        )

    @property
    def has_record(self) -> bool:
        """Whether a record stands after this."""
        return self.action == WRITE or (self.previous is not None and self.action != REMOVE)


def learn(
    harvest: Harvest,
    raw: tuple[str, int, int],
    previous: Callable[[str], Record | None],
    limits: Limits,
    agent: str = "",
) -> Lesson:
    """Read one harvest; `previous` gives the record that stands, `agent` is our name in robots metas."""
    url, outcome = harvest.job.url, harvest.outcome
    reason, target, page, question = "", "", None, None
    if outcome == "ok":
        page = extract(harvest, url, limits, agent)
        if page.robots.noindex:
            outcome, reason = "refused", "noindex"
        elif page.text_digest:
            question = jcf.job(URL=url, DIGEST=page.text_digest)
    elif outcome == "redirect":
        target = target_of(harvest, url)
    elif outcome == "denied":
        reason = "robots.txt forbids it"
    elif ("Challenge", "yes") in harvest.extra:
        reason = "challenge"
    standing = previous(url)
    if outcome not in ("ok", "not-modified") and standing is not None:
        question = jcf.job(URL=url, OUTCOME=outcome)
    return Lesson(harvest, url, raw, standing, page, outcome, reason, target, question)


def target_of(harvest: Harvest, url: str) -> str:
    """Where a redirect leads, normalised; "" where that is nowhere that can be asked."""
    target = resolve(url, of_bytes(harvest.field("location").encode("latin-1", "replace")))
    try:
        return normalise(target) if target else ""
    except BadURL:
        return ""


def links_of(record: Record, has_requisites: bool = False) -> list[Link]:
    """The links of a stored record that become jobs; none where its page said nofollow."""
    words = record.get("robots").replace(",", " ").lower().split()
    if "nofollow" in words or "none" in words:
        return []
    links = (Link(*columns[:4]) for columns in record.columns("link") if len(columns) >= 4)
    return _followed(links, has_requisites)


def _followed(links: Iterable[Link], has_requisites: bool) -> list[Link]:
    """The links that become jobs; what a page is made of comes after where it leads."""
    links = list(links)
    found = [link for link in links if link.kind in FOLLOWED]
    if has_requisites:
        found += [Link(REQUISITE, link.url, link.rel, link.text) for link in links if _is_requisite(link)]
    return found


def _is_requisite(link: Link) -> bool:
    if link.kind == "link":
        return bool({"stylesheet", "icon"} & set(link.rel.split()))
    return link.kind in ("img", "script", "style")


def sights_of(record: Record) -> Sights:
    """What a record's `stale` field says."""
    columns = record.columns("stale")
    if not columns or len(columns[0]) < 3 or not columns[0][2].isdigit():
        return Sights()
    outcome, since, count = columns[0][:3]
    return Sights(outcome, _epoch(since), int(count))


def _epoch(text: str) -> float:
    """A time written `YYYY-MM-DDThh:mm:ssZ` as epoch seconds; 0 where it is none."""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return 0.0


def targets(job: Job, links: list[Link], most: int) -> dict[str, str]:
    """The URLs to offer, normalised, `most` at most, each with its way: "", redirect or requisite.

    What is both a link and a requisite is a requisite, which counts no hop.
    """
    found: dict[str, str] = {}
    own = job.url
    for link in links:
        url = _normal(link.url)
        way = link.kind if link.kind in ("redirect", REQUISITE) else ""
        if url and (url not in found or way == REQUISITE) and (url != own or way == "redirect"):
            found[url] = way
            if len(found) >= most:
                break
    return found


@lru_cache(maxsize=16_384)
def _normal(url: str) -> str:
    """A link in its normal form, "" where it cannot be harvested. The same links stand on many pages of a site."""
    if is_plain(url):
        return url
    try:
        return normalise(url)
    except BadURL:
        return ""
