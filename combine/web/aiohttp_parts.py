"""aiohttp in parts: its protocol, its parser and their errors, without its client, its connector and its server.

Whoever imports a part of a package loads the package first, and aiohttp's first file loads all of it: twice as much as
the parts, and a TLS context for a connector that is none of ours. So a stand-in takes the package's place, which knows
where the parts lie, and becomes the whole as soon as it is asked for anything else. Where the parts of some version
cannot be loaded like this, the whole is: that takes longer and changes nothing.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_PACKAGE = "aiohttp"


class _StandIn(ModuleType):
    """The package before its first file was run."""

    __version__ = "in parts"  # asked for by a part that makes a Server field of it

    def __getattr__(self, name: str) -> Any:
        """What the package has not yet: one of its modules, or what its first file makes."""
        if name.startswith("__"):
            raise AttributeError(name)
        if find_spec(f"{_PACKAGE}.{name}") is not None:
            return importlib.import_module(f"{_PACKAGE}.{name}")
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _prepare() -> None:
    """Put the stand-in in place, unless the package is loaded already; take it away where its parts do not load."""
    spec = None if _PACKAGE in sys.modules else find_spec(_PACKAGE)
    if spec is None:
        return
    stand_in = module_from_spec(spec)
    stand_in.__class__ = _StandIn
    sys.modules[_PACKAGE] = stand_in
    try:
        importlib.import_module(f"{_PACKAGE}.client_proto")
    except (ImportError, AttributeError):
        for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
            del sys.modules[name]


_prepare()

from aiohttp.client_exceptions import ClientError as ClientError  # noqa: E402
from aiohttp.client_exceptions import ClientPayloadError as ClientPayloadError  # noqa: E402
from aiohttp.client_exceptions import ServerDisconnectedError as ServerDisconnectedError  # noqa: E402
from aiohttp.client_proto import ResponseHandler as ResponseHandler  # noqa: E402
from aiohttp.http_exceptions import HttpProcessingError as HttpProcessingError  # noqa: E402
from aiohttp.http_parser import RawResponseMessage as RawResponseMessage  # noqa: E402
from aiohttp.streams import StreamReader as StreamReader  # noqa: E402
