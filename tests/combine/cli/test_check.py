"""`combine check`: every vector of others through the product's own judgement, and what a case may do wrong."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import Result

from combine.cli import check
from combine.cli.check import KINDS, answer, lines
from combine.config import Settings
from combine.urls import resolve
from tests.combine.page.test_encoding import UNREAD
from tests.combine.page.test_references import CHANGED_AFTERWARDS
from tests.combine.page.test_sniff import DEPENDS
from tests.combine.page.test_tree import OTHERWISE, cases, expected, squeezed
from tests.combine.web.test_rules import DISPUTED_LINES, body_of
from tests.conformance import CONFORMANCE, needs_conformance

SETTINGS = Settings()


def judge(kind: str, **case: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer(kind, json.dumps(case).encode(), SETTINGS))
    assert "error" not in found, found
    return found


def b64(body: bytes) -> str:
    return base64.b64encode(body).decode()


def rows(name: str) -> list[dict[str, Any]]:
    found = json.loads((CONFORMANCE / name).read_text())
    return [row for row in found if isinstance(row, dict)]


def wrong(
    vectors: Iterable[dict[str, Any]], want: Callable[[dict[str, Any]], object], get: Callable[[dict[str, Any]], object]
) -> list[dict[str, Any]]:
    """The rows that come out otherwise than they say."""
    return [row for row in vectors if want(row) != get(row)]


# Vectors ------------------------------------------------------------------------------------------------------------


@needs_conformance
def test_robots() -> None:
    found = wrong(
        rows("robots/google_robots_cases.json"),
        lambda row: row["allow"],
        lambda row: judge("robots", robots_b64=b64(body_of(row["robots"])), agent=row["agent"], url=row["url"])[
            "allow"
        ],
    )
    assert DISPUTED_LINES == {row["line"] for row in found}


@needs_conformance
def test_sitemap_lines() -> None:
    facts = json.loads((CONFORMANCE / "robots/google_robots_facts.json").read_text())
    for case in facts["sitemaps"]:
        assert case["sitemaps"] == judge("robots", robots_b64=b64(case["robots"].encode()), url="/")["sitemaps"]


@needs_conformance
def test_urls() -> None:
    vectors = [
        row
        for row in rows("url/wpt_urltestdata.json")
        if row.get("failure") or row["href"].startswith(("http:", "https:"))
    ]
    assert len(vectors) >= 514
    assert [] == wrong(
        vectors,
        lambda row: None if row.get("failure") else row["href"],
        lambda row: judge("url", url=row["input"], base=row["base"])["href"],
    )


@needs_conformance
def test_hosts() -> None:
    assert [] == wrong(
        rows("url/wpt_toascii.json"),
        lambda row: row["output"] and f"https://{row['output']}/x",
        lambda row: judge("url", url=f"https://{row['input']}/x")["href"],
    )


@needs_conformance
def test_percent_encoding() -> None:
    assert [] == wrong(
        rows("url/wpt_percent-encoding.json"),
        # The rows leave out what the query's own set of characters does; it does not touch these.
        lambda row: f"http://a.example/?{row['output']['utf-8']}",
        lambda row: judge("url", url=f"http://a.example/?{row['input']}")["href"],
    )


@needs_conformance
def test_types() -> None:
    def get(row: dict[str, Any]) -> str:
        options = row["options"]
        supplied = options.get("contentTypeHeader") or options.get("providedType")
        case = {"content_types": [supplied] if supplied else [], "nosniff": options.get("noSniff")}
        return str(judge("type", body_b64=row["body_b64"], **case)["type"])

    found = wrong(rows("mime/whatwg_sniff_cases.json"), lambda row: row["computed"].partition(";")[0], get)
    assert {kind for kind, _ in DEPENDS} == {row["options"].get("contentTypeHeader") for row in found}
    assert 2 == len(found)


@needs_conformance
@pytest.mark.parametrize("content_type", [None, "text/html"])
def test_encodings_that_pages_declare(content_type: str | None) -> None:
    found = wrong(
        rows("charset/html5lib_encoding_cases.json"),
        lambda row: row["encoding"].lower(),
        lambda row: judge("encoding", body_b64=row["data_b64"], content_type=content_type)["encoding"].lower(),
    )
    # Its declaration is written by a script, and no script is run here.
    assert [True] == [row["scripted"] for row in found]


@needs_conformance
def test_encodings_of_real_files() -> None:
    """Those that declare nothing readable are tried in the page's own tests; here no file may fail."""
    for row in rows("charset/files_manifest.json"):
        body = (CONFORMANCE / "charset/files" / row["file"]).read_bytes()
        found = judge("encoding", body_b64=b64(body))
        assert found["encoding"], row["file"]
        # Nothing is lost but where the bytes are damaged, or nobody knows the encoding.
        assert found["text"].count("\ufffd") <= len(body) // 100 or row["file"] in UNREAD, row["file"]


