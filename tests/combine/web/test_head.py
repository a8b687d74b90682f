"""Heads of answers: good ones untouched, odd ones mended, wrong ones left to the parser's refusal."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine.config import Settings
from combine.web.addresses import Allowed
from combine.web.fetch import Fetcher
from combine.web.head import end_of, is_interim, length_of, mended
from formats.jcf import job
from tests.conformance import CONFORMANCE, needs_conformance
from tests.site.server import Server

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (b"", b""),
        (b"A: b\r\nContent-Length: 3\r\n", None),
        (b"A:b \r\nA:\r\nX-\xff: \xfc\r\n", b"A: b\r\nA: \r\n"),
        (b"A: \xfc\t\xff\r\n", None),
        (b"A: b\nC : d\n", b"A: b\r\nC: d\r\n"),
        (b"A: b\r\n  c\r\n\td\r\n", b"A: b c d\r\n"),
        (b" b\r\nA: c\r\n", b"A: c\r\n"),
        (b"nothing\r\n: x\r\nA b: c\r\nD: e\r\n", b"D: e\r\n"),
        (b"A: b\0c\rd\x7f\r\n", b"A: b c d\r\n"),
        (b"Content-Length: 3\r\nA: b\r\ncontent-length: 3,3\r\n", b"A: b\r\nContent-Length: 3\r\n"),
        (b"Content-Length: 3\r\nContent-Length: 4\r\n", None),
        (b"Content-Length: x\r\nA: b\r\n", b"A: b\r\n"),
        (b"Content-Length: 99999999999999999999\r\nContent-Length: 99999999999999999999\r\n", b""),
        (b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\n"),
        (b"Content-Length: 3,4\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\n"),
    ],
)
def test_heads(fields: bytes, expected: bytes | None) -> None:
    head = OK + fields + (b"\n" if b"\r" not in fields and fields else b"\r\n")
    assert OK + (fields if expected is None else expected) + b"\r\n" == mended(head)


@pytest.mark.parametrize("head", [b"nonsense\r\n\r\n", b"<html>\n\n", b"HTTP/1.1 OK\r\n\r\n", b"HTTP/1.1 200\r\n\r\n"])
def test_what_is_no_head_stays(head: bytes) -> None:
    assert head == mended(head)


def test_where_it_ends() -> None:
    assert (0, 0, 0) == (end_of(b""), end_of(OK), end_of(OK + b"A: b\r\n\r"))
    assert (len(OK) + 2, len(OK) + 1, 7) == (end_of(OK + b"\r\nx"), end_of(OK + b"\nx"), end_of(b"HTTP\n\r\n"))
    assert is_interim(b"HTTP/1.1 103 Early Hints\r\n\r\n")
    assert not is_interim(b"HTTP/1.1 101 Switching\r\n\r\n")
    assert (7, None, None) == (
        length_of(OK + b"content-length:007\r\n\r\n"),
        length_of(OK + b"\r\n"),
        length_of(OK + b"Content-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n"),
    )


@given(st.binary(max_size=120))
def test_any_head_is_mended_once(fields: bytes) -> None:
    once = mended(OK + fields + b"\r\n\r\n")
    assert once == mended(once)
    assert once.endswith(b"\r\n\r\n")


def test_hostile_heads_cost_little() -> None:
    started = time.process_time()
    for fields in (b"A" * 65_000, b"A:" * 32_000, b"A: b\r\n" * 10_000 + b"\0", b" \r\n" * 20_000, b"\r\n " * 20_000):
        mended(OK + fields + b"\r\n\r\n")
    assert 0.5 > time.process_time() - started


@needs_conformance
def test_lengths_as_the_fetch_standard_reads_them(tmp_path: Path) -> None:
    rows = json.loads((CONFORMANCE / "http" / "wpt_content-lengths.json").read_text())

    async def main() -> list[tuple[str, int | None, int | None]]:
        wrong = []
        async with Server() as site, Fetcher(Settings(), Allowed(["127.0.0.1"]), tmp_path) as fetcher:
            for number, row in enumerate(rows):
                path = f"/{number}"
                fields = "Connection: close\r\n" + row["input"]
                site.pages[path] = OK + fields.encode() + b"\r\n\r\n" + b"x" * 42
                got = await fetcher.fetch(job(URL=site.url(path)), "127.0.0.1", robots="obeyed")
                length = len(got.harvest.body) if got.harvest else None
                if length != row["output"]:
                    wrong.append((row["input"], row["output"], length))
        return wrong

    assert 35 == len(rows)
    assert [] == asyncio.run(main())
