"""Answers that are odd as a whole: bytes by name, each sent at /_/odd/NAME, after which the connection is closed.

`ODD` says of each whether it leaves a record, and a text that its record then holds.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable
from typing import NamedTuple

import brotli
import zstandard

from tests.site.behaviours import Request

OK = b"HTTP/1.1 200 OK\r\n"
HTML = b"Content-Type: text/html\r\n"
BODY = b"<!doctype html><title>Odd</title><p>Odd, and here."
CHUNKED = OK + HTML + b"Transfer-Encoding: chunked\r\n"
WHOLE = b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)


class Odd(NamedTuple):
    """An answer, the text of its record (None where there is none), and what the record says of being cut."""

    data: bytes
    text: str | None = "Odd, and here."
    truncated: str = ""


def coded(coding: str, body: bytes, text: str = "Odd, and here.", truncated: str = "") -> Odd:
    """A body under some Content-Encoding."""
    head = OK + HTML + b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (coding.encode(), len(body))
    return Odd(head + body, text, truncated)


def moved(*locations: bytes, status: int = 302) -> Odd:
    """A redirect with these Locations."""
    fields = b"".join(b"Location: %s\r\n" % location for location in locations)
    return Odd(b"HTTP/1.1 %d X\r\n%sContent-Length: 0\r\n\r\n" % (status, fields), None)


PACKED = gzip.compress(BODY, mtime=0)
WRONG_CRC = PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:]
TWO = gzip.compress(BODY[:20], mtime=0) + gzip.compress(BODY[20:], mtime=0)

ODD: dict[str, Odd] = {
    # Frames
    "no-fields": Odd(b"HTTP/1.1 200 OK\r\n\r\n" + BODY),
    "no-reason": Odd(b"HTTP/1.1 200\r\n" + HTML + b"\r\n" + BODY),
    "no-length": Odd(OK + HTML + b"\r\n" + BODY),
    "1.0": Odd(b"HTTP/1.0 200 OK\r\n" + HTML + b"\r\n" + BODY),
    "0.9": Odd(BODY, None),
    "icy": Odd(b"ICY 200 OK\r\n" + HTML + b"\r\n" + BODY, None),
    "http-2": Odd(b"HTTP/2 200\r\n" + HTML + b"\r\n" + BODY, None),
    "status-word": Odd(b"HTTP/1.1 OK\r\n" + HTML + b"\r\n" + BODY, None),
    "status-99": Odd(b"HTTP/1.1 99 X\r\n" + HTML + b"\r\n" + BODY, None),
    "status-999": Odd(b"HTTP/1.1 999 X\r\n" + HTML + b"\r\n" + BODY, None),
    "status-299": Odd(b"HTTP/1.1 299 X\r\n" + HTML + b"\r\n" + BODY),
    "empty": Odd(b"", None),
    "half-head": Odd(OK + HTML, None),
    "bare-lf": Odd((OK + HTML).replace(b"\r\n", b"\n") + b"\n" + BODY),
    "leading-crlf": Odd(b"\r\n\r\n" + OK + HTML + b"\r\n" + BODY),
    "too-long": Odd(OK + HTML + b"Content-Length: %d\r\n\r\n" % (len(BODY) + 50) + BODY, truncated="disconnect"),
    "too-short": Odd(OK + HTML + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY + b"<p>and more, unasked"),
    "twice-the-same": Odd(OK + HTML + b"Content-Length: %d\r\n" % len(BODY) * 2 + b"\r\n" + BODY),
    "two-lengths": Odd(OK + HTML + b"Content-Length: 5\r\nContent-Length: 9\r\n\r\n" + BODY, None),
    "minus": Odd(OK + HTML + b"Content-Length: -1\r\n\r\n" + BODY),
    "continue": Odd(b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + OK + HTML + b"\r\n" + BODY),
    "hints": Odd(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK + HTML + b"\r\n" + BODY),
    "102-and-end": Odd(b"HTTP/1.1 102 Processing\r\n\r\n", None),
    "switching": Odd(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + BODY, None),
    "204": Odd(b"HTTP/1.1 204 No Content\r\n\r\n", ""),
    "206": Odd(b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-9/99\r\n" + HTML + b"\r\n" + BODY),
    # Fields
    "huge-field": Odd(OK + HTML + b"X-Field: " + b"x" * 40_000 + b"\r\n\r\n" + BODY),
    "300-fields": Odd(OK + HTML + b"X-Field: x\r\n" * 300 + b"\r\n" + BODY),
    "10000-fields": Odd(OK + HTML + b"X-Field: x\r\n" * 10_000 + b"\r\n" + BODY, None),
    "no-colon": Odd(OK + HTML + b"What is this\r\n: nameless\r\nX Y: z\r\n\r\n" + BODY),
    "binary-field": Odd(OK + HTML + b"X-Field: \xff\xfe\x01\0\r\n\r\n" + BODY),
    "folded": Odd(OK + b"Content-Type: text/html;\r\n charset=utf-8\r\n\r\n" + BODY),
    "two-types": Odd(OK + b"Content-Type: text/plain\r\n" + HTML + b"\r\n" + BODY),
    "bad-dates": Odd(OK + HTML + b"Date: yesterday\r\nLast-Modified: 0\r\nExpires: -1\r\nETag: x\r\n\r\n" + BODY),
    # Chunks
    "chunk-extension": Odd(CHUNKED + b"\r\n%x;name=value\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk-trailer": Odd(CHUNKED + b"\r\n" + WHOLE + b"X-Trailer: x\r\n\r\n"),
    "chunk-zeros": Odd(CHUNKED + b"\r\n000000%x\r\n%s\r\n0000\r\n\r\n" % (len(BODY), BODY)),
    "chunk-and-length": Odd(CHUNKED + b"Content-Length: 5\r\n\r\n" + WHOLE + b"\r\n"),
    "chunk-garbage": Odd(CHUNKED + b"\r\n%x\r\n%s\r\nzz\r\n" % (len(BODY), BODY), truncated="disconnect"),
    "chunk-not": Odd(CHUNKED + b"\r\n" + BODY, None),
    "chunk-huge": Odd(CHUNKED + b"\r\nffffffffffffffff\r\n" + BODY, truncated="disconnect"),
    "chunk-end-missing": Odd(CHUNKED + b"\r\n%x\r\n%s\r\n" % (len(BODY), BODY), truncated="disconnect"),
    "chunk-unknown": Odd(OK + HTML + b"Transfer-Encoding: bogus\r\n\r\n" + BODY),
    # Codings
    "gzip-crc": coded("gzip", WRONG_CRC, truncated="disconnect"),
    "gzip-cut": coded("gzip", PACKED[:-10], "Odd, and here", "disconnect"),
    "gzip-tail": coded("gzip", PACKED + b"\0\0\0 and more"),
    "gzip-two": coded("gzip", TWO),
    "gzip-twice": coded("gzip, gzip", gzip.compress(PACKED)),
    "gzip-empty": coded("gzip", b"", ""),
    "gzip-not": coded("gzip", BODY),
    "x-gzip": coded("x-gzip", PACKED),
    "GZIP": coded("GZIP", PACKED),
    "deflate": coded("deflate", zlib.compress(BODY)),
    "deflate-raw": coded("deflate", zlib.compress(BODY)[2:-4]),
    "br": coded("br", brotli.compress(BODY)),
    "br-cut": coded("br", brotli.compress(BODY * 200)[:-3], "Odd, and here", "disconnect"),
    "zstd": coded("zstd", zstandard.compress(BODY)),
    "zstd-two": coded("zstd", zstandard.compress(BODY[:20]) + zstandard.compress(BODY[20:])),
    "identity": coded("identity", BODY),
    "coding-unknown": coded("made-up", BODY),
    "coding-blank": coded("", BODY),
    "coding-list": coded(", gzip,", PACKED),
    "br-gzip": coded("br, gzip", gzip.compress(brotli.compress(BODY))),
    # Locations
    "to-relative": moved(b"../odd/1.0?relative"),
    "to-query": moved(b"?query"),
    "to-scheme-relative": moved(b"//HOST/_/odd/1.0?scheme"),
    "to-empty": moved(b""),
    "to-fragment": moved(b"#top"),
    "to-blanks": moved(b"/_/odd/1.0?a b"),
    "to-utf-8": moved("/_/odd/1.0?ž".encode()),
    "to-latin-1": moved(b"/_/odd/1.0?\xe9"),
    "to-two": moved(b"/_/odd/1.0?first", b"/_/odd/1.0?second"),
    "to-same-twice": moved(b"/_/odd/1.0?twice", b"/_/odd/1.0?twice"),
    "to-backslash": moved(rb"\_\odd\1.0?backslash"),
    "to-ftp": moved(b"ftp://127.0.0.1/x"),
    "to-data": moved(b"data:text/html,<p>x"),
    "to-password": moved(b"http://me:secret@127.0.0.1/x"),
    "to-long": moved(b"/" + b"x" * 5000),
    "to-itself": moved(b"/_/odd/to-itself"),
    "300-with": moved(b"/_/odd/1.0?300", status=300),
    "303": moved(b"/_/odd/1.0?303", status=303),
    "308": moved(b"/_/odd/1.0?308", status=308),
    "307-without": moved(status=307),
    "200-with": Odd(OK + HTML + b"Location: /x\r\n\r\n" + BODY),
    "301-with-body": Odd(
        b"HTTP/1.1 301 X\r\nLocation: /_/odd/1.0?301\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY, None
    ),
}

#: Where the redirects above lead; each is the same page.
LANDINGS = (
    "relative", "scheme", "a%20b", "%C5%BE", "%E9", "first", "twice", "backslash", "303", "308", "301",
)  # fmt: skip


def path_of(name: str) -> str:
    """Where an answer lies. Most have one text: by the query each is a kind of its own, and no trap."""
    return f"/_/odd/{name}?{name}"


async def odd(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/odd/gzip-two: the answer of that name."""
    data = ODD[request.path.rsplit("/", 1)[1]].data
    writer.write(data.replace(b"//HOST/", b"//%s/" % request.fields.get("host", "").encode()))
    return int(data[9:12]) if data[9:12].isdigit() else 0, False


ODDITIES: dict[str, Callable[..., object]] = {"odd": odd}
