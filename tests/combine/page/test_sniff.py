"""Types: parsing, combining and sniffing by the WHATWG vectors, and the test for binary bodies."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from combine.page.mime import combined, is_nosniff, parse
from combine.page.sniff import Sniffed, sniff
from tests.conformance import CONFORMANCE, needs_conformance


def rows(name: str) -> list[Any]:
    found = json.loads((CONFORMANCE / "mime" / name).read_text())
    return [row for row in found if isinstance(row, dict)]


@needs_conformance
@pytest.mark.parametrize("name", ["wpt_mime-types.json", "wpt_generated-mime-types.json"])
def test_parsing(name: str) -> None:
    wrong = []
    for row in rows(name):
        mime = parse(row["input"])
        if row["output"] != (str(mime) if mime else None):
            wrong.append((row, mime))
    assert [] == wrong


@needs_conformance
def test_combining() -> None:
    for row in rows("wpt_content-types.json"):
        mime = combined(row["contentType"])
        assert row["mimeType"] == (str(mime) if mime else None)


@needs_conformance
def test_nosniff() -> None:
    for row in rows("wpt_x-content-type-options.json"):
        fields = [line.partition(":") for line in row["input"].split("\r\n")]
        values = [value.strip(" \t") for name, _, value in fields if name.lower() == "x-content-type-options"]
        assert row["nosniff"] == is_nosniff(values), row


#: Rows whose answer depends on what a browser can show, which the row does not tell: the same input has both answers.
DEPENDS = {("image/webp", "image/webp"), ("audio/wav", "audio/wav")}


@needs_conformance
def test_sniffing() -> None:
    wrong = []
    for row in rows("whatwg_sniff_cases.json"):
        options = row["options"]
        supplied = options.get("contentTypeHeader") or options.get("providedType")
        found = sniff(base64.b64decode(row["body_b64"]), [supplied] if supplied else [], options.get("noSniff", False))
        if row["computed"] != found.type + (f";charset={found.charset}" if found.charset else ""):
            wrong.append((supplied, row["computed"]))
    assert DEPENDS == set(wrong)
    assert 2 == len(wrong)


def test_a_row_of_comments_is_passed_over_once() -> None:
    started = time.process_time()
    assert "text/html" == sniff(b"<!-- -->" * 200, ["text/html"], nosniff=False).type
    assert 0.5 > time.process_time() - started


@pytest.mark.parametrize(
    ("body", "content_types", "expected"),
    [
        (b"", ["text/html"], Sniffed("text/html")),
        (b"<p>x", [], Sniffed("text/html")),
        (b"<p>x", ["text/plain"], Sniffed("text/plain")),
        (b"<?xml version='1.0'?><rss>", ["text/html"], Sniffed("application/rss+xml")),
        (b"<!-- x --> <feed xmlns=y>", ["text/html"], Sniffed("application/atom+xml")),
        (b"a,b", ["text/csv; charset=utf-8"], Sniffed("text/csv", "utf-8")),
        (b"import x", ["text/x-python"], Sniffed("text/x-python")),
        (b"{}", ["application/json"], Sniffed("application/json")),
        (b"\x89PNG\r\n\x1a\n", ["image/png"], Sniffed("image/png", binary=True)),
        (b"%PDF-1.7", ["application/pdf"], Sniffed("application/pdf", binary=True)),
        (b"a\x00\xe9", ["text/html"], Sniffed("text/html", binary=True)),
        (b"\x01\x02\x03" * 200 + b"\xff", ["text/html"], Sniffed("text/html", binary=True)),
        ("é".encode() * 600, ["text/html"], Sniffed("text/html")),
        (b"x" + "é".encode() * 600, ["text/html"], Sniffed("text/html")),
        (b"\xe9\xe8" * 600, ["text/html"], Sniffed("text/html")),
        ("naïve".encode("utf-16-le"), ["text/html; charset=utf-16le"], Sniffed("text/html", "utf-16le")),
        (b"\xff\xfea\x00", ["text/html"], Sniffed("text/html")),
    ],
)
def test_type_and_binary(body: bytes, content_types: list[str], expected: Sniffed) -> None:
    assert expected == sniff(body, content_types, nosniff=False)
