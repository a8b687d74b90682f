"""HRF: round trips, golden batches, and damage of every kind, named by its byte."""

from __future__ import annotations

import dataclasses
import mmap
import tempfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import hrf, jcf
from formats.hrf import Harvest
from formats.jcf import RecordError
from tests.formats import golden
from tests.formats.strategies import PROPERTY, harvests

HARVEST = Harvest(
    job=jcf.job(URL="https://example.org/a", FETCH=81),
    outcome="ok",
    fetched="2026-11-30T08:00:00.123Z",
    request=b"GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n",
    header=b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: "x"\r\n\r\n',
    body=b"<p>\n\nHRF/1.0\n\n",
    extra=(("X-Later", "ž"),),
)
RECORD = hrf.dump(HARVEST)
OUTCOME_AT = RECORD.index(b"Outcome")


def changed(old: bytes, new: bytes) -> bytes:
    assert 1 == RECORD.count(old)
    return RECORD.replace(old, new)


@PROPERTY
@given(harvests())
def test_what_is_written_is_read(value: Harvest) -> None:
    raw = hrf.dump(value)
    assert value == hrf.parse(raw)
    assert raw == hrf.dump(hrf.parse(raw))
    assert raw == hrf.head(value, len(value.body)) + value.body + b"\n"


@PROPERTY
@given(st.lists(harvests(), max_size=4))
def test_a_batch_is_records_one_after_another(values: list[Harvest]) -> None:
    batch = b"".join(map(hrf.dump, values))
    found = list(hrf.scan(batch))
    assert values == [value for _, _, value in found]
    for offset, length, value in found:
        assert value == hrf.parse(batch[offset : offset + length])
    assert [(value, offset + length) for offset, length, value in found] == [
        hrf.parse_at(memoryview(batch), offset) for offset, _, _ in found
    ]


@pytest.mark.parametrize("name", golden.names("hrf"))
def test_golden_batches(name: str) -> None:
    raw, says = golden.load(name, "hrf")
    found = list(hrf.scan(raw))
    assert says == [as_plain(value) for _, _, value in found]
    assert raw == b"".join(hrf.dump(value) for _, _, value in found)


def as_plain(value: Harvest) -> dict[str, Any]:
    plain = {name.name: getattr(value, name.name) for name in dataclasses.fields(value) if name.init}
    plain["job"] = dict(value.job.params)
    plain["extra"] = [list(pair) for pair in value.extra]
    for name in ("request", "header", "body"):
        plain[name] = plain[name].decode("latin-1")
    return {name: content for name, content in plain.items() if content not in ("", [], 0)}


def test_a_mapped_file_is_read_like_bytes() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(RECORD * 3)
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            assert [(i * len(RECORD), len(RECORD), HARVEST) for i in range(3)] == list(hrf.scan(mapped))
            assert (HARVEST, 2 * len(RECORD)) == hrf.parse_at(mapped, len(RECORD))


