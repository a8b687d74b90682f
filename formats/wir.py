r"""WIR, the Web Index Record: what was learned from one page, one file a record, one field a line.

    record = "WIR/2.0" LF *( name ": " value LF )
    name   = lower-case letter *( lower-case letter / digit / "_" )
    value  = column *( TAB column )              ; UTF-8
    column = *( any character but a control character; `\` LF CR TAB are written `\\` `\n` `\r` `\t` )

Fields stand in the order of FIELDS, which says of each whether it may come more than once, what its columns are, and
what it is called in JSON. Fields that FIELDS does not know are kept, after the others. Other control characters (C0,
DEL, C1), U+2028, U+2029 and surrogates have no place in a record: `record` drops them. A backslash before anything else
than the four stands for itself, so that a value written by hand is never lost. This module never does I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from formats.jcf import RecordError

VERSION = "WIR/2.0"


@dataclass(frozen=True, slots=True)
class Field:
    """What is known of one field: a row of the table that readers, writers, exports and the documentation share.

    `columns` is empty for a plain value. `json` is the key in JSON. `numbers` names the columns (or the field itself)
    that JSON writes as numbers.
    """

    name: str
    doc: str
    repeats: bool = False
    columns: tuple[str, ...] = ()
    json: str = ""
    numbers: frozenset[str] = frozenset()


def _field(
    name: str, doc: str, *, repeats: bool = False, columns: str = "", json: str = "", numbers: str = ""
) -> tuple[str, Field]:
    return name, Field(name, doc, repeats, tuple(columns.split()), json or name, frozenset(numbers.split()))


#: Every known field, in the order of the file.
FIELDS: dict[str, Field] = dict(
    (
        _field("id", "lower-case hexadecimal MD5 of the URL's bytes: the name of the file"),
        _field("url", "the URL, normalised"),
        _field("host", "the URL's host, in ASCII"),
        _field("domain", "the registrable domain of the host, by the public suffix list"),
        _field("seed", "the seed that the page descends from"),
        _field("tag", "a tag that the operator gave to the seed", repeats=True),
        _field("via", "the page on which the URL was found"),
        _field("depth", "fewest known hops from a seed", numbers="depth"),
        _field("kind", "what the record is of, where it is not a page"),
        _field("parent", "URL of the record that this one belongs to"),
        _field("robot", "the job line, without what is true of one hand-out only"),
        _field("first_seen", "when the page first had a record, UTC"),
        _field("checked", "when the page was last asked for, UTC"),
        _field("changed", "when its text was last seen to have changed, UTC"),
        _field("fetched", "when the body came that this record was made from, UTC"),
        _field("modified", "Last-Modified as the server says it, UTC"),
        _field("modified_raw", "Last-Modified as received, where it cannot be read as a time"),
        _field("expires", "Expires as the server says it, UTC"),
        _field("published", "when the page says that it was published, UTC"),
        _field("status", "status of the HTTP answer", numbers="status"),
        _field("type", "MIME type, as sniffed from header and body"),
        _field("charset", "character encoding the text was read in, by its WHATWG name"),
        _field("size", "bytes of the body as received, before content decoding", numbers="size"),
        _field("truncated", "why the body is not whole: length, time or disconnect"),
        _field("server", "software of the server, as it names itself"),
        _field("etag", "ETag as received, with its quotes"),
        _field("body_digest", "SHA-1 of the body as received, in base32 after `sha1:`"),
        _field("text_digest", "MD5 of the visible text, in capital hex"),
        _field("same_as", "URL of an older record with the same text"),
        _field("raw", "where the harvest lies", columns="file offset length", numbers="offset length"),
        _field("language", "language of the text: the declared one, unless the text is plainly in another, BCP 47"),
        _field("language_declared", "language that page or server declare, BCP 47"),
        _field("canonical", "URL that the page calls its canonical one"),
        _field("robots", "robots directives of page and server, such as nofollow"),
        _field("robots_txt", "why robots.txt was not obeyed"),
        _field("right", "a statement about rights, and where it stood", repeats=True, columns="signal value where"),
        _field(
            "stale",
            "why a kept record is no longer what the server shows",
            columns="outcome since sights",
            numbers="sights",
        ),
        _field("parser", "version of the parser that wrote the record"),
        _field("title", "title of the page"),
        _field("meta", "one meta element", repeats=True, columns="name content"),
        _field("heading", "one heading", repeats=True, columns="level text", json="headings", numbers="level"),
        _field("link", "one link", repeats=True, columns="kind url rel text", json="links"),
        _field("counts", "how much there is", columns="words headings links", numbers="words headings links"),
        _field("text", "the visible text; paragraphs are separated by a line end"),
    )
)


class _Places(dict[str, int]):
    """Where each field stands; one that is not known stands after all."""

    def __missing__(self, name: str) -> int:
        return len(FIELDS)


_PLACES = _Places((name, place) for place, name in enumerate(FIELDS))
_PLAIN = frozenset(name for name, known in FIELDS.items() if not known.columns)
_SINGLE = frozenset(name for name, known in FIELDS.items() if not known.repeats)
#: Keys of JSON that no unknown field may take.
_TAKEN = frozenset(known.json for known in FIELDS.values()) - FIELDS.keys()
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_OTHER_VERSION = re.compile(r"WIR/[0-9.]{1,10}")
_DROPPED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
#: What is dropped, in UTF-8: the control characters of ASCII, and the others by the byte with which they begin.
_CONTROLS = (*range(9), 11, 12, *range(14, 32), 127)
_OTHERS = ((0xC2, re.compile(rb"\xc2[\x80-\x9f]")), (0xE2, re.compile(rb"\xe2\x80[\xa8\xa9]")))
_ESCAPE = re.compile(r"\\([\\nrt])")
_LINE_END, _NO_LINE_END = re.compile(r"\\n"), re.compile(r"\\[^n]")
_MEANING = {"\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_NUMBER = re.compile(r"-?[0-9]{1,18}")


class Link(NamedTuple):
    """A link of a page: kind (`a`, `img`, …), absolute URL, the words of its rel attribute, its text.

    A tuple, since pages have dozens: it is made in a third of the time.
    """

    kind: str
    url: str
    rel: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its fields in the order of the file.

    The value of a plain field is decoded text. The value of a field with columns is what `join` makes of them; that of
    an unknown field is kept as it is written, for nobody can say whether it has columns. Invariant: made by `record` or
    `parse`, which see to order and characters.
    """

    fields: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> str:
        """The first value of a field, or "" where there is none."""
        return next((value for known, value in self.fields if known == name), "")

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        return [value for known, value in self.fields if known == name]

    def columns(self, name: str) -> list[tuple[str, ...]]:
        """Every value of a field, split into its decoded columns."""
        return [split(value) for known, value in self.fields if known == name]

    @property
    def url(self) -> str:
        """The URL of the page."""
        return self.get("url")

    @property
    def id(self) -> str:
        """The name of the record's file."""
        return self.get("id")

    def having(self, **changes: str | int | None) -> Record:
        """The same record with one-value fields set, or left out ("" or None); other fields raise RecordError."""
        for name in changes:
            if name not in _SINGLE:
                raise RecordError(f"{name[:40]!r} is not a WIR field of one value")
        kept = [pair for pair in self.fields if pair[0] not in changes]
        kept.extend(_clean((name, str(value)) for name, value in changes.items() if value is not None))
        return Record(_in_order(kept))


