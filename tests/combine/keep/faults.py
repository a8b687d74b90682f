"""A disk that fails: every call that changes it is counted; the one that is meant raises, or writes less than asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

CALLS = ("open", "write", "pwrite", "pwritev", "copy_file_range", "ftruncate", "fsync", "rename", "mkdir")


class FaultyDisk:
    """Patches `os`. `fail_at` is the number of the call that fails with `code`; 0 lets all pass and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fail_at = 0
        self.count = 0
        self.code = 0
        self.short = False
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def arm(self, fail_at: int, code: int) -> None:
        """Count from the start and fail once, at this call."""
        self.count, self.fail_at, self.code = 0, fail_at, code

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if name == "open" and not args[1] & os.O_CREAT:
                return real(*args, **kwargs)
            self.count += 1
            if self.count == self.fail_at:
                if name in ("write", "pwrite") and len(args[1]) > 1:
                    # What fits is written before the disk is full.
                    real(args[0], bytes(args[1])[: len(args[1]) // 2], *args[2:])
                if name == "pwritev":
                    os.pwrite(args[0], b"".join(args[1])[: sum(map(len, args[1])) // 2], args[2])
                raise OSError(self.code, os.strerror(self.code))
            if self.short and name in ("write", "pwrite"):
                return real(args[0], bytes(args[1])[: max(1, len(args[1]) // 3)], *args[2:])
            if self.short and name == "pwritev":
                return os.pwrite(args[0], b"".join(args[1]), args[2])
            if self.short and name == "copy_file_range":
                return real(args[0], args[1], max(1, args[2] // 3), *args[3:])
            return real(*args, **kwargs)

        return call