def test_a_long_head_is_read() -> None:
    value = dataclasses.replace(HARVEST, extra=tuple((f"X-{i}", "y" * 100) for i in range(300)))
    assert value == hrf.parse(hrf.dump(value))


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "byte 0: an HRF record starts with the line 'HRF/1.0', not with ''"),
        (b"\n" + RECORD, "byte 0: an HRF record starts with"),
        (RECORD + b"\n", f"byte {len(RECORD)}: 1 bytes follow"),
        (RECORD * 2, f"byte {len(RECORD)}: {len(RECORD)} bytes follow"),
        (b"HRF/1.0", "not with 'HRF/1.0'"),
        (b"HRF/1.0\r\n\r\n", "not with 'HRF/1.0\\r'"),
        (b"HRF/2.0\nWhatever this may be\n", "byte 0: HRF/2.0 is not read here, only HRF/1.0"),
        (b"HRF/1.1\n", "HRF/1.1 is not read here"),
        (b"HRF/1.0\n\n", "byte 0: the HRF head has no line Body-Length"),
        (b"HRF/1.0\n" + b"X-A: b\n" * 20000, "byte 0: the HRF head is over the limit of 65536 bytes"),
        (b"HRF/1.0\nJob: JCF/0.0\n", "byte 21: the HRF record is cut off within its head"),
        (changed(b"Outcome: ok\n", b""), "byte 0: the HRF head has no line Outcome"),
        (changed(b"Outcome: ok\n", b"Outcome: ok\n" * 2), f"byte {OUTCOME_AT + 12}: a line of an HRF head is"),
        (changed(b"Outcome: ok", b"Outcome: failed"), "Outcome 'failed' is not one of denied, gone, not-modified"),
        (changed(b"Outcome: ok", b"Outcome:ok"), f"byte {OUTCOME_AT}: a line of an HRF head is 'Name: value'"),
        (changed(b"Outcome: ok", b"Outcome"), f"byte {OUTCOME_AT}: a line of an HRF head is"),
        (changed(b"Outcome: ok", b"Outcome: ok\r"), f"byte {OUTCOME_AT}: a line of an HRF head is"),
        (changed(b"Outcome: ok", b"Out come: ok"), f"byte {OUTCOME_AT}: a line of an HRF head is"),
        (changed(b"Outcome: ok", b": ok"), f"byte {OUTCOME_AT}: a line of an HRF head is"),
        (changed("ž".encode(), b"\xff"), f"byte {RECORD.index('ž'.encode())}: the HRF head is not UTF-8"),
        (changed(b"T08:00:00.123Z", b"T08:00:00Z"), "Fetched '2026-11-30T08:00:00Z' is not a time"),
        (changed(b"X-Later: ", b"Truncated: "), "Truncated 'ž' is not length, time or disconnect"),
        (changed(b"Elapsed-Ms: 0", b"Elapsed-Ms: 99999999999"), "is not a whole number up to 9999999999"),
        (changed(b"Body-Length: 14", b"Body-Length: -1"), "Body-Length '-1' is not a whole number"),
        (changed(b"Body-Length: 14", b"Body-Length: 1.5"), "Body-Length '1.5' is not a whole number"),
        (changed(b"Body-Length: 14", b"Body-Length: "), "Body-Length '' is not a whole number"),
        (changed(b"Body-Length: 14", b"Body-Length: 14 "), "Body-Length '14 ' is not a whole number"),
        (changed(b"Body-Length: 14", "Body-Length: ١".encode()), "Body-Length '١' is not a whole number"),
        (changed(b"Body-Length: 14", b"Body-Length: 1073741825"), "is not a whole number up to 1073741824"),
        (
            changed(b"Header-Length: 55", b"Header-Length: 1048577"),
            "Header-Length '1048577' is not a whole number up to",
        ),
        (changed(b"Request-Length: 38", b"Request-Length: " + b"9" * 5000), "is not a whole number up to 1048576"),
        (changed(b"Body-Length: 14", b"Body-Length: 15"), f"byte {len(RECORD)}: the HRF record that goes on to byte"),
        (changed(b"Body-Length: 14", b"Body-Length: 13"), f"byte {len(RECORD) - 1}: 1 bytes follow"),
        (changed(b"Body-Length: 14", b"Body-Length: 11"), f"byte {len(RECORD) - 4}: the line end that closes"),
        (changed(b"JCF/0.0", b"JCF/0.1"), "byte 0: in the line Job: a JCF line starts with"),
        (changed(b'FETCH="81"', b'FETCH="' + b"8" * jcf.LINE_BYTES + b'"'), "in the line Job: a JCF line of"),
    ],
)
def test_what_is_no_record_is_refused(raw: bytes, sentence: str) -> None:
    with pytest.raises(RecordError) as caught:
        hrf.parse(raw)
    assert sentence in str(caught.value)
    str(caught.value).encode()


def test_damage_is_named_by_its_byte_in_the_batch() -> None:
    batch = RECORD + changed(b"Outcome: ok", b"Outcome=ok")
    found = hrf.scan(batch)
    assert (0, len(RECORD), HARVEST) == next(found)
    with pytest.raises(RecordError, match=f"^byte {len(RECORD) + OUTCOME_AT}: "):
        next(found)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"outcome": "failed"}, "Outcome 'failed' is not one of"),
        ({"fetched": "yesterday"}, "Fetched 'yesterday' is not a time"),
        ({"elapsed_ms": -1}, "Elapsed-Ms '-1' is not a whole number"),
        ({"truncated": "bored"}, "Truncated 'bored' is not"),
        ({"peer": "a\nb"}, "cannot hold a line end: 'Peer: a\\nb'"),
        ({"robots": "a\r"}, "cannot hold a line end"),
        ({"robots": "\ud800"}, "cannot be written in UTF-8"),
        ({"job": jcf.Job()}, "at least one parameter"),
        ({"extra": (("Job", "x"),)}, "'Job' is not a name for a further line"),
        ({"extra": (("A b", "x"),)}, "'A b' is not a name for a further line"),
        ({"extra": (("A", "x\n"),)}, "cannot hold a line end"),
        ({"extra": (("A", "x" * hrf.HEAD_BYTES),)}, "over the limit of 65536"),
        ({"request": b"x" * (hrf.HEADER_BYTES + 1)}, "Request-Length '1048577' is not a whole number up to 1048576"),
        ({"header": b"x" * (hrf.HEADER_BYTES + 1)}, "Header-Length '1048577' is not a whole number up to 1048576"),
    ],
)
def test_what_no_record_can_hold_is_not_written(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecordError) as caught:
        hrf.dump(dataclasses.replace(HARVEST, **changes))
    assert sentence in str(caught.value)
    str(caught.value).encode()


@pytest.mark.parametrize("length", [-1, hrf.BODY_BYTES + 1])
def test_a_body_that_lies_elsewhere_is_bounded(length: int) -> None:
    with pytest.raises(RecordError, match="Body-Length"):
        hrf.head(HARVEST, length)


