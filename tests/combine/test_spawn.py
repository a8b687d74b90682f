"""A fork that goes on as another program ends as that program does."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import pytest

from combine import spawn


def fails() -> int:
    raise ValueError("a bug")


def is_signalled() -> int:
    os.kill(os.getpid(), signal.SIGTERM)
    return 0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (lambda: 0, 0),
        (lambda: 78, 78),
        (lambda: sys.exit(2), 2),
        (lambda: sys.exit("a sentence"), spawn.EXIT_BUG),
        (fails, spawn.EXIT_BUG),
        (is_signalled, -signal.SIGTERM),
    ],
)
def test_a_fork_ends_as_a_program_does(body: Callable[[], int], code: int) -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        pid = spawn.go_on(body)
        assert code == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        signal.signal(signal.SIGTERM, before)
