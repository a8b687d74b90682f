"""A modelled web: sites with sizes, latencies, failures and change rates, all drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Site:
    """One site. A page changes every `change_s` seconds; a site that fails answers nothing."""

    name: str
    pages: int
    latency_s: float
    change_s: float
    fails: bool

    def url(self, number: int = 0) -> str:
        """The URL of a page; page 0 is the front page."""
        return f"http://{self.name}/{number or ''}"

    def links(self, number: int) -> list[str]:
        """Page n links to its children in a binary tree, and home."""
        children = (child for child in (2 * number + 1, 2 * number + 2) if child < self.pages)
        return [self.url(child) for child in (*children, 0)]

    def version(self, number: int, now: float) -> int:
        """How often a page has changed up to a time; pages do not all change at once."""
        return int(now / self.change_s + (number * 0.618) % 1.0)


def draw(seed: int, count: int, most: int, failing: float, giant: int = 0) -> dict[str, Site]:
    """Sites by name: small ones, some of them failing, and at most one giant."""
    chance = random.Random(seed)
    sites = [
        Site(
            f"s{number}.example",
            pages=min(int(chance.paretovariate(1.2)), most),
            latency_s=chance.uniform(0.05, 0.8),
            change_s=86400.0 * chance.choice((3, 10, 30, 100, 400)),
            fails=chance.random() < failing,
        )
        for number in range(count)
    ]
    if giant:
        sites.append(Site("giant.example", giant, 0.2, 86400.0 * 30, fails=False))
    return {site.name: site for site in sites}
