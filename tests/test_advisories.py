"""No bound in pyproject.toml admits a version with an advisory that touches us, and docs/dependencies.md names each."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib

import pytest

from combine.cli.doctor import within
from tests.tree import ROOT

#: By library: the first version without the advisories that may touch a harvester, and those.
SAFE = {
    "aiohttp": ("3.14.3", ["CVE-2025-69223", "CVE-2025-69229", "CVE-2026-22815", "CVE-2026-34520", "CVE-2026-54274"]),
    "brotli": ("1.2", ["CVE-2025-6176"]),
    "lxml": ("6.1", ["CVE-2026-41066"]),
    "orjson": ("3.11.6", ["CVE-2024-27454", "CVE-2025-67221"]),
    "uvloop": ("0.20", ["CVE-2024-24806"]),
}

REQUIRED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]

PAGE = (ROOT / "docs" / "dependencies.md").read_text()


def lowest(text: str) -> tuple[str, str]:
    """Name and lower bound of a requirement."""
    match = re.match(r"([A-Za-z0-9-]+)>=([0-9.]+)", text)
    assert match, f"{text} has no lower bound"
    return match[1], match[2]


@pytest.mark.parametrize("text", REQUIRED)
def test_no_bound_admits_a_version_with_an_advisory_that_touches_us(text: str) -> None:
    name, version = lowest(text)
    assert within(version, f">={SAFE.get(name, ('0', []))[0]}")
    assert within(importlib.metadata.version(name), f">={version}")


@pytest.mark.parametrize("text", REQUIRED)
def test_each_library_is_on_the_page_with_its_bound(text: str) -> None:
    name, version = lowest(text)
    assert re.search(rf"^\| {name} \| {re.escape(version)} \|", PAGE, re.MULTILINE), (
        f"docs/dependencies.md: {name} {version}"
    )


@pytest.mark.parametrize("advisory", [advisory for _, found in SAFE.values() for advisory in found])
def test_each_advisory_is_on_the_page(advisory: str) -> None:
    assert advisory in PAGE
