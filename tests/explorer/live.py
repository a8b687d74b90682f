"""What of a state still means something: states that differ in nothing else are one.

A number (of a fetch or a lease; both are drawn from one count) is alive while a row or a lease of the scheduler has it.
It never comes back, since numbers only grow, and what is said of it changes nothing (rule 3; of each state of the
scheduler this is asked of the real code, `Meaning.alive`). So

    numbers         only their order is kept, and all dead ones are `DEAD`
    batches         one of which every harvest is dead is gone, unless a parser is in the middle of it: who takes it up
                    changes nothing but that there is a sync, and what a sync leaves a power loss may leave, too
    messages        lines that are dead are gone, and late messages without others
    offered links   a parser's memory of those that it will not be asked to offer again is gone
    a new parser    is one that has nothing in hand and something left in its directory
    what is safe    is what is seen, once the power fails no more

`test_symmetry.py` shows that states which count as one go like ways. Of the scheduler's own rows see `meaning`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.explorer.meaning import DEAD, LIVES
from tests.explorer.state import A, Batch, File, Harvest, Harvester, Parser, round_of
from tests.explorer.tables import Answer

_NUMBER = re.compile(r'\b(FETCH|LEASE)="(\d+)"')
_BATCH = re.compile(r'\bBATCH="([^"]+)"')

#: What is left of a line, a harvest and a batch's name, when their numbers are dead.
DEAD_LINE = f'JCF/0.0 URL="{A}" FETCH="{DEAD}"'
DEAD_HARVEST = Harvest(DEAD_LINE, "ok", 0, "")
DEAD_BATCH = "dead"

Alive = tuple[int, ...]

#: Pages, each with whether it is meant as one of the forced round.
Rounds = frozenset[tuple[str, bool]]


def _number(number: int, alive: Alive) -> int:
    return (1 + alive.index(number) if number in alive else DEAD) if number else 0


def _line(line: str, alive: Alive) -> str:
    """A line with the numbers that count."""
    line = _NUMBER.sub(lambda found: f'{found[1]}="{_number(int(found[2]), alive)}"', line)
    return _BATCH.sub(lambda found: f'BATCH="{_name(found[1], alive)}"', line)


def _is_dead(line: str) -> bool:
    return f'FETCH="{DEAD}"' in line or ('END="1"' in line and f'LEASE="{DEAD}"' in line)


def _lines(lines: Iterable[str], alive: Alive) -> Answer:
    """The lines of a message that are alive."""
    return tuple(line for line in (_line(line, alive) for line in lines) if not _is_dead(line))


def _name(name: str, alive: Alive) -> str:
    """The name of a batch, made of its fetch numbers."""
    if name == DEAD_BATCH:
        return name
    numbers = [_number(int(number), alive) for number in name.split("+")]
    return DEAD_BATCH if all(number == DEAD for number in numbers) else "+".join(map(str, numbers))


def _harvest(harvest: Harvest, alive: Alive) -> Harvest:
    job = _line(harvest.job, alive)
    return DEAD_HARVEST if _is_dead(job) else harvest._replace(job=job)


def spool(spool: tuple[Batch, ...], alive: Alive, is_safe: bool, *held: str) -> tuple[Batch, ...]:
    """The batches that are alive, or held by a parser that is in the middle of them."""
    kept = []
    for batch in spool:
        name = _name(batch.name, alive)
        if name != DEAD_BATCH or batch.name in held:
            harvests = tuple(_harvest(harvest, alive) for harvest in batch.harvests)
            kept.append(Batch(name, harvests, batch.place, batch.place if is_safe else batch.safe))
    return tuple(sorted(kept))


def harvester(harvester: Harvester, alive: Alive) -> Harvester:
    """A harvester. Of one without jobs nobody can tell whether it has rested."""
    if harvester == Harvester(harvester.life):
        return Harvester(LIVES - 1)
    sent = tuple(_line(line, alive) for line in harvester.sent)
    told = tuple(line for line in sent if not _is_dead(line) or "END=" in line)
    return harvester._replace(
        life=LIVES - 1,
        lease=_number(harvester.lease, alive),
        jobs=tuple(_line(job, alive) for job in harvester.jobs),
        asking=_line(harvester.asking, alive),
        rests=harvester.rests and bool(harvester.jobs),
        open=tuple(_harvest(harvest, alive) for harvest in harvester.open),
        lines=tuple((_line(line, alive), is_in_batch) for line, is_in_batch in harvester.lines),
        sent=told or (sent and (DEAD_LINE,)),
    )


def parser(parser: Parser, alive: Alive, wanted: Rounds, own: tuple[str, ...]) -> Parser:
    """A parser, with the names of the batches in its directory. One that holds nothing may as well be new."""
    ready = tuple(name for name in (_name(name, alive) for name in parser.ready) if name != DEAD_BATCH)
    batch = parser.batch and _name(parser.batch, alive)
    left = Parser(
        life=LIVES - 1,
        batch=batch,
        relinks=_number(parser.relinks, alive),
        adding=parser.adding,
        news=_lines(parser.news, alive),
        ready=ready,
        leases=tuple(_number(lease, alive) for lease in parser.leases),
        lines=_lines(parser.lines, alive),
        offered=tuple(job for job in parser.offered if round_of(job) in wanted),
    )
    holds_nothing = left == Parser(life=LIVES - 1, offered=left.offered)
    is_new = (parser.is_fresh or holds_nothing) and bool({*own} - {*ready, batch})
    return left._replace(is_fresh=is_new)


def store(store: tuple[File, File], is_safe: bool) -> tuple[File, File]:
    """The records. What is seen is safe once no power fails any more."""
    return (File(store[0].seen, store[0].seen), File(store[1].seen, store[1].seen)) if is_safe else store


def late(late: tuple[tuple[str, Answer], ...], alive: Alive) -> tuple[tuple[str, Answer], ...]:
    """The messages that change something when they come. An ADD has no numbers."""
    kept = {(word, lines if word == "ADD" else _lines(lines, alive)) for word, lines in late}
    return tuple(sorted((word, lines) for word, lines in kept if lines))


def rounds_of(held: Harvester | tuple[Batch, ...]) -> Rounds:
    """The pages of the jobs and harvests that a harvester or the spool holds, each with whether it is for the round."""
    if isinstance(held, Harvester):
        jobs = [*held.jobs, *filter(None, [held.asking]), *(harvest.job for harvest in held.open)]
    else:
        jobs = [harvest.job for batch in held for harvest in batch.harvests]
    return frozenset(round_of(job) for job in jobs if not _is_dead(job))
