"""The command export: stream the store into another format."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from mmap import mmap
from operator import length_hint
from pathlib import Path

import click

from combine.cli.screen import counted, put_bytes, say
from combine.cli.session import Session, command, output_option
from combine.errors import EXIT_FINDING, CombineError
from combine.keep import exports
from combine.keep.exports import Members
from combine.keep.home import Home
from combine.keep.members import members
from combine.keep.store import WirStore
from combine.page.rights import reserved

#: Records that are turned into one piece, and pieces for each process that may wait to be written.
PORTION, AHEAD = 64, 2

#: Processes that turn records into pieces.
PROCESSES = 8

#: Bytes of the memory in which a process hands over a piece. A record that does not fit is made again by who writes it:
#: where a process is killed while it sends so much through a pipe, the other end waits for the rest without end.
ROOM = 1 << 22

_WRITERS = {"jsonl": exports.jsonl, "csv": exports.csv}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is exported, and how."""

    form: str
    fields: tuple[str, ...] = ()
    since: str = ""
    purpose: str = "search"
    are_included: bool = False  # pages that are reserved from the purpose


@dataclass(slots=True)
class Piece:
    """Some records as they are written, and what was met among them: whole when its data was taken."""

    data: Iterable[bytes | memoryview] = ()
    damaged: list[str] = field(default_factory=list)
    reserved: Counter[str] = field(default_factory=Counter)


def piece(home: Path, wanted: Wanted, places: Iterable[str] = ()) -> Piece:
    """The records of these files, read as they are taken; of no files, what comes before all records.

    Raises UsageError for a time that is none.
    """
    made = Piece()

    def is_wanted(record: Members) -> bool:
        signal = reserved(exports.signals(record), wanted.purpose)
        if signal:
            made.reserved[signal] += 1
        return wanted.are_included or not signal

    store = WirStore(Home(home))
    records: Iterable[Members] = store.read(places, members, lambda error: made.damaged.append(str(error)))
    if wanted.since:
        records = exports.since(records, wanted.since)
    written = _WRITERS[wanted.form](filter(is_wanted, records), wanted.fields)
    if places and wanted.form == "csv":
        next(written)  # its header, which stands there already
    made.data = written
    return made


def pieces(home: Path, wanted: Wanted) -> Iterator[Piece]:
    """All records, in the order of their ids, in pieces that several processes make at once.

    The data of a piece is good until the next is asked for. Raises UsageError, at the first, for a time that is none.
    """
    yield piece(home, wanted)
    portions = iter(_portions(WirStore(Home(home)).places()))
    first = next(portions, [])
    number = min(PROCESSES, len(os.sched_getaffinity(0)))
    if len(first) == PORTION and number > 1:
        yield from _made_at_once(home, wanted, chain([first], portions), number)
    elif first:
        yield piece(home, wanted, chain(first, chain.from_iterable(portions)))


