"""WIR: round trips, golden records, the JSON shape, and junk of every kind."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import wir
from formats.jcf import RecordError
from formats.wir import Link, Record
from tests.formats import golden
from tests.formats.strategies import PROPERTY, wir_pairs

PAIRS = [
    ("text", "One \\ line.\nAnother."),
    ("link", wir.join(("a", "https://example.org/b", "nofollow ugc", "tab\there"))),
    ("link", wir.join(("img", "https://example.org/c", "", ""))),
    ("url", "https://example.org/a"),
    ("id", "0b37b6dc1d5ee4a4f7d3a8e3e4ba0ea4"),
    ("depth", "1"),
    ("raw", wir.join(("2026/11/30/1.0.17.hrf", 25012, 412))),
]
RECORD = wir.record(PAIRS)
FILE = wir.dump(RECORD)


@PROPERTY
@given(wir_pairs())
def test_what_is_written_is_read(pairs: list[tuple[str, str]]) -> None:
    value = wir.record(pairs)
    raw = wir.dump(value)
    assert value == wir.parse(raw)
    assert raw == wir.dump(wir.parse(raw))
    assert value == wir.record(value.fields)
    assert 1 + len(value.fields) == raw.count(b"\n") == len(raw.decode().splitlines())
    json.dumps(wir.as_json(value)).encode()


@PROPERTY
@given(st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_columns_are_joined_and_split(columns: list[str]) -> None:
    joined = wir.join(columns)
    assert tuple(columns) == wir.split(joined)
    assert len(columns) - 1 == joined.count("\t")
    assert "\n" not in joined
    assert "\r" not in joined


@PROPERTY
@given(st.text(max_size=80))
def test_a_value_keeps_all_but_control_characters(value: str) -> None:
    kept = "".join(
        c for c in value if c in "\t\n\r" or not re.match("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", c)
    )
    assert kept == wir.record([("title", value)]).get("title")


@pytest.mark.parametrize("around", ["", "é€\xa0"])
def test_every_character_is_kept_or_dropped(around: str) -> None:
    dropped = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
    for code in (*range(0x2100), *range(0xD7F0, 0xE010), 0xFFFF, 0x1F600, 0x10FFFF):
        value = f"{around}{chr(code)}a"
        assert dropped.sub("", value) == wir.record([("title", value)]).get("title"), hex(code)


@pytest.mark.parametrize("name", golden.names("wir"))
def test_golden_records(name: str) -> None:
    raw, says = golden.load(name, "wir")
    value = wir.parse(raw)
    assert says == wir.as_json(value)
    assert list(says) == list(wir.as_json(value))
    assert raw == wir.dump(value)
    assert value == wir.record(value.fields)


def test_a_record_is_put_in_order() -> None:
    assert ["id", "url", "depth", "raw", "link", "link", "text"] == [name for name, _ in RECORD.fields]
    assert wir.record(reversed(PAIRS[2:])) == wir.record(PAIRS[2:])
    shuffled = FILE.replace(b"depth: 1\n", b"") + b"depth: 1\n"
    assert RECORD == wir.parse(shuffled)


def test_empty_values_are_left_out() -> None:
    assert (("title", "x"),) == wir.record([("title", "x"), ("url", ""), ("tag", ""), ("server", "\x00\u2028")]).fields


def test_empty_values_are_read() -> None:
    value = wir.parse(b"WIR/2.0\ntitle: \n")
    assert (("title", ""),) == value.fields
    assert b"WIR/2.0\ntitle: \n" == wir.dump(value)


def test_a_record_of_nothing() -> None:
    assert Record() == wir.parse(b"WIR/2.0\n") == wir.record([])
    assert b"WIR/2.0\n" == wir.dump(Record())
    assert {} == wir.as_json(Record())
    assert ("", "", "", [], []) == (
        Record().id,
        Record().url,
        Record().get("x"),
        Record().all("x"),
        Record().columns("x"),
    )


def test_a_record_is_looked_into() -> None:
    assert "https://example.org/a" == RECORD.url
    assert "0b37b6dc1d5ee4a4f7d3a8e3e4ba0ea4" == RECORD.id
    assert "1" == RECORD.get("depth")
    assert ["a\thttps://example.org/b\tnofollow ugc\ttab\\there", "img\thttps://example.org/c\t\t"] == RECORD.all(
        "link"
    )
    assert [
        Link("a", "https://example.org/b", "nofollow ugc", "tab\there"),
        Link("img", "https://example.org/c"),
    ] == [Link(*columns) for columns in RECORD.columns("link")]
    assert [("2026/11/30/1.0.17.hrf", "25012", "412")] == RECORD.columns("raw")


def test_a_record_is_changed_by_making_another() -> None:
    value = RECORD.having(depth=2, title="A\x07 page", url="", raw=None, parent=None)
    assert ["id", "depth", "title", "link", "link", "text"] == [name for name, _ in value.fields]
    assert ("2", "A page") == (value.get("depth"), value.get("title"))
    assert RECORD == value.having(depth=1, title=None, url=RECORD.url, raw=RECORD.get("raw"))


@pytest.mark.parametrize("name", ["link", "tag", "x_unknown", "Title"])
def test_only_fields_of_one_value_are_changed(name: str) -> None:
    with pytest.raises(RecordError, match=f"'{name}' is not a WIR field of one value"):
        RECORD.having(**{name: "x"})


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (rb"a\\b", "a\\b"),
        (rb"a\nb\tc\rd", "a\nb\tc\rd"),
        (rb"a\\nb", "a\\nb"),
        (rb"a\qb", "a\\qb"),
        (rb"C:\\temp\new", "C:\\temp\new"),
        (b"a\\", "a\\"),
        (b"a\tb", "a\tb"),
        (b"a: b", "a: b"),
        (b" a ", " a "),
    ],
)
def test_escapes(written: bytes, value: str) -> None:
    read = wir.parse(b"WIR/2.0\ntitle: " + written + b"\n")
    assert value == read.get("title")
    assert read == wir.parse(wir.dump(read))


@pytest.mark.parametrize(
    ("pairs", "shown"),
    [
        ([("url", "u"), ("title", "a\nb")], {"url": "u", "title": "a\nb"}),
        ([("depth", "3"), ("status", "200"), ("size", "0")], {"depth": 3, "status": 200, "size": 0}),
        (
            [("depth", "three"), ("status", "2.0"), ("size", "9" * 30)],
            {"depth": "three", "status": "2.0", "size": "9" * 30},
        ),
        ([("tag", "x")], {"tag": ["x"]}),
        ([("tag", "x"), ("tag", "y")], {"tag": ["x", "y"]}),
        ([("link", "a\tu\t\tt\\\\")], {"links": [{"kind": "a", "url": "u", "rel": "", "text": "t\\"}]}),
        ([("link", "a\tu")], {"links": [{"kind": "a", "url": "u"}]}),
        ([("link", "a\tu\tr\tt\tlater")], {"links": [{"kind": "a", "url": "u", "rel": "r", "text": "t"}]}),
        (
            [("heading", "2\tx"), ("heading", "?\ty")],
            {"headings": [{"level": 2, "text": "x"}, {"level": "?", "text": "y"}]},
        ),
        ([("meta", "author\tA B")], {"meta": [{"name": "author", "content": "A B"}]}),
        ([("counts", "5\t1\t0")], {"counts": {"words": 5, "headings": 1, "links": 0}}),
        ([("raw", "f.hrf\t1\t2")], {"raw": {"file": "f.hrf", "offset": 1, "length": 2}}),
        (
            [("stale", "gone\t2026-11-30T08:00:00Z\t1")],
            {"stale": {"outcome": "gone", "since": "2026-11-30T08:00:00Z", "sights": 1}},
        ),
        (
            [("right", "license\thttps://l/\tlink")],
            {"right": [{"signal": "license", "value": "https://l/", "where": "link"}]},
        ),
        ([("x_new", "a"), ("x_new", "b\\n\tc")], {"x_new": ["a", "b\n\tc"]}),
    ],
)
def test_json(pairs: list[tuple[str, str]], shown: dict[str, object]) -> None:
    assert shown == wir.as_json(wir.record(pairs))


def test_unknown_fields_are_kept_as_they_are_written() -> None:
    raw = b"WIR/2.0\nx_b: 1\\n2\t3\\q\nurl: u\nx_a: \\\nx_b: 4\n"
    assert b"WIR/2.0\nurl: u\nx_b: 1\\n2\t3\\q\nx_a: \\\nx_b: 4\n" == wir.dump(wir.parse(raw))
    assert (("x_c", r"a\nb\rc"),) == wir.record([("x_c", "a\nb\rc")]).fields


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "starts with the line 'WIR/2.0', not with ''"),
        (b"\n" + FILE, "starts with the line 'WIR/2.0', not with ''"),
        (b"WIR/2.0\r\nurl: u\r\n", "not with 'WIR/2.0\\r'"),
        (b"WIR/2.0", "byte 7: the WIR record is cut off within a line"),
        (b"WIR/1.0\nurl: u\n", "WIR/1.0 is not read here, only WIR/2.0"),
        (b"WIR/2.1\n", "WIR/2.1 is not read here, only WIR/2.0"),
        (b"<wir>\n", "not with '<wir>'"),
        (FILE[:-1], f"byte {len(FILE) - 1}: the WIR record is cut off"),
        (FILE + b"x", "is cut off within a line"),
        (FILE + b"\n", "line 9 of a WIR record is 'name: value', not ''"),
        (FILE + FILE, "line 9 of a WIR record is 'name: value', not 'WIR/2.0'"),
        (FILE + b"url: u\n", "the WIR field url is given twice"),
        (FILE + b"title:x\n", "line 9 of a WIR record"),
        (b"WIR/2.0\n: x\n", "'' is not the name of a WIR field"),
        (b"WIR/2.0\nTitle: x\n", "'Title' is not the name"),
        (b"WIR/2.0\n\xc3\xbc: x\n", "'ü' is not the name"),
        (b"WIR/2.0\nlinks: x\n", "'links' is not the name"),
        (b"WIR/2.0\ntitle: \xff\n", "byte 15 of the WIR record is not UTF-8"),
        (b"WIR/2.0\ntitle: \xed\xa0\x80\n", "not UTF-8"),
    ],
)
def test_what_is_no_record_is_refused(raw: bytes, sentence: str) -> None:
    with pytest.raises(RecordError) as caught:
        wir.parse(raw)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "pairs",
    [[("url", "a"), ("url", "b")], [("URL", "a")], [("", "a")], [("headings", "a")], [("a\n", "a")], [("\ud800", "a")]],
)
def test_no_record_is_made_of_wrong_names(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(RecordError) as caught:
        wir.record(pairs)
    str(caught.value).encode()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ((("link", "a\nb"),), "was not made by join"),
        ((("x_new", "a\nb"),), "was not made by join"),
        ((("title", "\ud800"),), "character 15 of the WIR record cannot be written in UTF-8"),
    ],
)
def test_what_no_file_can_hold_is_not_written(fields: tuple[tuple[str, str], ...], sentence: str) -> None:
    with pytest.raises(RecordError, match=sentence):
        wir.dump(Record(fields))


def test_cut_at_every_byte() -> None:
    whole = {FILE[: place + 1] for place in range(len(FILE)) if FILE[place] == 0x0A}
    for place in range(len(FILE)):
        if FILE[:place] in whole:
            assert set(wir.parse(FILE[:place]).fields) < set(RECORD.fields)
        else:
            with pytest.raises(RecordError):
                wir.parse(FILE[:place])
        if place:
            with pytest.raises(RecordError):
                wir.parse(FILE[place:])


def test_junk_before_and_after() -> None:
    for byte in range(256):
        for raw in (bytes((byte,)) + FILE, FILE + bytes((byte,))):
            with pytest.raises(RecordError):
                wir.parse(raw)


def test_any_byte_changed_is_refused_or_read() -> None:
    for place in range(len(FILE)):
        for byte in (0, 9, 10, 32, 92, 255):
            read_or_refused(FILE[:place] + bytes((byte,)) + FILE[place + 1 :])


@PROPERTY
@given(st.binary(max_size=200), st.integers(0, len(FILE)))
def test_junk_never_raises_anything_else(junk: bytes, place: int) -> None:
    for raw in (junk, b"WIR/2.0\n" + junk, b"WIR/2.0\nlink: " + junk + b"\n", FILE[:place] + junk + FILE[place:]):
        read_or_refused(raw)


def read_or_refused(raw: bytes) -> None:
    try:
        value = wir.parse(raw)
    except RecordError as error:
        str(error).encode()
    else:
        assert value == wir.parse(wir.dump(value))
        wir.as_json(value)
        for name in wir.FIELDS:
            value.columns(name)


def test_the_table_of_fields_is_consistent() -> None:
    for name, known in wir.FIELDS.items():
        assert name == known.name
        assert re.fullmatch("[a-z][a-z0-9_]*", name)
        assert known.numbers <= {name, *known.columns}
        assert known.doc
    keys = [known.json for known in wir.FIELDS.values()]
    assert len(set(keys)) == len(keys)


@PROPERTY
@given(st.lists(st.tuples(st.text(max_size=5), st.text("a\t\n\r\\", max_size=3)), max_size=4))
def test_rows_are_joined_as_each_alone(rows: list[tuple[str, str]]) -> None:
    assert list(map(wir.join, rows)) == wir.join_all(rows)
