"""docs/formats.md says what the code knows: names, meanings, examples; no JCF name is used that it does not explain."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from formats import hrf, jcf, wir

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
ROWS = {
    row.split(" | ")[0].removeprefix("| ").removesuffix(" *"): row for row in PAGE.split("\n") if row.startswith("| ")
}


def examples(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found
    return [str(example) for example in found]


@pytest.mark.parametrize("name", jcf.PARAMETERS)
def test_every_parameter_is_explained(name: str) -> None:
    kind = "URL, as it stands" if name in jcf.URL_VALUED else "encoded" if name in jcf.ENCODED else "as it stands"
    assert f"| {name} | {jcf.PARAMETERS[name]} | {kind} |" == ROWS[name]


@pytest.mark.parametrize("name", hrf.HEAD)
def test_every_line_of_a_head_is_explained(name: str) -> None:
    assert ROWS[name].startswith(f"| {name} | {hrf.HEAD[name]} |")


@pytest.mark.parametrize("name", wir.FIELDS)
def test_every_field_is_explained(name: str) -> None:
    known = wir.FIELDS[name]
    star = " *" if known.repeats else ""
    columns = " ".join(f"`{column}`" for column in known.columns)
    assert ROWS[name].startswith(f"| {name}{star} | {known.doc} | {columns} | `{known.json}`: {'[' * known.repeats}")


def test_fields_stand_in_the_order_of_the_file() -> None:
    assert list(wir.FIELDS) == [name for name in ROWS if name in wir.FIELDS]


def test_the_versions_are_named() -> None:
    for version in (jcf.VERSION, hrf.VERSION, wir.VERSION):
        assert version in PAGE


def test_the_example_lines_are_jcf() -> None:
    for example in examples("jcf"):
        for line in example.removesuffix("\n").split("\n"):
            jcf.parse(line.encode())


def test_the_example_harvest_is_hrf() -> None:
    (example,) = examples("hrf")
    head, rest = example.encode().split(b"\n\n", 1)
    request, header, body = rest.split(b"\n\n", 2)
    value = hrf.parse(head + b"\n\n" + as_sent(request) + as_sent(header) + body + b"\n")
    assert "https://example.org/a" == value.job.url


def as_sent(lines: bytes) -> bytes:
    return (lines + b"\n\n").replace(b"\n", b"\r\n")


def test_the_example_record_is_wir_and_has_every_field() -> None:
    (example,) = examples("wir")
    value = wir.parse(example.encode())
    assert example.encode() == wir.dump(value)
    assert wir.FIELDS.keys() == {name for name, _ in value.fields}


@pytest.mark.parametrize("package", ["combine", "daemons"])
def test_the_code_uses_only_parameters_that_are_explained(package: str) -> None:
    for path in sorted((ROOT / package).rglob("*.py")):
        unknown = set(parameters(ast.parse(path.read_text(encoding="utf-8")))) - jcf.PARAMETERS.keys()
        assert not unknown, f"{path.relative_to(ROOT)}: put these names into formats/jcf.py and docs/formats.md"


def parameters(tree: ast.AST) -> Iterator[str]:
    """The names that a module gives to job, having and event, or asks of a line with number and seconds."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("job", "having", "event"):
            yield from (keyword.arg for keyword in node.keywords if keyword.arg and keyword.arg.isupper())
        if called in ("number", "seconds") and node.args and isinstance(node.args[0], ast.Constant):
            yield str(node.args[0].value)
