"""Loading modules: without the searches for garbage that find nothing in them, then and later.

A search looks at every object that there is; while fifty modules are loaded it is begun often, and in a fork it would
write into each page that parent and child share.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Search for no garbage while the body loads modules; where it did, never again among what is there at its end."""
    was_enabled, loaded = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > loaded:
            gc.freeze()
        if was_enabled:
            gc.enable()
