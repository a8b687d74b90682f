"""serve: put a directory of files on loopback, as any plain web server would, and note each request.

    python -m bench.serve DIRECTORY [--address 127.0.0.1] [--port 0] [--log FILE]

The first line on stdout is the address that it listens on. A line of the log says when a request began and when its
answer was written (seconds of CLOCK_MONOTONIC), the method, the path and the status: enough to check manners by.
A file `redirects` in the directory holds lines `/from /to`; it is not served. In robots.txt and sitemap.xml `{site}`
stands for the server's own address, which both must name in full.

Limits  a thread a connection: for tests and demonstrations, not for speed; `bench.web` is the fast one.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import io
import sys
import time
from pathlib import Path
from typing import TextIO


class Site(http.server.SimpleHTTPRequestHandler):
    """Answers one connection's requests out of the directory."""

    protocol_version = "HTTP/1.1"
    server_version = "demo"
    sys_version = ""
    timeout = 60

    def __init__(self, *args: object, redirects: dict[str, str], log: TextIO | None, **more: str) -> None:
        self.redirects = redirects
        self.log = log
        self.began = 0.0
        self.status: int | str = ""
        super().__init__(*args, **more)  # type: ignore[arg-type]

    def parse_request(self) -> bool:
        """Note when the request came in."""
        self.began = time.monotonic()
        return super().parse_request()

    def send_head(self):  # type: ignore[no-untyped-def]
        """Answer a redirect, hide the list of redirects, leave the rest to the library."""
        target = self.redirects.get(self.path)
        if target:
            self.send_response(301)
            self.send_header("Location", target)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        if self.path == "/redirects":
            self.send_error(404)
            return None
        if self.path in ("/robots.txt", "/sitemap.xml"):
            return self.send_named()
        return super().send_head()

    def send_named(self) -> io.BytesIO | None:
        """Answer a file in which the site names itself."""
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return None
        address, port = self.connection.getsockname()
        body = path.read_bytes().replace(b"{site}", b"http://%s:%d" % (address.encode(), port))
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return io.BytesIO(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing yet: the line is written when the answer is out."""
        self.status = int(code) if isinstance(code, int) else code  # an HTTPStatus prints as its name

    def handle_one_request(self) -> None:
        """Serve one request and then write its line."""
        self.status = ""
        super().handle_one_request()
        if self.log and self.status:
            print(f"{self.began:.6f} {time.monotonic():.6f} {self.command} {self.path} {self.status}", file=self.log)

    def log_message(self, format: str, *args: object) -> None:
        """Errors have their line in the log already."""


def read_redirects(directory: Path) -> dict[str, str]:
    """The directory's redirects, path to path."""
    try:
        lines = (directory / "redirects").read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return {}
    return dict(line.split() for line in lines if line.strip())


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Put a directory of files on loopback.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=argparse.FileType("a", bufsize=1))
    options = parser.parse_args()
    handler = functools.partial(
        Site, directory=str(options.directory), redirects=read_redirects(options.directory), log=options.log
    )
    with http.server.ThreadingHTTPServer((options.address, options.port), handler) as server:
        print(f"http://{options.address}:{server.server_address[1]}/", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.exit(0)


if __name__ == "__main__":
    main()