def _made_at_once(home: Path, wanted: Wanted, portions: Iterable[list[str]], number: int) -> Iterator[Piece]:
    from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
    from multiprocessing import get_context

    rooms = [mmap(-1, ROOM) for _ in range(number * AHEAD)]
    pool = ProcessPoolExecutor(number, get_context("fork"), _begin, (os.getpid(), home, wanted, rooms))
    made: deque[tuple[int, Future[tuple[int, Piece, list[str], list[str]]]]] = deque()

    def oldest() -> Iterator[Piece]:
        place, future = made.popleft()
        while True:
            size, rest, over, left = future.result()
            rest.data = chain([memoryview(rooms[place])[:size]], piece(home, wanted, over).data if over else ())
            yield rest
            if not left:
                return
            future = pool.submit(_handed_over, place, left)

    try:
        for turn, places in enumerate(portions):
            if len(made) == len(rooms):
                yield from oldest()
            place = turn % len(rooms)
            made.append((place, pool.submit(_handed_over, place, places)))
        while made:
            yield from oldest()
    except BrokenExecutor:
        raise CombineError(
            "a process that makes the export was killed, as happens where memory is short: what there is of it is not"
            " whole; give the command again"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


#: What a process that makes pieces was given when it began.
_given: list[tuple[Path, Wanted, list[mmap]]] = []


def _begin(parent: int, home: Path, wanted: Wanted, rooms: list[mmap]) -> None:
    from combine import spawn

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not spawn.dies_with(parent):  # else it would wait without end for more to do
        os._exit(EXIT_FINDING)
    _given[:] = [(home, wanted, rooms)]


def _handed_over(place: int, places: list[str]) -> tuple[int, Piece, list[str], list[str]]:
    """Leave a piece in a room, until it is full.

    Answers the bytes that are in it, what was met, the file of the record that did not fit, and those that are left.
    """
    ((home, wanted, rooms),) = _given
    room, end, over, left = rooms[place], 0, 0, iter(places)
    made = piece(home, wanted, left)
    for data in made.data:
        if end + len(data) > ROOM:
            over = 1
            break
        room[end : end + len(data)] = data
        end += len(data)
    made.data = ()
    following = len(places) - length_hint(left)
    return end, made, places[following - over : following], places[following:]


def _portions(places: Iterator[str]) -> Iterator[list[str]]:
    while portion := list(islice(places, PORTION)):
        yield portion


@command("export", settings=True)
@click.option("--format", "form", type=click.Choice(exports.FORMATS), default="jsonl", show_default=True)
@output_option
@click.option(
    "--since", metavar="TIME", default="", help="Only what changed since then: 2026-11-30, or 2026-11-30T08:00:00Z."
)
@click.option("--fields", metavar="A,B,…", default="", help="Only these fields, in this order.")
@click.option("--include-reserved", is_flag=True, help="Pages reserved from the purpose of the settings, too.")
@click.option("--because", metavar="REASON", default="", help="Why reserved pages may be used; needed for them.")
def export_command(
    session: Session,
    form: str,
    output: Path | None,
    since: str,
    fields: str,
    include_reserved: bool,
    because: str,
) -> int:
    """Write the records as JSON lines or CSV.

    In JSON lines a field that may repeat is always an array; in CSV it is one cell of JSON. For the purposes research
    and ai, pages whose sites reserve them from it are left out.
    """
    if include_reserved and not because.strip():
        raise click.UsageError("--include-reserved needs --because: who lets you use what is reserved?")
    if because and not include_reserved:
        raise click.UsageError("--because is the reason of --include-reserved, which is not given")
    home = session.home(write=False)
    names = exports.select(name.strip() for name in fields.split(",") if name.strip())
    wanted = Wanted(form, names, since, session.settings(home.path).rights.purpose, include_reserved)
    whole = Piece()

    def data() -> Iterator[bytes | memoryview]:
        for made in pieces(home.path, wanted):
            yield from made.data
            whole.damaged += made.damaged
            whole.reserved += made.reserved

    if output is None:
        for part in data():
            put_bytes(part)
        sys.stdout.flush()
    else:
        write(output, data())
        session.say(f"combine: wrote {output}")
    if whole.reserved:
        say(f"combine: {reservations(whole.reserved, wanted, because)}")
    for sentence in whole.damaged:
        say(f"combine: {sentence}")
    return EXIT_FINDING if whole.damaged else 0


def reservations(signals: Counter[str], wanted: Wanted, because: str) -> str:
    """How many pages were left out by which signal, or are in for a reason."""
    by = ", ".join(f"{count:,} by {name}" for name, count in signals.most_common())
    total = signals.total()
    said = f"{counted(total, 'page')} reserved from the purpose {wanted.purpose} ({by})"
    said += " is" if total == 1 else " are"
    return f"{said} in, because {because}" if wanted.are_included else f"{said} left out"


def write(output: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file whole or not at all: beside its place, then renamed; a device or a pipe is written as it is."""
    if output.exists() and not output.is_file():
        _fill(output, output, pieces)
        return
    fresh = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        _fill(fresh, output, pieces)
        fresh.replace(output)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def _fill(path: Path, output: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write pieces into a file; a fault of the writing, as that of a full disk, names the output that was asked for."""
    with open(path, "wb", buffering=0) as file:
        for part in pieces:
            left = memoryview(part)
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(output)) from error
