"""web: the synthetic web, answered by one process fast enough to be no part of what is measured.

    python -m bench.web [--pages 5000] [--hosts 100] [--port 0] [--latency 0.0] [--plain]

Takes   GET and HEAD of http://127.1.x.y:PORT/, an address a host; /__stats on any of them says what was asked so far.
Calls   nobody.
Keeps   every page in memory, made before the first line is printed: a JSON object with `port`, `pages` and `seeds`.
Fails   a request that it cannot read closes the connection.
Limits  one core; more than 10,000 pages a second there; HTTP/1.1 without request bodies.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import socket
import time
import zlib
from dataclasses import dataclass, field, replace
from typing import cast

import orjson
import uvloop

from bench.pages import Web

ROBOTS = b"User-agent: *\nDisallow: /closed/\n"
COMMON = b"Server: bench\r\nDate: Mon, 30 Nov 2026 08:00:00 GMT\r\n"


@dataclass(slots=True)
class Manners:
    """What one host has seen of its visitors: times are CLOCK_MONOTONIC."""

    requests: int = 0
    asking: int = 0
    most_at_once: int = 0
    answered: float = 0.0
    least_gap_s: float | None = None

    def begin(self, now: float) -> None:
        """A request came in."""
        self.requests += 1
        self.asking += 1
        self.most_at_once = max(self.most_at_once, self.asking)
        if self.answered:
            gap = now - self.answered
            self.least_gap_s = gap if self.least_gap_s is None else min(gap, self.least_gap_s)

    def end(self, now: float) -> None:
        """Its answer was written."""
        self.asking -= 1
        self.answered = now


@dataclass(slots=True)
class Counts:
    """What the whole web has answered."""

    statuses: dict[int, int] = field(default_factory=dict)
    pages: int = 0
    body_bytes: int = 0
    first: float = 0.0
    last: float = 0.0
    served: set[tuple[int, int]] = field(default_factory=set)


class Server:
    """All hosts of a web: answers by path, and counts."""

    def __init__(self, web: Web, latency_s: float) -> None:
        self.web = web
        self.latency_s = latency_s
        self.counts = Counts()
        self.manners = [Manners() for _ in range(web.hosts)]
        self.answers: list[list[Answer]] = []

    def prepare(self) -> None:
        """Make all pages."""
        self.answers = [
            [Answer.of(self.web, host, index) for index in range(self.web.size_of(host))]
            for host in range(self.web.hosts)
        ]

    def answer(self, host: int, head: bytes) -> tuple[int, bytes]:
        """The status and the whole answer to a request head."""
        path = head[head.index(b" ") + 1 : head.index(b" HTTP/")]
        if path.startswith(b"/p/"):
            return self._page(host, path[3:-5], head)
        if path == b"/":
            return self._page(host, b"0", head)
        if path == b"/robots.txt":
            return 200, _small(b"200 OK", ROBOTS, b"Content-Type: text/plain\r\n")
        if path == b"/__stats":
            return 0, _small(b"200 OK", orjson.dumps(self.stats()), b"Content-Type: application/json\r\n")
        if path.startswith(b"/moved/"):
            return 301, _small(b"301 Moved Permanently", b"", b"Location: /p/" + path[7:] + b"\r\n")
        return 404, _small(b"404 Not Found", b"<p>Not here.</p>", b"Content-Type: text/html\r\n")

    def stats(self) -> dict[str, object]:
        """What was asked so far."""
        gaps = [entry.least_gap_s for entry in self.manners if entry.least_gap_s is not None]
        counts = self.counts
        return {
            "reachable": self.web.pages,
            "requests": sum(entry.requests for entry in self.manners),
            "most_requests_host": max(entry.requests for entry in self.manners),
            "pages": counts.pages,
            "different_pages": len(counts.served),
            "statuses": {str(status): count for status, count in sorted(counts.statuses.items())},
            "body_bytes": counts.body_bytes,
            "first_to_last_s": counts.last - counts.first,
            "least_gap_s": min(gaps, default=None),
            "most_at_once": max(entry.most_at_once for entry in self.manners),
        }

    def note(self, status: int, now: float) -> None:
        """Count one request that was not about the counts."""
        self.counts.first = self.counts.first or now
        self.counts.last = now
        self.counts.statuses[status] = self.counts.statuses.get(status, 0) + 1

    def _page(self, host: int, name: bytes, head: bytes) -> tuple[int, bytes]:
        answers = self.answers[host]
        if not name.isdigit() or int(name) >= len(answers):
            return 404, _small(b"404 Not Found", b"", b"")
        index = int(name)
        answer = answers[index]
        if b"f-none-match: " in head.lower() and answer.etag in head:
            return 304, b"HTTP/1.1 304 Not Modified\r\n" + COMMON + b"ETag: " + answer.etag + b"\r\n\r\n"
        self.counts.pages += 1
        self.counts.served.add((host, index))
        whole = answer.packed if answer.packed and b"gzip" in head else answer.plain
        self.counts.body_bytes += len(whole)
        return 200, whole[: whole.index(b"\r\n\r\n") + 4] if head.startswith(b"HEAD") else whole


@dataclass(frozen=True, slots=True)
class Answer:
    """A page ready to be sent: head and body."""

    etag: bytes
    plain: bytes
    packed: bytes

    @classmethod
    def of(cls, web: Web, host: int, index: int) -> Answer:
        """Make the answer for one page."""
        etag = web.etag(host, index)
        body = web.body(host, index)
        fields = b"Content-Type: text/html; charset=utf-8\r\nETag: " + etag + b"\r\n"
        packed = b""
        if web.is_packed(host, index):
            press = zlib.compressobj(1, zlib.DEFLATED, 31)
            packed = _small(b"200 OK", press.compress(body) + press.flush(), fields + b"Content-Encoding: gzip\r\n")
        return cls(etag, _small(b"200 OK", body, fields), packed)


def _small(status: bytes, body: bytes, fields: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\n%s%sContent-Length: %d\r\n\r\n%s" % (status, COMMON, fields, len(body), body)


class Connection(asyncio.Protocol):
    """One kept connection to one host."""

    def __init__(self, server: Server, host: int) -> None:
        self.server = server
        self.host = host
        self.pending = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it

    def connection_lost(self, exc: Exception | None) -> None:
        """Answer no more."""
        self.transport = None

    def data_received(self, data: bytes) -> None:
        """Answer each whole request head in it."""
        self.pending += data
        while (end := self.pending.find(b"\r\n\r\n")) >= 0:
            head, self.pending = self.pending[:end], self.pending[end + 4 :]
            self.server.manners[self.host].begin(time.monotonic())
            if self.server.latency_s:
                asyncio.get_running_loop().call_later(self.server.latency_s, self.send, head)
            else:
                self.send(head)

    def send(self, head: bytes) -> None:
        """Answer one request."""
        try:
            status, answer = self.server.answer(self.host, head)
        except ValueError:
            status, answer = 400, b""
        now = time.monotonic()
        manners = self.server.manners[self.host]
        if status:
            self.server.note(status, now)
            manners.end(now)
        else:
            manners.asking -= 1
            manners.requests -= 1
        if self.transport and answer:
            self.transport.write(answer)
        elif self.transport:
            self.transport.close()


async def serve(web: Web, latency_s: float) -> None:
    """Listen on all hosts' addresses until cancelled."""
    sockets = _listen(web)
    web = replace(web, port=sockets[0].getsockname()[1])
    server = Server(web, latency_s)
    server.prepare()
    loop = asyncio.get_running_loop()
    for host, listener in enumerate(sockets):
        await loop.create_server(functools.partial(Connection, server, host), sock=listener)
    seeds = [f"{origin}/p/0.html" for origin in web.origins]
    print(orjson.dumps({"port": web.port, "pages": web.pages, "seeds": seeds}).decode(), flush=True)
    await asyncio.Event().wait()


def _listen(web: Web) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    port = web.port
    for host in range(web.hosts):
        listener = socket.create_server((web.address(host), port), backlog=128)
        port = listener.getsockname()[1]
        sockets.append(listener)
    return sockets


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="The synthetic web.")
    parser.add_argument("--pages", type=int, default=5_000)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--plain", action="store_true", help="no redirects, no dead links: each request is a page")
    options = parser.parse_args()
    web = Web(options.pages, min(options.hosts, options.pages), options.port, options.plain)
    try:
        uvloop.run(serve(web, options.latency))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
