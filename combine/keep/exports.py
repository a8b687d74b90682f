"""Exports: the records as others read them, one at a time, in constant memory.

A record is handed over as its members in JSON (combine.keep.members). JSON Lines is the record as `wir.as_json` says
it. CSV has a column for each field under the same name; a value that may repeat or has columns is one cell of JSON, the
same that JSON Lines has there, and a text's line ends stand within quotes (RFC 4180). Fields that this version does not
know are in JSON Lines, and not in CSV, whose header comes before the first record.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from combine.errors import UsageError
from formats import wir

#: A record: each of its fields by its name in JSON, and as JSON in bytes.
Members = Mapping[str, bytes]

FORMATS = ("jsonl", "csv")

#: The names of the fields in JSON and CSV, in the order of a record.
NAMES: tuple[str, ...] = tuple(field.json for field in wir.FIELDS.values())

_BY_EITHER_NAME = {field.name: field.json for field in wir.FIELDS.values()} | {name: name for name in NAMES}
_NOTHING = b'""'
_NEEDS_QUOTES = re.compile(rb'[",\r\n]')
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?")


def select(names: Iterable[str]) -> tuple[str, ...]:
    """The fields that are meant, by their names in WIR or in JSON, each once; raises UsageError for an unknown one."""
    chosen: dict[str, None] = {}
    for name in names:
        known = _BY_EITHER_NAME.get(name)
        if known is None:
            near = difflib.get_close_matches(name, _BY_EITHER_NAME, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(NAMES)}"
            raise UsageError(f"{name!r} is not a field of a record; {hint}")
        chosen[known] = None
    return tuple(chosen)


def since(records: Iterable[Members], moment: str, by: str = "changed") -> Iterator[Members]:
    """The records whose `changed` (or `checked`, or another time) is not before a moment: a UTC date, or date and time.

    Raises UsageError at once where the moment is neither. A record without that time passes: nothing says that it is
    old.
    """
    if not _MOMENT.fullmatch(moment):
        raise UsageError(f"{moment!r} is not a time: write 2026-11-30 or 2026-11-30T08:00:00Z")
    # Times of records are all written alike, so they compare as text.
    return (record for record in records if (orjson.loads(record.get(by, _NOTHING)) or "9") >= moment)


def signals(record: Members) -> list[tuple[str, ...]]:
    """What a record says about rights: signal, value and where it stood."""
    return [tuple(row.values()) for row in orjson.loads(record["right"])] if "right" in record else []


def jsonl(records: Iterable[Members], fields: Sequence[str] = ()) -> Iterator[bytes]:
    """One line of JSON a record, with these fields (as `select` answers them) or all."""
    for record in records:
        chosen = {name: record[name] for name in fields if name in record} if fields else record
        # The pieces are put together once: a text of many KB is not copied for each brace and comma.
        parts = [b"{"]
        for name, value in chosen.items():
            parts += (b'"%b":' % name.encode(), value, b",")
        parts[-1:] = (b"}\n",) if chosen else (b"{}\n",)
        yield b"".join(parts)


def csv(records: Iterable[Members], fields: Sequence[str] = ()) -> Iterator[bytes]:
    """A header, then one row a record, with these fields (as `select` answers them) or all.

    An absent value is an empty cell.
    """
    names = tuple(fields) or NAMES
    yield _row([name.encode() for name in names])
    for record in records:
        yield _row([_cell(record[name]) if name in record else b"" for name in names])


def _cell(value: bytes) -> bytes:
    """What a cell says: a string without its quotes and escapes, all else as JSON has it."""
    if not value.startswith(b'"'):
        return value
    if b"\\" not in value:
        return value[1:-1]
    text: str = orjson.loads(value)
    return text.encode("utf-8")


def _row(cells: list[bytes]) -> bytes:
    """One line of CSV (RFC 4180); that of a single empty cell has quotes, or it would be an empty line."""
    row = b",".join([_quoted(cell) if _NEEDS_QUOTES.search(cell) else cell for cell in cells])
    return (row or b'""') + b"\r\n"


def _quoted(cell: bytes) -> bytes:
    return b'"%b"' % cell.replace(b'"', b'""')
