"""Records made of pages: every field, what is kept of the record before, and that equal bytes make equal records."""

from __future__ import annotations

import gzip
from dataclasses import replace

from combine.config import Page as Limits
from combine.page import records
from combine.page.extract import extract
from combine.page.fate import Sights
from formats import wir
from formats.wir import Record
from tests.combine.page.test_extract import HTML, URL, harvest

BODY = (
    "<html lang=en><title>T</title><meta name=a content='b\tc'><meta name=robots content='noarchive, noai'>"
    "<link rel=canonical href=/c><h1>H</h1><p>One <a href=x rel=next>two</a>"
)


def build(body: str = BODY, previous: Record | None = None, same_as: str = "") -> Record:
    asked = harvest(
        body,
        HTML,
        "Server: nginx",
        'ETag: "e"',
        "Last-Modified: yesterday",
        "Expires: Wed, 11 Dec 2024 23:20:57 GMT",
    )
    page = extract(asked, URL, Limits())
    return records.build(asked, page, previous, ("raw/b.hrf", 5, 99), same_as, "combine-system/1")


def test_every_field() -> None:
    expected = """\
WIR/2.0
id: 6e4ba8cc24a4d1a3df7ef5c28db3b0e0
url: http://example.org/dir/page.html?q
host: example.org
domain: example.org
seed: http://example.org/
via: http://example.org/v
depth: 2
robot: JCF/0.0 URL="http://example.org/dir/page.html?q" SEED="http://example.org/"
first_seen: 2026-11-30T08:00:00Z
checked: 2026-11-30T08:00:00Z
changed: 2026-11-30T08:00:00Z
fetched: 2026-11-30T08:00:00Z
modified_raw: yesterday
expires: 2024-12-11T23:20:57Z
status: 200
type: text/html
charset: windows-1252
size: 204
server: nginx
etag: "e"
body_digest: sha1:AAAA
text_digest: 7C5F8EF0B7D4CBE5B3E27A96D4F6CBBE
same_as: http://example.org/same
raw: raw/b.hrf	5	99
language: en
language_declared: en
canonical: http://example.org/c
robots: noai, noarchive
right: noai	noarchive, noai	meta
parser: combine-system/1
title: T
meta: a	b c
meta: robots	noarchive, noai
heading: 1	H
link: link	http://example.org/c	canonical{tab}
link: a	http://example.org/dir/x	next	two
counts: 3	1	2
text: H\\nOne two
""".replace("{tab}", "\t")
    made = build(same_as="http://example.org/same")
    lines = wir.dump(made).decode().splitlines()
    computed = ("id: ", "text_digest: ", "size: ")
    assert [line for line in expected.splitlines() if not line.startswith(computed)] == [
        line for line in lines if not line.startswith(computed)
    ]
    assert made == wir.parse(wir.dump(made))


def test_equal_bytes_make_equal_records() -> None:
    assert wir.dump(build()) == wir.dump(build())


def test_what_is_kept_of_the_record_before() -> None:
    before = build().having(first_seen="2020-01-01T00:00:00Z", changed="2021-01-01T00:00:00Z", stale="gone\tx\t1")
    same = build(previous=before)
    assert "2020-01-01T00:00:00Z" == same.get("first_seen")
    assert "2021-01-01T00:00:00Z" == same.get("changed")
    assert "" == same.get("stale")
    other = build(BODY + " more", previous=before)
    assert "2020-01-01T00:00:00Z" == other.get("first_seen")
    assert "2026-11-30T08:00:00Z" == other.get("changed")


def test_checked_and_stale() -> None:
    before = build().having(checked="2020-01-01T00:00:00Z")
    asked = harvest("", status=404, outcome="gone")
    marked = records.stale(before, Sights("gone", 1733959257.5, 2), asked)
    assert [("gone", "2024-12-11T23:20:57Z", "2")] == marked.columns("stale")
    assert "2026-11-30T08:00:00Z" == marked.get("checked")
    assert "2020-01-01T00:00:00Z" == records.stale(before, Sights("denied", 0, 1), asked).get("checked")
    again = records.checked(marked, harvest("", status=304, outcome="not-modified"))
    assert ("", "2026-11-30T08:00:00Z") == (again.get("stale"), again.get("checked"))
    assert before.get("text_digest") == again.get("text_digest")


def test_a_page_that_nobody_reads_has_its_facts() -> None:
    asked = harvest(b"\x89PNG\r\n\x1a\n", "Content-Type: image/png")
    made = records.build(asked, extract(asked, URL, Limits()), None, ("", 0, 0), "", "p")
    assert ("image/png", "8", "", "") == (made.get("type"), made.get("size"), made.get("counts"), made.get("raw"))


def test_a_body_that_is_not_whole_says_so() -> None:
    cut = replace(harvest(BODY, HTML), truncated="time")
    made = records.build(cut, extract(cut, URL, Limits()), None, ("", 0, 0), "", "p")
    assert "time" == made.get("truncated")
    packed = replace(harvest("", HTML, "Content-Encoding: gzip"), body=gzip.compress(BODY.encode())[:-8])
    made = records.build(packed, extract(packed, URL, Limits()), None, ("", 0, 0), "", "p")
    assert ("disconnect", "T") == (made.get("truncated"), made.get("title"))
