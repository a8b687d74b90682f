"""Lines of ADD as they are read: most of what a line says it shares with the other links of its page.

Theory of operation. Of the thousand lines of a message most are a URL in its normal form and, after it, the same text
as in the line before: seed, page, depth. That text is read once and becomes a `Lead`; a line more costs one regular
expression. Whatever is written in another way is read as any JCF line. What a line asks for is judged in `intake`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from combine.errors import RecordError
from combine.schedule.board import IN_COLUMNS
from combine.schedule.clock import epoch_of
from combine.schedule.frontier import VALIDATORS, Way
from combine.schedule.seeds import Seed
from combine.urls import PLAIN_URL, plain_site
from formats import jcf
from formats.jcf import LINE_BYTES, Job

#: Bytes of a job's line. What a hand-out adds to it must fit into a line, too, or the job could never be handed out.
JOB_BYTES = LINE_BYTES - 6 * 1024

#: Characters of which a job's line is never longer than JOB_BYTES: four bytes each, and some of them encoded.
SURELY_FITS = 2_000

#: What only a hand-out or a visit says of a job: an offered line keeps none of it.
NOT_OFFERED = IN_COLUMNS | {"URL", "SEED", "KIND", "FOR", "OUTCOME", "STATUS", "REASON", "BATCH", "END", *VALIDATORS}

_LINE = re.compile(rf'JCF/0\.0 URL="({PLAIN_URL})"(.*)')


@dataclass(slots=True)
class Lead:
    """What led to a URL: all that an offered line says but the URL itself, and what the seed makes of it."""

    said: Job
    kind: str = field(init=False)
    is_seed: bool = field(init=False)  # the operator gave the URL
    seed: Seed | None = None
    depth: int = 0
    hops: int = 0
    prio: int = 0
    since: str = ""
    changed: str = ""  # when its page last changed, as a sitemap says
    is_due: bool = False  # whatever its visit says
    tail: str = ""  # of the line to queue, after the URL
    version: int = 0  # of the seeds, when this one was read
    is_near: bool = False  # neither too deep nor redirected too often
    is_by_site: bool = False  # whether only the site says if a URL belongs
    columns: tuple[str, int, int, int, str] = ("page", 0, 0, 0, "")  # of its rows: kind, PRIO, DEPTH, seed, SINCE
    longest: int = 0  # characters of the URLs of which nothing else than that is to be judged

    def __post_init__(self) -> None:
        self.kind, self.is_seed = self.said.kind, bool(self.said.get("SCOPE"))

    @property
    def given(self) -> Seed:
        """The seed, of a lead that was judged."""
        assert self.seed is not None
        return self.seed

    @property
    def left(self) -> float:
        """The hops left; a sitemap's URLs are one hop from the seed, however deep it lies below others."""
        return self.given.left(1 if self.kind == "sitemap" else self.depth)

    @property
    def way(self) -> Way:
        """How it came here."""
        return Way(self.given.id, self.depth, self.since, self.hops)

    def bind(self, seed: Seed, version: int) -> None:
        """The seed is known, so the lines to queue can be written."""
        said = self.said.params
        self.seed, self.version = seed, version
        is_link = self.kind == "page" and not self.said.get("REQUISITE") and (self.depth > 0 or self.hops == 0)
        self.is_by_site = is_link and seed.scope.is_by_host and not self.is_seed
        self.since, self.changed = (said[name] if epoch_of(said.get(name, "")) else "" for name in ("SINCE", "CHANGED"))
        self.columns = (self.kind, self.prio, self.depth, seed.id, self.since)
        kept = {name: value for name, value in said.items() if name not in NOT_OFFERED and name != "TAG"}
        tail = jcf.job(SEED=seed.url, TAG=said.get("TAG") or seed.tag or None, **kept)
        self.tail = jcf.dump_text(tail).removeprefix(jcf.VERSION)


class Candidate(NamedTuple):
    """One offered job, judged to belong."""

    url: str
    place: tuple[str, int]  # its site, and the key among the jobs of that
    lead: Lead

    def text(self) -> str:
        """The line to queue."""
        return f'{jcf.VERSION} URL="{self.url}"{self.lead.tail}'

    def line(self) -> Job:
        """The same, read."""
        return jcf.parse_text(self.text())

    def fits(self) -> bool:
        """Whether its line is one that can be handed out."""
        length = len(self.url) + len(self.lead.tail)
        return length <= SURELY_FITS or len(self.text().encode()) <= JOB_BYTES


def question(url: str, kind: str = "page") -> str:
    """The line of LOOKUP for a URL's visit."""
    return f'{jcf.VERSION} URL="{url}"' if kind == "page" else f'{jcf.VERSION} URL="{url}" KIND="{kind}"'


def read(lines: Iterable[str]) -> list[tuple[str, str, Lead]]:
    """The URL of each line, its site where it is known to be in its normal form, else "", and its lead.

    Raises RecordError that names the line which is none.
    """
    leads: dict[str, Lead] = {}
    found = []
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        try:
            if match is None:
                job = jcf.parse(line.encode())
                found.append((job.url, "", Lead(job.without(("URL",)))))
                continue
            url, host, port, tail = match.groups()
            lead = leads.get(tail)
            if lead is None:
                lead = leads[tail] = Lead(_said(tail))
        except jcf.RecordError as error:
            raise RecordError(f"line {number} of ADD: {error}") from None
        found.append((url, plain_site(url, host, port), lead))
    return found


def _said(tail: str) -> Job:
    """What follows the URL of a line."""
    if not tail:
        return Job()
    said = jcf.parse(f"{jcf.VERSION}{tail}".encode())
    if said.url:
        raise jcf.RecordError("the JCF parameter URL is given twice")
    return said
