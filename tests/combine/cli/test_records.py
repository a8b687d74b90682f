"""list, show, grep, export: what the store holds."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from combine.cli import records
from combine.keep.home import Home
from combine.keep.store import WirStore
from combine.urls import record_id
from formats import hrf, jcf, wir

Run = Callable[..., Result]
Put = Callable[..., wir.Record]

A, B = "http://a.org/", "https://b.org:8443/x"


@pytest.fixture
def two(put: Put) -> None:
    put(A, title="First \x1b[2J page", text="one\ntwo", changed="2026-01-01T00:00:00Z")
    put(B, title="Second", changed="2026-03-01T00:00:00Z", link=wir.join(("a", A, "", "back")))


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("words", "urls"),
    [
        ((), {A, B}),
        (("--site", "a.org"), {A}),
        (("--site", "b.org"), {B}),
        (("--site", "b.org:8443"), {B}),
        (("--site", "c.org"), set()),
    ],
)
def test_list_prints_id_tab_url(combine: Run, words: tuple[str, ...], urls: set[str]) -> None:
    result = combine("list", *words)
    assert {(record_id(url), url) for url in urls} == {tuple(line.split("\t")) for line in result.stdout.splitlines()}
    assert [{"id": record_id(url), "url": url} for url in sorted(urls, key=record_id)] == json.loads(
        combine("list", *words, "--json").stdout
    )


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("words", [("list",), ("show", A), ("grep", "First"), ("export",), ("log",)])
def test_a_home_that_cannot_be_written_can_be_read(combine: Run, home: Home, words: tuple[str, ...]) -> None:
    far = home.path.parent / ("x" * 100)  # no socket fits there, as in a copy on read-only media
    home.path.rename(far)
    assert 0 == combine("--home", far, *words).exit_code
    assert 78 == combine("--home", far, "start").exit_code


@pytest.mark.usefixtures("two")
def test_a_damaged_record_is_listed_and_is_a_finding(combine: Run, home: Home) -> None:
    WirStore(home).path(A).write_bytes(b"junk")
    for words in (("list",), ("grep", "Second"), ("export",)):
        result = combine(*words)
        assert record_id(B) in result.stdout
        assert "damaged" in result.stderr
    assert 1 == combine("list").exit_code == combine("export").exit_code
    assert 1 == combine("show", "--json", A).exit_code


@pytest.mark.usefixtures("two")
def test_a_record_that_goes_while_it_is_listed_is_passed_over(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    real = records.url_in

    def vanish(place: str) -> str:
        os.unlink(place)
        return real(place)

    monkeypatch.setattr(records, "url_in", vanish)
    assert [] == list(records.listed(home))


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("key", [A, "a.org", "HTTP://A.ORG:80", record_id(A)])
def test_show_finds_a_record_by_url_or_id(combine: Run, home: Home, key: str) -> None:
    place = WirStore(home).path(A)
    assert place.read_bytes() == combine("show", key).stdout_bytes
    assert f"{place}\n" == combine("show", "--path", key).stdout
    shown = json.loads(combine("show", "--json", key).stdout)
    assert ("First [2J page", "one\ntwo") == (shown["title"], shown["text"])


@pytest.mark.usefixtures("two")
def test_show_says_where_to_ask_why_there_is_no_record(combine: Run) -> None:
    result = combine("show", "c.org/x")
    assert (1, "") == (result.exit_code, result.stdout)
    assert "combine why https://c.org/x" in result.stderr
    assert "why" not in combine("show", "0" * 32).stderr


def test_show_raw_prints_the_response_as_received(combine: Run, home: Home, put: Put) -> None:
    header, body = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", b"\x1f\x8b\x00\xff"
    harvest = hrf.Harvest(jcf.job(URL=A), "ok", "2026-01-01T00:00:00.000Z", header=header, body=body)
    data = hrf.dump(harvest)
    file = "2026/01/01/0000000001234567890-0badcafe-harvester-1-77.hrf"
    (home.raw / file).parent.mkdir(parents=True)
    (home.raw / file).write_bytes(data)
    put(A, raw=wir.join((file, 0, len(data))))
    assert header + body == combine("show", "--raw", A).stdout_bytes


@pytest.mark.usefixtures("two")
def test_show_raw_says_when_the_response_is_not_kept(combine: Run) -> None:
    result = combine("show", "--raw", A)
    assert 1 == result.exit_code
    assert "is not kept" in result.stderr


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("Second",), [(B, "title", "Second")]),
        (("second",), []),
        (("-i", "second"), [(B, "title", "Second")]),
        (("-E", "^one$|^one\n"), [(A, "text", "one two")]),
        (("e two",), []),
    ],
)
def test_grep_says_where_a_text_stands(combine: Run, words: tuple[str, ...], found: list[tuple[str, str, str]]) -> None:
    result = combine("grep", *words)
    assert [f"{record_id(url)}\t{url}\t{field}\t{text}" for url, field, text in found] == result.stdout.splitlines()
    assert (0 if found else 1) == result.exit_code
    rows = json.loads(combine("grep", "--json", *words).stdout)
    assert [(row["url"], row["field"], row["text"]) for row in rows] == found


def test_grep_refuses_a_bad_expression(combine: Run) -> None:
    assert 2 == combine("grep", "-E", "(").exit_code


@pytest.mark.usefixtures("two")
def test_export_to_json_lines(combine: Run) -> None:
    rows = [json.loads(line) for line in combine("export").stdout.splitlines()]
    by_url: dict[str, Any] = {row["url"]: row for row in rows}
    assert "First [2J page" == by_url[A]["title"]
    assert [{"kind": "a", "url": A, "rel": "", "text": "back"}] == by_url[B]["links"]


@pytest.mark.usefixtures("two")
def test_export_to_csv_with_fields_and_since(combine: Run) -> None:
    result = combine("export", "--format", "csv", "--fields", "url, title", "--since", "2026-02-01")
    assert [["url", "title"], [B, "Second"]] == list(csv.reader(io.StringIO(result.stdout)))


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fields", "titel"), "did you mean 'title'"),
        (("--since", "yesterday"), "is not a time"),
        (("--format", "xml"), "xml"),
    ],
)
def test_export_refuses_what_cannot_be_meant(combine: Run, words: tuple[str, ...], said: str) -> None:
    result = combine("export", *words)
    assert (2, "") == (result.exit_code, result.stdout)
    assert said in result.stderr


@pytest.mark.usefixtures("two")
def test_export_writes_a_file_whole_or_not_at_all(combine: Run, home: Home, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    assert 0 == combine("export", "-o", target).exit_code
    assert 2 == len(target.read_text().splitlines())
    target.write_text("old")
    assert 2 == combine("export", "-o", target, "--fields", "no").exit_code
    assert ("old", [target]) == (target.read_text(), list(tmp_path.iterdir()))
    assert 0 == combine("export", "-o", "/dev/null").exit_code
    result = combine("export", "-o", tmp_path / "none" / "x")
    assert 1 == result.exit_code
    assert "No such file" in result.stderr
