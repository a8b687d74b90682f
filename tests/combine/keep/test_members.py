"""The members of a record: what is copied is what reading it makes, byte for byte, and what is odd is read."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine.errors import RecordError
from combine.keep import members as module
from combine.keep.members import members
from formats import wir
from tests.formats import golden
from tests.formats.strategies import PROPERTY, wir_pairs

#: What breaks the likeness of WIR and JSON, or the form of a record, wherever it stands.
ODD = [b"\\", b"\\\\", b"\\n", b"\\q", b"\\u0041", b'"', b'\\"', b"\t", b"\n", b"\r", b"\0", b"\x0b", b"\x1f", b"\x7f"]
ODD += [b"\xc2\x85", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"\xff", b"\xf0\x9f\x98\x80", b": ", b"%b", b"{", b"0", b"-0"]
ODD += [b"\ntext: ", b"\nlink: ", b"\ntag: a", b"\nx_new: 1\t2", b"\nurl: u", b"\nlinks: x", b"\nWIR/2.0\n"]

WHOLE = wir.dump(
    wir.record(
        [
            ("url", 'http://a.test/"'),
            ("tag", "one"),
            ("tag", "two"),
            ("depth", "2"),
            ("raw", wir.join(["2026/11/30/x.hrf", 0, 15])),
            ("right", wir.join(["tdm-reservation", "1", "header"])),
            ("title", 'A "b" \\ c'),
            ("heading", wir.join([1, "Ščuka €"])),
            ("heading", wir.join([2, ""])),
            ("link", wir.join(["a", "http://a.test/2", "nofollow", "a\tlink\nhere"])),
            ("link", wir.join(["img", "http://a.test/3", "", ""])),
            ("counts", wir.join([2, 2, 2])),
            ("text", "one\ntwo\rthree \x7f\\n €"),
        ]
    )
)


def read(data: bytes) -> list[tuple[str, bytes]] | str:
    """The members by the exact way, in their order, or the sentence that refuses the record."""
    try:
        return [(name, orjson.dumps(value)) for name, value in wir.as_json(wir.parse(data)).items()]
    except RecordError as error:
        return str(error)


def made(data: bytes) -> list[tuple[str, bytes]] | str:
    try:
        return list(members(data).items())
    except RecordError as error:
        return str(error)


def is_copied(data: bytes) -> bool:
    try:
        module._copied(data)
    except (module._OddError, UnicodeDecodeError):
        return False
    return True


def cannot_be_read(data: bytes) -> dict[str, bytes]:
    raise AssertionError(data)


@PROPERTY
@given(wir_pairs())
def test_what_is_written_has_the_members_that_it_is_read_as(pairs: list[tuple[str, str]]) -> None:
    data = wir.dump(wir.record(pairs))
    assert read(data) == made(data)


@PROPERTY
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*wir.FIELDS, *("title", "depth", "heading", "link", "counts", "text") * 3, "x_new"]),
            st.lists(st.sampled_from([*ODD, b"7", b"a", b"\t"]) | st.binary(max_size=3), max_size=7),
        ),
        max_size=6,
    ),
    st.booleans(),
)
def test_anything_is_read_or_refused_alike(lines: list[tuple[str, list[bytes]]], are_ordered: bool) -> None:
    if are_ordered:
        lines.sort(key=lambda line: list(wir.FIELDS).index(line[0]) if line[0] in wir.FIELDS else 99)
    data = b"WIR/2.0\n" + b"".join(b"%b: %b\n" % (name.encode(), b"".join(value)) for name, value in lines)
    assert read(data) == made(data)


def test_a_whole_record_is_copied_and_cut_or_broken_anywhere_it_is_read_alike() -> None:
    assert is_copied(WHOLE)
    for place in range(len(WHOLE) + 1):
        assert read(WHOLE[:place]) == made(WHOLE[:place])
        for odd in ODD:
            for data in (WHOLE[:place] + odd + WHOLE[place:], WHOLE[:place] + odd + WHOLE[place + len(odd) :]):
                assert read(data) == made(data), (place, odd)


@pytest.mark.parametrize("name", golden.names("wir"))
def test_golden_records(name: str) -> None:
    raw, says = golden.load(name, "wir")
    assert says == {name: json.loads(value) for name, value in members(raw).items()}
    assert read(raw) == made(raw)


@pytest.mark.parametrize(
    "value",
    [b"plain", b"", "Ščuka € 😀".encode(), b'"', rb"\n\r\t\\", rb"\\n", rb"\\\\\n", b" \x7f", b"%b %s", b"a: b"],
)
@pytest.mark.parametrize("line", [b"title: %b\n", b"tag: %b\ntag: %b\n", b"text: %b\n", b"meta: a\t%b\nmeta: \t%b\n"])
def test_what_can_be_copied_is(monkeypatch: pytest.MonkeyPatch, line: bytes, value: bytes) -> None:
    data = b"WIR/2.0\n" + line.replace(b"%b", value)
    expected = read(data)
    monkeypatch.setattr(module, "_read", cannot_be_read)
    assert expected == made(data)


@pytest.mark.parametrize(
    "lines",
    [
        rb"title: a\q",
        b"title: a\\",
        b"title: a\tb",
        b"title: a\x01b",
        b"title: a\rb",
        b"title: \xff",
        b"size: 007",
        b"size: 1234567890123456789",
        b"size: many",
        b"heading: one\tx",
        b"heading: 1",
        b"heading: 1\tx\ty",
        b"counts: 1\t2",
        b"link: a\tb\tc\nlink: a\tb\tc\td\te",
        b"x_new: a",
        b"title: a\nurl: b",
        b"title: a\ntitle: b",
        b"text: a\ntext: b",
        b"title",
    ],
)
def test_what_is_odd_is_left_to_reading(lines: bytes) -> None:
    data = b"WIR/2.0\n" + lines + b"\n"
    assert not is_copied(data)
    assert read(data) == made(data)
