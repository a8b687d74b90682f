"""JCF: round trips, golden lines, historical lines, and junk of every kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import jcf
from formats.jcf import Job, RecordError
from tests.formats import golden
from tests.formats.strategies import PROPERTY, jobs

LINE = b'JCF/0.0 URL="https://example.org/a?b=1&c=%20" ETAG="%22x%22" DEPTH="1" X9="100%"'
PARAMS = {"URL": "https://example.org/a?b=1&c=%20", "ETAG": '"x"', "DEPTH": "1", "X9": "100%"}


@PROPERTY
@given(jobs())
def test_what_is_written_is_read(value: Job) -> None:
    line = jcf.dump(value)
    assert value == jcf.parse(line)
    assert value == jcf.parse(line + b"\n")
    assert list(value.params) == list(jcf.parse(line).params)
    assert line == jcf.dump(jcf.parse(line))
    assert line.decode() == jcf.dump_text(value)


@pytest.mark.parametrize("name", golden.names("jcf"))
def test_golden_lines(name: str) -> None:
    raw, says = golden.load(name, "jcf")
    lines = raw.removesuffix(b"\n").split(b"\n")
    assert len(says) == len(lines)
    for expected, line in zip(says, lines, strict=True):
        value = jcf.parse(line)
        assert expected["params"] == dict(value.params)
        assert expected.get("written", line.decode()) == jcf.dump(value).decode()


@pytest.mark.parametrize(
    ("line", "params"),
    [
        (b'JCF/0.0 URL="http://a/?x=1&y=2" HDB="h:10023" ', {"URL": "http://a/?x=1&y=2", "HDB": "h:10023"}),
        (b'JCF/0.0   url="http://a/"    Hdb="h"   \n', {"URL": "http://a/", "HDB": "h"}),
        (b'JCF/0.0 COLOUR="50% grey" URL=""', {"COLOUR": "50% grey", "URL": ""}),
        (b'JCF/0.0 COLOUR="%22"', {"COLOUR": "%22"}),
        (b'JCF/0.0 URL="http://a/%22"', {"URL": "http://a/%22"}),
        (b'JCF/0.0 TAG="%22%25%0d%0A%09%41%"', {"TAG": '"%\r\n\t%41%'}),
        ('JCF/0.0 TAG="ž\x85\u2028"'.encode(), {"TAG": "ž\x85\u2028"}),
        (b'JCF/0.0 TAG="URL="', {"TAG": "URL="}),
    ],
)
def test_what_others_write_is_read(line: bytes, params: dict[str, str]) -> None:
    assert params == dict(jcf.parse(line).params)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"", "starts with 'JCF/0.0', not with ''"),
        (b"\n", "starts with 'JCF/0.0'"),
        (b'JCF/1.0 URL="http://a/"', "not with 'JCF/1.0 URL="),
        (b'jcf/0.0 URL="http://a/"', "starts with 'JCF/0.0'"),
        (b"JCF/0.0", "after character 7"),
        (b"JCF/0.0   ", "after character 7"),
        (b'JCF/0.0URL="http://a/"', "after character 7"),
        (b'JCF/0.01 URL="http://a/"', "after character 7"),
        (b'JCF/0.0 URL="http://a/', "after character 7"),
        (b'JCF/0.0 URL="http://a/" x', "after character 23"),
        (b'JCF/0.0 URL="http://a/"TAG="x"', "after character 23"),
        (b'JCF/0.0 URL="http://a/" TAG="x', "after character 23"),
        (b'JCF/0.0 URL="http://a/" TAG=x', "after character 23"),
        (b'JCF/0.0 URL = "http://a/"', "after character 7"),
        (b'JCF/0.0 9URL="x"', "after character 7"),
        (b'JCF/0.0 UR-L="x"', "after character 7"),
        ('JCF/0.0 Ü="x"'.encode(), "after character 7"),
        (b'JCF/0.0 ="x"', "after character 7"),
        (b'JCF/0.0 "x"', "after character 7"),
        (b'JCF/0.0 URL="a" url="b"', "URL is given twice"),
        (b'JCF/0.0 COLOUR="a" COLOUR="a"', "COLOUR is given twice"),
        (b'JCF/0.0 URL="a\tb"', "a line end or a tab"),
        (b'JCF/0.0\tURL="a"', "a line end or a tab"),
        (b'JCF/0.0 URL="a"\r\n', "a line end or a tab"),
        (b'JCF/0.0 URL="a"\n\n', "a line end or a tab"),
        (b'JCF/0.0 URL="a"\nJCF/0.0 URL="b"', "a line end or a tab"),
        (b'JCF/0.0 URL="\xff"', "byte 13 of the JCF line is not UTF-8"),
        (b'JCF/0.0 URL="\xed\xa0\x80"', "not UTF-8"),
        (b'JCF/0.0 URL="' + b"a" * jcf.LINE_BYTES + b'"', "over the limit of 16384"),
    ],
)
def test_what_is_no_line_is_refused(line: bytes, sentence: str) -> None:
    with pytest.raises(RecordError) as caught:
        jcf.parse(line)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (Job(), "at least one parameter"),
        (Job({"URL": 'http://a/"'}), "URL cannot hold a quote"),
        (Job({"VIA": "http://a/\n"}), "VIA cannot hold"),
        (Job({"COLOUR": "a\tb"}), "COLOUR cannot hold"),
        (Job({"HDB": "a\rb"}), "HDB cannot hold"),
        (Job({"TAG": "\ud800"}), "character 13 of the JCF line cannot be written in UTF-8"),
        (Job({"TAG": "a" * jcf.LINE_BYTES}), "over the limit of 16384"),
        (Job({"url": "x"}), "'url' is not the name"),
        (Job({"": "x"}), "'' is not the name"),
        (Job({"A B": "x"}), "'A B' is not the name"),
        (Job({"A\n": "x"}), "is not the name"),
        (Job({"1A": "x"}), "is not the name"),
        (Job({"Ü": "x"}), "is not the name"),
        (Job({"\ud800": "x"}), "is not the name"),
    ],
)
def test_what_no_line_can_hold_is_not_written(value: Job, sentence: str) -> None:
    with pytest.raises(RecordError) as caught:
        jcf.dump(value)
    assert sentence in str(caught.value)
    str(caught.value).encode()


def test_the_longest_line_is_read_with_and_without_its_end() -> None:
    value = jcf.job(TAG="a" * (jcf.LINE_BYTES - len('JCF/0.0 TAG=""')))
    assert jcf.LINE_BYTES == len(jcf.dump(value))
    assert value == jcf.parse(jcf.dump(value)) == jcf.parse(jcf.dump(value) + b"\n")
    with pytest.raises(RecordError):
        jcf.parse(jcf.dump(value).replace(b'"a', b'"aa'))


def test_cut_at_every_byte() -> None:
    for place in range(len(LINE)):
        part = LINE[:place]
        if part.endswith(b'" ') or (part.endswith(b'"') and part.count(b'"') % 2 == 0):
            assert PARAMS.items() > jcf.parse(part).params.items()
        else:
            with pytest.raises(RecordError):
                jcf.parse(part)


def test_fed_byte_by_byte() -> None:
    buffer, values = bytearray(), []
    for byte in (LINE + b"\n") * 3:
        buffer.append(byte)
        if byte == 0x0A:
            values.append(jcf.parse(bytes(buffer)))
            buffer.clear()
    assert [PARAMS] * 3 == [value.params for value in values]


def test_junk_before_and_after() -> None:
    for byte in range(256):
        junk = bytes((byte,))
        for line in (junk + LINE, LINE + junk):
            if line in (LINE + b"\n", LINE + b" "):
                assert PARAMS == jcf.parse(line).params
            else:
                with pytest.raises(RecordError):
                    jcf.parse(line)


@PROPERTY
@given(st.binary(max_size=120), st.binary(max_size=20))
def test_junk_never_raises_anything_else(junk: bytes, more: bytes) -> None:
    for line in (junk, b"JCF/0.0 " + junk, LINE[:20] + junk, LINE + junk + more, LINE.replace(b"example", junk)):
        try:
            value = jcf.parse(line)
        except RecordError as error:
            str(error).encode()
        else:
            assert value == jcf.parse(jcf.dump(value))


@PROPERTY
@given(st.dictionaries(st.text(max_size=8), st.text(max_size=40), max_size=4))
def test_any_value_is_written_or_refused(params: dict[str, str]) -> None:
    try:
        line = jcf.dump(Job(params))
    except RecordError as error:
        str(error).encode()
    else:
        assert params == jcf.parse(line).params


@pytest.mark.parametrize(
    ("value", "number"), [("0", 0), ("-1", -1), ("007", 7), ("9" * 18, 10**18 - 1), ("", 5), (None, 5)]
)
def test_numbers(value: str | None, number: int) -> None:
    assert number == jcf.job(N=value).number("N", 5)


@pytest.mark.parametrize(
    "value", ["x", "1.5", "--5", "-", "+1", " 1", "1 ", "1\n", "٣", "9" * 19, "9" * 5000, "1e3", "0x1"]
)
def test_what_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(RecordError, match=r"N='.*' is not a whole number"):
        jcf.job(N=value).number("N")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0.0), ("1.5", 1.5), ("60", 60.0), ("999999999", 366 * 86400.0), ("", 2.0), (None, 2.0)],
)
def test_seconds(value: str | None, seconds: float) -> None:
    assert seconds == jcf.job(S=value).seconds("S", 2.0)


@pytest.mark.parametrize("value", ["x", "-1", "nan", "inf", "1e9", ".5", "1.", "1\n", "9" * 10, "٣"])
def test_what_is_no_time_span_is_refused(value: str) -> None:
    with pytest.raises(RecordError, match=r"S='.*' is not a number of seconds"):
        jcf.job(S=value).seconds("S")


def test_a_job_tells_of_itself() -> None:
    value = jcf.job(URL="http://a/", KIND="robots", FETCH=81, DELAY=1.5, TAG=None)
    assert ("http://a/", "robots", 81) == (value.url, value.kind, value.fetch)
    assert ("1.5", "", "?") == (value.get("DELAY"), value.get("TAG"), value.get("TAG", "?"))
    assert ("", "page", 0) == (Job().url, Job().kind, Job().fetch)


def test_a_job_is_changed_by_making_another() -> None:
    value = jcf.job(URL="http://a/", FETCH=81, LEASE=7)
    assert {"URL": "http://a/", "FETCH": "82"} == value.having(FETCH=82, LEASE=None, TAG=None).params
    assert {"URL": "http://a/"} == value.without(["FETCH", "LEASE", "TAG"]).params
    assert {"URL": "http://a/", "FETCH": "81", "LEASE": "7"} == value.params


def test_every_name_is_well_formed_and_in_one_class() -> None:
    assert jcf.URL_VALUED < jcf.PARAMETERS.keys()
    assert {"HDB"} == jcf.PARAMETERS.keys() - jcf.URL_VALUED - jcf.ENCODED
    for name in jcf.PARAMETERS:
        assert {name: "x"} == jcf.parse(jcf.dump(Job({name: "x"}))).params
