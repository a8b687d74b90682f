"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

#: A case may take its time on a busy machine, and the same ones are tried each time.
settings.register_profile("combine", deadline=None, derandomize=True)
settings.load_profile("combine")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a case of bytes or of much text by its place: the bytes may differ from run to run (gzip's time)."""
    if isinstance(val, bytes) or (isinstance(val, str) and len(val) > 80):
        return argname
    return None
