"""A state of the whole system as a value: two pages of one site, two harvesters, two parsers, the spool, the store."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from combine.schedule.leases import Holder
from formats import jcf
from tests.explorer.tables import Answer

A, B = "http://a.example/", "http://a.example/b"
PAGES = (A, B)

#: Where the pages link to, in three webs: round about, one way, and page A alone.
LINKS = {"round": {A: B, B: A}, "way": {A: B, B: ""}, "page": {A: ""}}
QUESTIONS = tuple(jcf.dump_text(jcf.job(URL=page)) for page in PAGES)

#: What is in memory of a parser or the command while its ADD is under way: the step, the lines, the offer, the visits.
Adding = tuple[str, Answer, int, Answer]


parsed = cache(jcf.parse_text)


class Broken(Exception):
    """Something happened that must never happen."""


class Harvest(NamedTuple):
    """A harvest in a batch: the job as it was handed out, the outcome, the version of the page, when it was asked."""

    job: str
    outcome: str
    version: int
    fetched: str


class Batch(NamedTuple):
    """A batch: where it lies, and where it would lie after a power loss."""

    name: str
    harvests: tuple[Harvest, ...]
    place: str
    safe: str


class File(NamedTuple):
    """A record: what is to be seen and what a power loss would leave; a version, 0 where there is none."""

    seen: int = 0
    safe: int = 0


class Harvester(NamedTuple):
    """A harvester process. Its outbox: `open` harvests, `lines` to tell, what is being `sent`."""

    life: int = 0
    is_stopped: bool = False
    is_ending: bool = False
    lease: int = 0
    jobs: tuple[str, ...] = ()
    asking: str = ""
    answer: int = 0  # the version of the page that is being asked for
    began: str = ""
    rests: bool = False  # its delay since its last request is not over
    open: tuple[Harvest, ...] = ()
    lines: tuple[tuple[str, bool], ...] = ()
    sent: Answer = ()


class Parser(NamedTuple):
    """A parser process: the batch at which it is, its ADD, and what is done but for the sync."""

    life: int = 0
    is_fresh: bool = False  # it has not taken back yet what its slot had
    batch: str = ""
    relinks: int = 0  # the lease of the relink jobs at which it is
    adding: Adding | None = None
    news: Answer = ()  # of the batch at which it is
    ready: tuple[str, ...] = ()  # batches that wait for the sync
    leases: tuple[int, ...] = ()  # and leases of relink jobs
    lines: Answer = ()  # STORED that waits for it
    offered: Answer = ()  # the jobs whose links it offered lately


class State(NamedTuple):
    """The whole system."""

    cabin: int
    idb: int
    harvesters: tuple[Harvester, Harvester] = (Harvester(), Harvester())
    parsers: tuple[Parser, Parser] = (Parser(), Parser())
    spool: tuple[Batch, ...] = ()
    store: tuple[File, File] = (File(), File())
    telling: tuple[tuple[int, str], ...] = ()  # rows that idbd was told of, while the rows still are
    forced: int = 0
    force: Adding | None = None  # the ADD of the forced round
    is_resting: bool = False  # the site's last request ended less than a delay ago
    late: tuple[tuple[str, Answer], ...] = ()  # messages whose senders are dead
    dead: tuple[Holder, ...] = ()  # deaths that the scheduler has not heard of
    boot: int = 0
    kills: int = 0
    powers: int = 0
    messages: int = 0
    asked: tuple[int, int] = (0, 0)

    @property
    def faults(self) -> int:
        return self.kills + self.powers + self.messages


@dataclass(frozen=True, slots=True)
class Limits:
    """How many faults there are at most."""

    kills: int
    powers: int
    messages: int
    rounds: int
    harvesters: int = 2
    parsers: int = 2
    web: str = "round"


#: A step: what it is called, whether it is a fault, what comes of it.
Step = tuple[str, bool, State]


def holder_of(number: int, harvester: Harvester) -> Holder:
    """The process of a harvester's slot in one of its lives."""
    return Holder(101 + number, 1 + harvester.life)


def parser_of(number: int, parser: Parser) -> Holder:
    """The process of a parser's slot in one of its lives."""
    return Holder(201 + number, 1 + parser.life)


def round_of(line: str) -> tuple[str, bool]:
    """The page of a job, and whether it is asked for in the forced round."""
    return parsed(line).url, bool(parsed(line).get("SINCE"))
