"""What a target is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

URL = "http://a.example/dir/page"


@dataclass(frozen=True, slots=True)
class Target:
    """A function of bytes, the words of its grammar, and whole inputs to begin with."""

    name: str
    run: Callable[[bytes], None]
    words: tuple[bytes, ...]
    corpus: tuple[bytes, ...]
