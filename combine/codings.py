"""Content decoding: gzip, deflate of both kinds, br and zstd, in layers, within bounds, and keeping what is readable.

Output is made piece by piece and stops at the limit, so a bomb costs the limit and no more. A body cut short or with a
wrong check sum gives what came before the fault, and says so. A body that is not in the coding its header names is
passed on as it is: servers do name codings that they did not use. This module never does I/O.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import brotli
import zstandard

try:
    from isal import isal_zlib

    _quick: Any = isal_zlib
except ImportError:  # it is not made for every machine
    _quick = zlib

#: Bytes of output asked for at a time: enough for most pages in one go, little against the limit.
_PIECE_BYTES = 256 * 1024

#: How a gzip member begins whose head has nothing but its ten bytes.
_PLAIN_GZIP = b"\x1f\x8b\x08\x00"

#: Bytes of deflate taken at a time; after damage so many are gone through one by one.
_STEP_BYTES = 16 * 1024

#: Bytes of zstd taken at a time, so that one step makes at most 8 MiB.
_ZSTD_STEP_BYTES = 256
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

#: The window that RFC 9659 allows to servers.
_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024

#: Codings stacked on one body; more than two are hardly ever seen, and each may multiply.
_LAYERS = 5

#: Below this a high ratio is no sign of a bomb: 1 MiB of blanks is a dull page and nothing else.
_RATIO_FROM_BYTES = 1024 * 1024

_NAMES = {"x-gzip": "gzip", "x-deflate": "deflate", "": "identity", "none": "identity"}


@dataclass(frozen=True, slots=True)
class Decoded:
    """A body without its codings; `truncated` is `length` at a limit, `disconnect` where the data ends too soon."""

    body: bytes
    truncated: str = ""


def decode(body: bytes, content_encoding: list[str], limit_bytes: int, ratio: int) -> Decoded:
    """Undo the codings of the Content-Encoding fields, the last one first; an unknown coding ends it there."""
    codings = [name.strip().lower() for value in content_encoding for name in value.split(",")]
    limit = min(limit_bytes, max(len(body) * ratio, _RATIO_FROM_BYTES))
    truncated = ""
    for coding in list(reversed(codings))[:_LAYERS]:
        pieces = _PIECES.get(_NAMES.get(coding, coding))
        if pieces is None:
            continue
        decoded = _bounded(pieces(body), limit)
        if decoded is None:
            # Not in this coding at all: what is there is the best there is.
            continue
        body = decoded.body
        truncated = truncated or decoded.truncated
    return Decoded(body, truncated)


def _bounded(pieces: Iterator[bytes], limit: int) -> Decoded | None:
    """Collect the pieces up to the limit; None where not even a first piece could be had."""
    found: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            size += len(piece)
            if size > limit:
                found.append(piece[: len(piece) - (size - limit)])
                return Decoded(b"".join(found), "length")
            found.append(piece)
    except _CutShort:
        return Decoded(b"".join(found), "disconnect") if found else None
    return Decoded(b"".join(found))


class _CutShort(Exception):
    """The data ends before the coding does, or is damaged from here on."""


def _gzip(body: bytes) -> Iterator[bytes]:
    """Members one after another, as gzip allows; what follows the last one and is no member is ignored."""
    if (whole := _sound_gzip(body)) is not None:
        yield whole
        return
    rest = body
    while True:
        engine = zlib.decompressobj(zlib.MAX_WBITS | 16)
        rest = yield from _inflate(engine, rest)
        if not rest.startswith(b"\x1f\x8b"):
            return


def _sound_gzip(body: bytes) -> bytes | None:
    """What a body gives that is one whole member and no large one, as nearly all are; None for every other."""
    if not body.startswith(_PLAIN_GZIP):
        return None
    engine = _quick.decompressobj(zlib.MAX_WBITS | 16)
    try:
        found: bytes = engine.decompress(body, _PIECE_BYTES)
    except _quick.error:
        return None
    return found if engine.eof and not engine.unused_data else None


def _deflate(body: bytes) -> Iterator[bytes]:
    """Read zlib's format, as the standard says, or the raw one, as some servers send."""
    try:
        zlib.decompressobj().decompress(body[:64], 1)
        bits = zlib.MAX_WBITS
    except zlib.error:
        bits = -zlib.MAX_WBITS
    yield from _inflate(zlib.decompressobj(bits), body)


def _inflate(engine: zlib._Decompress, data: bytes) -> Generator[bytes, None, bytes]:
    """Decompress one stream; the value is what follows it. Damage gives all that comes before it."""
    for start in range(0, len(data), _STEP_BYTES):
        step = data[start : start + _STEP_BYTES]
        before = engine.copy()
        try:
            while step and not engine.eof:
                if piece := engine.decompress(step, _PIECE_BYTES):
                    yield piece
                    before, step = engine.copy(), engine.unconsumed_tail
                else:
                    step = b""
        except zlib.error:
            if saved := _salvaged(before, step):
                yield saved
            raise _CutShort from None
        if engine.eof:
            return engine.unused_data + data[start + _STEP_BYTES :]
    if rest := engine.flush():
        yield rest
    raise _CutShort


def _salvaged(engine: zlib._Decompress, step: bytes) -> bytes:
    """What a damaged step gives byte by byte, up to the damage."""
    found = []
    with contextlib.suppress(zlib.error):
        for place in range(len(step)):
            found.append(engine.decompress(step[place : place + 1]))
    return b"".join(found)


def _brotli(body: bytes) -> Iterator[bytes]:
    engine = brotli.Decompressor()
    data = body
    try:
        while not engine.is_finished():
            piece = engine.process(data, output_buffer_limit=_PIECE_BYTES)
            data = b""
            if piece:
                yield piece
            elif engine.can_accept_more_data():
                raise _CutShort
    except brotli.error:
        raise _CutShort from None


def _zstd(body: bytes) -> Iterator[bytes]:
    """Frames one after another. Small steps bound the output of each: a block of 4 bytes may make 128 KiB."""
    rest = body
    try:
        while rest:
            engine = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()
            start = 0
            while not engine.eof and start < len(rest):
                if piece := engine.decompress(rest[start : start + _ZSTD_STEP_BYTES]):
                    yield piece
                start += _ZSTD_STEP_BYTES
            if not engine.eof:
                raise _CutShort
            rest = engine.unused_data + rest[start:]
            if not rest.startswith(_ZSTD_MAGIC):
                return
    except zstandard.ZstdError:
        raise _CutShort from None


_PIECES: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
