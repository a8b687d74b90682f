"""Crawlee with its own filter of requests and its selectors left out: HttpCrawler, a set, lxml directly."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import orjson
from crawlee import ConcurrencySettings, Request
from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
from crawlee.storage_clients import MemoryStorageClient
from pages import host_of, learned


async def main(out: str, seeds: list[str]) -> None:
    """Crawl all that the seeds lead to on their hosts."""
    crawler = HttpCrawler(
        respect_robots_txt_file=True,
        configure_logging=False,
        storage_client=MemoryStorageClient(),
        concurrency_settings=ConcurrencySettings(desired_concurrency=100, max_concurrency=100),
    )
    hosts, seen = {host_of(seed) for seed in seeds}, set(seeds)
    with open(out, "wb") as file:  # noqa: ASYNC230 -- a buffered write of a few KB

        @crawler.router.default_handler
        async def page(context: HttpCrawlingContext) -> None:
            url = context.request.loaded_url or context.request.url
            record = learned(url, await context.http_response.read())
            file.write(orjson.dumps(record) + b"\n")
            fresh = []
            for link, _, _ in record["links"]:
                if link not in seen and host_of(link) in hosts:
                    seen.add(link)
                    fresh.append(Request(url=link, unique_key=link))
            if fresh:
                await context.add_requests(fresh)

        await crawler.run(seeds)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]).read_text().split()))
