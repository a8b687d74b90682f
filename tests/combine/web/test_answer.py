import base64
import hashlib

import pytest

from combine.web.answer import Head, base32

HEAD = b"HTTP/1.1 200 OK\r\nX-Location: no\r\nlocation: /caf\xc3\xa9\r\nLOCATION: /b\r\nX: \xe4\r\nEmpty: \r\n\r\n"


@pytest.mark.parametrize("digest", [bytes(20), b"\xff" * 20, *(hashlib.sha1(bytes([n])).digest() for n in range(50))])
def test_base32_is_that_of_the_standard(digest: bytes) -> None:
    assert base64.b32encode(digest).decode() == base32(digest)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Location", [b"/caf\xc3\xa9", b"/b"]),
        ("x", [b"\xe4"]),
        ("empty", [b""]),
        ("absent", []),
        ("HTTP/1.1 200 OK", []),
    ],
)
def test_the_values_of_a_field_are_found_by_its_whole_name_in_any_case(name: str, expected: list[bytes]) -> None:
    assert expected == Head(200, "HTTP/1.1", HEAD).values(name)


def test_a_value_is_text_whatever_its_bytes_are() -> None:
    head = Head(200, "HTTP/1.1", HEAD)
    assert ("/café", "\ufffd", "") == (head.field("Location"), head.field("X"), head.field("absent"))
