"""What a program inherits from whoever starts it, and cannot work with: closed streams, children that end unheard.

A closed standard descriptor is given to the next file that is opened: a pipe or a database takes the place of stdout,
and keepalive, which gives these numbers anew when it detaches, loses it. Where SIGCHLD is ignored nobody can wait for
a child, or hear how it ended.
"""

from __future__ import annotations

import os
import signal
import sys


def mend() -> None:
    """Open /dev/null in the place of each closed stream, and hear of children; before any file is opened."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
