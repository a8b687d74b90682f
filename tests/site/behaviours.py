"""What the mock web can do wrong, and right, on purpose: each behaviour is a path below /_/, told by its query.

A behaviour writes its own bytes, so that nothing tidies them. It returns the status for the log and whether the
connection may serve another request.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

Behaviour = Callable[["Request", asyncio.StreamWriter], Awaitable[tuple[int, bool]]]

PAGE = b"<!doctype html><html><head><title>A page</title></head><body><p>Some text.</p></body></html>\n"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came: names of fields in lower case."""

    method: str
    target: str
    fields: dict[str, str]
    disconnected: Callable[[], Awaitable[object]]  # returns when the client has gone

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    def query(self, name: str, default: str = "") -> str:
        return parse_qs(urlsplit(self.target).query).get(name, [default])[0]

    def number(self, name: str, default: float) -> float:
        return float(self.query(name, str(default)))


def answer(status: int, body: bytes = b"", *fields: str, reason: str = "X", head_only: bool = False) -> bytes:
    """A whole and proper answer."""
    lines = [f"HTTP/1.1 {status} {reason}", *fields]
    if status >= 200 and status not in (204, 304):
        lines.append(f"Content-Length: {len(body)}")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    return head if head_only or status in (204, 304) else head + body


async def status(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/status/503?after=120&body=1."""
    code = int(request.path.rsplit("/", 1)[1])
    fields = ["Content-Type: text/html"]
    if after := request.query("after"):
        fields.append(f"Retry-After: {after}")
    writer.write(answer(code, PAGE, *fields, head_only=request.method == "HEAD"))
    return code, True


async def delay(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/delay/0.5: the header comes so many seconds late."""
    await asyncio.sleep(float(request.path.rsplit("/", 1)[1]))
    writer.write(answer(200, PAGE, "Content-Type: text/html"))
    return 200, True


async def redirect(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/redirect/302?to=URL&after=1; without `to` there is no Location."""
    code = int(request.path.rsplit("/", 1)[1])
    fields = {"Location": request.query("to"), "Retry-After": request.query("after")}
    said = [f"{name}: {value}" for name, value in fields.items() if value]
    writer.write(answer(code, b"moved\n", *said, "Content-Type: text/plain"))
    return code, True


async def chain(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/chain/5: five redirects, then a page; /_/chain/-1 goes round for ever."""
    left = int(request.path.rsplit("/", 1)[1])
    if left == 0:
        writer.write(answer(200, PAGE, "Content-Type: text/html"))
        return 200, True
    writer.write(answer(302, b"", f"Location: {left - 1 if left > 0 else left}"))
    return 302, True


async def drip(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/drip?bytes=10&every=0.1: a byte at a time."""
    count = int(request.number("bytes", 10))
    writer.write(answer(200, b"x" * count, "Content-Type: text/plain", head_only=True))
    for _ in range(count):
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(request.number("every", 0.1))
    return 200, True


async def drip_header(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/drip-header?every=0.1: the head a byte at a time."""
    for byte in answer(200, PAGE, "Content-Type: text/html"):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(request.number("every", 0.1))
    return 200, True


async def endless(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/endless: a body that never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + PAGE)
    while not writer.transport.is_closing():
        writer.write(b"x" * 16384)
        await writer.drain()
        await asyncio.sleep(0)
    return 200, False


async def endless_header(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/endless-header: fields that never end."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    number = 0
    while not writer.transport.is_closing():
        number += 1
        writer.write(b"X-Field-%d: %s\r\n" % (number, b"x" * 1000))
        await writer.drain()
        await asyncio.sleep(0)
    return 200, False


async def hang(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/hang?after=bytes: nothing (or a header and a few bytes) and then silence."""
    if request.query("after"):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * int(request.query("after")))
        await writer.drain()
    await request.disconnected()
    return 0, False


async def coded(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/gzip?as=deflate&cut=10: a coded page, whole or cut."""
    coding = request.query("as", "gzip")
    packs: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "raw-deflate": _raw_deflate,
    }
    body = packs[coding](PAGE)
    body = body[: len(body) - int(request.number("cut", 0))]
    writer.write(answer(200, body, f"Content-Encoding: {coding.removeprefix('raw-')}", "Content-Type: text/html"))
    return 200, True


def _raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


async def length(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/length?says=2000: a Content-Length that is not so; `says` may be any text."""
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {request.query('says')}\r\n\r\n".encode() + PAGE)
    return 200, False


async def chunked(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/chunked?broken=1: a body in chunks, whole or broken off."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/html\r\n\r\n")
    for start in range(0, len(PAGE), 20):
        piece = PAGE[start : start + 20]
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    if request.query("broken"):
        return 200, False
    writer.write(b"0\r\n\r\n")
    return 200, True


async def reset(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/reset?after=10: the connection is reset, at once or after so many bytes of a longer body."""
    if after := int(request.number("after", 0)):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * after)
        await writer.drain()
    _abort(writer)
    return 0, False


def _abort(writer: asyncio.StreamWriter) -> None:
    # Zero linger makes the kernel send RST in place of FIN.
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


async def raw(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/raw?bytes=…: exactly these bytes, then the connection is closed."""
    writer.write(request.query("bytes").encode("latin-1"))
    return 0, False


async def informed(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/informed: answers of 1xx before the real one."""
    writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
    writer.write(answer(200, PAGE, "Content-Type: text/html"))
    return 200, True


async def header(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/header?bytes=20000&fields=3: so many fields of such a size."""
    size = int(request.number("bytes", 1000))
    fields = [f"X-Field: {'x' * size}" for _ in range(int(request.number("fields", 1)))]
    writer.write(answer(200, PAGE, *fields, "Content-Type: text/html"))
    return 200, True


async def sized(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/size/100000: a body of so many bytes."""
    size = int(request.path.rsplit("/", 1)[1])
    writer.write(answer(200, b"0123456789abcdef" * (size // 16) + b"x" * (size % 16), "Content-Type: text/plain"))
    return 200, True


async def unchanged(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/unchanged: 304, whether it was asked for or not."""
    writer.write(answer(304, b"", 'ETag: "same"'))
    return 304, True


#: By the first segment after /_/.
BEHAVIOURS: dict[str, Behaviour] = {
    "status": status,
    "delay": delay,
    "redirect": redirect,
    "chain": chain,
    "drip": drip,
    "drip-header": drip_header,
    "endless": endless,
    "endless-header": endless_header,
    "hang": hang,
    "gzip": coded,
    "length": length,
    "chunked": chunked,
    "reset": reset,
    "raw": raw,
    "informed": informed,
    "header": header,
    "size": sized,
    "unchanged": unchanged,
}
