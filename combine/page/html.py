"""HTML as browsers read it: one parse into the tree of the HTML standard, one pass over it, what it says as values.

The tree is lexbor's, with scripting off, as befits a reader that runs no scripts. A single pass over the nodes in
document order gathers title, metas, headings, references and the visible text; measured, it costs less than a selector
call for each. Theory of operation: a break stands where a block starts and where it ends, and what lies between two
breaks is a paragraph; the texts inside a hidden element are left out, but not its references. References stay as they
are written: resolving them is the caller's. This module never does I/O and never runs a script.

The pass is written twice: here, where it can be read, and in C (`native/reader.c`), which is taken where it was built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple, cast

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from combine.page import native
from combine.page.nesting import COPIES, HARMLESS_TAGS, STRETCH_BYTES, bounded
from combine.page.references import candidates

_BREAK = "\0"  # never in a parsed text: the HTML standard drops NUL

#: Bytes of the text of a link or heading. Where hundreds of them enclose one long text, each has it.
MOST_TEXT = 65536

_BLANKS = "\n\t\r\f"
_WIDE_BLANKS = "\xa0\u2002\u2003\u2009\u202f\u3000"  # those that pages use; rarer ones stay as they are

_WHITE_SPACE = b" \n\t\r\f\v"
_NO_WORD_ENDS = (b"\t", b"\r", b"\f", b"\v")  # in plain text, which is kept as it is; elsewhere there are none

_BLOCKS = [
    *("address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "dialog", "dir"),
    *("div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "html"),
    *("legend", "li", "listing", "main", "menu", "nav", "ol", "optgroup", "option", "p", "plaintext", "pre", "search"),
    *("section", "select", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul", "xmp"),
]
_HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
_CELLS = ["td", "th"]
#: Not shown where no script runs (HTML standard, 15.3.1), or shown as something else than the text inside.
_HIDDEN = [
    *("audio", "canvas", "datalist", "iframe", "noembed", "noframes", "object", "rp", "script", "style", "template"),
    *("title", "video"),
]


class Reference(NamedTuple):
    """A reference as the page writes it: kind, value of the attribute, words of rel, text."""

    kind: str
    href: str
    rel: str = ""
    text: str = ""


#: Makes a reference of its columns in half the time of a call of its class.
_reference: Callable[[tuple[str, str, str, str]], Reference] = partial(tuple.__new__, Reference)


class Measure(NamedTuple):
    """What a text comes to: its words, and its UTF-8 without white space, of which the digest is made."""

    words: int
    bare: bytes


def measured(text: str) -> Measure:
    """Measure a text in which a word ends at a blank or a line end."""
    raw = text.encode("utf-8", "replace")
    # Taking white space out of bytes is cheap, and what went is what parts the words.
    bare = raw.translate(None, _WHITE_SPACE)
    words = len(raw) - len(bare) - sum(raw.count(sign) for sign in _NO_WORD_ENDS if sign in raw) + bool(text)
    return Measure(words, bare)


@dataclass(slots=True)
class Document:
    """What one HTML page says, before anything in it is resolved."""

    title: str | None = None
    language: str = ""
    base: str | None = None
    metas: list[tuple[str, str]] = field(default_factory=list)
    equivalents: list[tuple[str, str]] = field(default_factory=list)  # meta http-equiv
    headings: list[tuple[int, str]] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    text: str = ""
    measure: Measure | None = None  # of the text, where the reader has taken it


def read(source: bytes, depth: int) -> Document:
    """Read a page from its UTF-8 source; anything is a page."""
    if _READER is None:
        return read_in_python(bounded(source, depth))
    return read_in_c(source, depth) or cast(Document, read_in_c(bounded(source, depth)))


def read_in_python(source: bytes) -> Document:
    """Read a page whose nesting is bounded."""
    tree = LexborHTMLParser(source, options=_OPTIONS)
    document = Document()
    root = tree.root
    if root is None:
        return document
    attributes = root.attributes
    document.language = attributes.get("lang") or attributes.get("xml:lang") or ""
    hidden = frozenset(node.mem_id for node in tree.css("[hidden]")) if b"hidden" in source.lower() else frozenset()
    document.text = _paragraphs("".join(_Pass(document, hidden).over(root)))
    document.measure = measured(document.text)
    return document


def read_in_c(source: bytes, depth: int | None = None) -> Document | None:
    """The same by the accelerator, where `is_native`; None for a page that may nest deeper, and is to be bounded first.

    The fields come one after another, in the order of reader.c. Raises MemoryError.
    """
    assert _READER is not None, "the accelerator was not built"
    found = _READER(source, _OPTIONS, None if depth is None else _bounds(depth))
    if found is None:
        return None
    run, text, words, bare = found
    fields = run.split(_BREAK)
    metas, equivalents, headings, sets = map(int, fields[:4])
    title, base = fields[5], fields[6]
    document = Document(
        title=title[1:] if title else None, language=fields[4], base=base[1:] if base else None, text=text
    )
    start, end = 7, 7 + 2 * metas
    names = [" ".join(name.lower().split()) for name in fields[start:end:2]]
    document.metas = list(zip(names, fields[start + 1 : end : 2], strict=True))
    start, end = end, end + 2 * equivalents
    names = [name.strip().lower() for name in fields[start:end:2]]
    document.equivalents = list(zip(names, fields[start + 1 : end : 2], strict=True))
    start, end = end, end + 2 * headings
    document.headings = list(zip(map(int, fields[start:end:2]), fields[start + 1 : end : 2], strict=True))
    references = map(_reference, zip(*(fields[end + place : -1 : 4] for place in range(4)), strict=True))
    document.references = list(references) if not sets else _taken_apart(references)
    document.measure = Measure(words, bare)
    return document


@cache
def _bounds(depth: int) -> native.Bounds:
    return native.Bounds(harmless_tags=HARMLESS_TAGS, stretch_bytes=STRETCH_BYTES, copies=COPIES, depth=depth)


def _taken_apart(references: Iterable[Reference]) -> list[Reference]:
    """The references with those apart that are a set of several, whose kind has an asterisk."""
    found = []
    for reference in references:
        kind, href, rel, text = reference
        if kind.endswith("*"):
            found += [Reference(kind[:-1], one, rel, text) for one in candidates(href)]
        else:
            found.append(reference)
    return found


def visible_text(node: LexborNode) -> str:
    """The text inside an element as a reader sees it, on one line; of more than `MOST_TEXT` the beginning."""
    child = node.first_child
    if child is not None and child.tag_id == _TEXT_ID and child.next is None:
        text = child.text_content or ""
    else:
        text = "".join(_Pass(None).over(node)).lstrip(_BREAK).replace(_BREAK, " ")
    if len(text) > MOST_TEXT // 4:  # four bytes a character at most
        text = text.encode("utf-8", "replace")[:MOST_TEXT].decode("utf-8", "ignore")
    return " ".join(text.split())


def is_native() -> bool:
    """Whether the accelerator was built when Combine was installed."""
    return _READER is not None


class _Pass:
    """One pass over a tree, or over a part of it: then there is no document to gather into."""

    def __init__(self, document: Document | None, hidden: frozenset[int] = frozenset()) -> None:
        self.document = document
        self._hidden = hidden  # ids of elements that their page hides
        self.has_place = False  # whether an anchor that leads to a place in the page was met

    def over(self, root: LexborNode) -> list[str]:  # noqa: C901 – one loop, for what each of its turns costs
        """Go over the nodes in document order and answer the visible pieces of text, with a break around each block."""
        # This loop runs for each of a thousand nodes a page, and so it is one: a look into one table says what an
        # element asks for, and steps to child, sibling and parent cost less than marks for where blocks end.
        pieces: list[str] = []
        add = pieces.append
        role_of, text_id, breaking, hidden = _ROLES.get, _TEXT_ID, _BREAKING, self._hidden
        parents: list[LexborNode] = []
        hiding = 0  # how many parents there are when nothing is hidden any more, and one
        node = root
        while True:
            tag = node.tag_id
            if tag == text_id:
                if not hiding:
                    add(node.text_content)  # type: ignore[arg-type]  # a text node has one
            else:
                role = role_of(tag)
                if role is not None:
                    if role is _BLOCK:
                        add(_BREAK)
                    elif role is _CELL:
                        add(" ")
                    else:
                        add(role(self, node))
                if (child := node.first_child) is not None:
                    parents.append(node)
                    if not hiding and (tag in _HIDING or (hidden and node.mem_id in hidden)):
                        hiding = len(parents)
                    node = child
                    continue
            following = None
            while parents and (following := node.next) is None:
                node = parents.pop()
                if hiding > len(parents):
                    hiding = 0
                if node.tag_id in breaking:
                    add(_BREAK)
            if following is None:
                return pieces
            node = following


def _block(going: _Pass, node: LexborNode) -> str:
    raise AssertionError("a mark that the pass knows, never called")


def _cell(going: _Pass, node: LexborNode) -> str:
    raise AssertionError("a mark that the pass knows, never called")


_BLOCK, _CELL = _block, _cell


def _paragraphs(text: str) -> str:
    """Collapse white space, and make one line end of each run of breaks."""
    # Words are taken apart only in lines that need it: 16 KB of text cost 30 µs this way, and 110 with a split of all.
    for blank in _BLANKS if text.isascii() else _BLANKS + _WIDE_BLANKS:
        if blank in text:
            text = text.replace(blank, " ")
    lines = [line.strip(" ") for line in text.split(_BREAK)]
    if "  " in text:
        lines = [" ".join(line.split()) if "  " in line else line for line in lines]
    return "\n".join(filter(None, lines))


def _title(going: _Pass, node: LexborNode) -> str:
    document = going.document
    if document is not None and document.title is None and not _inside_svg(node):
        document.title = " ".join(node.text().split())
    return ""


def _inside_svg(node: LexborNode) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.tag == "svg":
            return True
        parent = parent.parent
    return False


def _base(going: _Pass, node: LexborNode) -> str:
    document = going.document
    attributes = node.attributes
    if document is not None and document.base is None and "href" in attributes:
        document.base = attributes["href"] or ""
    return ""


def _meta(going: _Pass, node: LexborNode) -> str:
    attributes = node.attributes
    document = going.document
    if "content" not in attributes or document is None:
        return ""
    content = attributes["content"] or ""  # an attribute without a value is empty
    if name := attributes.get("name") or attributes.get("property"):
        document.metas.append((" ".join(name.lower().split()), " ".join(content.split())))
    if equivalent := attributes.get("http-equiv"):
        document.equivalents.append((equivalent.strip().lower(), content))
    return ""


def _heading(going: _Pass, node: LexborNode) -> str:
    if going.document is not None:
        going.document.headings.append((_LEVELS[node.tag_id], visible_text(node)))
    return _BREAK


def _anchor(going: _Pass, node: LexborNode) -> str:
    document = going.document
    if document is None:
        return ""
    attributes = node.attributes
    name = "href" if "href" in attributes else "xlink:href"
    # An attribute without a value is empty, and leads to the page itself.
    href = attributes.get(name) or ""
    if name not in attributes or (href.startswith("#") and going.has_place):
        return ""
    # Of those that lead to places in one page the first does: a base element may make another page of it.
    going.has_place = going.has_place or href.startswith("#")
    text = visible_text(node)
    if not text and (picture := node.css_first("img[alt]")) is not None:
        text = " ".join((picture.attributes.get("alt") or "").split())
    document.references.append(Reference("a", href, attributes.get("rel") or "", text))
    return ""


def _referring(going: _Pass, node: LexborNode) -> str:
    kind = node.tag or ""
    document = going.document
    if document is None:
        return ""
    attributes = node.attributes
    rel = attributes.get("rel") or ""
    text = " ".join((attributes.get("alt") or attributes.get("title") or "").split())
    for name in _ADDRESSES[kind]:
        if value := attributes.get(name):
            hrefs = candidates(value) if name.endswith("srcset") else (value,)
            document.references.extend(Reference(kind, href, rel, text) for href in hrefs)
    return ""


_ADDRESSES = {
    "area": ("href",),
    "audio": ("src",),
    "embed": ("src",),
    "frame": ("src",),
    "iframe": ("src",),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href", "imagesrcset"),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "video": ("src", "poster"),
}


def _tag_ids(names: Iterable[str]) -> list[int]:
    """The numbers by which the parser knows elements, asked of itself: they differ between its versions."""
    tree = LexborHTMLParser("")
    return [tree.create_node(name).tag_id for name in names]


def _text_id() -> int:
    (text,) = LexborHTMLParser("<body>x").css("body")[0].iter(include_text=True)
    return text.tag_id


_OPTIONS = LexborDocumentOptions.WO_EVENTS.value
_Role = Callable[[_Pass, LexborNode], str]
_TEXT_ID = _text_id()
_LEVELS = {tag: level for level, tag in enumerate(_tag_ids(_HEADINGS), 1)}
_BREAKING = frozenset(_tag_ids([*_BLOCKS, *_HEADINGS]))
_HIDING = frozenset(_tag_ids(_HIDDEN))
_ROLES: dict[int, _Role] = {
    **dict.fromkeys(_tag_ids(_BLOCKS), _BLOCK),
    **dict.fromkeys(_tag_ids(_CELLS), _CELL),
    **dict.fromkeys(_tag_ids(_ADDRESSES), _referring),
    **dict.fromkeys(_LEVELS, _heading),
    **dict(zip(_tag_ids(["a", "base", "meta", "title"]), (_anchor, _base, _meta, _title), strict=True)),
}


def _tags() -> dict[int, native.Tag]:
    """The same tables for the accelerator; the numbers of what a tag asks for are those of `enum role` in reader.c."""
    role: dict[_Role, int] = {
        _BLOCK: 2,
        _CELL: 3,
        _heading: 4,
        _anchor: 5,
        _referring: 6,
        _base: 7,
        _meta: 8,
        _title: 9,
    }
    names = [*_BLOCKS, *_CELLS, *_HEADINGS, *_HIDDEN, *_ADDRESSES, "a", "base", "meta", "title", "svg"]
    tags = {_TEXT_ID: native.Tag(role=1, name=b"", addresses=b"")}
    for name, number in zip(names, _tag_ids(names), strict=True):
        tags[number] = native.Tag(
            role=role[_ROLES[number]] if number in _ROLES else 0,
            breaking=number in _BREAKING,
            hiding=number in _HIDING,
            level=_LEVELS.get(number, 0),
            name=name.encode(),
            addresses="".join(f"{address} " for address in _ADDRESSES.get(name, ())).encode(),
        )
    return tags


_READER = native.reader(_tags())
