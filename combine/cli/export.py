"""The command export: stream the store into another format."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from combine.cli.screen import put_bytes, say
from combine.cli.session import Session, command
from combine.errors import EXIT_FINDING, RecordError
from combine.keep import exports
from combine.keep.home import Home
from combine.keep.store import WirStore
from formats.wir import Record

_WRITERS = {"jsonl": exports.jsonl, "csv": exports.csv}


def stream(
    home: Home, form: str, fields: Iterable[str] = (), since: str = "", damaged: list[RecordError] | None = None
) -> Iterator[bytes]:
    """The records in a format, piece by piece.

    Damaged ones are put into `damaged`. Raises UsageError for what cannot be meant.
    """
    records: Iterable[Record] = WirStore(home).records(None if damaged is None else damaged.append)
    if since:
        records = exports.since(records, since)
    return _WRITERS[form](records, exports.select(fields))


@command("export")
@click.option("--format", "form", type=click.Choice(exports.FORMATS), default="jsonl", show_default=True)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of stdout."
)
@click.option(
    "--since", metavar="TIME", default="", help="Only what changed since then: 2026-11-30, or 2026-11-30T08:00:00Z."
)
@click.option("--fields", metavar="A,B,…", default="", help="Only these fields, in this order.")
def export_command(session: Session, form: str, output: Path | None, since: str, fields: str) -> int:
    """Write the records as JSON lines or CSV.

    In JSON lines a field that may repeat is always an array; in CSV it is one cell of JSON.
    """
    home = session.home()
    names = [name.strip() for name in fields.split(",") if name.strip()]
    damaged: list[RecordError] = []
    pieces = stream(home, form, names, since, damaged)
    if output is None:
        for piece in pieces:
            put_bytes(piece)
        sys.stdout.flush()
    else:
        write(output, pieces)
        session.say(f"combine: wrote {output}")
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
