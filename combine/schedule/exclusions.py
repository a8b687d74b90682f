"""What is never asked, and what alone is asked: the home's files `exclude` and `allow`, and whether they can be read.

A line is a host, `.domain` for a domain and all below it, the beginning of a URL with or without its scheme,
`HOST: expression` or `URL: expression` (the historical forms); # starts a comment. A file that cannot be read, or holds
a line that means nothing, is a reason to hand out nothing: nobody can say then what must not be asked.
"""

from __future__ import annotations

import logging
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from combine.errors import Rejected
from combine.schedule.scope import expression, without_scheme
from combine.urls import BadURL, host_of, normalise

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Hosts, domains, beginnings of URLs and expressions."""

    hosts: frozenset[str] = frozenset()
    domains: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    any_scheme: tuple[str, ...] = ()
    host_expressions: tuple[re.Pattern[str], ...] = ()
    url_expressions: tuple[re.Pattern[str], ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        plain = self.hosts or self.domains or self.prefixes or self.any_scheme
        return bool(plain or self.host_expressions or self.url_expressions)

    @property
    def is_anything(self) -> bool:
        """Whether anything is named at all."""
        return self != _NOTHING

    def names(self, url: str) -> bool:
        """Whether a normalised URL is one of those."""
        if not self:
            return False
        host = host_of(url)
        return (
            host in self.hosts
            or (bool(self.domains) and f".{host}".endswith(self.domains))
            or (bool(self.prefixes) and url.startswith(self.prefixes))
            or (bool(self.any_scheme) and without_scheme(url).startswith(self.any_scheme))
            or any(pattern.search(host) for pattern in self.host_expressions)
            or any(pattern.search(url) for pattern in self.url_expressions)
        )


def read_exclusions(text: str, name: str = "exclude") -> Exclusions:
    """Read the lines of an exclude or allow file; raises Rejected that names the line."""
    found: dict[str, list[str]] = {"host": [], "domain": [], "prefix": [], "any": []}
    patterns: dict[str, list[re.Pattern[str]]] = {"HOST": [], "URL": []}
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        word, colon, rest = line.partition(":")
        try:
            if colon and word in patterns:
                patterns[word].append(expression(rest.strip()))
            else:
                kind, value = _meant(line)
                found[kind].append(value)
        except (Rejected, BadURL) as error:
            raise Rejected(f"line {number} of the {name} file: {error}") from None
    return Exclusions(
        frozenset(found["host"]),
        tuple(found["domain"]),
        tuple(found["prefix"]),
        tuple(found["any"]),
        tuple(patterns["HOST"]),
        tuple(patterns["URL"]),
    )


def _meant(line: str) -> tuple[str, str]:
    """What a line without an expression means, in the form that URLs have."""
    if "://" in line:
        return "prefix", normalise(line)
    if any(sign in line for sign in "/?:") and not line.startswith("["):
        return "any", without_scheme(normalise(f"https://{line}"))
    host = host_of(normalise(f"https://{line.removeprefix('.')}"))
    return ("domain", f".{host}") if line.startswith(".") else ("host", host)


_NOTHING = Exclusions()

#: What may stand in a file's place: a pipe would be waited for, and a device read without end.
_STRANGE = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    **dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), "a device"),
}


class ExcludeFile:
    """The exclude file of a home, or its allow file of the same form, read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self.exclusions = Exclusions()
        self.fault = ""  # why nothing may be handed out, in a sentence

    def look(self) -> Exclusions:
        """The exclusions as they are now; those of the last good file where `fault` says what is wrong."""
        sentence = self._read()
        if sentence and sentence != self.fault:
            log.error("%s; nothing is handed out until it is mended", sentence)
        self.fault = sentence
        return self.exclusions

    def _read(self) -> str:
        """Read the file if it is another than at the last look; gives what is wrong with it."""
        name = self._path.name
        try:
            facts = self._path.stat()
            if kind := _STRANGE.get(stat.S_IFMT(facts.st_mode)):
                return f"the {name} file is {kind}: put a file there"
            stamp = (facts.st_mtime_ns, facts.st_size)
            if stamp != self._stamp or self.fault:
                self.exclusions = read_exclusions(self._path.read_text("utf-8"), name)
            self._stamp = stamp
        except FileNotFoundError:
            self._stamp, self.exclusions = None, Exclusions()
        except Rejected as error:
            return str(error)
        except UnicodeDecodeError as error:
            return f"the {name} file is not UTF-8: see its byte {error.start + 1:,}"
        except OSError as error:
            return f"the {name} file cannot be read: {error.strerror}"
        return ""


def fault_of(*paths: Path) -> str:
    """What is wrong with the first of these files that nobody can follow; "" where there is none."""
    return next(filter(None, (ExcludeFile(path)._read() for path in paths)), "")
