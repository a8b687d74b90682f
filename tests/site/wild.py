"""A site on which everything is wrong at once, and what a good harvester has of it in the end.

`lay` writes its index below a directory; the rest are behaviours, below /_/ as the others are. `EXPECTED` says of each
page on the index whether it leaves a record. Traps are pages that link on for ever.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import time
import zlib
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import NamedTuple

import brotli
import zstandard

from tests.site.behaviours import Behaviour, Request, answer
from tests.site.oddities import odd

HTML = "Content-Type: text/html"

#: A sentence that each of the encodings below can write, and one for the ends of Europe and Asia.
TEXTS = {
    "utf-8": "Žlahten čaj, 茶, शराब",
    "utf-16": "Žlahten čaj, 茶",
    "windows-1250": "Žlahten čaj in šipkov džem",
    "iso-8859-2": "Žlahten čaj in šipkov džem",
    "shift_jis": "お茶を飲みます",
    "gb18030": "我们喝茶",
    "koi8-r": "Мы пьём чай",
}

_numbers = itertools.count(1)
_asked: Counter[str] = Counter()


class Page(NamedTuple):
    """A page on the index: its path, whether it leaves a record, and a text that its record must hold."""

    path: str
    has_record: bool
    text: str = ""


def linking(title: str, *hrefs: str, text: str = "") -> bytes:
    """A page with links."""
    links = "".join(f'<li><a href="{escape(href)}">on</a>' for href in hrefs)
    return f"<!doctype html><title>{title}</title><p>{text or title}<ul>{links}</ul>".encode()


async def calendar(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/calendar/2031/05/: each month links to the next and to the one before."""
    year, month = (int(part) for part in request.path.split("/")[3:5])
    moved = [divmod(year * 12 + month - 1 + step, 12) for step in (1, -1)]
    hrefs = [f"/_/calendar/{there:04}/{number + 1:02}/" for there, number in moved]
    writer.write(answer(200, linking(f"Month {year}-{month}", *hrefs), HTML))
    return 200, True


