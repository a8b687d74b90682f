"""Scrapy without what costs and is not needed here: its filter of requests, its selectors, spare middlewares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import scrapy
from pages import host_of, learned
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response

SPARE = (
    "downloadermiddlewares.httpauth.HttpAuthMiddleware",
    "downloadermiddlewares.cookies.CookiesMiddleware",
    "downloadermiddlewares.downloadtimeout.DownloadTimeoutMiddleware",
    "downloadermiddlewares.retry.RetryMiddleware",
    "downloadermiddlewares.httpproxy.HttpProxyMiddleware",
    "downloadermiddlewares.offsite.OffsiteMiddleware",
    "downloadermiddlewares.stats.DownloaderStats",
)
SPARE_OF_SPIDERS = (
    "spidermiddlewares.referer.RefererMiddleware",
    "spidermiddlewares.urllength.UrlLengthMiddleware",
    "spidermiddlewares.depth.DepthMiddleware",
)


class Pages(scrapy.Spider):
    """Follows the links of each page on the hosts of the seeds; remembers by itself what it has seen."""

    name = "pages"

    def __init__(self, out: str, seeds: list[str]) -> None:
        super().__init__()
        self.start_urls = seeds
        self.hosts = {host_of(seed) for seed in seeds}
        self.seen = set(seeds)
        self.out = open(out, "wb")  # noqa: SIM115 -- closed with the process

    def parse(self, response: Response) -> Iterator[Any]:
        """Write one record, and ask for its links."""
        record = learned(response.url, response.body)
        self.out.write(orjson.dumps(record) + b"\n")
        for link, _, _ in record["links"]:
            if link not in self.seen and host_of(link) in self.hosts:
                self.seen.add(link)
                yield scrapy.Request(link, dont_filter=True)


if __name__ == "__main__":
    process = CrawlerProcess(
        {
            "ROBOTSTXT_OBEY": True,
            "LOG_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "CONCURRENT_REQUESTS": 100,
            "DOWNLOAD_DELAY": 0,
            "DOWNLOADER_MIDDLEWARES": {f"scrapy.{name}": None for name in SPARE},
            "SPIDER_MIDDLEWARES": {f"scrapy.{name}": None for name in SPARE_OF_SPIDERS},
            "EXTENSIONS": {f"scrapy.extensions.{name}": None for name in ("memusage.MemoryUsage", "logstats.LogStats")},
        }
    )
    process.crawl(Pages, out=sys.argv[1], seeds=Path(sys.argv[2]).read_text().split())
    process.start()
