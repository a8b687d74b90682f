"""The pages of the synthetic web: which there are, what they link to, their bytes. Pure, the same on every machine.

Theory of operation: page `number` lies on host `number % hosts`; there it is the page `number // hosts`. Each page
links to the next pages of a tree on its own host, so that all of them are reachable from the host's page 0 without ever
leaving it. The other links are menus, neighbours, pages of other hosts, dead ends, redirects, and a corner that
robots.txt closes. The text is cut out of one long body made at the start, so that a page costs little thought.

The sizes follow what was measured of real webs: 2 to 100 KB, median 25 KB, mean about 32 KB, some 40 links.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass
from functools import cached_property

#: Children of a page in its host's tree: wide enough that 50 pages are three hops deep.
BRANCHES = 6

MENU = 8
NEIGHBOURS = 20
ABROAD = 10
SIZES = 1_024
SMALLEST_BYTES, MEDIAN_BYTES, LARGEST_BYTES = 2_000, 25_000, 100_000

#: Spread of the logarithm of the size: with it the mean is about 32 KB.
SPREAD = 0.72

#: The commonest words of English, by rank: half of any text. What is made up beside them has no language.
COMMON = (
    "the of and to in a is that for it as was with be by on not he this are or his from at which but have an had they "
    "you were their one all we can her has there been if more when will would who so no out up into do any your what "
    "its about some them him she other than then only over such these two may time could our most first after also new "
    "made many like between people must through where before years way much should being well state those even work"
).split()

SYLLABLES = ("al am be bru ca da de el en fo ga he il ka lo mar mi nor").split()


@dataclass(frozen=True)
class Web:
    """A synthetic web of `pages` pages on `hosts` hosts, all of one port; a plain one leads to nothing but pages."""

    pages: int = 5_000
    hosts: int = 100
    port: int = 0
    is_plain: bool = False

    def address(self, host: int) -> str:
        """The loopback address of a host."""
        return f"127.1.{host // 250}.{host % 250 + 1}"

    @cached_property
    def origins(self) -> list[str]:
        """The beginning of every URL of each host."""
        return [f"http://{self.address(host)}:{self.port}" for host in range(self.hosts)]

    def size_of(self, host: int) -> int:
        """How many pages a host has."""
        return (self.pages - host + self.hosts - 1) // self.hosts

    def body(self, host: int, index: int) -> bytes:
        """The page `index` of a host."""
        number = index * self.hosts + host
        head = self._head(host, index, number)
        links = self._links(host, index, number)
        length = self._sizes[number * 617 % SIZES] - len(head) - len(links)
        return b"".join((head, self._cut(number, length), links))

    def is_packed(self, host: int, index: int) -> bool:
        """Does the server send this page as gzip to who accepts it? One in five."""
        return (host + index) % 5 == 0

    def etag(self, host: int, index: int) -> bytes:
        """The validator of a page, quotes included."""
        return b'"p%d-%d"' % (host, index)

    def _head(self, host: int, index: int, number: int) -> bytes:
        words = " ".join(self._words[(number * 31 + step * 7) % len(self._words)] for step in range(5))
        menu = "".join(f'<li><a href="/p/{entry}.html">{self._words[entry]}</a></li>' for entry in self._menu(host))
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{words} {number}</title>\n'
            f'<meta name="description" content="{words}, page {index} of host {host}">\n'
            f'<meta name="keywords" content="{words.replace(" ", ", ")}"><meta name="author" content="bench">\n'
            f'<link rel="stylesheet" href="/style.css"></head>\n<body><nav><ul>{menu}</ul></nav>\n'
            f"<h1>{words} {number}</h1>\n"
        ).encode()

    def _menu(self, host: int) -> range:
        return range(min(MENU, self.size_of(host)))

    def _links(self, host: int, index: int, number: int) -> bytes:
        size = self.size_of(host)
        hrefs = [
            f"/p/{child}.html" for child in range(index * BRANCHES + 1, min(index * BRANCHES + 1 + BRANCHES, size))
        ]
        hrefs += [f"{(index + step * step) % size}.html" for step in range(1, NEIGHBOURS + 1)]
        for step in range(ABROAD):
            other = (host + 1 + (number * 7 + step * 13) % self.hosts) % self.hosts
            hrefs.append(f"{self.origins[other]}/p/{(number * 3 + step) % self.size_of(other)}.html")
        if not self.is_plain:
            hrefs += self._astray(index, number)
        words = self._words
        items = "".join(
            f'<li><a href="{href}">{words[(number + place) % len(words)]}</a></li>\n'
            for place, href in enumerate(hrefs)
        )
        return f"<ul>{items}</ul>\n<footer><p>Page {number}</p></footer></body></html>\n".encode()

    def _astray(self, index: int, number: int) -> list[str]:
        """What a link may lead to beside pages: redirects, dead links, and what robots.txt closes."""
        hrefs = []
        if number % 7 == 0:
            hrefs.append(f"/moved/{(index + 5) % self.size_of(number % self.hosts)}.html")
        if number % 10 == 0:
            hrefs.append(f"/dead/{index % 20}.html")
        if number % 25 == 0:
            hrefs.append(f"/closed/{index % 10}.html")
        return hrefs

    def _cut(self, number: int, length: int) -> bytes:
        """As many whole blocks of the long body as come nearest to a length."""
        blocks = max(0, round(length / self._block_bytes))
        start = number * 97 % (len(self._offsets) - 1 - LARGEST_BYTES // self._block_bytes)
        return self._text[self._offsets[start] : self._offsets[start + blocks]]

    @cached_property
    def _words(self) -> list[str]:
        chance = random.Random(1)
        made_up = ("".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(2_000 - len(COMMON)))
        return [*COMMON, *made_up]

    @cached_property
    def _sizes(self) -> list[int]:
        curve = statistics.NormalDist()
        sizes = []
        for step in range(SIZES):
            size = MEDIAN_BYTES * 2.718281828 ** (SPREAD * curve.inv_cdf((step + 0.5) / SIZES))
            sizes.append(int(min(max(size, SMALLEST_BYTES), LARGEST_BYTES)))
        random.Random(2).shuffle(sizes)
        return sizes

    @cached_property
    def _blocks(self) -> list[bytes]:
        chance = random.Random(3)
        ranks = [1 / (rank + 2) for rank in range(len(self._words))]

        def some(count: int) -> str:
            return " ".join(chance.choices(self._words, weights=ranks, k=count))

        blocks = []
        for place in range(600):
            text = (
                f'<section class="block block-{place}" id="s{place}"><h{2 + place % 2}>{some(4)}</h{2 + place % 2}>\n'
            )
            for _ in range(3):
                text += f'<p class="text">{some(30)}, <em class="term">{some(2)}</em> {some(12)}.</p>\n'
            if place % 5 == 0:
                rows = "".join(f'<tr><td class="name">{some(2)}</td><td>{row * place}</td></tr>' for row in range(6))
                text += f'<table class="figures"><tbody>{rows}</tbody></table>\n'
            if place % 6 == 0:
                text += (
                    f'<div class="figure"><img src="/i/{place}.png" alt="{some(3)}" width="320" height="200"></div>\n'
                )
            blocks.append((text + "</section>\n").encode())
        return blocks

    @cached_property
    def _text(self) -> bytes:
        return b"".join(self._blocks)

    @cached_property
    def _offsets(self) -> list[int]:
        offsets = [0]
        for block in self._blocks:
            offsets.append(offsets[-1] + len(block))
        return offsets

    @cached_property
    def _block_bytes(self) -> int:
        return self._offsets[-1] // len(self._blocks)
