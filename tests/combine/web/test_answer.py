import base64
import hashlib

import pytest

from combine.web.answer import base32


@pytest.mark.parametrize("digest", [bytes(20), b"\xff" * 20, *(hashlib.sha1(bytes([n])).digest() for n in range(50))])
def test_base32_is_that_of_the_standard(digest: bytes) -> None:
    assert base64.b32encode(digest).decode() == base32(digest)
