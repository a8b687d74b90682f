"""What `combine harvest` is about to do, worked out and said before anything starts.

Pure: seeds, settings and options in; a plan, or the sentence why there can be none, out. Whether a host name is private
is only known when it is resolved, which the scheduler does; here literal addresses are judged, and names that are
private by their meaning. Of the home only the files are looked at that say what must not be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from combine import __version__, urls
from combine.cli.screen import counted
from combine.cli.seeds import Seed, Wish
from combine.config import Settings
from combine.errors import ConfigError
from combine.keep.home import Home
from combine.schedule.exclusions import fault_of
from combine.schedule.scope import seed_rule
from combine.web.addresses import Allowed, Refused, is_private

#: Seeds named before the rest is only counted.
_NAMED = 3

#: An address that no public host has: a name is listed if it would be allowed even here.
_NOWHERE = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class Plan:
    """The seeds of one harvest and how they are to be followed.

    `is_limited`: no contact is set, so public hosts are spared.
    """

    seeds: tuple[Seed, ...]
    wish: Wish
    is_limited: bool = False


def make(seeds: Sequence[Seed], wish: Wish, settings: Settings) -> Plan:
    """Work out the plan; raises ConfigError where a seed may not be asked."""
    allowed = Allowed(settings.harvest.allow_private)
    for seed in seeds:
        _refuse_private(seed.url, allowed)
    wish = wish.checked()
    if settings.agent.has_contact or all(is_listed(seed.url, allowed) for seed in seeds):
        return Plan(tuple(seeds), wish)
    slowest = settings.harvest.anonymous_delay_s
    delay = max(slowest, float(wish.delay)) if wish.delay not in ("", "auto") else slowest
    pages = settings.harvest.anonymous_pages
    limit = pages if wish.limit is None else min(wish.limit, pages)
    return Plan(tuple(seeds), replace(wish, delay=f"{delay:g}", limit=limit), is_limited=True)


def refuse_unfollowed(home: Home) -> None:
    """Raise ConfigError where the exclude or allow file cannot be followed: nothing would ever be handed out."""
    if fault := fault_of(home.exclude_file, home.allow_file):
        raise ConfigError(f"{fault}; nothing is asked while nobody can say what must not be (in {home.path})")


def is_listed(url: str, allowed: Allowed) -> bool:
    """Whether this URL is on a private host that the operator listed."""
    address = literal(urls.host_of(url))
    host = urls.host_of(url).strip("[]")
    return allowed.listed(host, address) if address else allowed.listed(host, _NOWHERE)


def literal(host: str) -> str:
    """The address that a host's text is, or means by definition (localhost); "" for a name that must be resolved."""
    bare = host.strip("[]").lower().removesuffix(".")
    if bare == "localhost" or bare.endswith(".localhost"):
        return "127.0.0.1"
    return bare if host.startswith("[") or bare.replace(".", "").isdigit() else ""


def describe(plan: Plan, settings: Settings) -> list[tuple[str, str]]:
    """What will be done, as names and sentences: seeds, scope, delay, agent, robots, and the limit if there is one."""
    wish = plan.wish
    named = [seed.url for seed in plan.seeds[:_NAMED]]
    more = len(plan.seeds) - len(named)
    rows = [
        ("seeds", " ".join(named) + (f" and {more:,} more" if more > 0 else "")),
        ("scope", _scope(plan)),
        ("delay", _delay(plan, settings)),
        ("agent", agent(settings)),
        ("robots", _robots(plan, settings)),
    ]
    if wish.limit is not None:
        rows.append(("limit", f"{wish.limit:,} pages in this run; the next run goes on"))
    rows += [("", sentence) for sentence in outside(plan.seeds, wish)]
    if plan.is_limited:
        rows.append(("", contact_lines()))
    return rows


def outside(seeds: Sequence[Seed], wish: Wish) -> list[str]:
    """The sentence about seeds that are not under the prefix of the wish: each is one page, and a source of links."""
    kind, _, prefix = wish.scope.partition(":")
    if kind != "under":
        return []
    rule = seed_rule(wish.scope, prefix)
    own = (seed for seed in seeds if not seed.is_sitemap and "SCOPE" not in seed.params)
    found = [seed.url for seed in own if not rule.admits(seed.url, urls.host_of(seed.url))]
    if not found:
        return []
    named, each = (f"{found[0]} and {len(found) - 1:,} more", " each") if len(found) > 1 else (found[0], "")
    return [f"not under {prefix}: {named}; taken as one page{each}, and its links are followed under that prefix only"]


def agent(settings: Settings) -> str:
    """The User-Agent that sites will see."""
    contact = settings.agent.url or settings.agent.email
    return f"{settings.agent.name}/1 {f'(+{contact}) ' if contact else ''}combine-system/{__version__}"


def contact_lines() -> str:
    """The sentence for an operator who has not said who he is, with the lines to set."""
    return (
        "no contact is set, so public hosts are asked slowly and little; say who you are in combine.toml:\n"
        '    [agent]\n    url = "https://example.org/about-our-harvester"\n    email = "you@example.org"'
    )


def _refuse_private(url: str, allowed: Allowed) -> None:
    host = urls.host_of(url)
    address = literal(host)
    try:
        if address and is_private(address):
            allowed.check(host.strip("[]"), address)
    except Refused as refused:
        raise ConfigError(str(refused)) from None


def _scope(plan: Plan) -> str:
    wish = plan.wish
    kind, _, prefix = wish.scope.partition(":")
    hosts = sorted({_bare(urlsplit(seed.url).netloc) for seed in plan.seeds})
    shown = ", ".join(hosts[:_NAMED]) + (f" and {len(hosts) - _NAMED:,} more" if len(hosts) > _NAMED else "")
    within = {
        "host": f"the hosts of the seeds ({shown})" if len(hosts) > 1 else f"the host {shown}",
        "domain": f"the domains of {shown}",
        "under": f"URLs under {prefix}",
    }[kind]
    depth = "any depth" if wish.depth is None else f"at most {counted(wish.depth, 'link')} from a seed"
    chosen = "".join(
        f", {word} {pattern}"
        for word, pattern in (
            *(("only", pattern) for pattern in wish.include),
            *(("not", pattern) for pattern in wish.exclude),
        )
    )
    return f"{within}, {depth}{chosen}"


def _bare(netloc: str) -> str:
    return netloc.removeprefix("www.")


def _delay(plan: Plan, settings: Settings) -> str:
    if plan.wish.delay not in ("", "auto"):
        return f"{plan.wish.delay} s after each request to a site, or what its robots.txt asks if that is longer"
    allowed = Allowed(settings.harvest.allow_private)
    if all(is_listed(seed.url, allowed) for seed in plan.seeds):
        return "none: these are listed private hosts"
    rules = settings.politeness
    return (
        f"as the site answers: from {rules.auto_start_s:g} s, never under {rules.auto_floor_s:g} s, "
        "or what its robots.txt asks if that is longer"
    )


def _robots(plan: Plan, settings: Settings) -> str:
    ignored = sorted(
        {
            f"{host} (because {rule.because})"
            for host in {urls.host_of(seed.url) for seed in plan.seeds}
            if (rule := settings.site_rule(host)) and rule.robots == "ignore"
        }
    )
    return f"obeyed, but ignored on {', '.join(ignored)}" if ignored else "obeyed"
