"""What site rules say to send to their hosts: basic auth, and the cookies of a file. To no other host, and never kept.

A file of cookies is in Netscape's form, as browsers' add-ons and curl write it, and is read again when it changes. One
that cannot be read is a fault of that site's requests: to ask without its cookies would be to ask for something else.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from combine.config import Settings
from combine.urls import host_of


class CookieFault(Exception):
    """A file of cookies cannot be used; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Cookie:
    """One line of the file; `expires` is the epoch time, 0 for that of the session."""

    domain: str
    below: bool  # also the hosts below the domain
    path: str
    secure: bool
    expires: int
    name: str
    value: str = field(repr=False)

    def goes_to(self, url: str, now: float) -> bool:
        """Whether it is sent with a request for a URL (RFC 6265, 5.4)."""
        if (self.secure and not url.startswith("https://")) or 0 < self.expires <= now:
            return False
        host, path = host_of(url), urlsplit(url).path or "/"
        is_host = host == self.domain or (self.below and host.endswith("." + self.domain))
        is_path = path == self.path or path.startswith(self.path.rstrip("/") + "/")
        return is_host and is_path


class Credentials:
    """The credentials of a home's site rules; `home` is where relative names of files begin."""

    def __init__(self, settings: Settings, home: Path) -> None:
        self._settings, self._home = settings, home
        self._jars: dict[Path, tuple[int, list[Cookie]]] = {}

    def headers(self, url: str) -> dict[str, str]:
        """The fields to send with a request for a URL; raises CookieFault."""
        rule = self._settings.site_rule(host_of(url)) if self._settings.site else None
        if rule is None:
            return {}
        found = {}
        if rule.auth:
            found["Authorization"] = "Basic " + base64.b64encode(rule.auth.encode()).decode()
        if rule.cookies and (cookie := self._cookie(self._home / rule.cookies, url)):
            found["Cookie"] = cookie
        return found

    def source(self, url: str) -> str:
        """The address of ours from which a URL is asked; "" where that does not matter."""
        rule = self._settings.site_rule(host_of(url)) if self._settings.site else None
        return rule.source if rule is not None else ""

    def _cookie(self, path: Path, url: str) -> str:
        now = time.time()
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self._jar(path) if cookie.goes_to(url, now))

    def _jar(self, path: Path) -> list[Cookie]:
        try:
            changed = path.stat().st_mtime_ns
            held = self._jars.get(path)
            if held is not None and held[0] == changed:
                return held[1]
            jar = read_jar(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else f"{error}"
            raise CookieFault(f"the cookies in {path} cannot be read: {why}") from None
        self._jars[path] = (changed, jar)
        return jar


def read_jar(text: str) -> list[Cookie]:
    """The cookies of a file, longest path first; raises ValueError that names the line and not what is in it."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.removeprefix("#HttpOnly_")
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 7 or not fields[4].isdigit() or not line.replace("\t", "").isprintable():
            raise ValueError(f"line {number} is not in Netscape's form")
        domain, below, path, secure, expires, name, value = fields
        domain = domain.lower()
        is_below = below.upper() == "TRUE" or domain.startswith(".")
        found.append(
            Cookie(domain.removeprefix("."), is_below, path, secure.upper() == "TRUE", int(expires), name, value)
        )
    return sorted(found, key=lambda cookie: -len(cookie.path))
