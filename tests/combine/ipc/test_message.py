from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine.errors import RecordError, WireError
from combine.ipc.message import HEAD_BYTES, MESSAGE_BYTES, OK, Message, Reader, dump, message
from combine.services import MESSAGE_LINES
from formats import jcf

LINE = jcf.dump(jcf.job(URL="http://a/", DEPTH=1))

MESSAGES = [
    Message("PING"),
    Message("OK", "combine"),
    Message("OK", "new=1 known=2", (LINE,)),
    Message("ADD", "", (LINE, b"", b"anything \xff but LF")),
    Message("RETRY", "ein Grund, dessen Wörter – alle – stehen bleiben"),
    Message("TAKE", "", (LINE,) * MESSAGE_LINES),
]

TOO_MUCH = [
    (b"ping 0\n", "WORD COUNT"),
    (b"GET / HTTP/1.1\n", "WORD COUNT"),
    (b"\n", "WORD COUNT"),
    (b"P 0\n", "WORD COUNT"),
    (b"PING\n", "WORD COUNT"),
    (b"PING -1\n", "WORD COUNT"),
    (b"PING 0x1\n", "WORD COUNT"),
    (b"PING 10000\n", "WORD COUNT"),
    (b"\x00\xff\xfe junk\n", "WORD COUNT"),
    (b"OK 1001\n", "at most 1000 lines, not 1001"),
    (b"x" * (HEAD_BYTES + 1), "starts with a line of at most"),
    (b"OK 0 " + b"x" * HEAD_BYTES + b"\n", "WORD COUNT"),
    (b"ADD 1\n" + b"x" * (jcf.LINE_BYTES + 1), "a line has at most"),
    (b"ADD 1\n" + b"x" * (jcf.LINE_BYTES + 1) + b"\n", "a line has at most"),
    (b"ADD 2\n" + b"x" * (jcf.LINE_BYTES + 1) + b"\n\n", "a line has at most"),
]


def every(reader: Reader) -> Iterator[Message]:
    while (found := reader.take()) is not None:
        yield found


@pytest.mark.parametrize("value", MESSAGES, ids=lambda value: value.word)
def test_a_message_is_read_whole_and_byte_by_byte(value: Message) -> None:
    data = dump(value)
    whole, slow = Reader(), Reader()
    whole.feed(data)
    assert value == whole.take()
    for byte in data[:-1][:5000]:
        slow.feed(bytes([byte]))
        assert slow.take() is None
        assert not slow.is_empty
    slow.feed(data[:-1][5000:])
    assert slow.take() is None
    slow.feed(data[-1:])
    assert value == slow.take()
    assert whole.is_empty
    assert slow.is_empty


def test_messages_follow_one_another_in_whatever_pieces() -> None:
    stream = b"".join(map(dump, MESSAGES))
    for size in (7, 4096, len(stream)):
        reader = Reader()
        found: list[Message] = []
        for start in range(0, len(stream), size):
            reader.feed(stream[start : start + size])
            found += every(reader)
        assert MESSAGES == found
        assert reader.is_empty


@pytest.mark.parametrize(("data", "why"), TOO_MUCH)
def test_what_can_be_no_message_is_refused(data: bytes, why: str) -> None:
    reader = Reader()
    reader.feed(data)
    with pytest.raises(WireError, match=why):
        reader.take()


@pytest.mark.parametrize(("data", "why"), TOO_MUCH)
def test_what_can_be_no_message_is_refused_in_pieces(data: bytes, why: str) -> None:
    reader = Reader()

    def read() -> None:
        for start in range(0, len(data), 1000):
            reader.feed(data[start : start + 1000])
            reader.take()

    with pytest.raises(WireError, match=why):
        read()


def test_junk_after_a_message_spoils_only_what_follows() -> None:
    reader = Reader()
    reader.feed(dump(MESSAGES[2]) + b"junk\n")
    assert MESSAGES[2] == reader.take()
    with pytest.raises(WireError):
        reader.take()


def test_the_longest_message_that_lines_allow_is_taken() -> None:
    value = Message("OK", "", (b"x" * jcf.LINE_BYTES,) * MESSAGE_LINES)
    reader = Reader()
    reader.feed(dump(value)[:-1])
    assert reader.take() is None
    reader.feed(b"\n")
    assert value == reader.take()
    assert len(dump(value)) <= MESSAGE_BYTES


def test_a_connection_never_holds_more_than_the_longest_message() -> None:
    reader = Reader()
    reader.feed(b"OK 1000\n" + (b"x" * (2 * jcf.LINE_BYTES) + b"\n") * 600)
    with pytest.raises(WireError, match="bytes"):
        reader.take()


def test_dump_keeps_a_text_on_one_line_and_short() -> None:
    value = dump(Message("REJECT", "two\nlines\r\n\x00of\x85text\u2028end " + "x" * 9000))
    assert 1 == value.count(b"\n")
    reader = Reader()
    reader.feed(value)
    found = reader.take()
    assert found is not None
    assert found.text.startswith("two lines of text end xxx")


def test_a_line_that_is_no_jcf_is_named() -> None:
    value = Message("ADD", "", (LINE, b"JCF/0.0 URL=x"))
    with pytest.raises(RecordError, match="line 2 of ADD: "):
        value.jobs()
    assert [jcf.parse(LINE)] == Message("ADD", "", (LINE,)).jobs()


texts = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=200).map(str.strip)
lines = st.binary(max_size=300).map(lambda data: data.replace(b"\n", b" "))


@given(st.from_regex(r"[A-Z]{2,16}", fullmatch=True), texts, st.lists(lines, max_size=20), st.integers(1, 60))
def test_what_is_dumped_is_taken_again(word: str, text: str, body: list[bytes], size: int) -> None:
    value = Message(word, text, tuple(body))
    data = dump(value)
    reader = Reader()
    found: list[Message] = []
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
        found += every(reader)
    assert [value] == found


@given(st.lists(st.binary(max_size=100), max_size=20))
def test_no_bytes_raise_anything_but_wire_error(pieces: list[bytes]) -> None:
    reader = Reader()
    try:
        for piece in pieces:
            reader.feed(piece)
            for found in every(reader):
                assert isinstance(found, Message)
    except WireError:
        pass


def test_a_message_of_jobs_reads_back() -> None:
    jobs = [jcf.job(URL="http://a/?x&y"), jcf.job(REASON='a "word"\nand a line')]
    assert jobs == message(OK, jobs, "text").jobs()
