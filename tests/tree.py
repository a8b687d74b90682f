"""What the rules read: the modules of the checkout, their text, and what they import."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("formats", "combine", "daemons")


@dataclass(frozen=True)
class Module:
    """One Python file of the three packages."""

    name: str
    path: Path
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @functools.cached_property
    def imports(self) -> frozenset[str]:
        """Full names of the modules that it imports anywhere, in functions too; of ours the very module."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{self.name}: imports are absolute"
                assert node.module
                inner = {f"{node.module}.{alias.name}" for alias in node.names} & module_names()
                found |= inner or {node.module}
        return frozenset(found)

    @property
    def docstring(self) -> str:
        """What it says of itself."""
        return ast.get_docstring(self.tree) or ""


@functools.cache
def module_names() -> frozenset[str]:
    """The names of all modules of the three packages."""
    return frozenset(_name(path) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@functools.cache
def modules() -> tuple[Module, ...]:
    """All modules of the three packages."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return tuple(Module(_name(path), path, path.read_text(encoding="utf-8")) for path in paths)


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
