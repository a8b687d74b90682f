"""A mock web in one small process: serves a directory, and below /_/ the behaviours that real servers surprise us with.

    python -m tests.site.server --bind 127.0.0.21 --port 8000 --root DIR --log FILE --robots 503

prints `ready http://127.0.0.21:8000` when it listens; port 0 takes a free one. Each request is logged as one JSON line
when it ends (start and end by CLOCK_BOOTTIME, host, method, path, status), for tests.site.checker. In a test:
`async with Server(…)`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import mimetypes
import signal
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO
from urllib.parse import unquote

from tests.site.behaviours import BEHAVIOURS, PAGE, Request, answer
from tests.site.wild import WILD


class Server:
    """One listening address.

    `robots` is a text with the rules, a status such as `404`, `slow:SECONDS`, `reset`, `hang`, `redirect:URL`, or ""
    for the directory's own file; `pages` are whole answers by path that win over everything else.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        bind: str = "127.0.0.1",
        port: int = 0,
        log: Path | None = None,
        robots: str = "404",
        pages: dict[str, bytes] | None = None,
        delay_s: float = 0.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.root = root
        self.bind = bind
        self.port = port
        self.robots = robots
        self.pages = pages or {}
        self.requests: list[dict[str, Any]] = []
        self._delay_s = delay_s
        self._tls = tls
        self._log_path = log
        self._log: TextIO | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def url(self, path: str = "/") -> str:
        """A URL of this server."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{self.bind}:{self.port}{path}"

    async def __aenter__(self) -> Server:
        if self._log_path is not None:
            self._log = self._log_path.open("a", encoding="utf-8")
        self._server = await asyncio.start_server(self._connected, self.bind, self.port, ssl=self._tls, backlog=500)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._log is not None:
            self._log.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                while await self._serve_one(reader, writer):
                    pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first = await reader.readexactly(1)
        if first == b"\x16":  # a greeting of TLS, where none is spoken
            writer.write(answer(400, PAGE, "Connection: close"))
            return False
        head = first + await reader.readuntil(b"\r\n\r\n")
        start = _boottime()
        request = _request(head, reader.read)
        status, keep = 0, False
        try:
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            status, keep = await self._answer(request, writer)
            await writer.drain()
        finally:
            self._note(request, start, status, writer.get_extra_info("peername"))
        return keep and request.fields.get("connection", "").lower() != "close"

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
        if request.path in self.pages:
            page = self.pages[request.path]
            writer.write(page)
            return int(page.split(b" ", 2)[1]), b"\r\nConnection: close\r\n" not in page
        if request.path == "/robots.txt" and self.robots:
            return await self._answer_robots(request, writer)
        if request.path.startswith("/_/"):
            name = request.path.split("/")[2]
            behaviour = BEHAVIOURS.get(name) or WILD.get(name)
            if behaviour is not None:
                return await behaviour(request, writer)
        status, content = self._file(request)
        writer.write(content)
        return status, True

    async def _answer_robots(self, request: Request, writer: asyncio.StreamWriter) -> tuple[int, bool]:
        word, _, value = self.robots.partition(":")
        if word == "redirect":
            writer.write(answer(301, b"", f"Location: {value}"))
            return 301, True
        if word in ("reset", "hang"):
            return await BEHAVIOURS[word](request, writer)
        if word == "slow":
            await asyncio.sleep(float(value))
        if self.robots.isdigit():
            writer.write(answer(int(self.robots), b"User-agent: *\nDisallow: /\n", "Content-Type: text/plain"))
            return int(self.robots), True
        body = b"" if word == "slow" else self.robots.replace("SITE", self.url("")).encode()
        writer.write(answer(200, body, "Content-Type: text/plain"))
        return 200, True

    def _file(self, request: Request) -> tuple[int, bytes]:
        path = self._found(unquote(request.path))
        if path is None:
            return 404, answer(404, b"<title>Not found</title>\n", "Content-Type: text/html", reason="Not Found")
        if path.is_dir():
            return 301, answer(301, b"", f"Location: {request.path}/")
        facts = path.stat()
        tag, modified = f'"{facts.st_mtime_ns:x}-{facts.st_size:x}"', formatdate(int(facts.st_mtime), usegmt=True)
        fields = [f"ETag: {tag}", f"Last-Modified: {modified}"]
        if _is_unchanged(request, tag, int(facts.st_mtime)):
            return 304, answer(304, b"", *fields)
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        head_only = request.method == "HEAD"
        return 200, answer(200, path.read_bytes(), f"Content-Type: {kind}", *fields, reason="OK", head_only=head_only)

    def _found(self, path: str) -> Path | None:
        if self.root is None or ".." in path.split("/") or "\0" in path:
            return None
        place = self.root / path.lstrip("/")
        if path.endswith("/"):
            place = place / "index.html"
        return place if place.exists() else None

    def _note(self, request: Request, start: float, status: int, peer: object) -> None:
        entry = {
            "start": start,
            "end": _boottime(),
            "host": request.fields.get("host", "").lower(),
            "method": request.method,
            "path": request.target,
            "status": status,
            "peer": str(peer),
            "agent": request.fields.get("user-agent", ""),
        }
        self.requests.append({**entry, "fields": request.fields})
        if self._log is not None:
            self._log.write(json.dumps(entry) + "\n")
            self._log.flush()


def _request(head: bytes, disconnected: Callable[[], Awaitable[object]]) -> Request:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if ":" in line)
    fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Request(method, target, fields, disconnected)


def _is_unchanged(request: Request, tag: str, modified: int) -> bool:
    if "if-none-match" in request.fields:
        return tag in request.fields["if-none-match"]
    since = request.fields.get("if-modified-since")
    return since is not None and parsedate_to_datetime(since).timestamp() >= modified


def _boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def main(arguments: list[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m tests.site.server", description="a mock web for tests")
    parser.add_argument("--bind", default="127.0.0.1", help="one address, or several with commas between: a site each")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--log", type=Path)
    parser.add_argument(
        "--robots", default="404", help="rules, a status, slow:SECONDS, reset, hang, redirect:URL, or empty"
    )
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before every answer")
    parser.add_argument("--cert", type=Path, help="PEM file with certificate and key: serve https")
    options = parser.parse_args(arguments)
    asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> None:
    tls = None
    if options.cert:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(options.cert)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as servers:
        for bind in options.bind.split(","):
            server = Server(
                options.root,
                bind=bind,
                port=options.port,
                log=options.log,
                robots=options.robots.replace("\\n", "\n"),
                delay_s=options.delay,
                tls=tls,
            )
            await servers.enter_async_context(server)
            print(f"ready {server.url('')}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
