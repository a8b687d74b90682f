"""URLs: resolving as browsers do, one normal form, and the names of sites and records.

Parsing and resolving follow the WHATWG URL standard (ada). On top of it `normalise` takes away only what no server can
see or what RFC 3986 calls equivalent: the fragment, the default port, letter case of scheme and host, dot segments, an
empty path, percent-encoded unreserved characters in the path, lower-case hex digits there. It leaves alone whatever
might name another resource: order and text of the query, an empty query, doubled slashes, letter case of the path, a
trailing dot of the host. `Options` goes further where an operator wants it: off by default, for each of them may merge
two pages or lose one. Invariant, with and without options: `normalise(normalise(u)) == normalise(u)`.
This module never does I/O; the public suffix list comes with its library.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TypeVar

import ada_url
from publicsuffixlist import PublicSuffixList

#: Bytes of a URL, the same as `scheduler.url_bytes`: longer ones are nearly always traps (sitemaps.org allows 2,048).
LIMIT_BYTES = 2048

#: Resolved references remembered. The menu of a site comes with each of its pages; about 300 bytes an entry.
REMEMBERED = 32_768

_ENCODED = re.compile("%([0-9A-Fa-f]{2})")
_BROKEN_ENCODING = re.compile("%(?![0-9A-Fa-f]{2})")
_UNRESERVED = {
    f"{ord(character):02X}": character
    for character in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
}
_PARTS = re.compile(r"(https?)://([^/?#]*)([^?#]*)(.*)", re.DOTALL)
_PLAIN_PATH = re.compile(r"(?:/(?!/)[A-Za-z0-9_~!$&()*+,;=:@./?-]*|[A-Za-z0-9_~-][A-Za-z0-9_~!$&()*+,;=@./?-]*)")
_SLASHES = re.compile("//+")
_DEFAULT_PORT = {"http": ":80", "https": ":443"}
#: First characters of references that depend on more of the base than its directory; blanks are cut before they count.
#: `http:?x` does so too, strange to say: hence the look for a colon without slashes.
_NEEDS_WHOLE_BASE = frozenset(["", "?", "#", " "])
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

#: Host and port. The standard for URLs lets a host have double quotes, too, which would end the URL in a line of JCF.
_AUTHORITY = re.compile(r"[a-z0-9._~!$&'()*+,;=:\[\]-]+")

T = TypeVar("T")


class BadURL(ValueError):
    """A text is no URL that can be harvested; the message says why in one sentence."""


def resolve(base: str, href: str) -> str | None:
    """Resolve a reference against an absolute URL, or against nothing (""), as WHATWG says; None: it is not valid."""
    try:
        joined: str = ada_url.join_url(base, href) if base else ada_url.normalize_url(href)
    except ValueError:
        return None
    return joined


def targets_of(base: str, hrefs: Iterable[str]) -> list[str]:
    """The http(s) URLs, without fragments, to which references of one page lead; "" for each that leads elsewhere.

    The base is a URL as `resolve` gives it. A place in the page itself (`#x`) is elsewhere. What was joined is
    remembered for the other pages of a directory.
    """
    known = _MEMORY.of(base)
    look = known.get
    return [_MEMORY.target(known, base, href) if (target := look(href)) is None else target for href in hrefs]


class _Memory:
    """References of lately read pages and where they lead, by the directory against which they were joined."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, str]] = {}
        self._count = 0

    def of(self, base: str) -> dict[str, str]:
        """What is remembered for a page; nothing, where its references depend on more than its directory."""
        directory = _directory(base) if len(base) <= LIMIT_BYTES else ""
        if not directory:
            return {}
        if (known := self._known.get(directory)) is None:
            known = self._remember(self._known, directory, {})
        return known

    def target(self, known: dict[str, str], base: str, href: str) -> str:
        """Join a reference that is not known yet."""
        if href[:1] == "#":
            return ""
        target = _joined_plainly(base, href) or resolve(base, href) or ""
        target = target.partition("#")[0] if target.startswith(("http://", "https://")) else ""
        if (
            href[:1] not in _NEEDS_WHOLE_BASE
            and len(href) <= LIMIT_BYTES  # pages of megabytes in one reference would be remembered by the thousand
            and href.isprintable()
            and (":" not in href[:6] or "://" in href[:8])
        ):
            self._remember(known, href, target)
        return target

    def _remember(self, where: dict[str, T], key: str, value: T) -> T:
        """Remember one thing more; where there are too many, only that."""
        if self._count >= REMEMBERED:
            self._known.clear()
            self._count = 0
        self._count += 1
        where[key] = value
        return value


_MEMORY = _Memory()


