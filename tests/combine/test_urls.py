"""URLs: the WHATWG vectors, the normal form and its invariant, sites and domains."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine import urls
from combine.config import Urls, load
from combine.errors import ConfigError
from combine.urls import (
    BadURL,
    Options,
    host_of,
    normalise,
    record_id,
    registrable_domain,
    resolve,
    site_of,
    targets_of,
)
from tests.conformance import CONFORMANCE, needs_conformance

NORMAL = [
    ("http://Example.ORG", "http://example.org/"),
    ("HTTP://example.org:80/", "http://example.org/"),
    ("https://example.org:443/a", "https://example.org/a"),
    ("https://example.org:80/a", "https://example.org:80/a"),
    ("http://example.org/a/./b/../c", "http://example.org/a/c"),
    ("http://example.org/a/%2E%2e/c", "http://example.org/c"),
    ("http://example.org/#top", "http://example.org/"),
    ("http://example.org/?", "http://example.org/?"),
    ("http://example.org?b=2&a=1#x", "http://example.org/?b=2&a=1"),
    ("http://example.org/%7Euser/%61", "http://example.org/~user/a"),
    ("http://example.org/%2f%c3%a9", "http://example.org/%2F%C3%A9"),
    ("http://example.org/é", "http://example.org/%C3%A9"),
    ("http://example.org/%%341", "http://example.org/%%341"),
    ("http://example.org/%2541", "http://example.org/%2541"),
    ("http://example.org/100%/%7e", "http://example.org/100%/%7E"),
    ("http://example.org/a//b/", "http://example.org/a//b/"),
    ("http://example.org/?q=%7e%c3", "http://example.org/?q=%7e%c3"),
    ("http://example.org./", "http://example.org./"),
    ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("http://[::FFFF:1.2.3.4]:8080/", "http://[::ffff:102:304]:8080/"),
    ("  http://example.org/a b\n", "http://example.org/a%20b"),
]

REFUSED = [
    ("", "an empty text"),
    ("  \t", "an empty text"),
    ("example.org/a", "no absolute URL"),
    ("mailto:a@example.org", "only http and https"),
    ("javascript:void(0)", "only http and https"),
    ("ftp://example.org/", "only http and https"),
    ("http://user:secret@example.org/", "user name or password"),
    ("http://user@example.org/", "user name or password"),
    ("http://", "not a valid URL"),
    ("http://a b/", "not a valid URL"),
    ('http://a"b.example/', 'no host is called a"b.example'),
    ("http://{a}/", "no host is called {a}"),
    ("http://example.org:99999/", "not a valid URL"),
    ("http://example.org/\udc80", "not a valid URL"),
    ("http://example.org/" + "a" * 2048, "more than the limit of 2048"),
]


def wpt_rows() -> list[dict[str, Any]]:
    rows = json.loads((CONFORMANCE / "url" / "wpt_urltestdata.json").read_text())
    return [row for row in rows if isinstance(row, dict)]


@needs_conformance
def test_resolving_is_as_whatwg_says() -> None:
    wrong, counted = [], 0
    for row in wpt_rows():
        expected = None if row.get("failure") else row.get("href")
        if expected is not None and not expected.startswith(("http:", "https:")):
            continue
        counted += 1
        base, text = row.get("base") or "", row["input"]
        found = resolve(base, text)
        if expected != found:
            wrong.append((text, base, expected, found))
    assert counted >= 514
    assert [] == wrong


@needs_conformance
def test_hosts_are_as_whatwg_says() -> None:
    rows = json.loads((CONFORMANCE / "url" / "wpt_toascii.json").read_text())
    wrong = []
    for row in rows:
        if not isinstance(row, dict):
            continue
        try:
            found: str | None = host_of(normalise(f"https://{row['input']}/x"))
        except BadURL:
            found = None
        if row["output"] != found:
            wrong.append((row["input"], row["output"], found))
    assert [] == wrong


@pytest.mark.parametrize(("url", "expected"), NORMAL)
def test_normal_form(url: str, expected: str) -> None:
    assert expected == normalise(url)
    assert expected == normalise(expected)


@pytest.mark.parametrize(("url", "reason"), REFUSED)
def test_refused(url: str, reason: str) -> None:
    with pytest.raises(BadURL, match=reason) as caught:
        normalise(url)
    assert "secret" not in str(caught.value)


@given(st.text(alphabet="aZ09%2eE7/.?#&=:@[]\\~-_ é\t\U0001f600", max_size=30))
def test_normalise_is_idempotent(text: str) -> None:
    try:
        once = normalise("http://example.org/" + text)
    except BadURL:
        return
    assert once == normalise(once)


@given(st.text(max_size=40), st.text(max_size=40))
def test_anything_is_resolved_or_not_and_never_raises(base: str, href: str) -> None:
    for start in (base, "http://example.org/" + base):
        resolved = resolve(start, href)
        assert resolved is None or resolved.isascii()
    with contextlib.suppress(BadURL):
        normalise(href)


@given(
    st.text(alphabet="ab/.?#%", max_size=12),
    st.builds(
        str.__add__,
        st.sampled_from(["", "", "http:", "https:", "HTTP:", "mailto:"]),
        st.text(alphabet="ab/.?#:%\\é \t", max_size=12),
    ),
)
def test_a_remembered_reference_leads_where_the_resolved_one_does(base: str, href: str) -> None:
    whole = resolve("", "http://example.org/" + base) or ""
    target = resolve(whole, href) or ""
    expected = target.partition("#")[0] if target.startswith("http") and not href.startswith("#") else ""
    # In the directory of the other page it was joined first, perhaps.
    assert 2 == len(targets_of("http://example.org/", [href, "x"]))
    assert [expected, expected] == targets_of(whole, [href, href])


@pytest.mark.parametrize(
    "base", ["http://a.example/d/e?f", "https://a.example:8/", "http://[::1]/d/", "http://a.example/d//e"]
)
@pytest.mark.parametrize(
    "href",
    [
        *(
            "b",
            "b.html",
            "b/c",
            "/b",
            "/",
            "//b.example/c",
            "/b//c",
            "///b",
            "./b",
            "../b",
            "b/../c",
            "/b/./c",
            "b/.",
            ".b",
            "b..",
        ),
        *(
            "b?c",
            "/b?c/../d",
            "?c",
            "b:c",
            "/b:c",
            "b/c:d",
            "b@c",
            "b%41",
            "/b%2fc",
            "b%",
            "b#c",
            "B",
            "b c",
            " b",
            "é",
        ),
        *("http://b.example/c", "http://b.example", "HTTP://b.example/", "http://B.example/", "http://b.example:80/"),
        *(
            "http://b.example:081/",
            "http://127.1/",
            "http://0x7f.0.0.1/",
            "http://127.0.0.1/",
            "http://xn--a/",
            "http://1.2.3/",
        ),
        *(
            "http://b.example/%41",
            "http://b.example/a/../b",
            "http://b.example/?%41",
            "http://u@b.example/",
            "http://b.example/#",
        ),
        *(
            "https://b.example/a;b=c,d",
            "http://b..example/",
            "http:b",
            "http:/b",
            "mailto:b@c",
            "javascript:b",
            "data:,b",
        ),
    ],
)
def test_plain_references_lead_where_resolved_ones_do(base: str, href: str) -> None:
    target = resolve(base, href) or ""
    expected = target.partition("#")[0] if target.startswith("http") and not href.startswith("#") else ""
    assert [expected] == targets_of(base, [href])


def test_references_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls, "REMEMBERED", 3)
    hrefs = [f"/{place}" for place in range(10)]
    for _ in range(2):
        assert [f"http://h{href}" for href in hrefs] == targets_of("http://h/", hrefs)
    assert 3 >= sum(map(len, urls._MEMORY._known.values()))


WIDE: dict[str, Any] = {
    "server_aliases": ("www.a.example a.example A.example:8080", "b.example c.example"),
    "session_parameters": ("sid", "PHPSESSID", "jsessionid"),
    "repeated_parameters": "pairs",
    "single_slashes": True,
}


@pytest.mark.parametrize(
    ("changes", "url", "expected"),
    [
        ({}, "http://a.example/x?a=1", "http://www.a.example/x?a=1"),
        ({}, "http://a.example:8080/x", "http://www.a.example/x"),
        ({}, "http://a.example:81/x", "http://a.example:81/x"),
        ({}, "http://x.a.example/", "http://x.a.example/"),
        ({}, "https://c.example/", "https://b.example/"),
        ({}, "http://d.example/?a=1&sid=2&b", "http://d.example/?a=1&b"),
        ({}, "http://d.example/?sid=2&PHPSESSID", "http://d.example/"),
        ({}, "http://d.example/?SID=2&xsid=3", "http://d.example/?SID=2&xsid=3"),
        ({}, "http://d.example/a;jsessionid=1;v=2/b;jsessionid=3?", "http://d.example/a;v=2/b?"),
        ({}, "http://d.example/a/.;sid=1/b", "http://d.example/a/b"),
        ({}, "http://d.example/a//..;sid=1/b", "http://d.example/b"),
        ({}, "http://d.example/?a=1&b=2&a=1&a=3", "http://d.example/?a=1&b=2&a=3"),
        ({"repeated_parameters": "names"}, "http://d.example/?a=1&b=2&a=1&a=3", "http://d.example/?a=1&b=2"),
        ({"repeated_parameters": "keep"}, "http://d.example/?a&&a&sid", "http://d.example/?a&&a"),
        ({}, "http://d.example/?&&", "http://d.example/?&&"),
        ({}, "http://d.example//a///b?c=//", "http://d.example/a/b?c=//"),
        ({}, "http://d.example/%7Ea#x", "http://d.example/~a"),
    ],
)
def test_options(changes: dict[str, Any], url: str, expected: str) -> None:
    options = Urls(**{**WIDE, **changes}).options()
    assert expected == normalise(url, options=options) == normalise(expected, options=options)


def test_options_are_off_where_nobody_sets_them() -> None:
    assert Urls().options() is None
    url = "http://a.example//x;sid=1?a=1&a=1&PHPSESSID=2"
    assert url == normalise(url) == normalise(url, options=Options())


@given(
    st.text(alphabet="ab/.;=&?si%2eD", max_size=30),
    st.sampled_from(["a.example", "c.example", "a.example:8080"]),
    st.sampled_from(["keep", "pairs", "names"]),
)
def test_options_are_idempotent_too(text: str, host: str, repeated: str) -> None:
    options = Urls(**{**WIDE, "session_parameters": ("s", "i"), "repeated_parameters": repeated}).options()
    once = normalise(f"http://{host}/{text}", options=options)
    assert once == normalise(once, options=options) == normalise(once)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('server_aliases = ["a.example b.example", "b.example c.example"]', "b.example stands twice"),
        ('server_aliases = ["http://a.example b.example"]', "no host"),
        ('server_aliases = ["a.example b.example/x"]', "no host"),
        ('server_aliases = ["a.example [::1"]', "no host"),
        ('server_aliases = [""]', "no host"),
        ('repeated_parameters = "some"', '"keep", "pairs" or "names"'),
    ],
)
def test_bad_options(line: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "combine.toml").write_text(f"[urls]\n{line}\n")
    with pytest.raises(ConfigError, match=reason):
        load(tmp_path)


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("http://example.org/", "example.org"),
        ("https://example.org/a?b", "example.org"),
        ("https://example.org:80/", "example.org:80"),
        ("http://example.org:443/", "example.org:443"),
        ("http://example.org:8080/", "example.org:8080"),
        ("http://[::1]/", "[::1]"),
        ("http://[::1]:81/", "[::1]:81"),
        ("nonsense", ""),
    ],
)
def test_site(url: str, site: str) -> None:
    assert site == site_of(url)


def test_host() -> None:
    assert "example.org" == host_of("http://example.org:8080/a:b")
    assert "[::1]" == host_of("http://[::1]:8080/")
    assert "" == host_of("mailto:x")


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.co.uk", "example.co.uk"),
        ("example.org", "example.org"),
        ("www.Example.org", "example.org"),
        ("a.b.github.io", "b.github.io"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("127.0.0.21", "127.0.0.21"),
        ("[::1]", "[::1]"),
        ("www.example.org.", "example.org"),
        ("www.xn--85x722f.com.cn", "xn--85x722f.com.cn"),
        ("", ""),
    ],
)
def test_registrable_domain(host: str, domain: str) -> None:
    assert domain == registrable_domain(host)


def test_record_id_is_what_md5sum_says() -> None:
    assert "d0d92cdc9b30c1300fbc3c7ebd304be0" == record_id("http://example.org/")


def test_long_references_are_not_remembered() -> None:
    memory = urls._Memory()
    known = memory.of("http://a.example/")
    assert "http://a.example/b" == memory.target(known, "http://a.example/", "b")
    assert memory.target(known, "http://a.example/", "c" * 5_000)
    assert ["b"] == list(known)
