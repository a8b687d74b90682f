"""Write docs/config.md's tables anew from combine/config.py: `make docs`.

The settings, their defaults and the comments beside them are the source; the text around the tables is written by hand.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import tokenize
from pathlib import Path
from typing import Any

from combine import config

PAGE = Path(__file__).resolve().parent / "config.md"
BEGIN, END = "<!-- tables: written by `make docs` -->", "<!-- end of the tables -->"

#: The end of a name says the unit; the first that fits counts.
UNITS = (
    ("bytes_s", "bytes a second"),
    ("bytes_day", "bytes a day"),
    ("requests_day", "requests a day"),
    ("_bytes", "bytes"),
    ("_days", "days"),
    ("_s", "seconds"),
)


def tables() -> str:
    """All tables, one a section."""
    parts = [_table(f"[{name}]", kind) for name, kind in config.SECTIONS.items()]
    return "\n".join([*parts, _table("[[site]]", config.SiteRule)])


def written(page: str) -> str:
    """The page with its tables as they should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


def _table(heading: str, kind: type) -> str:
    comments = _comments(kind)
    rows = [
        f"| `{item.name}` | {_default(item.default)} | {_unit(item.name)} | {comments[item.name]} |"
        for item in dataclasses.fields(kind)
    ]
    head = f"### {heading}\n\n{inspect.getdoc(kind)}\n\n| key | default | unit | meaning |\n|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _unit(name: str) -> str:
    return next((unit for ending, unit in UNITS if name.endswith(ending)), "")


def _default(value: Any) -> str:
    """The default as combine.toml would say it."""
    if value is dataclasses.MISSING or value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{entry}"' for entry in value) + "]`"
    if isinstance(value, str):
        return f'`"{value}"`'
    return f"`{value}`{_readable(value)}"


def _readable(value: float) -> str:
    for unit, name in ((config.GIB, "GiB"), (config.MIB, "MiB"), (config.KIB, "KiB")):
        if isinstance(value, int) and value >= unit and value % unit == 0:
            return f" ({value // unit} {name})"
    if isinstance(value, float) and value >= config.DAY_S and value % config.DAY_S == 0:
        days = int(value // config.DAY_S)
        return f" ({days} day{'s' if days > 1 else ''})"
    return ""


def _comments(kind: type) -> dict[str, str]:
    """What the comment beside each field of a dataclass says."""
    source = inspect.getsource(kind)
    by_line = {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        node.target.id: by_line.get(node.lineno, "")
        for node in body.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
