"""The three standard descriptors, which whoever starts a program may have closed.

Then the next file that is opened gets their number: a pipe or a database takes the place of stdout, and keepalive,
which gives these numbers anew when it detaches, loses it.
"""

from __future__ import annotations

import os
import sys


def open_closed() -> None:
    """Open /dev/null in the place of each standard stream that is closed; to be called before any file is opened."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
