"""floor: the same work in one process, by hand: aiohttp, lexbor, ada. No scheduler, no politeness, nothing durable.

    python floor.py OUT SEEDS

What a page costs here is what it costs to ask for it and to take it apart in Python; whatever Combine costs beyond is
the price of its queues, of its manners and of losing nothing. A worker a host asks for one page after another over one
connection. Each page's record goes to OUT as a line of JSON.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import ada_url
import aiohttp
import orjson
import uvloop
from selectolax.lexbor import LexborHTMLParser

#: Elements whose text nobody reads.
UNREAD = ["script", "style", "noscript", "template"]


@lru_cache(maxsize=16_384)
def joined(directory: str, href: str) -> str:
    """A reference made absolute, without its fragment; "" where it is none."""
    try:
        return str(ada_url.join_url(directory, href)).partition("#")[0]
    except ValueError:
        return ""


def learned(url: str, body: str) -> dict[str, Any]:
    """Title, metas, headings, links and text of a page."""
    page = LexborHTMLParser(body)
    directory = url.rpartition("/")[0] + "/"
    links = []
    for node in page.css("a[href], area[href], iframe[src]"):
        attributes = node.attributes
        target = joined(directory, attributes.get("href") or attributes.get("src") or "")
        links.append([node.tag, target, attributes.get("rel") or "", node.text(strip=True)])
    title = page.css_first("title")
    metas = [node.attributes for node in page.css("meta[name]")]
    headings = [[node.tag, node.text(strip=True)] for node in page.css("h1, h2, h3, h4, h5, h6")]
    page.strip_tags(UNREAD)
    text = page.body.text(separator="\n", strip=True) if page.body else ""
    return {
        "url": url,
        "title": title.text(strip=True) if title else "",
        "meta": metas,
        "headings": headings,
        "links": links,
        "text": text,
        "digest": hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
    }


class Crawl:
    """One crawl, and what it has seen."""

    def __init__(self, session: aiohttp.ClientSession, write: Callable[[bytes], object]) -> None:
        self._session = session
        self._write = write
        self._seen: set[str] = set()
        self._queues: dict[str, deque[str]] = {}
        self._closed: dict[str, list[str]] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}
        self.idle = asyncio.Event()

    def offer(self, url: str) -> None:
        """Queue a URL of a known host that was not seen yet."""
        host = url.partition("://")[2].partition("/")[0]
        if url in self._seen or host not in self._queues:
            return
        self._seen.add(url)
        self._queues[host].append(url)
        if host not in self._busy:
            self._busy[host] = asyncio.create_task(self._host(host))

    def begin(self, seeds: list[str]) -> None:
        """Start with these, and stay on their hosts."""
        for seed in seeds:
            self._queues[seed.partition("://")[2].partition("/")[0]] = deque()
        for seed in seeds:
            self.offer(seed)

    async def _host(self, host: str) -> None:
        queue = self._queues[host]
        if host not in self._closed:
            async with self._session.get(f"http://{host}/robots.txt") as answer:
                lines = (await answer.text()).splitlines()
            self._closed[host] = [line.partition(":")[2].strip() for line in lines if line.startswith("Disallow:")]
        while queue:
            url = queue.popleft()
            if not any(url.partition(host)[2].startswith(path) for path in self._closed[host]):
                await self._page(url)
        del self._busy[host]
        if not self._busy:
            self.idle.set()

    async def _page(self, url: str) -> None:
        async with self._session.get(url, allow_redirects=False) as answer:
            body = await answer.read()
        if answer.status in (301, 302):
            self.offer(joined(url.rpartition("/")[0] + "/", answer.headers["Location"]))
        if answer.status != 200:
            return
        page = learned(url, body.decode("utf-8", "replace"))
        self._write(orjson.dumps(page) + b"\n")
        for _, target, _, _ in page["links"]:
            self.offer(target)


async def main(out: str, seeds: list[str]) -> None:
    """Crawl all that the seeds lead to."""
    connector = aiohttp.TCPConnector(limit=0)
    with open(out, "wb") as file:  # noqa: ASYNC230 -- a buffered write of a few KB
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
            crawl = Crawl(session, file.write)
            crawl.begin(seeds)
            await crawl.idle.wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], Path(sys.argv[2]).read_text().split()))
