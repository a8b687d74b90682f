from __future__ import annotations

import random
import re

import pytest

from combine.errors import RecordError
from combine.schedule.offered import read
from combine.urls import LIMIT_BYTES, PLAIN_URL, BadURL, is_plain, normalise, plain_site, site_of

HOSTS = (
    "a.example",
    "A.example",
    "1.2.3.4",
    "127.1",
    "0x7f.1",
    "xn--a.example",
    "a..b",
    "a.example.",
    "-",
    "a.1x",
    "[::1]",
)
PORTS = ("", ":80", ":443", ":8080", ":08080", ":99999", ":")
PATHS = ("/", "", "/a/b.html", "/.", "/../a", "/a/./b", "/.well-known/x", "/%41", "/%zz", "//a", "/a;b=1", "/ä", "/a b")
QUERIES = ("", "?", "?a=%41&b", "?a?b", "?'", "?<", "#f")


def test_a_url_is_told_to_be_normal_only_where_it_is() -> None:
    known = 0
    chance = random.Random(1)
    parts = [(s, h, p, a, q) for s in ("http", "https") for h in HOSTS for p in PORTS for a in PATHS for q in QUERIES]
    for scheme, host, port, path, query in chance.sample(parts, 6_000):
        url = f"{scheme}://{host}{port}{path}{query}"
        match = re.fullmatch(PLAIN_URL, url)
        site = plain_site(url, match[1], match[2]) if match else ""
        assert bool(site) == is_plain(url)
        if not site:
            continue
        known += 1
        try:
            assert (url, site_of(url)) == (normalise(url), site)
        except BadURL:
            pytest.fail(f"{url} is none")
    assert known > 100
    longest = "http://a.example/".ljust(LIMIT_BYTES, "x")
    assert [True, False] == [is_plain(longest), is_plain(longest + "x")]


def test_lines_of_one_page_share_what_led_to_them() -> None:
    lines = [f'JCF/0.0 URL="http://a.example/{number}" SEED="http://a.example/" DEPTH="1"' for number in range(3)]
    (one, two, three) = read(lines)
    assert ("http://a.example/0", "a.example") == one[:2]
    assert one[2] is two[2] is three[2]
    assert {"SEED": "http://a.example/", "DEPTH": "1"} == dict(one[2].said.params)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('JCF/0.0 URL="http://a.example/" url="http://b.example/"', "given twice"),
        ('JCF/0.0 URL="http://a.example/"X="1"', "expected"),
        ('JCF/0.0 URL="http://a.example/" X', "expected"),
        ("nonsense", "starts with"),
    ],
)
def test_a_line_that_is_none_is_named(line: str, fault: str) -> None:
    with pytest.raises(RecordError, match=f"line 2 of ADD: .*{fault}"):
        read(['JCF/0.0 URL="http://a.example/"', line])


@pytest.mark.parametrize(
    "line", ['JCF/0.0  url="http://a.example/é"  DEPTH="1" ', 'JCF/0.0 DEPTH="1" URL="http://a.example/é"']
)
def test_what_is_written_in_another_way_is_read_as_any_line(line: str) -> None:
    ((url, site, lead),) = read([line])
    assert ("http://a.example/é", "", "1") == (url, site, lead.said.get("DEPTH"))
