"""The rules of combine.toml for single sites: `[[site]]`, with what each may say and what it may not. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from combine import hours
from combine.errors import ConfigError
from combine.urls import BadURL, host_of, normalise


@dataclass(frozen=True, slots=True)
class SiteRule:
    """A rule for the hosts that `match`: a host name, or `.name` for a domain and all below it."""

    match: str  # a host name, or .name for a domain and all below it; required
    delay_s: float | None = None  # seconds between requests; may be written delay; also lowers a crawl-delay
    depth: int | None = None  # pages further from their seeds are not asked
    robots: str = "obey"  # anything else needs `because`
    tls: str = "verify"  # accept: also a certificate that is expired, self-signed or another's; needs `because`
    because: str = ""  # the reason, which goes into every harvest and record
    blocked: bool = False  # never asked
    hours: str = ""  # asked only then: 22:00-06:00 Europe/Ljubljana; UTC without a zone
    requests_day: int | None = None  # instead of politeness.site_requests_day
    bytes_day: int | None = None  # instead of politeness.site_bytes_day
    bytes_s: int | None = None  # on average: after a long answer it rests so much longer
    revisit_s: float | None = None  # instead of scheduler.revisit_s
    auth: str = field(default="", repr=False)  # user:password, sent to these hosts only; never logged nor kept
    cookies: str = ""  # a file of cookies in Netscape's form, below the home; sent to these hosts only
    source: str = ""  # the address of ours from which they are asked

    def covers(self, host: str) -> bool:
        """Whether this rule speaks of the host."""
        name = self.match.lower()
        return host == name.removeprefix(".") or (name.startswith(".") and host.endswith(name))


def check(rule: SiteRule, place: str) -> None:
    """Refuse a rule that cannot be meant, with a sentence: raises ConfigError."""
    _check_match(rule, place)
    if rule.robots not in ("obey", "ignore"):
        raise ConfigError(f'{place}: robots is "obey" or "ignore", not "{rule.robots}"')
    if rule.tls not in ("verify", "accept"):
        raise ConfigError(f'{place}: tls is "verify" or "accept", not "{rule.tls}"')
    if rule.robots != "obey" and not rule.because.strip():
        raise ConfigError(f'{place}: robots = "{rule.robots}" needs because = "…": it is written into every record')
    if rule.tls != "verify" and not rule.because.strip():
        raise ConfigError(f'{place}: tls = "{rule.tls}" needs because = "…": it is written into every harvest')
    _check_reach(rule, place)
    _check_numbers(rule, place)


def check_together(rules: tuple[SiteRule, ...], place: str) -> None:
    """Refuse a rule that never counts, since the first that covers a host does: raises ConfigError."""
    for number, rule in enumerate(rules):
        for earlier in rules[:number]:
            if rule.match.lower() == earlier.match.lower():
                raise ConfigError(f'{place}: there are two rules with match = "{rule.match}": make them one')
            if earlier.match.startswith(".") and earlier.covers(rule.match.lower().removeprefix(".")):
                raise ConfigError(
                    f'{place}: the rule with match = "{rule.match}" never counts, since the one with '
                    f'match = "{earlier.match}" stands above it: put it first'
                )


def _check_match(rule: SiteRule, place: str) -> None:
    """A name that no host can have would be a rule for nobody, which is worst where it blocks or slows down."""
    name = rule.match.lower().removeprefix(".")
    try:
        host = host_of(normalise(f"http://{name}/"))
    except BadURL:
        host = ""
    if host == name and "*" not in name:
        return
    ascii_name = bool(host) and not name.isascii()
    remedy = f'write "{host}"' if ascii_name else 'write "example.org", or ".example.org" for all below it, too'
    raise ConfigError(f'{place}: match = "{rule.match}" is no host name as URLs have it: {remedy}')


def _check_reach(rule: SiteRule, place: str) -> None:
    if rule.hours:
        try:
            hours.parse(rule.hours)
        except ConfigError as error:
            raise ConfigError(f"{place}: {error}") from None
    if rule.auth and (not rule.auth.partition(":")[0] or ":" not in rule.auth or not rule.auth.isprintable()):
        raise ConfigError(f'{place}: auth is "user:password"')  # what it is, is not said: half of it may be right
    if rule.source:
        try:
            ipaddress.ip_address(rule.source)
        except ValueError:
            raise ConfigError(f'{place}: source is an address of this machine, not "{rule.source}"') from None
    if rule.cookies and not _is_below(rule.cookies):
        raise ConfigError(
            f'{place}: cookies = "{rule.cookies}" is no file below the home: put it there and write "cookies.txt"'
        )


def _check_numbers(rule: SiteRule, place: str) -> None:
    for name in ("requests_day", "bytes_day", "bytes_s"):
        if getattr(rule, name) == 0:
            raise ConfigError(f"{place}: {name} is more than 0; to ask nothing at all write blocked = true")
    if rule.revisit_s == 0:
        raise ConfigError(f"{place}: revisit_s is more than 0: each page would be due again at once")


def _is_below(name: str) -> bool:
    """Whether a name of a file leads to a place below the directory that it is read in."""
    path = PurePosixPath(name)
    return name.isprintable() and not path.is_absolute() and ".." not in path.parts and bool(path.parts)
