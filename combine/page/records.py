"""From a page to its record: every field of WIR, from harvest, page, job and the record that stood before.

The same bytes give the same record but for times, `raw`, `via`, `depth` and `same_as`. This module never does I/O.
"""

from __future__ import annotations

from combine.page import dates
from combine.page.extract import Page
from combine.page.fate import Sights
from combine.urls import host_of, record_id, registrable_domain
from formats import jcf
from formats.hrf import Harvest
from formats.wir import Record, join, join_all, record

#: Parameters of a job that are true of one hand-out or one way to the page only: they are no part of `robot`.
_PASSING = tuple(
    (
        "FETCH LEASE ADDR DELAY VIA DEPTH NRT PRIO SINCE FTIME ETAG LMOD TYP HOPS ELSE BATCH BUDGET END TOOK OUTCOME "
        "STATUS REASON AFTER DUE DIGEST SCOPES HOSTS REQUISITES"
    ).split()
)


def build(
    harvest: Harvest, page: Page, previous: Record | None, raw: tuple[str, int, int], same_as: str, parser: str
) -> Record:
    """Make the record of a page that came, field after field in the order of the file."""
    job, url = harvest.job, page.url
    host, fetched, modified = host_of(url), _second(harvest.fetched), harvest.field("last-modified")
    pairs = [
        ("id", record_id(url)),
        ("url", url),
        ("host", host),
        ("domain", registrable_domain(host)),
        ("seed", job.get("SEED")),
        ("tag", job.get("TAG")),
        ("via", job.get("VIA")),
        ("depth", job.get("DEPTH")),
        ("robot", jcf.dump_text(job.without(_PASSING))),
        ("first_seen", (previous.get("first_seen") if previous else "") or fetched),
        ("checked", fetched),
        ("changed", _changed(page, previous) or fetched),
        ("fetched", fetched),
        ("modified", _utc(page.modified)),
        ("modified_raw", modified if page.modified is None else ""),
        ("expires", _utc(page.expires)),
        ("published", _utc(page.published)),
        ("status", str(harvest.status or "")),
        ("type", page.type),
        ("charset", page.charset),
        ("size", _size(harvest)),
        ("truncated", page.truncated),
        ("server", harvest.field("server")),
        ("etag", harvest.field("etag")),
        ("body_digest", harvest.digest),
        ("text_digest", page.text_digest),
        ("same_as", same_as),
        ("raw", join(raw) if raw[0] else ""),
        ("language", page.language),
        ("language_declared", page.language_declared),
        ("canonical", page.canonical),
        ("robots", ", ".join(page.robots.words)),
        ("robots_txt", "" if harvest.robots == "obeyed" else harvest.robots),
        *[("right", value) for value in join_all(page.rights)],
        ("parser", parser),
        ("title", page.title),
        *[("meta", value) for value in join_all(page.metas)],
        *[("heading", value) for value in join_all([(str(level), text) for level, text in page.headings])],
        *[("link", value) for value in join_all(page.links)],
        ("counts", join((page.words, len(page.headings), len(page.links))) if page.parsable else ""),
        ("text", page.text),
    ]
    return record(pairs)


def checked(previous: Record, harvest: Harvest) -> Record:
    """The record after the server said that its page is unchanged: asked for again, and no longer stale."""
    return previous.having(checked=_second(harvest.fetched), stale=None)


def stale(previous: Record, sights: Sights, harvest: Harvest) -> Record:
    """The record of a page that could not be had, kept and marked."""
    mark = join((sights.outcome, dates.utc(int(sights.since)), sights.count))
    # Where robots.txt forbids, nobody was asked.
    asked = previous.get("checked") if sights.outcome == "denied" else _second(harvest.fetched)
    return previous.having(stale=mark, checked=asked)


def _changed(page: Page, previous: Record | None) -> str:
    """When the text last changed, if that was before now."""
    if previous is None or previous.get("text_digest") != page.text_digest:
        return ""
    return previous.get("changed")


def _size(harvest: Harvest) -> str:
    """The bytes of the body; where it was not asked for, those that the server announced."""
    if ("Unread", "type") not in harvest.extra:
        return str(len(harvest.body))
    announced = harvest.field("content-length")
    return announced if announced.isascii() and announced.isdigit() and len(announced) < 16 else ""


def _utc(epoch: int | None) -> str:
    return "" if epoch is None else dates.utc(epoch)


def _second(fetched: str) -> str:
    """A time without its milliseconds."""
    return fetched[:19] + "Z"
