"""What belongs to a harvest: the scopes of seeds.

A scope is a set of rules, and admits a URL that one of them admits. A rule is `host:NAME` (that host, scheme and a
leading www. ignored), `domain:NAME` (a registrable domain and all below it) or `under:PREFIX` (a beginning of URLs that
ends where a part of them does), with an optional include and exclude expression on the URL. Widening a scope adds
rules. Its text is canonical, so two seeds with the same rules have the same scope. Pure.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from combine.errors import Rejected
from combine.urls import BadURL, host_of, normalise, registrable_domain

KINDS = ("host", "domain", "under", "requisites")


@lru_cache(maxsize=1024)
def expression(text: str) -> re.Pattern[str]:
    """A regular expression; raises Rejected where it is none."""
    try:
        with warnings.catch_warnings(action="ignore"):  # what a later Python will read otherwise is not ours to say
            return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
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
        elif self.kind == "under":
            inside = is_under(without_scheme(url), self.value)
        else:
            return False
        if inside and self.include:
            inside = expression(self.include).search(url) is not None
        if inside and self.exclude:
            inside = expression(self.exclude).search(url) is None
        return inside


#: Characters that the hosts of a scope may take in each line of a lease.
HOSTS_LENGTH = 200

_NOT_PLAIN = re.compile(r'["%\t\r\n]')

#: Admits no page; with it the images, styles and scripts of pages belong.
REQUISITES = Rule("requisites", "")


@dataclass(frozen=True, slots=True)
class Scope:
    """The rules of a seed, in canonical order."""

    rules: tuple[Rule, ...]
    _names: frozenset[str] = field(init=False, repr=False, compare=False)  # of hosts, so that a site is told at once
    _tails: tuple[str, ...] = field(init=False, repr=False, compare=False)  # of domains, each with the dot before it

    def __post_init__(self) -> None:
        object.__setattr__(self, "_names", frozenset(rule.value for rule in self.rules if rule.kind == "host"))
        object.__setattr__(self, "_tails", tuple(f".{rule.value}" for rule in self.rules if rule.kind == "domain"))

    def admits(self, url: str) -> bool:
        """Whether a normalised URL belongs."""
        host = host_of(url)
        return any(rule.admits(url, host) for rule in self.rules)

    def admits_site(self, site: str) -> bool:
        """Whether all URLs of a site belong, in a scope that goes by hosts alone."""
        host = site if ":" not in site else host_of(f"http://{site}/")
        return host.removeprefix("www.") in self._names or f".{host}".endswith(self._tails)

    @property
    def is_by_host(self) -> bool:
        """Whether only its host says if a URL belongs."""
        return not any(rule.kind == "under" or rule.include or rule.exclude for rule in self.rules)

    @property
    def hosts(self) -> str:
        """Its rules, `host:NAME` or `domain:NAME` with blanks between, where hosts alone decide; else "".

        So is it where they are too many, or would have to be encoded in a job.
        """
        rules = [f"{rule.kind}:{rule.value}" for rule in self.rules if rule != REQUISITES]
        text = " ".join(rules)
        return text if self.is_by_host and len(text) <= HOSTS_LENGTH and not _NOT_PLAIN.search(text) else ""

    @property
    def has_requisites(self) -> bool:
        """Whether what its pages are made of belongs, too."""
        return REQUISITES in self.rules

    def widened(self, other: Iterable[Rule]) -> Scope:
        """The same scope with more rules."""
        return Scope(tuple(sorted({*self.rules, *other})))

    def dump(self) -> str:
        """The canonical text."""
        return json.dumps([[rule.kind, rule.value, rule.include, rule.exclude] for rule in self.rules])


@lru_cache(maxsize=16_384)
def admits(hosts: str, site: str) -> bool:
    """Whether the rules that `Scope.hosts` gives admit the URLs of a site."""
    rules = (rule.partition(":") for rule in hosts.split(" "))
    return Scope(tuple(Rule(kind, name) for kind, _, name in rules)).admits_site(site)


def load(text: str) -> Scope:
    """A scope from its canonical text."""
    return Scope(tuple(Rule(*rule) for rule in json.loads(text)))


def seed_rule(scope: str, url: str, include: str = "", exclude: str = "") -> Rule:
    """The rule of a seed's SCOPE: `host`, `domain`, or `under:PREFIX`; raises Rejected for another word."""
    for pattern in (include, exclude):
        expression(pattern)
    word, _, rest = scope.partition(":")
    host = host_of(url)
    if word == "host" and not rest:
        return Rule("host", bare_host(host), include, exclude)
    if word == "domain" and not rest:
        return Rule("domain", registrable_domain(host), include, exclude)
    if word == "under" and rest:
        try:
            prefix = normalise(rest if "://" in rest else f"https://{rest}")
        except BadURL as error:
            raise Rejected(f"SCOPE={scope[:200]!r}: {error}") from None
        return Rule("under", without_scheme(prefix), include, exclude)
    raise Rejected(f"SCOPE={scope!r}: it is host, domain or under:PREFIX")


def is_under(url: str, prefix: str) -> bool:
    """Whether a URL begins with a prefix, and that ends where a part of it does: /dirt is not under /dir.

    Parts end at slash, question mark and semicolon, in a query at ampersands.
    """
    if not url.startswith(prefix):
        return False
    following = url[len(prefix) : len(prefix) + 1]
    return prefix[-1] in "/?&=" or following in (("", "&") if "?" in prefix else ("", "/", "?", ";"))


def bare_host(host: str) -> str:
    """A host without a leading www."""
    return host.removeprefix("www.")


def without_scheme(url: str) -> str:
    """A URL from its host on."""
    return url.partition("://")[2] or url
