"""aiohttp's parts are loaded without the rest, and whoever wants the rest has it, made of the same parts."""

from __future__ import annotations

import subprocess
import sys

import pytest

REFUSE = """
import sys
class Refuse:
    is_first = True
    def find_spec(self, name, path=None, target=None):
        if name == "aiohttp.tcp_helpers" and Refuse.is_first:
            Refuse.is_first = False
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
"""

PARTS = "import sys; from combine.web.aiohttp_parts import ClientError; "
WHOLE = "import aiohttp; print(aiohttp.ClientError is ClientError, 'aiohttp.connector' in sys.modules)"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (PARTS + "print('aiohttp.client_proto' in sys.modules, 'aiohttp.connector' in sys.modules)", "True False"),
        (PARTS + WHOLE, "True True"),
        ("import aiohttp; " + PARTS + WHOLE, "True True"),
        (PARTS + "from aiohttp import ClientSession, web; print(web.Response.__name__)", "Response"),
        (PARTS + "import aiohttp; print(aiohttp.hdrs.DATE, hasattr(aiohttp, 'none'))", "Date False"),
        (REFUSE + PARTS + WHOLE, "True True"),
    ],
    ids=["parts", "the whole comes later", "the whole was there", "what only the whole has", "a module", "no parts"],
)
def test_parts_and_whole_are_one_package(code: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (said, "") == (done.stdout.strip(), done.stderr)
