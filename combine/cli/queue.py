"""The commands about the queue.

Add, why, site. Each asks the scheduler, which is started for the question where it does not run.
"""

from __future__ import annotations

from typing import IO, Any

import click

from combine import urls
from combine.cli import peers, plan, run
from combine.cli.screen import put, put_json, put_pairs, say
from combine.cli.seeds import Wish, parse, read
from combine.cli.session import Session, command
from combine.cli.started import Started
from combine.cli.verdict import ask_why, not_taken
from combine.errors import EXIT_FINDING, CombineError, UsageError
from combine.keep.home import Home
from combine.keep.store import WirStore, is_id
from combine.schedule.clock import utc_text
from combine.web.robots import RobotsStore
from formats.jcf import Job, job

#: Parameters whose values are numbers in JSON.
_NUMBERS = frozenset("STATUS DEPTH NRT QUEUED LEASED FETCHED DEAD REQUESTS FAILURES".split())

#: Seconds that `add` goes on where the scheduler says RETRY: a daemon that is being replaced is back by then.
_ADD_WAIT_S = 30.0


def explain(home: Home, url: str) -> dict[str, Any]:
    """Why a URL was, or was not, fetched: what the scheduler, idbd and the store know of it."""
    with peers.scheduler(home) as client:
        why = ask_why(client, url)
    path = WirStore(home).path(url)
    return {
        "url": url,
        "state": why.row.get("STATE"),
        "visit": _plain(why.visit, "kind", "url", "events") if why.visit else None,
        "site": why.row.get("SITE"),
        "reason": why.row.get("REASON"),
        "record": str(path) if path.exists() else None,
        **{name: value for name, value in _plain(why.row).items() if name in ("seed", "depth", "nrt", "next", "via")},
        "events": [_plain(event, "kind") for event in why.events],
    }


def ask_site(home: Home, change: Job) -> dict[str, Any]:
    """How a site stands, after a change to it if there is one in the line."""
    with peers.scheduler(home) as client:
        reply = client.call("SITE", [change])
    if not reply:
        raise CombineError(f"nothing is queued for {change.get('SITE')}, and nothing is known of it")
    with peers.idbd(home) as client:
        visits = client.call("SITE", [change])
    found = _plain(reply[0])
    if visits:
        found["visited"] = {"last": visits[0].get("LAST"), "requests": visits[0].number("REQUESTS")}
    found["robots"] = [fact for scheme in ("https", "http") if (fact := _robots(home, f"{scheme}://{found['site']}"))]
    return found


def _robots(home: Home, origin: str) -> dict[str, Any] | None:
    copy = RobotsStore(home.robots).load(origin)
    if copy is None:
        return None
    return {
        "origin": origin,
        "status": copy.status,
        "asked": utc_text(copy.asked),
        "again": utc_text(copy.expires),
        "unreachable_since": utc_text(copy.down) if copy.down else None,
    }


@command("add", settings=True)
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option(
    "-i", "--input", "file", type=click.File("r", encoding="utf-8"), help="A file of URLs or JCF lines; - for stdin."
)
@click.option("-l", "--depth", type=click.IntRange(0), help="Follow at most so many links from each URL.")
@click.option("--same-domain", is_flag=True, help="Stay on the domains of the URLs, instead of on their hosts.")
@click.option("--under", metavar="PREFIX", help="Stay under a URL, as under a directory.")
@click.option("--include", metavar="RE", multiple=True, help="Only URLs that match; may be given again.")
@click.option("--exclude", metavar="RE", multiple=True, help="No URLs that match; may be given again.")
@click.option("-w", "--delay", metavar="SECONDS", type=click.FloatRange(0), help="Seconds between requests to a site.")
@click.option("--tag", metavar="TAG", default="", help="A tag for the records.")
@click.option("--sitemap", "sitemaps", metavar="URL", multiple=True, help="A sitemap or feed that lists the pages.")
@click.option("--requisites", is_flag=True, help="Take the images, styles and scripts of pages, too.")
def add_command(
    session: Session,
    urls: tuple[str, ...],
    file: IO[str] | None,
    depth: int | None,
    same_domain: bool,
    under: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    delay: float | None,
    tag: str,
    sitemaps: tuple[str, ...],
    requisites: bool,
) -> int:
    """Put URLs into the queue of a running harvest.

    Lines of a file may be lines of JCF too; what such a line says of itself goes before the options.
    """
    if not urls and file is None and not sitemaps:
        raise click.UsageError("name a URL, a file of them with -i, or a --sitemap")
    seeds = read(urls, file, sitemaps)
    wish = Wish(
        scope=scope_of(same_domain, under),
        depth=depth,
        include=include,
        exclude=exclude,
        tag=tag,
        delay="" if delay is None else f"{delay:g}",
        requisites=requisites,
    ).checked()
    home = session.home()
    for sentence in plan.outside(seeds, wish):
        session.say(f"combine: {sentence}")
    with Started(home, session.overrides) as started:
        started.need("cabin", "hdb")
        with peers.scheduler(home) as client:
            loaded = run.load(client, seeds, wish, _ADD_WAIT_S)
    for url, reason in loaded.refused.items():
        say(f"combine: {not_taken(url, reason)}")
    session.say(f"combine: {loaded.new:,} new in the queue, {loaded.known:,} known")
    return EXIT_FINDING if loaded.refused else 0


