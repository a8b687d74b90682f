"""Scrapy as its documentation writes spiders: selectors, `response.follow_all`, a feed of JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import scrapy
from pages import host_of
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response


class Pages(scrapy.Spider):
    """Follows the links of each page on the hosts of the seeds."""

    name = "pages"

    def __init__(self, seeds: list[str]) -> None:
        super().__init__()
        self.start_urls = seeds
        self.hosts = {host_of(seed) for seed in seeds}

    def parse(self, response: Response) -> Iterator[Any]:
        """One record, and the requests for its links."""
        hrefs = response.css("a::attr(href), area::attr(href)").getall()
        links = [response.urljoin(href) for href in hrefs]
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "meta": [[node.attrib.get("name"), node.attrib.get("content")] for node in response.css("meta[name]")],
            "headings": response.css("h1::text, h2::text, h3::text, h4::text, h5::text, h6::text").getall(),
            "links": links,
            "text": "\n".join(
                text.strip() for text in response.xpath("//body//text()[not(parent::script or parent::style)]").getall()
            ),
        }
        yield from response.follow_all([link for link in links if host_of(link) in self.hosts])


if __name__ == "__main__":
    process = CrawlerProcess(
        {"FEEDS": {sys.argv[1]: {"format": "jsonlines"}}, "ROBOTSTXT_OBEY": True, "LOG_LEVEL": "ERROR",
         "DOWNLOAD_DELAY": 0}
    )  # fmt: skip
    process.crawl(Pages, seeds=Path(sys.argv[2]).read_text().split())
    process.start()