def join(columns: Iterable[object]) -> str:
    """Make one value of columns: each escaped, separated by TAB."""
    texts = list(map(str, columns))
    value = "\t".join(texts)
    # Nearly all columns hold nothing to escape, which four looks at all of them together tell: 0.6 µs instead of 2.
    if "\\" in value or "\n" in value or "\r" in value or value.count("\t") != len(texts) - 1:
        return "\t".join([_escape(text) for text in texts])
    return value


def join_all(rows: Collection[tuple[str, ...]]) -> list[str]:
    """Make a value of each row of columns, as `join` does: rows by the dozen are looked at all at once."""
    values = list(map("\t".join, rows))
    whole = "\n".join(values)
    if "\\" in whole or "\r" in whole or whole.count("\n") != max(len(rows) - 1, 0):
        return list(map(join, rows))
    if whole.count("\t") != sum(map(len, rows)) - len(rows):
        return list(map(join, rows))
    return values


def split(value: str) -> tuple[str, ...]:
    """Take a value with columns apart: the reverse of `join`."""
    if "\\" not in value:
        return tuple(value.split("\t"))
    return tuple(_unescape(column) for column in value.split("\t"))


def record(pairs: Iterable[tuple[str, str]]) -> Record:
    """Make a record of names and values: puts them in order, leaves out empty values and what no record may hold.

    Raises RecordError for a name that is none, and for a one-value field that is given twice.
    """
    return Record(_in_order(_clean(pairs)))


def parse(data: bytes) -> Record:
    """Read one record; raises RecordError where the bytes are anything else."""
    first, _, rest = data.partition(b"\n")
    if first != VERSION.encode():
        line = first[:40].decode("latin-1")
        if _OTHER_VERSION.fullmatch(line):
            raise RecordError(f"{line} is not read here, only {VERSION}")
        raise RecordError(f"a WIR record starts with the line {VERSION!r}, not with {line!r}")
    if not data.endswith(b"\n"):
        raise RecordError(f"byte {len(data)}: the WIR record is cut off within a line")
    try:
        lines = rest.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise RecordError(f"byte {len(first) + 1 + error.start} of the WIR record is not UTF-8") from None
    lines.pop()
    parts = [line.partition(": ") for line in lines]
    if not all([separator for _, separator, _ in parts]):
        place = next(place for place, part in enumerate(parts) if not part[1])
        raise RecordError(f"line {place + 2} of a WIR record is 'name: value', not {lines[place][:40]!r}")
    return Record(
        _in_order([(name, _unescape(text) if "\\" in text and name in _PLAIN else text) for name, _, text in parts])
    )


