r"""The members of a record's JSON object (RFC 8259), name and value in bytes, from the bytes of its file.

WIR writes `\\`, `\n`, `\r` and `\t` as JSON does, so a value need not be read to be passed on: where a file stands as
`wir.dump` writes it, `_copied` takes its values over in a few passes of the C library. All else is left to `_read`,
which reads the record: damage, unknown fields, another order, columns too many or too few, a backslash that stands for
itself, a control character, a number that JSON writes in another way. Invariant: where `_copied` answers, it answers
what `_read` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import orjson

from formats import wir
from formats.wir import Field

#: What no string of JSON holds as it is, but for TAB and LF, which separate.
_CONTROLS = [code for code in range(32) if code not in (9, 10)]
#: A backslash that JSON does not read as WIR does, or one of two.
_ODD_ESCAPE = re.compile(rb"\\[^nrt]")
_NUMBER = re.compile(rb"0|-?[1-9][0-9]{0,17}")

#: All fields but the text, which is most of a record and ends it: it is found without a look at each of its bytes.
*_FIELDS, _TEXT = wir.FIELDS.values()
_TEXT_PREFIX = f"{_TEXT.name}: ".encode()


class _OddError(Exception):
    """The record must be read."""


def members(data: bytes) -> dict[str, bytes]:
    """Each field of a record as JSON has it, in the order of the record; raises RecordError for damage."""
    try:
        return _copied(data)
    except (_OddError, UnicodeDecodeError):
        return _read(data)


def _read(data: bytes) -> dict[str, bytes]:
    return {name: orjson.dumps(value) for name, value in wir.as_json(wir.parse(data)).items()}


def _copied(data: bytes) -> dict[str, bytes]:
    if any(map(data.__contains__, _CONTROLS)) or not _means_the_same(data):
        raise _OddError
    if not data.isascii():
        data.decode("utf-8")
    data = data.replace(b'"', b'\\"')
    found = _RECORD.match(data)
    if found is None:
        raise _OddError
    made = {
        name: copy(value) for (name, copy), value in zip(_COPIERS, found.groups(), strict=True) if value is not None
    }
    if (end := found.end()) != len(data):
        text = data[end + len(_TEXT_PREFIX) : -1]
        if not data.startswith(_TEXT_PREFIX, end) or data[-1:] != b"\n" or b"\n" in text or b"\t" in text:
            raise _OddError
        made[_TEXT.json] = _string(text)
    return made


def _means_the_same(data: bytes) -> bool:
    """Whether JSON reads every backslash as WIR does."""
    return not _ODD_ESCAPE.search(data) or not _ODD_ESCAPE.search(data.replace(b"\\\\", b""))


def _string(value: bytes) -> bytes:
    return b'"%b"' % value


def _number(value: bytes) -> bytes:
    if not _NUMBER.fullmatch(value):
        raise _OddError
    return value


def _strings(known: Field) -> Callable[[bytes], bytes]:
    prefix = f"{known.name}: ".encode()
    return lambda lines: b'["%b"]' % lines[len(prefix) : -1].replace(b"\n" + prefix, b'","')


def _object(known: Field) -> Callable[[bytes], bytes]:
    copy = _rows(known)
    return lambda value: copy(value, 1)


def _objects(known: Field) -> Callable[[bytes], bytes]:
    prefix = f"{known.name}: ".encode()
    copy = _rows(known)
    # With the end of a line as one more column, all rows are taken apart at once and none can hide in another.
    return lambda lines: b"[%b]" % copy(lines[len(prefix) : -1].replace(b"\n" + prefix, b"\t\n\t"), lines.count(b"\n"))


def _rows(known: Field) -> Callable[[bytes, int], bytes]:
    """What makes objects of so many rows of columns, between which LF stands as a column of its own."""
    width = len(known.columns)
    numbers = [place for place, name in enumerate(known.columns) if name in known.numbers]
    columns = ",".join(f'"{name}":%b' if name in known.numbers else f'"{name}":"%b"' for name in known.columns)
    form = f"{{{columns}}},".encode()

    def copy(rows: bytes, count: int) -> bytes:
        flat = rows.split(b"\t")
        ends = flat[width :: width + 1]
        if len(flat) != count * (width + 1) - 1 or ends.count(b"\n") != len(ends):
            raise _OddError
        del flat[width :: width + 1]
        for place in numbers:
            if not all(map(_NUMBER.fullmatch, set(flat[place::width]))):
                raise _OddError
        return ((form * count) % tuple(flat))[:-1]

    return copy


def _copier(known: Field) -> Callable[[bytes], bytes]:
    if known.columns:
        return _objects(known) if known.repeats else _object(known)
    if known.repeats:
        return _strings(known)
    return _number if known.numbers else _string


def _pattern(known: Field) -> str:
    value = ".*" if known.columns else "[^\t\n]*"
    return f"((?:{known.name}: {value}\n)+)?" if known.repeats else f"(?:{known.name}: ({value})\n)?"


#: The name in JSON of each field but the text, and what makes JSON of its value, or of all its lines where it repeats.
_COPIERS = [(known.json, _copier(known)) for known in _FIELDS]

#: All fields but the text in their order, each a group that may be missing: so nothing is ever tried twice.
_RECORD = re.compile(f"{re.escape(wir.VERSION)}\n{''.join(map(_pattern, _FIELDS))}".encode())
