"""Where redirects lead: relative, odd and broken Locations, and those that go round."""

from __future__ import annotations

import pytest

from combine.page.lesson import target_of
from formats import jcf
from formats.hrf import Harvest

URL = "http://a.example/dir/page?q"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "target"),
    [
        (b"http://b.example/", "http://b.example/"),
        (b"https://A.example:443/%7ex#there", "https://a.example/~x"),
        (b"other", "http://a.example/dir/other"),
        (b"/other", "http://a.example/other"),
        (b"//b.example", "http://b.example/"),
        (b"?r", "http://a.example/dir/page?r"),
        (b"#there", URL),
        (b".", "http://a.example/dir/"),
        (b"/a b", "http://a.example/a%20b"),
        (b"/\xc3\xa9", "http://a.example/%C3%A9"),
        (b"/\xe9", "http://a.example/%E9"),
        (b"\\\\b.example\\x", "http://b.example/x"),
        (b"http:other", "http://a.example/dir/other"),
        *((bad, "") for bad in (b"http://", b"http://[", b"http://a b/", b"ftp://b.example/", b"javascript:x")),
        (b"http://user:secret@b.example/", ""),
        (b"/" + b"x" * 3000, ""),
    ],
)
def test_targets(status: int, location: bytes, target: str) -> None:
    header = b"HTTP/1.1 %d X\r\nLocation: %s\r\n\r\n" % (status, location)
    assert target == target_of(Harvest(jcf.job(URL=URL), "redirect", "", header=header), URL)
