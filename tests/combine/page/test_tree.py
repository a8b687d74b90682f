"""The share of the HTML standard's tree construction cases whose title, headings, links and text come out right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from combine.page.html import Document, read
from tests.conformance import CONFORMANCE, needs_conformance

HIDDEN = frozenset(
    {
        *(
            "audio",
            "canvas",
            "datalist",
            "iframe",
            "noembed",
            "noframes",
            "object",
            "rp",
            "script",
            "style",
            "template",
        ),
        *("title", "video"),
    }
)

#: What comes out otherwise, and why.
OTHERWISE = {
    "<selectedcontent>": "its copy of the chosen option is made by an event; a reader wants the text once",
}


@dataclass
class Node:
    name: str
    space: str = ""
    text: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)

    def descendants(self) -> Iterator[Node]:
        for child in self.children:
            if child.name != "#content":
                yield child
                yield from child.descendants()

    def visible(self, all_of_it: bool = False) -> str:
        if self.name in ("#content", "#comment"):
            return ""
        inside = (
            child.visible(all_of_it)
            for child in self.children
            if all_of_it or (child.name not in HIDDEN and "hidden" not in child.attributes)
        )
        return self.text + "".join(inside)


def cases() -> Iterator[tuple[str, Node]]:
    """Each case for a whole document without scripting: its source and the standard's tree."""
    for path in sorted((CONFORMANCE / "html" / "tree-construction").glob("*.dat")):
        for block in re.split(r"(?:^|\n)#data\n", path.read_bytes().decode())[1:]:
            data, _, rest = block.partition("#errors\n")
            facts, found, tree = rest.partition("#document\n")
            if found and "#document-fragment" not in facts and "#script-on" not in facts:
                yield data.removesuffix("\n"), tree_of(tree.rstrip("\n"))


def tree_of(text: str) -> Node:
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith("| "):
            lines.append(line[2:])
        elif lines:
            lines[-1] += "\n" + line
    root = Node("#document")
    open_nodes = [(-1, root)]
    for line in lines:
        body = line.lstrip(" ")
        depth = len(line) - len(body)
        while open_nodes[-1][0] >= depth:
            open_nodes.pop()
        parent = open_nodes[-1][1]
        if attribute := re.match(r'([^"<]+)="(.*)"$', body, re.DOTALL):
            parent.attributes[attribute[1].replace("xlink ", "xlink:")] = attribute[2]
            continue
        node = node_of(body)
        parent.children.append(node)
        open_nodes.append((depth, node))
    return root


def node_of(body: str) -> Node:
    if body.startswith('"'):
        return Node("#text", text=body[1:-1])
    if body.startswith("<!"):
        return Node("#comment")
    if body == "content":
        return Node("#content")
    space, _, name = body[1:-1].rpartition(" ")
    return Node(name, space)


def squeezed(text: str) -> str:
    return "".join(text.split())


def expected(tree: Node) -> tuple[object, ...]:
    nodes = list(tree.descendants())
    titles = [" ".join(node.visible(True).split()) for node in nodes if node.name == "title" and not node.space]
    headings = [
        (int(node.name[1]), squeezed(node.visible()))
        for node in nodes
        if re.fullmatch("h[1-6]", node.name) and not node.space
    ]
    hrefs = [node.attributes.get("href", node.attributes.get("xlink:href", "#")) for node in nodes if node.name == "a"]
    links = [href for href in hrefs if not href.startswith("#")]
    return titles[0] if titles else None, headings, links, squeezed(tree.visible())


def found(page: Document) -> tuple[object, ...]:
    headings = [(level, squeezed(text)) for level, text in page.headings]
    hrefs = [reference.href for reference in page.references if reference.kind == "a"]
    links = [href for href in hrefs if not href.startswith("#")]
    return page.title, headings, links, squeezed(page.text)


@needs_conformance
def test_share_of_tree_construction() -> None:
    wrong, right = [], 0
    for source, tree in cases():
        if expected(tree) == found(read(source.encode(), 512)):
            right += 1
        elif not any(reason in source for reason in OTHERWISE):
            wrong.append(source)
    assert [] == wrong
    assert 1588 == right
