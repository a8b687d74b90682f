from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Iterator

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine.errors import UsageError
from combine.keep import exports
from combine.keep.exports import Members
from combine.keep.members import members
from formats import wir
from formats.wir import Record
from tests.combine.keep.material import a_record
from tests.formats.strategies import PROPERTY


def a_full_record() -> Record:
    return wir.record(
        [
            *a_record("http://a.test/", title='A "b", c', text="one\ntwo\rthree", depth="2").fields,
            ("tag", "first"),
            ("tag", "second"),
            ("raw", wir.join(["2026/11/30/x.hrf", 0, 15])),
            ("link", wir.join(["a", "http://a.test/2", "nofollow", "a\tlink\nhere"])),
            ("heading", wir.join([1, "Ščuka €"])),
            ("colour", "red"),
        ]
    )


def as_members(*records: Record) -> list[Members]:
    return [members(wir.dump(record)) for record in records]


EXPECTED = {
    "id": a_record("http://a.test/").id,
    "url": "http://a.test/",
    "tag": ["first", "second"],
    "depth": 2,
    "raw": {"file": "2026/11/30/x.hrf", "offset": 0, "length": 15},
    "title": 'A "b", c',
    "headings": [{"level": 1, "text": "Ščuka €"}],
    "links": [{"kind": "a", "url": "http://a.test/2", "rel": "nofollow", "text": "a\tlink\nhere"}],
    "text": "one\ntwo\rthree",
}


def test_json_lines_are_the_records() -> None:
    lines = b"".join(exports.jsonl(as_members(a_full_record(), a_record("http://a.test/2")))).split(b"\n")
    assert 3 == len(lines)
    assert EXPECTED | {"colour": ["red"]} == json.loads(lines[0])
    assert {"id", "url"} == set(json.loads(lines[1]))


def test_json_lines_of_some_fields_are_in_their_order() -> None:
    (line,) = exports.jsonl(as_members(a_full_record()), exports.select(["title", "url", "published"]))
    assert ["title", "url"] == list(json.loads(line))


def read_csv(chunks: Iterator[bytes]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(chunks).decode("utf-8"), newline=""), strict=True))


def test_csv_has_a_column_for_each_field_and_json_in_the_cells_that_need_it() -> None:
    rows = read_csv(exports.csv(as_members(a_full_record(), a_record("http://a.test/2"))))
    assert list(exports.NAMES) == list(rows[0])
    for name, value in EXPECTED.items():
        cell = rows[0][name]
        assert value == (json.loads(cell) if isinstance(value, list | dict | int) else cell), name
    assert {""} == {value for name, value in rows[1].items() if name not in ("id", "url")}


def test_csv_of_some_fields() -> None:
    assert [{"url": "http://a.test/", "tag": '["first","second"]'}] == read_csv(
        exports.csv(as_members(a_full_record()), exports.select(["url", "tag"]))
    )


def test_csv_of_no_records_is_its_header() -> None:
    assert b"url,title\r\n" == b"".join(exports.csv([], ("url", "title")))


@PROPERTY
@given(st.lists(st.text(st.sampled_from("a é,;\"'\r\n\t\\")), min_size=1, max_size=4))
def test_csv_is_that_of_the_standard_library(cells: list[str]) -> None:
    names = exports.NAMES[: len(cells)]
    expected = io.StringIO(newline="")
    csv.writer(expected).writerows([names, cells])
    record = {name: orjson.dumps(cell) for name, cell in zip(names, cells, strict=True)}
    assert expected.getvalue() == b"".join(exports.csv([record], names)).decode()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ()),
        (["url", "link", "links", "url"], ("url", "links")),
        (["headings", "heading", "meta"], ("headings", "meta")),
    ],
)
def test_fields_are_known_by_either_name(names: list[str], expected: tuple[str, ...]) -> None:
    assert expected == exports.select(names)


@pytest.mark.parametrize(("name", "hint"), [("titel", "did you mean 'title'"), ("zzzzzz", "known are: id, url")])
def test_an_unknown_field_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}' is not a field of a record; {hint}"):
        exports.select(["url", name])


@pytest.mark.parametrize(
    ("moment", "by", "expected"),
    [
        ("2026-01-01", "changed", ["1", "2", "3"]),
        ("2026-01-02", "changed", ["2", "3"]),
        ("2026-01-02T09:00:00Z", "changed", ["2", "3"]),
        ("2026-01-02T09:00:01Z", "changed", ["3"]),
        ("2026-01-02", "checked", ["1", "2", "3"]),
    ],
)
def test_since_is_by_the_time_that_is_asked(moment: str, by: str, expected: list[str]) -> None:
    records = [
        a_record("http://a.test/1", changed="2026-01-01T00:00:00Z", checked="2026-01-05T00:00:00Z", title="1"),
        a_record("http://a.test/2", changed="2026-01-02T09:00:00Z", checked="2026-01-05T00:00:00Z", title="2"),
        a_record("http://a.test/3", title="3"),
    ]
    assert expected == [json.loads(record["title"]) for record in exports.since(as_members(*records), moment, by)]


@pytest.mark.parametrize("moment", ["", "yesterday", "2026-1-1", "2026-01-01 10:00", "2026-01-01T10:00:00"])
def test_a_moment_that_is_no_time_is_refused_at_once(moment: str) -> None:
    with pytest.raises(UsageError, match="is not a time: write 2026-11-30"):
        exports.since([], moment)


@pytest.mark.parametrize("export", [exports.jsonl, exports.csv])
def test_a_long_export_takes_no_more_memory_than_a_short_one(export: object) -> None:
    def records() -> Iterator[Members]:
        for number in range(2000):
            yield from as_members(a_record(f"http://a.test/{number}", text="x" * 1000))

    assert callable(export)
    tracemalloc.start()
    size = sum(len(chunk) for chunk in export(records()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size > 2_000_000
    assert peak < 500_000
