"""Where the vectors lie that nobody here wrote, and the mark of the tests that need them."""

from pathlib import Path

import pytest

CONFORMANCE = Path(__file__).resolve().parents[2] / "shared" / "conformance"

needs_conformance = pytest.mark.skipif(
    not CONFORMANCE.is_dir(), reason="the conformance vectors are not beside the checkout (../shared/conformance)"
)