@needs_conformance
def test_pages() -> None:
    url = "http://a.example/dir/"
    right, otherwise = 0, []
    for source, tree in cases():
        title, headings, hrefs, text = expected(tree)
        page = judge("page", body_b64=b64(source.encode()), url=url, content_type="text/html; charset=utf-8")
        links = {target for kind, target, _ in page["links"] if kind == "a"}
        assert isinstance(hrefs, list)
        targets = {(resolve(url, href) or "").partition("#")[0] for href in hrefs}
        found = (
            page["title"],
            [(level, squeezed(heading)) for level, heading in page["headings"]],
            links,
            squeezed(page["text"]),
        )
        if (title or "", headings, {t for t in targets if t.startswith("http")}, text) == found:
            right += 1
        elif not any(reason in source for reason in OTHERWISE):
            otherwise.append((source, page["type"]))
    # A page of control characters is no text, whatever its type says; nobody would show it either.
    assert [] == [source for source, _ in otherwise if "\0" not in source]
    assert right >= 1500


@needs_conformance
def test_dates() -> None:
    assert [] == wrong(
        rows("http/undici_http_dates.json"),
        lambda row: row["epoch"],
        lambda row: judge("date", value=row["input"], now=1_764_500_000)["epoch"],
    )


@needs_conformance
def test_retry_after() -> None:
    def get(row: dict[str, Any]) -> object:
        if "http_date_epoch" in row:
            return judge("retry-after", value=row["value"], now=row["http_date_epoch"] - 7)["seconds"]
        return judge("retry-after", value=row["value"], now=row.get("date_header", 0))["seconds"]

    assert [] == wrong(
        rows("http/retry_after.json"), lambda row: 7 if "http_date_epoch" in row else row["seconds"], get
    )


@needs_conformance
def test_refreshes() -> None:
    assert [] == wrong(
        rows("html/wpt_meta_refresh.json"),
        lambda row: row["refresh"] or {"seconds": None, "url": None},
        lambda row: judge("refresh", value=row["content"]),
    )


@needs_conformance
def test_link_headers() -> None:
    found = wrong(
        rows("http/link_header.json"),
        lambda row: [[link["uri"], link.get("rel", "")] for link in row["links"]],
        lambda row: judge("link-header", value=row["header"])["links"],
    )
    assert CHANGED_AFTERWARDS == {row["header"] for row in found}


# Cases of our own ---------------------------------------------------------------------------------------------------

PAGE = b"<title>T</title><meta name=a content=b><h2>H</h2><p>x <a href='b#c'>y</a>"


