"""Names to addresses: what a site's host resolves to, judged by the addresses that may be asked.

Answers are kept by the frontier for a while (`scheduler.name_s`); failures by its back-off. A literal address needs no
look-up. This module asks the system's resolver and nothing else.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass

#: Look-ups under way at once.
LOOKUPS = 50

#: Seconds for one look-up.
LOOKUP_S = 15.0

_NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a look-up gave: an address, or why there is none."""

    address: str = ""
    reason: str = ""
    no_such_name: bool = False
    is_refused: bool = False


def literal(host: str) -> str:
    """The address that a URL's host is, or "" where it is a name."""
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return ""


async def look_up(host: str, refusal: Callable[[str, str], str]) -> Answer:
    """The first address of a host that may be asked; `refusal` gives the sentence against one, or ""."""
    address = literal(host)
    if address:
        return _judge(host, [address], refusal)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOKUP_S):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return Answer(
            reason=f"the name {host} has no address ({error.strerror})", no_such_name=error.errno in _NO_SUCH_NAME
        )
    except (OSError, UnicodeError, TimeoutError) as error:
        return Answer(reason=f"the name {host} could not be looked up ({str(error) or 'time-out'})")
    return _judge(host, [str(entry[4][0]) for entry in found], refusal)


def _judge(host: str, addresses: list[str], refusal: Callable[[str, str], str]) -> Answer:
    sentence = f"the name {host} has no address"
    for address in addresses:
        sentence = refusal(host, address)
        if not sentence:
            return Answer(address)
    return Answer(reason=sentence, is_refused=True)
