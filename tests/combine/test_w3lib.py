"""Another project's policy for URLs beside ours: every row that comes out otherwise, by its reason."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from typing import Any

from combine.page.labels import encoding_for
from combine.page.references import in_encoding
from combine.urls import BadURL, normalise, resolve
from tests.conformance import CONFORMANCE, needs_conformance

#: Functions that answer other questions than ours.
OTHER_QUESTIONS = {
    "any_to_uri": "of files",
    "file_uri_to_path": "of files",
    "is_url": "of files",
    "parse_data_uri": "of data URLs, which are never asked for",
    "path_to_file_uri": "of files",
    "url_query_cleaner": "cleans relative URLs by lists; ours is urls.session_parameters and urls.repeated_parameters",
    "url_query_parameter": "of one parameter",
}

#: Why a row comes out otherwise, the first that fits, and how many there are.
REASONS = {
    "not a text, but bytes in another encoding or a URL taken apart": 14,
    "an option of theirs that we have not: path_encoding, quote_path, separators, fragments or blanks kept": 10,
    "relative: ours resolves against a base and takes no other": 11,
    "a host that the URL standard refuses, or takes": 1,
    "a scheme that is not harvested": 2,
    "a user name or password: refused, so that it is never stored, and so not quoted anew either": 8,
    "brackets and backslashes after the path began: the URL standard leaves them as they are": 9,
    "the query: sorted, quoted anew or without blanks there; here it is the server's to read": 20,
    "reserved characters of the path: decoded there, another resource by RFC 3986": 1,
}


def text_of(value: Any) -> Any:
    """The text of an argument; bytes in UTF-8 are one, others stay what they are."""
    if isinstance(value, dict) and "b64" in value:
        value = base64.b64decode(value["b64"])
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value


def ours(row: dict[str, Any], url: str) -> str | None:
    label = str(row["kwargs"].get("encoding") or next(iter(row["args"][1:]), None) or "utf-8")
    # Python's names, where they are none of the web's.
    label = {"latin-1": "latin1", "iso2022jp": "iso-2022-jp"}.get(label, label)
    written = in_encoding(url, encoding_for(label))
    return normal(written) if row["func"] != "safe_url_string" else resolve("", written)


def normal(url: str) -> str | None:
    try:
        return normalise(url)
    except BadURL:
        return None


def reason_of(row: dict[str, Any], url: Any, found: str | None, value: str | None) -> str:
    reasons = iter(REASONS)
    if not isinstance(url, str):
        return next(reasons)
    queries = [(text or "").partition("#")[0].partition("?")[2] for text in (found, value)]
    signs = [
        bool(set(row["kwargs"]) - {"encoding"}),
        not re.match(r"[\s\0-\x1f]*[a-z][a-z0-9+.-]*:", url, re.IGNORECASE),
        row["func"] == "safe_url_string" and (found is None) != (value is None),
        not re.match(r"[\s\0-\x1f]*https?:", url, re.IGNORECASE),
        "@" in url,
        any(sign in url for sign in "[]\\") and row["func"] != "canonicalize_url",
        queries[0] != queries[1],
        True,
    ]
    next(reasons)
    return next(reason for reason, fits in zip(list(REASONS)[1:], signs, strict=True) if fits)


@needs_conformance
def test_rows() -> None:
    rows = json.loads((CONFORMANCE / "url" / "w3lib_url.json").read_text())
    same, otherwise = 0, Counter[str]()
    for row in rows:
        if row["func"] in OTHER_QUESTIONS:
            continue
        url, value = text_of(row["args"][0]), row.get("value")
        found = ours(row, url) if isinstance(url, str) else None
        # Theirs is parsed once more, so that `https://example.com` and `https://example.com/` are the same.
        parsed = (resolve("", value) if row["func"] == "safe_url_string" else normal(value)) if value else None
        if isinstance(url, str) and found == parsed and (value is None or parsed is not None):
            same += 1
        else:
            otherwise[reason_of(row, url, found, value)] += 1
    assert REASONS == dict(otherwise)
    assert 311 == same