def _joined_plainly(base: str, href: str) -> str:
    """What `resolve` gives for a whole URL in its normal form, and for a path of plain characters; "" for others.

    In a third of the time: most references are of these kinds.
    """
    if is_plain(href):
        return href
    if not _PLAIN_PATH.fullmatch(href) or "/." in href:
        return ""
    directory = _directory(base)
    if not directory:
        return ""
    return (directory[: directory.index("/", 8)] if href[0] == "/" else directory) + href


def of_bytes(value: bytes) -> str:
    """The text of a Location, percent-encoded where it is not ASCII: as browsers read UTF-8, and what is none, too."""
    return value.decode("latin-1") if value.isascii() else "".join(chr(b) if b < 128 else f"%{b:02X}" for b in value)


@dataclass(frozen=True, slots=True)
class Options:
    """What Combine's old normaliser did beyond the standards. Invariant: a host of `aliases` is no value of it."""

    aliases: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # host, or host:port → preferred
    session_parameters: frozenset[str] = frozenset()  # dropped, `name=…` in the query and `;name=…` in the path
    repeated_parameters: str = "keep"  # or `pairs`: equal ones once; or `names`: the first of each name
    single_slashes: bool = False  # runs of slashes in the path become one

    def applied(self, scheme: str, authority: str, path: str, query: str) -> str:
        """The URL of these parts as the options want it; the query comes with its question mark."""
        authority = self.aliases.get(authority, authority)
        if self.session_parameters and ";" in path:
            head, *parameters = re.split("(;[^;/]*)", path)
            path = head + "".join(part for part in parameters if not self._is_session(part))
        if self.single_slashes and "//" in path:
            path = _SLASHES.sub("/", path)
        if len(query) > 1 and (self.session_parameters or self.repeated_parameters != "keep"):
            query = self._cleaned(query)
        return f"{scheme}://{authority}{path}{query}"

    def _is_session(self, part: str) -> bool:
        return part.startswith(";") and part[1:].partition("=")[0] in self.session_parameters

    def _cleaned(self, query: str) -> str:
        parts = query[1:].split("&")
        kept: dict[object, str] = {}
        for number, part in enumerate(parts):
            name = part.partition("=")[0]
            if name in self.session_parameters:
                continue
            key = {"pairs": part, "names": name}.get(self.repeated_parameters) if part else None
            kept.setdefault(number if key is None else key, part)
        if len(kept) == len(parts):
            return query
        return "?" + "&".join(kept.values()) if kept else ""


def aliases(lines: Iterable[str]) -> dict[str, str]:
    """The table of aliases from lines `preferred alias1 alias2 …`; raises BadURL for a name that stands twice."""
    table: dict[str, str] = {}
    names: set[str] = set()
    for line in lines:
        preferred, *others = line.lower().split() or [""]
        for name in (preferred, *others):
            if name in names:
                raise BadURL(f"{name} stands twice among the aliases")
            if not name or _site_name(name) != name:
                raise BadURL(f"{name!r} is no host among the aliases")
            names.add(name)
        table.update(dict.fromkeys(others, preferred))
    return table


def _site_name(text: str) -> str:
    """The host, with its port, in its normal form; "" where the text is something else."""
    try:
        match = _PARTS.match(ada_url.normalize_url(f"http://{text}/"))
    except ValueError:
        return ""
    return match[2] if match and "@" not in text and match[3] == "/" and not match[4] else ""


def normalise(url: str, limit_bytes: int = LIMIT_BYTES, options: Options | None = None) -> str:
    """Put an http(s) URL into its normal form; raises BadURL for every other URL and for what is none."""
    try:
        href: str = ada_url.normalize_url(url)
    except ValueError:
        raise BadURL(_why_not(url)) from None
    match = _PARTS.match(href)
    if match is None:
        raise BadURL(f"only http and https URLs are harvested, not {href.partition(':')[0][:40]}:")
    scheme, authority, path, rest = match.groups()
    if "@" in authority:
        raise BadURL("a URL with a user name or password is not taken; leave them out")
    if _AUTHORITY.fullmatch(authority) is None:
        raise BadURL(f"no host is called {authority[:80]}")
    query = rest.partition("#")[0]
    normal = f"{scheme}://{authority}{_plain_path(path) if '%' in path else path}{query}"
    if options is not None:
        cleaned = options.applied(scheme, authority, _plain_path(path) if "%" in path else path, query)
        if cleaned != normal:
            # What is left may have a new dot segment: `/a/.;sid=1/b`.
            return normalise(cleaned, limit_bytes, options)
    # Serialised URLs are ASCII, so characters are bytes.
    if len(normal) > limit_bytes:
        raise BadURL(f"the URL has {len(normal)} bytes, more than the limit of {limit_bytes}")
    return normal


