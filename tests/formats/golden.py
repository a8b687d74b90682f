"""The pairs in tests/data/formats: a file as it lies on disk, and beside it in JSON what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "data" / "formats"


def names(suffix: str) -> list[str]:
    """The names of all pairs of one format."""
    return sorted(path.stem for path in DATA.glob(f"*.{suffix}"))


def load(name: str, suffix: str) -> tuple[bytes, Any]:
    """One pair: the bytes, and what they say."""
    says = json.loads((DATA / f"{name}.{suffix}.json").read_text(encoding="utf-8"))
    return (DATA / f"{name}.{suffix}").read_bytes(), says