@pytest.mark.parametrize(
    ("kind", "case", "expected"),
    [
        (
            "robots",
            {
                "robots_b64": b64(b"user-agent: bot\ncrawl-delay: 2\ndisallow: /a\nsitemap: http://a.example/s"),
                "agent": "Bot/1.0 (+http://a.example/)",
                "url": "http://a.example/a",
            },
            {"allow": False, "delay": 2.0, "sitemaps": ["http://a.example/s"]},
        ),
        ("robots", {"robots_b64": "", "url": "/"}, {"allow": True, "delay": None, "sitemaps": []}),
        (
            "robots-tag",
            {"values": ["other: none", "bot: noindex", "noarchive"], "agent": "bot"},
            {"noindex": True, "nofollow": False, "noarchive": True},
        ),
        (
            "robots-tag",
            {"values": ["unavailable_after: Wed, 01 Jul 2026 00:00:00 GMT"], "now": 1_700_000_000},
            {"noindex": False, "nofollow": False, "noarchive": False},
        ),
        (
            "robots-tag",
            {"values": ["bot: noindex"], "agent": "Bot/1.0 (+https://example.org)"},
            {"noindex": True, "nofollow": False, "noarchive": False},
        ),
        ("robots-tag", {}, {"noindex": False, "nofollow": False, "noarchive": False}),
        (
            "url",
            {"url": "../%7eb#c", "base": "http://A.example:80/x/y"},
            {"href": "http://a.example/%7eb#c", "normal": "http://a.example/~b"},
        ),
        ("url", {"url": "mailto:x@a.example"}, {"href": "mailto:x@a.example", "normal": None}),
        ("url", {"url": "x"}, {"href": None, "normal": None}),
        (
            "url",
            {"url": "http://a.example/\udc80"},
            {"href": "http://a.example/%EF%BF%BD", "normal": "http://a.example/%EF%BF%BD"},
        ),
        ("type", {"body_b64": b64(b"\x89PNG\r\n\x1a\n")}, {"type": "image/png", "binary": True}),
        (
            "type",
            {"body_b64": b64(b"<p>"), "content_types": "text/plain", "nosniff": True},
            {"type": "text/plain", "binary": False},
        ),
        (
            "encoding",
            {"body_b64": b64(b"\xe9"), "content_type": "text/plain; charset=latin1"},
            {"encoding": "windows-1252", "text": "é"},
        ),
        (
            "page",
            {"body_b64": b64(PAGE), "url": "http://a.example/", "content_type": "text/html"},
            {
                "title": "T",
                "headings": [[2, "H"]],
                "links": [["a", "http://a.example/b", "y"]],
                "meta": [["a", "b"]],
                "text": "H\nx y",
                "encoding": "windows-1252",
                "type": "text/html",
            },
        ),
        (
            "sitemap",
            {"body_b64": b64(b"<urlset><url><loc>/a</loc></url></urlset>"), "url": "http://a.example/s.xml"},
            {"urls": [["http://a.example/a", None]], "sitemaps": []},
        ),
        ("date", {"value": "Sun, 06 Nov 1994 08:49:37 GMT"}, {"epoch": 784111777}),
        ("date", {"value": None}, {"epoch": None}),
        ("retry-after", {"value": "Sun, 06 Nov 1994 08:49:37 GMT", "now": 784111770}, {"seconds": 7.0}),
        ("refresh", {"value": "0; url=b", "base": "http://a.example/c"}, {"seconds": 0, "url": "http://a.example/b"}),
        ("link-header", {"value": "<b>; rel=x", "base": "http://a.example/"}, {"links": [["http://a.example/b", "x"]]}),
        ("link-header", {"value": "<http://[>; rel=next", "base": "http://a.example/"}, {"links": []}),
    ],
)  # fmt: skip
def test_answers(kind: str, case: dict[str, Any], expected: dict[str, Any]) -> None:
    assert expected == judge(kind, **case)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "line",
    [
        *(b"", b" ", b"null", b"[]", b"3", b'"x"', b"{", b"\xff\xfe", b"[" * 100_000, b'{"url": 1e999}', b'{"a":' * 9),
        *(b'{"url": %s, "body_b64": %s, "value": %s, "values": %s, "robots_b64": %s, "now": "x"}' % ((odd,) * 5)
          for odd in (b"1", b"[1]", b"{}", b"true", b'"\\ud800"', b'"!"')),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_answered_too(kind: str, line: bytes) -> None:
    found = json.loads(answer(kind, line, SETTINGS))
    assert isinstance(found, dict)
    assert isinstance(found.get("error", "some"), str)


def test_a_fault_of_ours_costs_one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "date", lambda case: {"epoch": 1 // 0})
    assert b"ZeroDivisionError" in answer("date", b"{}", SETTINGS)
    monkeypatch.setitem(KINDS, "date", lambda case: {"epoch": 1 << 70})
    assert {"epoch": 1 << 70} == json.loads(answer("date", b"{}", SETTINGS))


class Trickle(io.BytesIO):
    def read1(self, size: int | None = -1, /) -> bytes:
        return self.read(3)


def test_lines_in_any_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [[b"a", b""], [b"bcdef"], [b"g"]] == list(lines(Trickle(b"a\n\nbcdef\ng")))
    monkeypatch.setattr(check, "LINE_BYTES", 4)
    assert [None, b"b", None, b"c", None] == [
        line for some in lines(Trickle(b"12345678\nb\n123456\nc\n1234567890")) for line in some
    ]


def test_in_order_and_one_for_each(combine: Callable[..., Result]) -> None:
    cases = "".join(json.dumps({"url": f"http://a.example/{number}"}) + "\n" for number in range(100)) + "broken\n"
    done = combine("check", "url", input=cases)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert (0, 101) == (done.exit_code, len(answers))
    assert [f"http://a.example/{number}" for number in range(100)] == [found.get("href") for found in answers[:-1]]
    assert "error" in answers[-1]
    assert 2 == combine("check", "made-up", input="").exit_code


def test_a_conversation_with_a_process() -> None:
    command = [sys.executable, "-c", "from combine.cli import main; main()", "check", "date"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for epoch in (0, 86_400):
            text = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(epoch))
            process.stdin.write(json.dumps({"value": text}).encode() + b"\n")
            process.stdin.flush()
            assert {"epoch": epoch} == json.loads(process.stdout.readline())
        process.stdin.write(b'{"value": "' + quote("no line end").encode() + b'"}')
        process.stdin.close()
        assert b'{"epoch":null}\n' == process.stdout.read()
        assert 0 == process.wait()


def test_thousands_a_second() -> None:
    line = json.dumps({"url": "../a?b=c", "base": "http://a.example/x/"}).encode()
    started = time.process_time()
    for _ in range(2000):
        answer("url", line, SETTINGS)
    assert 1.0 > time.process_time() - started
