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


async def look_up(host: str, refusal: Callable[[str, str], str], turn: int = 0) -> Answer:
    """The first address of a host that may be asked, or the one after it, and so on in `turn`.

    `refusal` gives the sentence against an address, or "".
    """
    address = literal(host)
    if address:
        return _judge(host, [address], refusal, turn)
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
    return _judge(host, [str(entry[4][0]) for entry in found], refusal, turn)


def _judge(host: str, addresses: list[str], refusal: Callable[[str, str], str], turn: int) -> Answer:
    sentences = {address: refusal(host, address) for address in addresses}
    permitted = [address for address, sentence in sentences.items() if not sentence]
    if permitted:
        return Answer(permitted[turn % len(permitted)])
    sentence = list(sentences.values())[-1] if sentences else f"the name {host} has no address"
    return Answer(reason=sentence, is_refused=True)
