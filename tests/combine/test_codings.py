"""Decompression: every coding, layers, damage, and bombs that stop at the limit."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from combine import codings
from combine.codings import Decoded, decode
from tests.conformance import CONFORMANCE, needs_conformance

MIB = 1024 * 1024
LIMIT = 50 * MIB
TEXT = b"Paragraphs of a page, said again. " * 400
FILES = CONFORMANCE / "http" / "content-encoding"


def raw_deflate(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(data) + engine.flush()


CODINGS = {
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT),
    "GZIP": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "br": brotli.compress(TEXT),
    "zstd": zstandard.compress(TEXT),
    "identity": TEXT,
    "": TEXT,
    "made-up": TEXT,
}


@pytest.mark.parametrize(("coding", "body"), CODINGS.items())
def test_codings(coding: str, body: bytes) -> None:
    assert Decoded(TEXT) == decode(body, [coding], LIMIT, 200)


def test_raw_deflate_is_read_too() -> None:
    assert Decoded(TEXT) == decode(raw_deflate(TEXT), ["deflate"], LIMIT, 200)


def test_layers_are_undone_last_first() -> None:
    body = brotli.compress(zlib.compress(gzip.compress(TEXT)))
    assert Decoded(TEXT) == decode(body, ["gzip, deflate", "br"], LIMIT, 200)


def test_members_and_frames_follow_one_another() -> None:
    assert Decoded(TEXT + TEXT) == decode(gzip.compress(TEXT) * 2, ["gzip"], LIMIT, 200)
    assert Decoded(TEXT + TEXT) == decode(zstandard.compress(TEXT) * 2, ["zstd"], LIMIT, 200)
    assert Decoded(TEXT) == decode(gzip.compress(TEXT) + b"\0\0\0", ["gzip"], LIMIT, 200)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_coding_that_was_not_used_leaves_the_body(coding: str) -> None:
    assert TEXT == decode(TEXT, [coding], LIMIT, 200).body
    assert b"" == decode(b"", [coding], LIMIT, 200).body


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(TEXT, 0)),
        ("deflate", zlib.compress(TEXT, 0)),
        ("deflate", raw_deflate(TEXT)),
        ("br", brotli.compress(TEXT, quality=1)),
        ("zstd", zstandard.compress(bytes(range(256)) * 2000)),
    ],
)
def test_cut_at_any_place_keeps_what_is_readable(coding: str, body: bytes) -> None:
    whole = decode(body, [coding], LIMIT, 10_000).body
    for end in range(len(body) - 9, 30, -37):
        cut = decode(body[:end], [coding], LIMIT, 10_000)
        if cut.body == body[:end]:
            continue
        assert cut.truncated == "disconnect"
        assert whole.startswith(cut.body)


#: What is no one whole member without a name, or a large one, is read in steps; the others at once.
ODD_GZIP = {
    "empty": gzip.compress(b""),
    "sound": gzip.compress(TEXT),
    "of no text": gzip.compress(bytes(range(256)) * 40),
    "stored": gzip.compress(TEXT, 0),
    "large": gzip.compress(TEXT * 30),
    "two members": gzip.compress(TEXT) + gzip.compress(b"more"),
    "followed by junk": gzip.compress(TEXT) + b"junk",
    "followed by half a member": gzip.compress(TEXT) + gzip.compress(b"more")[:12],
    "with a name": gzip.compress(TEXT)[:3] + b"\x08" + gzip.compress(TEXT)[4:10] + b"name\0" + gzip.compress(TEXT)[10:],
    "of a wrong length": gzip.compress(TEXT)[:-1] + b"\x7f",
    "of another method": b"\x1f\x8b\x07" + gzip.compress(TEXT)[3:],
    "cut in the check sum": gzip.compress(TEXT)[:-5],
    "cut in the text": gzip.compress(TEXT)[:60],
    "only a head": gzip.compress(TEXT)[:10],
}


@pytest.mark.parametrize("body", ODD_GZIP.values(), ids=ODD_GZIP)
def test_a_gzip_body_read_at_once_is_what_it_is_in_steps(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = decode(body, ["gzip"], LIMIT, 200)
    monkeypatch.setattr(codings, "_sound_gzip", lambda _: None)
    assert decode(body, ["gzip"], LIMIT, 200) == at_once


@given(
    st.lists(st.sampled_from([b"<p>", b"the ", b"\0", b"\xc3\xa4", b"abcdefgh" * 9]), max_size=400).map(b"".join),
    st.sampled_from([0, 1, 6, 9]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    st.integers(0, 20),
)
def test_the_quick_library_takes_nothing_that_zlib_does_not(
    text: bytes, level: int, changes: list[tuple[int, int]], cut: int
) -> None:
    body = bytearray(gzip.compress(text, level))
    for place, value in changes:
        body[place % len(body)] = value
    data = bytes(body[: len(body) - cut])
    found = codings._sound_gzip(data)
    if found is not None:
        engine = zlib.decompressobj(31)
        assert (engine.decompress(data), True, b"") == (found, engine.eof, engine.unused_data)
    elif not changes and not cut:
        assert len(text) > 256 * 1024


def test_without_the_quick_library_zlib_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codings, "_quick", zlib)
    assert [TEXT, None] == [codings._sound_gzip(gzip.compress(TEXT)), codings._sound_gzip(gzip.compress(TEXT)[:-3])]


def test_a_wrong_check_sum_keeps_the_text() -> None:
    body = bytearray(gzip.compress(TEXT))
    body[-6] ^= 0xFF
    assert Decoded(TEXT, "disconnect") == decode(bytes(body), ["gzip"], LIMIT, 200)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_limit_and_ratio(coding: str) -> None:
    zeros = bytes(4 * MIB)
    body = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstandard.compress}[coding](
        zeros
    )
    assert Decoded(bytes(3 * MIB), "length") == decode(body, [coding], 3 * MIB, 1_000_000)
    assert 4 * MIB > len(decode(body, [coding], LIMIT, 200).body)
    assert "length" == decode(body, [coding], LIMIT, 200).truncated


@needs_conformance
@pytest.mark.parametrize("coding", ["br", "deflate", "gzip", "zstd"])
def test_bombs_stop_at_the_limit(coding: str) -> None:
    body = (FILES / f"bomb-{coding}.bin").read_bytes()
    tracemalloc.start()
    started = time.process_time()
    decoded = decode(body, [coding], LIMIT, 1_000_000)
    took = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 1.0 > took
    assert 200 * MIB > peak
    assert LIMIT >= len(decoded.body)
    assert MIB >= len(decode(body, [coding], LIMIT, 200).body) or len(body) * 200 >= len(
        decode(body, [coding], LIMIT, 200).body
    )


@needs_conformance
@pytest.mark.parametrize(
    ("name", "codings"),
    [
        ("html-br.bin", ["br"]),
        ("html-gzip.bin", ["gzip"]),
        ("html-zlibdeflate.bin", ["deflate"]),
        ("html-rawdeflate.bin", ["deflate"]),
        ("html-zstd-static-content-size.bin", ["zstd"]),
        ("html-zstd-static-no-content-size.bin", ["zstd"]),
        ("html-zstd-streaming-no-content-size.bin", ["zstd"]),
        ("html-gzip-deflate.bin", ["gzip, deflate"]),
        ("html-gzip-deflate-gzip.bin", ["gzip", "deflate, gzip"]),
    ],
)
def test_real_bodies(name: str, codings: list[str]) -> None:
    decoded = decode((FILES / name).read_bytes(), codings, LIMIT, 200)
    assert "" == decoded.truncated
    assert decoded.body.lstrip()[:5].lower() in (b"<!doc", b"<html")


@needs_conformance
def test_damaged_bodies() -> None:
    cut = decode((FILES / "unexpected-eof.gz").read_bytes(), ["gzip"], LIMIT, 200)
    assert "disconnect" == cut.truncated
    # The expected file is the body read as Latin-1 and written as UTF-8.
    expected = (FILES / "unexpected-eof-output.txt").read_text(encoding="utf-8").encode("latin-1")
    assert cut.body.startswith(expected)
    for name in ("truncated-crc-error.gz", "truncated-crc-error-short.gz"):
        damaged = decode((FILES / name).read_bytes(), ["gzip"], LIMIT, 200)
        assert "disconnect" == damaged.truncated
        assert b"</html" in damaged.body[-20:]