#: What nearly all URLs look like; its groups are host and port, with its colon. One that `plain_site` knows, too,
#: stands in its normal form, which is told so without parsing it.
PLAIN_URL = r"https?://([a-z0-9.-]+)(:[0-9]+)?/[A-Za-z0-9_~!$&()*+,;=:@./?%-]*"

_WHOLE = re.compile(PLAIN_URL)


def is_plain(url: str) -> bool:
    """Whether a URL surely stands in its normal form; told without parsing it, so of some that do it is not."""
    match = _WHOLE.fullmatch(url)
    return match is not None and len(url) <= LIMIT_BYTES and plain_site(url, match[1], match[2]) != ""


def plain_site(url: str, host: str, port: str | None) -> str:
    """The site of a URL that matches PLAIN_URL, if it surely stands in its normal form, else ""."""
    if "/." in url or ("%" in url and "%" in url.partition("?")[0]):
        return ""
    # A last label that begins with a digit may be an IPv4 address in another form, and xn-- may be wrong.
    if port is None and host[host.rfind(".") + 1 :][:1].isalpha() and "xn--" not in host:
        return host
    return _plain_origin(url[: url.index("/", 8)])


@lru_cache(maxsize=4096)
def _plain_origin(origin: str) -> str:
    """The site of a scheme, host and port in their normal form; "" where they are in another."""
    try:
        return site_of(f"{origin}/") if normalise(f"{origin}/") == f"{origin}/" else ""
    except BadURL:
        return ""


def host_of(url: str) -> str:
    """The host of a normalised URL, an IPv6 address in brackets; "" for what is no normalised URL."""
    match = _PARTS.match(url)
    if match is None:
        return ""
    authority = match[2]
    if authority.startswith("["):
        return authority.partition("]")[0] + "]"
    return authority.partition(":")[0]


def site_of(url: str) -> str:
    """The unit of politeness: a normalised URL's host, with its port unless that is 80 for http or 443 for https."""
    match = _PARTS.match(url)
    if match is None:
        return ""
    return match[2].removesuffix(_DEFAULT_PORT[match[1]])


def record_id(url: str) -> str:
    """The name of a URL's record: the MD5 of its bytes in lower-case hex, so that `md5sum` finds it."""
    return hashlib.md5(url.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


@lru_cache(maxsize=4096)
def extension_of(url: str) -> str:
    """What follows the last dot of the path's last segment, in lower case; "" where there is none."""
    path = url.partition("#")[0].partition("?")[0].partition("://")[2]
    name = path.rpartition("/")[2] if "/" in path else ""
    stem, dot, extension = name.rpartition(".")
    return extension.lower() if stem and dot else ""


@lru_cache(maxsize=4096)
def registrable_domain(host: str) -> str:
    """The part of a host name that somebody registered; an address, a single label or a public suffix is itself."""
    name = host.rstrip(".")
    if not name or "[" in name or ":" in name or "." not in name or name.rpartition(".")[2].isdigit():
        return host
    return _suffixes().privatesuffix(name.lower()) or host


@cache
def _suffixes() -> PublicSuffixList:
    # Reading the list takes 60 ms, which a program that asks for no domain does not spend.
    return PublicSuffixList()


def _directory(base: str) -> str:
    """The base without last path segment, query and fragment: what a reference with a path or scheme depends on.

    "" where it has no such part: then nothing is remembered.
    """
    match = _PARTS.match(base)
    return f"{match[1]}://{match[2]}{match[3].rpartition('/')[0]}/" if match else ""


def _plain_path(path: str) -> str:
    """Decode what needs no encoding, but nothing beside a broken `%`: `%%341` would become `%41`, which is `A`."""
    if _BROKEN_ENCODING.search(path):
        return _ENCODED.sub(lambda code: "%" + code[1].upper(), path)
    return _ENCODED.sub(_plain_character, path)


def _plain_character(code: re.Match[str]) -> str:
    digits = code[1].upper()
    return _UNRESERVED.get(digits) or "%" + digits


def _why_not(url: str) -> str:
    # What cannot be parsed may still hold a password: text with an @ is never repeated.
    shown = "the text" if "@" in url else repr(url[:80])
    if not url.strip():
        return "an empty text is no URL"
    if not _SCHEME.match(url.lstrip()):
        return f"{shown} is no absolute URL: it starts with neither http:// nor https://"
    return f"{shown} is not a valid URL"


@lru_cache(maxsize=65_536)
def network_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 of an IPv6 one, which one machine may have whole."""
    if ":" not in address:
        return address  # of 200,000 sites each may have another, and to read one takes 4 µs
    try:
        value = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(value, ipaddress.IPv6Address):
        return str(value.ipv4_mapped or ipaddress.IPv6Network((int(value) >> 64 << 64, 64)))
    return address
