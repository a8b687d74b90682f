"""Which addresses a harvester may connect to: public ones, and the private ones that the operator listed.

A page can name any address, and a name server can answer with any address. So the address in use is judged, not the
name, and it is judged again where the socket is made. Refused by default is all that is not plainly public: loopback,
private, link-local (the metadata services of clouds among them), shared (CGNAT), multicast, reserved and unspecified
addresses, and the forms of IPv6 that carry such an IPv4 address inside. This module never resolves a name and never
does I/O.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from functools import lru_cache

IPv4 = ipaddress.IPv4Address
IPv6 = ipaddress.IPv6Address

#: IANA's special-purpose registry of IPv4, with what to call each; written out because Python's own table changes by
#: release.
_SPECIAL_4 = tuple(
    (ipaddress.IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "an unspecified"),
        ("10.0.0.0/8", "a private"),
        ("100.64.0.0/10", "a shared (CGNAT)"),
        ("127.0.0.0/8", "a loopback"),
        ("169.254.0.0/16", "a link-local or metadata"),
        ("172.16.0.0/12", "a private"),
        ("192.0.0.0/24", "a reserved"),
        ("192.0.2.0/24", "a documentation"),
        ("192.88.99.0/24", "a reserved"),
        ("192.168.0.0/16", "a private"),
        ("198.18.0.0/15", "a benchmarking"),
        ("198.51.100.0/24", "a documentation"),
        ("203.0.113.0/24", "a documentation"),
        ("168.63.129.16/32", "a metadata"),  # Azure's, the one metadata service on a public address
        ("224.0.0.0/4", "a multicast"),
        ("240.0.0.0/4", "a reserved"),
    )
)

#: Only 2000::/3 is handed out as global unicast; these parts of IPv6 are named for the sake of a clear refusal.
_SPECIAL_6 = tuple(
    (ipaddress.IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "an unspecified"),
        ("::1/128", "a loopback"),
        ("fc00::/7", "a private"),
        ("fe80::/10", "a link-local"),
        ("ff00::/8", "a multicast"),
        ("2001:db8::/32", "a documentation"),
        ("3fff::/20", "a documentation"),
        ("2001::/23", "a reserved"),
    )
)
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
_TEREDO = ipaddress.IPv6Network("2001::/32")
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")


class Refused(Exception):
    """A connection to this address is not allowed; the text is one sentence that says which setting would allow it."""


@lru_cache(maxsize=4096)
def kind_of(address: str) -> str:
    """What makes an address private, with its article (`a loopback`), or "" for a public one.

    What is no address is not public.
    """
    try:
        value = ipaddress.ip_address(address)
    except ValueError:
        return "an unreadable"
    return _kind_4(value) if isinstance(value, IPv4) else _kind_6(value)


def is_private(address: str) -> bool:
    """Say whether this is anything but a plainly public address."""
    return bool(kind_of(address))


@lru_cache(maxsize=4096)
def canonical(address: str) -> str:
    """One spelling for each address, so that two of them can be compared; what is no address comes back as it is."""
    try:
        value = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = value.ipv4_mapped if isinstance(value, IPv6) else None
    return str(mapped or value)


class Allowed:
    """The private addresses that the operator listed: networks, addresses or host names.

    A host name allows whatever private address that very name has; a network or an address allows itself, whatever the
    name.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._hosts: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for entry in entries:
            self._add(entry.strip())
        # Asked before every request; a harvester has few hosts at a time.
        self._covers = lru_cache(maxsize=4096)(self._covers_anew)

    def listed(self, host: str, address: str) -> bool:
        """Say whether this is a private address that the operator listed: such sites start without a delay."""
        return is_private(address) and self._covers(host, address)

    def permits(self, host: str, address: str) -> bool:
        """Say whether this address may be asked for this host."""
        return not is_private(address) or self._covers(host, address)

    def check(self, host: str, address: str) -> None:
        """Raise Refused, with the line to set, for an address that may not be asked."""
        if not self.permits(host, address):
            raise Refused(
                f"{host} is at {address}, {kind_of(address)} address, which is asked only if it is listed: set "
                f'harvest.allow_private = ["{host}"] in combine.toml, or give --allow-private {host}'
            )

    def _add(self, entry: str) -> None:
        name = entry.lower().removesuffix(".")
        if name.count(":") == 1 or name.startswith("["):  # a port says nothing here: HOST:PORT and [ADDRESS]:PORT
            name = name.rpartition("]")[0] or name.partition(":")[0]
        name = name.removeprefix("[").removesuffix("]")
        try:
            self._networks.append(ipaddress.ip_network(name, strict=False))
        except ValueError:
            self._hosts.add(name)

    def _covers_anew(self, host: str, address: str) -> bool:
        if host.lower().removesuffix(".") in self._hosts:
            return True
        try:
            value = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(form in network for form in _forms(value) for network in self._networks)


def _forms(value: IPv4 | IPv6) -> Iterator[IPv4 | IPv6]:
    yield value
    # Teredo passes through two more hosts, and listing one of them does not speak for the other.
    if isinstance(value, IPv6) and value not in _TEREDO:
        yield from _inside(value)


def _kind_4(value: IPv4) -> str:
    return next((kind for network, kind in _SPECIAL_4 if value in network), "")


def _kind_6(value: IPv6) -> str:
    for inside in _inside(value):
        if kind := _kind_4(inside):
            return kind
    if value in _SIX_TO_FOUR or value in _NAT64 or value in _MAPPED or value in _TEREDO:
        return ""
    for network, kind in _SPECIAL_6:
        if value in network:
            return kind
    return "" if value in _GLOBAL_6 else "a reserved"


def _inside(value: IPv6) -> Iterator[IPv4]:
    number = int(value)
    if value in _MAPPED or value in _NAT64:
        yield IPv4(number & 0xFFFFFFFF)
    elif value in _SIX_TO_FOUR:
        yield IPv4(number >> 80 & 0xFFFFFFFF)
    elif value in _TEREDO:
        yield IPv4(number >> 64 & 0xFFFFFFFF)
        yield IPv4(~number & 0xFFFFFFFF)
    elif value in _COMPATIBLE and number > 1:
        yield IPv4(number)
