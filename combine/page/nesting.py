"""A bound on how deep and how bushy a page's tree may get, put on its source before it is parsed.

The tree builder of the HTML standard takes time that grows with the square of the nesting (100,000 nested `div` take
20 s), and it copies formatting elements that stay open into each new block (40 KB of such source make gigabytes).
Browsers stop at a depth of 512, and so do we: a start tag that would go deeper is renamed to a void element, its end
tag to one that means nothing, so that text, references and line breaks stay and only the nesting is lost.
Two counts of bytes decide whether a page needs the closer look at all; hardly any does.
Limits  made-up end tags deceive the counts; the parser's own limits of memory and time hold against those.
"""

from __future__ import annotations

import re

#: Bytes looked at in one count: so much may be opened and closed again unseen. The accelerator counts in 16 bits.
STRETCH_BYTES = 4096

#: Tags of a page that needs no look: the worst that so many can do takes 0.5 s (1,000 `font` and `p` in turn).
HARMLESS_TAGS = 2000

#: Nodes that copies of open formatting elements may make: 200 MB of tree.
COPIES = 2_000_000

#: Formatting elements open at once in one page; the standard itself keeps three alike.
_FORMATTING_OPEN = 32

_TAG = re.compile(
    rb"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1|\Z)|<(/?)([a-z][a-z0-9]*)", re.DOTALL | re.IGNORECASE
)
#: They have no inside, or their start or that of another such element ends them.
_NEVER_NEST = frozenset(
    b"area base br col embed hr img input link meta param source track wbr "
    b"a caption colgroup dd dt li optgroup option p rb rp rt rtc tbody td tfoot th thead tr".split()
)
_FORMATTING = frozenset(b"b big code em font i nobr s small strike strong tt u".split())


def bounded(source: bytes, depth: int) -> bytes:
    """Give back the source of a page, changed only where its elements would nest deeper than `depth`."""
    tags = source.count(b"<")
    if tags <= HARMLESS_TAGS or not _suspicious(source, tags, depth):
        return source
    return _Flattener(depth).flatten(source)


def _suspicious(source: bytes, tags: int, depth: int) -> bool:
    most = min(depth, COPIES // tags)
    opened = 0
    for start in range(0, len(source), STRETCH_BYTES):
        end = start + STRETCH_BYTES
        opened += source.count(b"<", start, end) - 2 * source.count(b"</", start, end + 1)
        if opened > most:
            return True
    return False


class _Flattener:
    """The open elements of one page while its source is gone through once."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._stack: list[bytes] = []
        self._open: dict[bytes, int] = {}
        self._formatting: dict[bytes, int] = {}
        self._renamed: dict[bytes, int] = {}

    def flatten(self, source: bytes) -> bytes:
        return _TAG.sub(self._tag, source)

    def _tag(self, match: re.Match[bytes]) -> bytes:
        name = match[3]
        if name is None:
            return match[0]
        name = name.lower()
        if name in _NEVER_NEST:
            return match[0]
        return (self._end(name) if match[2] else self._start(name)) or match[0]

    def _start(self, name: bytes) -> bytes | None:
        formatting = name in _FORMATTING
        if len(self._stack) >= self._depth or (formatting and sum(self._formatting.values()) >= _FORMATTING_OPEN):
            self._renamed[name] = self._renamed.get(name, 0) + 1
            return b"<wbr" if formatting or name == b"span" else b"<br"
        if formatting:
            self._formatting[name] = self._formatting.get(name, 0) + 1
        self._stack.append(name)
        self._open[name] = self._open.get(name, 0) + 1
        return None

    def _end(self, name: bytes) -> bytes | None:
        if self._renamed.get(name):
            self._renamed[name] -= 1
            return b"</wbr"
        if self._formatting.get(name):
            # Formatting stays in force when its parent ends, so only its own end tag counts.
            self._formatting[name] -= 1
        if self._open.get(name):
            while (last := self._stack.pop()) != name:
                self._open[last] -= 1
            self._open[name] -= 1
        return None
