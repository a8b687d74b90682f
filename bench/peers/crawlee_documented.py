"""Crawlee as its documentation writes crawlers: ParselCrawler, `enqueue_links`, `push_data`, an export at the end."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient


async def main(seeds: list[str]) -> list[str]:
    """Crawl all that the seeds lead to on their hosts; gives the URLs that were stored."""
    crawler = ParselCrawler(
        respect_robots_txt_file=True,
        configure_logging=False,
        storage_client=MemoryStorageClient(),
        concurrency_settings=ConcurrencySettings(desired_concurrency=100, max_concurrency=100),
    )

    @crawler.router.default_handler
    async def page(context: ParselCrawlingContext) -> None:
        select = context.selector
        await context.push_data(
            {
                "url": context.request.url,
                "title": select.css("title::text").get(),
                "meta": [[node.attrib.get("name"), node.attrib.get("content")] for node in select.css("meta[name]")],
                "headings": select.css("h1::text, h2::text, h3::text, h4::text, h5::text, h6::text").getall(),
                "links": select.css("a::attr(href)").getall(),
                "text": "\n".join(select.xpath("//body//text()[not(parent::script or parent::style)]").getall()),
            }
        )
        await context.enqueue_links(strategy="same-hostname")

    await crawler.run(seeds)
    data = await crawler.get_data(limit=1_000_000)
    return [item["url"] for item in data.items]


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    stored = asyncio.run(main(Path(sys.argv[2]).read_text().split()))
    Path(sys.argv[1]).write_text("".join(f"{url}\n" for url in stored))