def dump(value: Record) -> bytes:
    """Write one record; raises RecordError for what no record can hold."""
    lines = [VERSION]
    others = []
    for name, text in value.fields:
        if name in _PLAIN:
            lines.append(f"{name}: {_escape(text)}")
        else:
            others.append(text)
            lines.append(f"{name}: {text}")
    # A value with columns, and one of an unknown field, is written as it stands: it must be one line.
    if "\n" in "".join(others):
        raise RecordError("a value with columns in a WIR record was not made by join: it holds a line end")
    lines.append("")
    try:
        return "\n".join(lines).encode("utf-8")
    except UnicodeEncodeError as error:
        raise RecordError(f"character {error.start} of the WIR record cannot be written in UTF-8") from None


def as_json(value: Record) -> dict[str, Any]:
    """The record as JSON has it: plain values, arrays of what may repeat, objects of columns, no absent fields.

    A value that should be a number and is none stays text.
    """
    result: dict[str, Any] = {}
    for name, group in groupby(value.fields, itemgetter(0)):
        texts = [text for _, text in group]
        known = FIELDS.get(name)
        if known is None:
            result.setdefault(name, []).extend(["\t".join(split(text)) for text in texts])
        elif known.repeats:
            result[known.json] = _json_values(known, texts)
        else:
            result[known.json] = _json_values(known, texts)[0]
    return result


def _clean(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs without empty values, and without the characters that no record may hold."""
    kept = [pair for pair in pairs if pair[1]]
    if not _is_clean("".join([value for _, value in kept])):
        cleaned = [(name, _DROPPED.sub("", value)) for name, value in kept]
        kept = [pair for pair in cleaned if pair[1]]
    others = "".join([value for name, value in kept if name not in _PLAIN])
    if "\n" not in others and "\r" not in others:
        return kept
    return [
        (name, value.replace("\n", r"\n").replace("\r", r"\r")) if name not in _PLAIN else (name, value)
        for name, value in kept
    ]


def _is_clean(text: str) -> bool:
    """Whether a text holds nothing that is dropped."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        return False  # a surrogate
    # To look for one byte is so quick that thirty looks at 23 KB take 8 µs; one look for all by a pattern takes 70.
    if any(map(data.__contains__, _CONTROLS)):
        return False
    return not any(first in data and pattern.search(data) for first, pattern in _OTHERS)


def _in_order(pairs: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    names = [name for name, _ in pairs]
    places = list(map(_PLACES.__getitem__, names))
    if places != sorted(places):
        pairs = [pair for _, pair in sorted(zip(places, pairs, strict=True), key=itemgetter(0))]
    found = set(names)
    if len(found & _SINGLE) != sum(map(_SINGLE.__contains__, names)):
        twice = next(name for name in names if name in _SINGLE and names.count(name) > 1)
        raise RecordError(f"the WIR field {twice} is given twice")
    for name in found - FIELDS.keys():
        if name in _TAKEN or not _NAME.fullmatch(name):
            raise RecordError(f"{name[:40]!r} is not the name of a WIR field")
    return tuple(pairs)


def _escape(text: str) -> str:
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if text.isprintable():
        return text
    # To look for a character is ten times as quick as to replace it where there is none.
    if "\n" in text:
        text = text.replace("\n", r"\n")
    if "\r" in text:
        text = text.replace("\r", r"\r")
    if "\t" in text:
        text = text.replace("\t", r"\t")
    return text


def _unescape(text: str) -> str:
    if _NO_LINE_END.search(text):
        return _ESCAPE.sub(_meaning, text)
    return _LINE_END.sub("\n", text)  # half the time, for the texts of nearly all pages


def _meaning(escape: re.Match[str]) -> str:
    return _MEANING[escape[1]]


def _json_values(known: Field, texts: list[str]) -> list[Any]:
    if not known.columns:
        return [_number(text) for text in texts] if known.numbers else texts
    names = known.columns
    rows = [dict(zip(names, split(text) if "\\" in text else text.split("\t"))) for text in texts]  # noqa: B905
    if known.numbers:
        for row in rows:
            row |= {name: _number(row[name]) for name in known.numbers & row.keys()}  # type: ignore[misc]
    return rows


def _number(text: str) -> int | str:
    return int(text) if _NUMBER.fullmatch(text) else text
