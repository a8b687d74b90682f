"""One harvest from its first ADD to its end.

Load the seeds, follow the scheduler's counters, and know when it is over.

Theory of operation. The scheduler decides what is fetched; this only looks, soon at first and then twice a second, at
one STAT. `judge` is the whole policy, and pure: counters and clock in, the end (or None) out. A daemon that is away for
a moment changes nothing: the next look tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from combine.cli import peers
from combine.cli.peers import Stat
from combine.cli.seeds import Seed, Wish
from combine.errors import EXIT_DONE, EXIT_TRY_LATER, RetryLater
from combine.ipc.client import Client
from combine.services import MESSAGE_LINES
from formats.jcf import Job, job

T = TypeVar("T")

#: Seconds between two looks, at first and later: a small harvest ends within a second, a long one is asked seldom.
LOOK_S = 0.05
LOOK_LATER_S = 0.5
_EARLY_S = 2.0

#: Seconds that a request which is under way may go on after nothing happened for `wait_s`: a whole fetch.
_FETCH_S = 120.0

#: Seconds that a state in which nothing may be handed out must last: while a name is looked up it lasts a moment.
_SETTLE_S = 3.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a run ends before its queue is empty.

    Its name in the scheduler, seconds it may take, seconds it waits for nothing.
    """

    budget: str
    time_s: float | None = None
    wait_s: float = 600.0


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended: the exit code, one sentence, and whether rows are left."""

    code: int
    sentence: str


@dataclass(slots=True)
class Look:
    """One look at the scheduler: its counters (None while it is away), and the seconds of the run."""

    stat: Stat | None
    elapsed_s: float
    away_s: float = 0.0
    stuck_s: float = 0.0
    is_closing: bool = False


def judge(look: Look, bounds: Bounds) -> End | None:
    """Is the run over? The order matters: an empty queue is done, whatever else holds."""
    stat = look.stat
    if stat is None:
        if look.away_s > bounds.wait_s:
            return End(EXIT_TRY_LATER, f"the scheduler has not answered for {look.away_s:.0f} s")
        return None
    if stat.is_done:
        return End(EXIT_DONE, "")
    if _is_at_limit(look, bounds):
        return End(EXIT_DONE, f"the limit is reached; {left(stat)}, and the next run goes on")
    if look.stuck_s > _SETTLE_S:
        if any(pages <= 0 for _, pages, _ in stat.budgets) and not stat.blocked:
            return End(
                EXIT_DONE,
                f"{left(stat)}: they belong to runs that reached their limit, and wait for the next run of those",
            )
        return End(EXIT_TRY_LATER, f"nothing of it may be asked: {left(stat)}")
    if stat.next_s is not None and stat.next_s > bounds.wait_s:
        return End(
            EXIT_TRY_LATER,
            f"the next request may go in {stat.next_s:.0f} s, and --wait is {bounds.wait_s:g} s; {left(stat)}",
        )
    idle_s = min(stat.idle_s, look.elapsed_s)
    if idle_s > bounds.wait_s + (_FETCH_S if stat.leased else 0.0):
        return End(EXIT_TRY_LATER, f"nothing but failed tries for {idle_s:.0f} s; {left(stat)}")
    return None


def left(stat: Stat) -> str:
    """What is left, in words."""
    number = stat.queued + stat.under_way
    return "1 URL is left" if number == 1 else f"{number:,} URLs are left"


def waits(stat: Stat) -> list[str]:
    """What waits for what, a sentence a site."""
    lines = [
        f"{line.site} is {line.state}"
        + (f" for {line.next_s:.0f} s" if line.next_s else "")
        + (f": {line.reason}" if line.reason else "")
        for line in stat.sites
    ]
    return [*([stat.stalled] if stat.stalled else []), *lines]


def _is_at_limit(look: Look, bounds: Bounds) -> bool:
    assert look.stat is not None
    budget = look.stat.budget(bounds.budget)
    if budget is None:
        return look.is_closing and look.stat.under_way == 0
    pages, out = budget
    return (pages <= 0 or look.is_closing) and out <= 0 and look.stat.under_way == 0


@dataclass(slots=True)
class Tally:
    """What a scheduler counted during a run. One that is started anew begins at 0, and so `before` is what was seen.

    What a scheduler that was killed counted after the last look is not in it.
    """

    before: dict[str, int]
    counts: dict[str, int] = field(default_factory=dict)

    def see(self, counts: dict[str, int]) -> None:
        """Take the counters of one look."""
        if any(number > counts.get(name, 0) for name, number in self.before.items()):
            self.before = {}
        for name, number in counts.items():
            self.counts[name] = self.counts.get(name, 0) + number - self.before.get(name, 0)
        self.before = counts


@dataclass(slots=True)
class Loaded:
    """What became of the seeds at ADD."""

    new: int = 0
    known: int = 0
    refused: dict[str, str] = field(default_factory=dict)


def load(
    client: Client, seeds: Sequence[Seed], wish: Wish, wait_s: float, waited: Callable[[], None] = lambda: None
) -> Loaded:
    """ADD the seeds in messages of a thousand; while the scheduler says RETRY, again, for `wait_s` at most.

    `waited` is called after each RETRY, and may raise what ends it.
    """
    loaded = Loaded()
    for lines in _portions([wish.job(seed) for seed in seeds]):
        reply = insist(lambda lines=lines: client.call("ADD", lines), wait_s, waited)  # type: ignore[misc]
        counts = dict(word.partition("=")[::2] for word in reply.text.split() if "=" in word)
        loaded.new += int(counts.get("new", "0"))
        loaded.known += int(counts.get("known", "0"))
        loaded.refused.update((line.url, line.get("REASON")) for line in reply.lines)
    return loaded


def follow(
    client: Client, bounds: Bounds, seen: Callable[[Look], None], clock: Callable[[], float] = time.monotonic
) -> tuple[End, Stat | None]:
    """Look until the run is over, telling each look to `seen`.

    At --time the run's budget is closed, and what is leased finishes.
    """
    started = heard = free = clock()
    is_closing = False
    while True:
        stat = _ask(client)
        now = clock()
        heard = heard if stat is None else now
        free = now if stat is None or stat.next_s is not None or stat.under_way else free
        if not is_closing and bounds.time_s is not None and now - started >= bounds.time_s:
            is_closing = _close(client, bounds.budget)
        look = Look(stat, now - started, now - heard, now - free, is_closing)
        seen(look)
        if end := judge(look, bounds):
            return end, stat
        time.sleep(LOOK_S if now - started < _EARLY_S else LOOK_LATER_S)


def _ask(client: Client) -> Stat | None:
    try:
        return peers.read_stat(client.call("STAT"))
    except RetryLater:
        return None


def _close(client: Client, budget: str) -> bool:
    try:
        client.call("GATE", [job(BUDGET=budget, LEFT=0)])
    except RetryLater:
        return False
    return True


def insist(call: Callable[[], T], wait_s: float, waited: Callable[[], None] = lambda: None) -> T:
    """Call again while the answer is RETRY; the reason is the last one."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return call()
        except RetryLater:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_LATER_S)
            waited()


def _portions(lines: Sequence[Job]) -> Iterator[list[Job]]:
    source = iter(lines)
    while portion := list(islice(source, MESSAGE_LINES)):
        yield portion