@command("why", json=True, settings=True)
@click.argument("url")
def why_command(session: Session, url: str) -> int:
    """Say why a URL was, or was not, fetched."""
    home = session.home()
    meant = _meant(home, url)
    with Started(home, session.overrides) as started:
        started.need("cabin", "hdb")
        found = explain(home, meant[0])
        if found["state"] == "unknown" and len(meant) > 1:
            other = explain(home, meant[1])
            found = found if other["state"] == "unknown" else other
    if session.json:
        put_json(found)
    else:
        _print_why(found)
    return 0


@command("site", json=True, settings=True)
@click.argument("site", metavar="HOST[:PORT]|URL")
@click.option("--block", is_flag=True, help="Ask it nothing any more.")
@click.option("--unblock", is_flag=True, help="Ask it again.")
@click.option(
    "--delay", metavar="SECONDS", type=click.FloatRange(0), help="Seconds between requests to it, from now on."
)
def site_command(session: Session, site: str, block: bool, unblock: bool, delay: float | None) -> int:
    """Say how a site stands, and brake or block it."""
    if block and unblock:
        raise click.UsageError("--block and --unblock cannot be combined")
    name = site_name(site)
    change = job(
        SITE=name,
        DELAY=None if delay is None else f"{delay:g}",
        BLOCK="1" if block else "0" if unblock else None,
    )
    home = session.home()
    with Started(home, session.overrides) as started:
        started.need("cabin", "hdb")
        found = ask_site(home, change)
    if session.json:
        put_json(found)
    else:
        put_pairs((name, _shown(value)) for name, value in found.items() if value not in ("", [], None))
    return 0


def scope_of(same_domain: bool, under: str | None, same_host: bool = False) -> str:
    """The SCOPE that the options mean; raises UsageError where they contradict one another."""
    if same_domain + same_host + (under is not None) > 1:
        raise UsageError("--same-host, --same-domain and --under cannot be combined")
    return "domain" if same_domain else f"under:{under}" if under is not None else "host"


def site_name(text: str) -> str:
    """The name of the site that a person means by a host, HOST:PORT or a URL."""
    scheme = "http" if text.endswith(":80") else "https"
    return urls.site_of(parse(text if "://" in text else f"{scheme}://{text}").url)


def _meant(home: Home, text: str) -> list[str]:
    """The URL that a person means; two, with https and with http, where no scheme was given."""
    if not is_id(text):
        seed = parse(text)
        return [url for url in (seed.url, seed.fallback) if url]
    record = WirStore(home).get(text)
    if record is None:
        raise CombineError(f"there is no record {text}; name the URL")
    return [record.url]


def _plain(line: Job, *left_out: str) -> dict[str, Any]:
    return {
        name.lower(): int(value) if name in _NUMBERS and value.isdigit() else value
        for name, value in line.params.items()
        if name.lower() not in left_out
    }


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(inner)}" for name, inner in value.items() if inner is not None)
    return "; ".join(map(_shown, value)) if isinstance(value, list) else str(value)


def _print_why(found: dict[str, Any]) -> None:
    rows = [(name, found[name]) for name in ("url", "state", "site", "reason", "record") if found[name]]
    more = ("seed", "depth", "via", "nrt", "next")
    rows += [(name, found[name]) for name in more if found.get(name) not in (None, "")]
    put_pairs((name, str(value)) for name, value in rows)
    for name, value in (found["visit"] or {}).items():
        put(f"  visit {name}: {value}\n")
    for event in found["events"]:
        put("  " + "  ".join(str(value) for value in event.values() if value not in ("", None)) + "\n")