def test_the_longest_head_is_read() -> None:
    room = hrf.HEAD_BYTES - len(hrf.head(dataclasses.replace(HARVEST, request=b"", header=b"", extra=(("A", ""),)), 14))
    value = dataclasses.replace(HARVEST, request=b"", header=b"", extra=(("A", "x" * room),))
    assert hrf.HEAD_BYTES == len(hrf.head(value, 14))
    assert value == hrf.parse(hrf.dump(value))
    with pytest.raises(RecordError, match="over the limit"):
        hrf.parse(hrf.dump(value).replace(b"A: x", b"A: xx"))


def test_cut_at_every_byte() -> None:
    for place in range(len(RECORD)):
        with pytest.raises(RecordError, match=r"^byte [0-9]+: "):
            hrf.parse(RECORD[:place])
        with pytest.raises(RecordError, match=r"^byte [0-9]+: "):
            hrf.parse(RECORD[place + 1 :])


def test_fed_byte_by_byte() -> None:
    buffer, values = bytearray(), []
    for byte in RECORD * 2:
        buffer.append(byte)
        try:
            value, end = hrf.parse_at(bytes(buffer), 0)
        except RecordError:
            continue
        values.append(value)
        assert len(buffer) == end
        buffer.clear()
    assert [HARVEST] * 2 == values
    assert not buffer


def test_junk_before_and_after() -> None:
    for byte in range(256):
        for raw in (bytes((byte,)) + RECORD, RECORD + bytes((byte,))):
            with pytest.raises(RecordError):
                hrf.parse(raw)


def test_any_byte_changed_is_refused_or_read() -> None:
    for place in range(len(RECORD)):
        for byte in (0, 10, 32, 57, 255):
            raw = RECORD[:place] + bytes((byte,)) + RECORD[place + 1 :]
            try:
                value = hrf.parse(raw)
            except RecordError as error:
                str(error).encode()
            else:
                assert value == hrf.parse(hrf.dump(value))


@PROPERTY
@given(st.binary(max_size=200), st.integers(0, len(RECORD)))
def test_junk_never_raises_anything_else(junk: bytes, place: int) -> None:
    for raw in (junk, b"HRF/1.0\n" + junk, RECORD[:place] + junk, RECORD[:place] + junk + RECORD[place:]):
        try:
            value = hrf.parse(raw)
        except RecordError as error:
            str(error).encode()
        else:
            assert value == hrf.parse(hrf.dump(value))


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", 200),
        (b"HTTP/1.0 404\r\n\r\n", 404),
        (b"HTTP/2  301 Moved\r\n\r\n", 301),
        (b"ICY 200 OK\r\n\r\n", 200),
        (b"HTTP/1.1 2000 OK\r\n\r\n", 0),
        (b"HTTP/1.1 OK\r\n\r\n", 0),
        (b"HTTP/1.1\r\n200", 0),
        (b"\r\n", 0),
        (b"", 0),
    ],
)
def test_status(header: bytes, status: int) -> None:
    assert status == dataclasses.replace(HARVEST, header=header).status


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        (b"A: b\r\nA:c\r\nB-C:\r\n", [("a", "b"), ("a", "c"), ("b-c", "")]),
        (b"A: b\nC: d\n", [("a", "b"), ("c", "d")]),
        (b"A: b\r\n c\r\n\t d \r\nE: f\r\n", [("a", "b c d"), ("e", "f")]),
        (b"A :  b: c \t\r\n", [("a", "b: c")]),
        (b"no colon\r\nA: \xfcb\r\n", [("a", "üb")]),
        (b" folded\r\nA: b\r\n", [("a", "b")]),
        (b"", []),
    ],
)
def test_fields(lines: bytes, fields: list[tuple[str, str]]) -> None:
    value = dataclasses.replace(HARVEST, header=b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n")
    assert fields == value.fields
    assert fields == value.fields
    for name, content in fields:
        assert content in value.all(name.upper())
    assert dict(reversed(fields)).get("a", "") == value.field("A")
    assert ("", []) == (value.field("absent"), value.all("absent"))


def test_a_harvest_without_a_header_has_no_fields() -> None:
    assert ([], 0, "") == ((value := dataclasses.replace(HARVEST, header=b"")).fields, value.status, value.field("a"))


def test_many_folded_lines_take_no_longer_than_others() -> None:
    lines = hrf.HEADER_BYTES // 4
    value = dataclasses.replace(HARVEST, header=b"HTTP/1.1 200 OK\r\nA: b" + b"\r\n x" * lines)
    assert 1 + 2 * lines == len(value.field("a"))


def test_fields_remembered_are_no_part_of_the_value() -> None:
    value = hrf.parse(RECORD)
    assert "text/html" == value.field("content-type")
    assert HARVEST == value
    assert "_fields" not in repr(value)
    assert [] == dataclasses.replace(value, header=b"").fields
