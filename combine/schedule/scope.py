"""What belongs to a harvest: the scopes of seeds, and the hosts and prefixes that are never asked.

A scope is a set of rules, and admits a URL that one of them admits. A rule is `host:NAME` (that host, scheme and a
leading www. ignored), `domain:NAME` (a registrable domain and all below it) or `under:PREFIX`, with an optional include
and exclude expression on the URL. Widening a scope adds rules. Its text is canonical, so two seeds with the same rules
have the same scope. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from combine.errors import Rejected
from combine.urls import host_of, registrable_domain

KINDS = ("host", "domain", "under")


@lru_cache(maxsize=1024)
def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise Rejected(f"{text!r} is no regular expression: {error}") from None


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """One rule; `include` and `exclude` are regular expressions, "" for none."""

    kind: str
    value: str
    include: str = ""
    exclude: str = ""

    def admits(self, url: str, host: str) -> bool:
        """Whether this rule admits a normalised URL on this host."""
        if self.kind == "host":
            inside = bare_host(host) == self.value
        elif self.kind == "domain":
            inside = host == self.value or host.endswith("." + self.value)
        else:
            inside = without_scheme(url).startswith(self.value)
        if inside and self.include:
            inside = _expression(self.include).search(url) is not None
        if inside and self.exclude:
            inside = _expression(self.exclude).search(url) is None
        return inside


@dataclass(frozen=True, slots=True)
class Scope:
    """The rules of a seed, in canonical order."""

    rules: tuple[Rule, ...]

    def admits(self, url: str) -> bool:
        """Whether a normalised URL belongs."""
        host = host_of(url)
        return any(rule.admits(url, host) for rule in self.rules)

    def widened(self, other: Iterable[Rule]) -> Scope:
        """The same scope with more rules."""
        return Scope(tuple(sorted({*self.rules, *other})))

    def dump(self) -> str:
        """The canonical text."""
        return json.dumps([[rule.kind, rule.value, rule.include, rule.exclude] for rule in self.rules])


def load(text: str) -> Scope:
    """A scope from its canonical text."""
    return Scope(tuple(Rule(*rule) for rule in json.loads(text)))


def seed_rule(scope: str, url: str, include: str = "", exclude: str = "") -> Rule:
    """The rule of a seed's SCOPE: `host`, `domain`, or `under:PREFIX`; raises Rejected for another word."""
    for expression in (include, exclude):
        _expression(expression)
    word, _, rest = scope.partition(":")
    host = host_of(url)
    if word == "host" and not rest:
        return Rule("host", bare_host(host), include, exclude)
    if word == "domain" and not rest:
        return Rule("domain", registrable_domain(host), include, exclude)
    if word == "under" and rest:
        return Rule("under", without_scheme(rest), include, exclude)
    raise Rejected(f"SCOPE={scope!r}: it is host, domain or under:PREFIX")


def bare_host(host: str) -> str:
    """A host without a leading www."""
    return host.removeprefix("www.")


def without_scheme(url: str) -> str:
    """A URL from its host on."""
    return url.partition("://")[2] or url


@dataclass(frozen=True, slots=True)
class Exclusions:
    """The home's `exclude` file: what is never asked."""

    hosts: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    host_expressions: tuple[re.Pattern[str], ...] = field(default=())
    url_expressions: tuple[re.Pattern[str], ...] = field(default=())

    def forbids(self, url: str) -> bool:
        """Whether a normalised URL is one of those."""
        host = host_of(url)
        return (
            host in self.hosts
            or (bool(self.prefixes) and url.startswith(self.prefixes))
            or any(expression.search(host) for expression in self.host_expressions)
            or any(expression.search(url) for expression in self.url_expressions)
        )


def read_exclusions(text: str) -> Exclusions:
    """Read the lines of an exclude file.

    A line is a host, a URL prefix with its scheme, `HOST: expression` or `URL: expression`; # starts a comment. Raises
    Rejected that names the line.
    """
    hosts, prefixes, on_host, on_url = set(), [], [], []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            if line.startswith("HOST:"):
                on_host.append(_expression(line[5:].strip()))
            elif line.startswith("URL:"):
                on_url.append(_expression(line[4:].strip()))
            elif line.startswith(("http://", "https://")):
                prefixes.append(line)
            else:
                hosts.add(line.lower())
        except Rejected as error:
            raise Rejected(f"line {number} of the exclude file: {error}") from None
    return Exclusions(frozenset(hosts), tuple(prefixes), tuple(on_host), tuple(on_url))
