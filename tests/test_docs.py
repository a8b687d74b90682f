"""The documents say what the code knows: settings, verbs, commands; and what they link to exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from combine.cli import main
from combine.config import SECTIONS, known_keys
from combine.services import EVERYONE, SERVICES
from docs.settings import PAGE, written
from tests.tree import ROOT

DOCS = ROOT / "docs"

#: The README's parts in the order of a newcomer's questions, each known by a sign of it.
README_PARTS = {
    "the picture": r"──►",
    "two commands": r"^make harvest$",
    "to any site": r"make harvest URL=",
    "cat": r"\bcat\b.*hdb/",
    "cut": r"\bcut -f",
    "jq": r"\bjq\b",
    "as a service": r"systemctl",
    "how it compares": r"^## .*[Cc]ompare",
    "where to read on": r"docs/architecture\.md",
}


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def needs(name: str) -> pytest.MarkDecorator:
    """Leave a test out until its page is written."""
    return pytest.mark.skipif(not (ROOT / name).is_file(), reason=f"{name} is not written yet")


def test_the_table_of_settings_is_what_the_settings_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page) == page, "run `make docs`"


def test_every_setting_says_what_it_means() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .*? \| .*? \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {key for _, key, _ in known_keys()} <= {key for key, _ in rows}
    assert [] == [key for key, meaning in rows if not meaning]
    assert set(SECTIONS) <= set(re.findall(r"^### \[(\w+)\]$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


def verbs() -> Iterator[tuple[str, str]]:
    for service in SERVICES.values():
        for verb in service.verbs:
            yield ("Everyone" if verb in EVERYONE else service.name), verb


@needs("docs/protocol.md")
@pytest.mark.parametrize(("chapter", "verb"), sorted(set(verbs())))
def test_every_verb_is_in_the_protocol(chapter: str, verb: str) -> None:
    _, _, rest = read("docs/protocol.md").partition(f"\n## {chapter}\n")
    assert f"\n| {verb} |" in rest.partition("\n## ")[0]


@needs("docs/protocol.md")
def test_the_protocol_has_no_verb_too_many() -> None:
    known = {verb for _, verb in verbs()}
    assert set() == set(re.findall(r"^\| ([A-Z]+) \|", read("docs/protocol.md"), re.MULTILINE)) - known


def sentences() -> Iterator[tuple[str, bool]]:
    """All texts in the code, with `…` for what differs, and whether each is said in a log above DEBUG."""
    for path in (path for place in ("combine", "daemons") for path in (ROOT / place).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                called, text = ast.unparse(node.func), text_of(node.args[0])
                yield ("… " * (called == "Say") + text, bool(re.match(r"log\.(?!debug)|Say$", called)))
            elif isinstance(node, ast.Constant | ast.JoinedStr):
                yield text_of(node), False


def text_of(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"%[sdg]", "…", node.value)
    return "…"


def test_every_sentence_of_the_logs_is_in_the_table_of_operations_and_no_other() -> None:
    texts = dict(sorted(sentences()))
    said = {text for text, is_said in texts.items() if is_said and re.search(r"\w", text)}
    rows = re.findall(r"^\| [^|]+ \| (?:INFO|WARNING|ERROR) \| `([^`]+)` \|", read("docs/operations.md"), re.M)
    assert set() == said - set(rows), "not in docs/operations.md"
    assert set() == set(rows) - texts.keys(), "nobody says this"


def commands() -> Iterator[tuple[str, click.Command]]:
    if isinstance(main, click.Group):
        context = click.Context(main, info_name="combine")
        for name in main.list_commands(context):
            command = main.get_command(context, name)
            assert command
            yield name, command


@needs("docs/commands.md")
@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_every_command_and_option_is_in_the_docs(name: str, command: click.Command) -> None:
    _, heading, rest = read("docs/commands.md").partition(f"\n## {name}\n")
    assert heading, "a chapter a command"
    chapter = rest.partition("\n## ")[0]
    everywhere = {"--help", "--home", "--quiet", "-q", "--json", "--set"}
    for parameter in command.params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            if option.startswith("-") and option not in everywhere:
                assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", chapter), f"{name} {option}"


@needs("docs/commands.md")
def test_options_of_every_command_are_told_once() -> None:
    text = read("docs/commands.md")
    for option in ("--home", "--quiet", "--json", "--set"):
        assert option in text


def heading_ids(text: str) -> set[str]:
    """The anchors that a page's headings make, as the usual hosts of repositories form them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), target
        if anchor:
            assert anchor in heading_ids(other.read_text(encoding="utf-8")), target


def test_every_page_is_reached_from_the_readme() -> None:
    reached = [ROOT / "README.md"]
    if reached[0].read_text(encoding="utf-8").count("\n") < 10:
        pytest.skip("README.md is not written yet")
    for page in reached:
        for target in re.findall(r"\]\(([^)\s#]+\.md)[^)]*\)", page.read_text(encoding="utf-8")):
            other = (page.parent / target).resolve()
            if other.is_file() and other not in reached:
                reached.append(other)
    assert [] == [str(page.relative_to(ROOT)) for page in pages() if page.resolve() not in reached]


def test_the_readme_answers_in_order() -> None:
    text = read("README.md")
    if text.count("\n") < 10:
        pytest.skip("README.md is not written yet")
    at = 0
    for part, sign in README_PARTS.items():
        found = re.compile(sign, re.MULTILINE).search(text, at)
        assert found, f"after what comes before it, the README says nothing of: {part}"
        at = found.start()


def test_decisions_are_listed() -> None:
    index = read("docs/decisions/README.md")
    for page in (DOCS / "decisions").glob("*.md"):
        if page.name != "README.md":
            assert f"({page.name})" in index, f"docs/decisions/README.md does not list {page.name}"
