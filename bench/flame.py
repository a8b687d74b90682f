"""flame: the stacks that py-spy counted, as a small flame graph.

    py-spy record --pid PID --duration 15 --function --format raw --output stacks
    python -m bench.flame "parser: …" Parser.run < stacks > docs/flame-parser.svg

A box is a function, as wide as its share of the CPU, over the one that called it. What lies below ROOT is left out, and
so is what takes less than half a per cent: py-spy's own graphs show it, in ten times the bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape

WIDTH, ROW, LEAST, CHARACTER = 1000.0, 15, 0.005, 6.2
COLOURS = ("#f4a261", "#e9c46a", "#f2b880", "#e8a87c", "#f0c987")


@dataclass
class Box:
    """A function below its callers, how often it was seen there, and what it called."""

    name: str
    count: int = 0
    inside: dict[str, Box] = field(default_factory=dict)


def gathered(lines: Iterable[str], root: str) -> Box:
    """The tree of all stacks that go through `root`."""
    tree = Box(root)
    for line in lines:
        stack, _, count = line.rpartition(" ")
        frames = [_short(frame) for frame in stack.split(";")]
        if root not in frames:
            continue
        box = tree
        box.count += int(count)
        for name in frames[frames.index(root) + 1 :]:
            box = box.inside.setdefault(name, Box(name))
            box.count += int(count)
    return tree


def _short(frame: str) -> str:
    """`learn (combine/page/lesson.py)` without the place, which the names of this project tell."""
    return frame.partition(" (")[0].replace(".<locals>", "")


def boxes(box: Box, whole: int, left: float = 0.0, depth: int = 0) -> Iterator[tuple[Box, float, float, int]]:
    """Each box with its left side, its width and its depth."""
    width = box.count / whole
    if width < LEAST:
        return
    yield box, left, width, depth
    for inner in sorted(box.inside.values(), key=lambda inner: -inner.count):
        yield from boxes(inner, whole, left, depth + 1)
        left += inner.count / whole


def drawn(tree: Box, title: str) -> str:
    """The picture."""
    found = list(boxes(tree, max(tree.count, 1)))
    height = (max((depth for *_, depth in found), default=0) + 3) * ROW
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height}" font-family="sans-serif"'
        f' font-size="10"><text x="2" y="11">{escape(title)}</text>'
    ]
    for box, left, width, depth in found:
        x, y, w = left * WIDTH, height - (depth + 1) * ROW, width * WIDTH
        colour = COLOURS[sum(box.name.encode()) % len(COLOURS)]  # the same in every run
        text = box.name if len(box.name) * CHARACTER < w else box.name[: max(int(w / CHARACTER) - 1, 0)]
        rows += [
            f"<g><title>{escape(box.name)}: {width:.1%}</title>",
            f'<rect x="{x:.1f}" y="{y}" width="{max(w - 0.5, 0.5):.1f}" height="{ROW - 1}" fill="{colour}"/>',
            f'<text x="{x + 2:.1f}" y="{y + 10}">{escape(text)}</text></g>',
        ]
    return "\n".join([*rows, "</svg>", ""])


if __name__ == "__main__":
    sys.stdout.write(drawn(gathered(sys.stdin, sys.argv[2]), sys.argv[1]))
