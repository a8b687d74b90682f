"""The command export: stream the store into another format."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from combine.cli.screen import counted, put_bytes, say
from combine.cli.session import Session, command
from combine.errors import EXIT_FINDING, RecordError
from combine.keep import exports
from combine.keep.home import Home
from combine.keep.store import WirStore
from combine.page.rights import reserved
from formats.wir import Record


class Reservations:
    """Counts the pages that are reserved from a purpose, and leaves them out, unless they are asked for."""

    def __init__(self, purpose: str, are_included: bool) -> None:
        self._purpose, self._are_included = purpose, are_included
        self._signals: Counter[str] = Counter()

    def leaves_out(self, record: Record) -> bool:
        """Whether a record is left out."""
        signal = reserved(record.columns("right"), self._purpose)
        if signal:
            self._signals[signal] += 1
        return bool(signal) and not self._are_included

    def sentence(self, because: str) -> str:
        """What was left out, or is in for a reason; "" where nothing was reserved."""
        if not self._signals:
            return ""
        signals = ", ".join(f"{count:,} by {name}" for name, count in self._signals.most_common())
        total = self._signals.total()
        pages = f"{counted(total, 'page')} reserved from the purpose {self._purpose} ({signals})"
        pages += " is" if total == 1 else " are"
        return f"{pages} in, because {because}" if self._are_included else f"{pages} left out"


_WRITERS = {"jsonl": exports.jsonl, "csv": exports.csv}


def stream(
    home: Home,
    form: str,
    fields: Iterable[str] = (),
    since: str = "",
    damaged: list[RecordError] | None = None,
    left_out: Callable[[Record], bool] = lambda record: False,
) -> Iterator[bytes]:
    """The records in a format, piece by piece.

    Damaged ones are put into `damaged`. Raises UsageError for what cannot be meant.
    """
    records: Iterable[Record] = WirStore(home).records(None if damaged is None else damaged.append)
    if since:
        records = exports.since(records, since)
    records = (record for record in records if not left_out(record))
    return _WRITERS[form](records, exports.select(fields))


@command("export", settings=True)
@click.option("--format", "form", type=click.Choice(exports.FORMATS), default="jsonl", show_default=True)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of stdout."
)
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
    home = session.home(write=False)
    reservations = Reservations(session.settings(home.path).rights.purpose, include_reserved)
    names = [name.strip() for name in fields.split(",") if name.strip()]
    damaged: list[RecordError] = []
    pieces = stream(home, form, names, since, damaged, reservations.leaves_out)
    if output is None:
        for piece in pieces:
            put_bytes(piece)
        sys.stdout.flush()
    else:
        write(output, pieces)
        session.say(f"combine: wrote {output}")
    if sentence := reservations.sentence(because):
        say(f"combine: {sentence}")
    for error in damaged:
        say(f"combine: {error}")
    return EXIT_FINDING if damaged else 0


def write(output: Path, pieces: Iterable[bytes]) -> None:
    """Write a file whole or not at all: beside its place, then renamed; a device or a pipe is written as it is."""
    if output.exists() and not output.is_file():
        with open(output, "wb") as file:
            file.writelines(pieces)
        return
    fresh = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with open(fresh, "wb") as file:
            file.writelines(pieces)
        fresh.replace(output)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