async def deeper(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/deeper/: a relative link that leads ever deeper."""
    writer.write(answer(200, linking(f"Depth {request.path.count('/')}", "a/b/"), HTML))
    return 200, True


async def session(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/session: links to itself, with another session each time."""
    href = f"/_/session?sid=abcdef{next(_numbers):010}"
    writer.write(answer(200, linking("Session", href, text=f"Welcome, visitor {next(_numbers)}"), HTML))
    return 200, True


async def filters(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/filter?f=1: links on with one filter more."""
    query = request.target.partition("?")[2]
    writer.write(answer(200, linking(f"Filter {query}", *(f"?{query}&f={number}" for number in range(3))), HTML))
    return 200, True


async def same(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/same/1: there is no such thing, it says with 200, and see the next."""
    number = int(request.path.rsplit("/", 1)[1])
    writer.write(answer(200, linking("Not found", f"/_/same/{number + 1}"), HTML))
    return 200, True


async def flaky(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/flaky/503?after=1: an error the first time, and a page then; after=date:2 says the same by a date."""
    _asked[request.target] += 1
    if _asked[request.target] > 1:
        writer.write(answer(200, linking("At last"), HTML))
        return 200, True
    status, after = int(request.path.rsplit("/", 1)[1]), request.query("after")
    if after.startswith("date:"):
        after = formatdate(time.time() + float(after[5:]), usegmt=True)
    writer.write(answer(status, b"later", HTML, *([f"Retry-After: {after}"] if after else [])))
    return status, True


async def ticking(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/ticking: a page that is another each time."""
    writer.write(answer(200, linking("Ticking", text=f"This was asked {next(_numbers)} times."), HTML))
    return 200, True


async def charset(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/charset/koi8-r?in=header: a page in an encoding, told by the header, by a meta, or by nothing."""
    name, place = request.path.rsplit("/", 1)[1], request.query("in")
    meta = f"<meta charset={name}>" if place == "meta" else ""
    body = f"<!doctype html>{meta}<title>T</title><p>{TEXTS[name]}".encode(name)
    writer.write(answer(200, body, f"{HTML}; charset={name}" if place == "header" else HTML))
    return 200, True


async def bomb(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/bomb?as=gzip&layers=2: a small body that unpacks to 40 MB."""
    body = _bomb(request.query("as", "gzip"), int(request.number("layers", 1)))
    coding = ", ".join([request.query("as", "gzip")] * int(request.number("layers", 1)))
    writer.write(answer(200, body, HTML, f"Content-Encoding: {coding}"))
    return 200, True


@cache
def _bomb(coding: str, layers: int) -> bytes:
    packs: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "br": partial(brotli.compress, quality=5),
        "zstd": zstandard.compress,
    }
    body = linking("Bomb") + b"<p>boom " * 5_000_000
    for _ in range(layers):
        body = packs[coding](body)
    return body


async def challenge(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/challenge/503: prove that you are a person."""
    status = int(request.path.rsplit("/", 1)[1])
    writer.write(answer(status, b"<title>Just a moment...</title><p>Checking your browser", HTML))
    return status, True


async def said(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/said?robots=noindex: a page with an X-Robots-Tag; it links to /_/said-on."""
    tag = f"X-Robots-Tag: {request.query('robots')}"
    writer.write(answer(200, linking("Said", f"/_/said-on?{request.query('robots')}"), HTML, tag))
    return 200, True


async def said_on(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/said-on: where a page with an X-Robots-Tag leads."""
    writer.write(answer(200, linking(f"Beyond {request.target}"), HTML))
    return 200, True


async def typed(request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """/_/typed?as=image/png: a page that says it is something else, or nothing."""
    kind = request.query("as")
    head_only = request.method == "HEAD"
    writer.write(answer(200, linking("Typed"), *([f"Content-Type: {kind}"] if kind else []), head_only=head_only))
    return 200, True


WILD: dict[str, Behaviour] = {
    "calendar": calendar,
    "deeper": deeper,
    "session": session,
    "filter": filters,
    "same": same,
    "flaky": flaky,
    "charset": charset,
    "ticking": ticking,
    "bomb": bomb,
    "challenge": challenge,
    "said": said,
    "said-on": said_on,
    "typed": typed,
    "odd": odd,
}

#: Starts of traps, with how many pages of each are too many.
TRAPS = {
    "/_/calendar/2031/05/": 5,
    "/_/deeper/": 8,
    "/_/session": 4,
    "/_/filter?f=1": 12,
    "/_/same/1": 15,
}

EXPECTED = [
    *(Page(f"/_/charset/{name}?in=header", True, text) for name, text in TEXTS.items()),
    *(Page(f"/_/charset/{name}?in=meta", True, text) for name, text in TEXTS.items() if name != "utf-16"),
    Page("/_/charset/utf-8?in=nothing", True, TEXTS["utf-8"]),
    Page("/_/bomb?as=gzip", True, "boom"),
    Page("/_/bomb?as=deflate", True, "boom"),
    Page("/_/bomb?as=br", True, "boom"),
    Page("/_/bomb?as=zstd", True, "boom"),
    Page("/_/bomb?as=gzip&layers=2", True, "boom"),
    Page("/_/gzip?as=deflate", True, "Some text."),
    Page("/_/gzip?as=raw-deflate", True, "Some text."),
    Page("/_/gzip?as=gzip&cut=9", True, "Some text."),
    Page("/_/drip?bytes=40&every=0.2", True, "xxx"),
    Page("/_/endless", True, "Some text."),
    Page("/_/hang?after=10", True, "xxx"),
    Page("/_/reset?after=100", True, "xxx"),
    Page("/_/length?says=2000", True, "Some text."),
    Page("/_/length?says=many", True, "Some text."),
    Page("/_/chunked", True, "Some text."),
    Page("/_/chunked?broken=1", True, "Some text."),
    Page("/_/informed", True, "Some text."),
    Page("/_/flaky/500", True, "At last"),
    Page("/_/flaky/503?after=1", True, "At last"),
    Page("/_/flaky/429?after=1", True, "At last"),
    Page("/_/typed?as=image/png", True),
    Page("/_/typed", True, "Typed"),
    Page("/_/said?robots=nofollow", True, "Said"),
    Page("/_/said?robots=otherbot:+noindex", True, "Said"),
    Page("/_/said-on?otherbot:%20noindex", True, "Beyond"),
    Page("/_/said-on?noindex", True, "Beyond"),
    Page("/_/said-on?nofollow", False),
    Page("/_/said?robots=noindex", False),
    Page("/_/endless-header", False),
    Page("/_/hang", False),
    Page("/_/reset", False),
    Page("/_/raw?bytes=nonsense", False),
    Page("/_/status/404", False),
    Page("/_/status/410", False),
    Page("/_/status/403", False),
    Page("/_/status/451", False),
    Page("/_/status/500", False),
    Page("/_/challenge/403", False),
    Page("/_/challenge/503", False),
    Page("/_/chain/3", False),
    Page("/_/chain/0", True, "Some text."),
    Page("/_/chain/-1", False),
    Page("/_/chain/ten/10", False),
    Page("/_/chain/ten/0", True, "Some text."),
    Page("/_/chain/long/12", False),
    Page("/_/redirect/302", False),
    Page("/_/redirect/302?to=http://10.0.0.1/", False),
    Page("/_/redirect/301?to=http://[", False),
    Page("/_/redirect/307?to=javascript:1", False),
]

#: Pages that are only met by way of another.
UNLINKED = {
    "/_/said-on?noindex",
    "/_/said-on?nofollow",
    "/_/said-on?otherbot:%20noindex",
    "/_/chain/0",
    "/_/chain/ten/0",
}

#: Requests that the harvester gives up while the server still works on them.
GIVEN_UP = ("/_/hang", "/_/drip", "/_/endless")


def lay(root: Path) -> None:
    """Write the index."""
    root.mkdir(parents=True, exist_ok=True)
    odd = ("mailto:x", "javascript:1", "http://[", "//", "http://169.254.169.254/", "http://other.invalid/", "#top")
    pages = [page.path for page in EXPECTED if page.path not in UNLINKED]
    (root / "index.html").write_bytes(linking("Index", *pages, *TRAPS, *odd, f"/{'x' * 3000}"))
