from __future__ import annotations

from pathlib import Path

import pytest

from combine.keep.home import Home, create


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return create(tmp_path / "h")
