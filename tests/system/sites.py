"""Small sites for system tests, made anew each time and the same each time."""

from __future__ import annotations

import os
from pathlib import Path


def make(root: Path, pages: int) -> set[str]:
    """A site of so many pages, each reachable from /index.html; gives their paths.

    Page n links to 2n and 2n + 1 (its children in a binary tree, so depths are known), to the page before it, to the
    index and to a dead page; every tenth page is the same text as another.
    """
    root.mkdir(parents=True, exist_ok=True)
    for number in range(1, pages + 1):
        children = [child for child in (2 * number, 2 * number + 1) if child <= pages]
        links = "".join(f'<li><a href="{_name(child)}">Page {child}</a>' for child in [*children, max(number - 1, 1)])
        text = "The same words on many a page." if number % 10 == 0 else f"This is what page {number} has to say. " * 8
        path = root / _name(number)
        path.write_text(
            f"<!doctype html><html lang=en><title>Page {number if number % 10 else 'ten'}</title>"
            f"<h1>Heading {number if number % 10 else 'ten'}</h1><p>{text}</p>"
            f"<ul>{links}<li><a href='index.html#top'>Home</a><li><a href='dead-{number % 3}.html'>Dead</a></ul>"
        )
        os.utime(path, (1_750_000_000 + number, 1_750_000_000 + number))
    return {"/" + _name(number) for number in range(1, pages + 1)}


def within(pages: int, depth: int) -> set[str]:
    """The paths of the pages within so many hops of the index.

    Links to the page before make no way shorter: page n - 1 is no deeper in the tree than page n.
    """
    return {"/" + _name(number) for number in range(1, pages + 1) if number.bit_length() - 1 <= depth}


def _name(number: int) -> str:
    return "index.html" if number == 1 else f"page-{number}.html"
