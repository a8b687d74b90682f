"""Mend the head of an answer as browsers do, before a strict parser sees it; a good one passes untouched.

Real servers send lines that are no fields, blanks before colons, control characters, the same length twice, and a
length beside chunks. Browsers read all of these, and so must we, or the page is lost. What the standards call an error
is left as it is, and the parser says so: lengths that differ, and whatever does not start as HTTP. Lengths are read as
the Fetch standard does ("extract a length"): equal ones count once, and one that is no number is none.
This module never does I/O.
"""

from __future__ import annotations

import re

#: The longest number of bytes that is taken for one; 15 digits are a petabyte.
_LENGTH_DIGITS = 15

_LINE_END = re.compile(rb"\r?\n")
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
#: A head that any parser reads. Nothing is tried twice (`*+`): it is matched against whatever a server sends.
_GOOD = re.compile(
    rb"HTTP/1\.[01] [1-9][0-9]{2}(?: [^\x00-\x08\x0a-\x1f\x7f]*+)?\r\n"
    rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[^\x00-\x08\x0a-\x1f\x7f]*+\r\n)*+\r\n"
)
_LENGTHS = re.compile(rb"\r\ncontent-length:[ \t]*([^\r]*)", re.IGNORECASE)
_CODED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)


def end_of(data: bytes | bytearray, start: int = 0) -> int:
    """Where the head ends that the bytes begin with, looked for from `start` on; 0 where it is not whole."""
    end = data.find(b"\n\r\n", start)
    bare = data.find(b"\n\n", start, end if end >= 0 else len(data))
    return bare + 2 if bare >= 0 else end + 3 if end >= 0 else 0


def is_interim(head: bytes) -> bool:
    """Whether another head follows this one: 1xx, but for 101."""
    return head[9:10] == b"1" and head[9:12] != b"101"


def mended(head: bytes) -> bytes:
    """The head as a strict parser takes it, or as it is where nothing helps."""
    if not head.startswith(b"HTTP/"):
        return head
    if not _GOOD.fullmatch(head):
        head = _rewritten(head)
    lengths = _LENGTHS.findall(head)
    if lengths and (len(lengths) > 1 or not lengths[0].isdigit() or _CODED.search(head)):
        return _with_length(head, lengths)
    return head


def length_of(head: bytes) -> int | None:
    """How many bytes of body a mended head announces; None where it does not say, or says it by chunks."""
    match = _LENGTHS.search(head)
    return int(match[1]) if match and match[1].isdigit() and not _CODED.search(head) else None


def _rewritten(head: bytes) -> bytes:
    first, *lines = _LINE_END.split(head)
    written = [first]
    for line in lines:
        line = _CONTROL.sub(b" ", line)
        if line[:1] in (b" ", b"\t"):
            # A line that is folded belongs to the one before it.
            if len(written) > 1 and line.strip():
                written[-1] += b" " + line.strip()
            continue
        name, colon, value = line.partition(b":")
        name = name.rstrip()
        if colon and _TOKEN.fullmatch(name):
            written.append(name + b": " + value.strip())
    return b"\r\n".join([*written, b"", b""])


def _with_length(head: bytes, lengths: list[bytes]) -> bytes:
    """The head with the one length that all of its lengths say, or with none; those that differ stay."""
    values = {value.strip() for field in lengths for value in field.split(b",")}
    if len(values) > 1 and not _CODED.search(head):
        return head
    value = values.pop()
    is_length = value.isdigit() and len(value.lstrip(b"0")) <= _LENGTH_DIGITS and not _CODED.search(head)
    bare = _LENGTHS.sub(b"", head)
    return bare[:-2] + b"Content-Length: " + value + b"\r\n\r\n" if is_length else bare
