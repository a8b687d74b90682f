"""The command harvest: one harvest, from URLs to records, with everything that it needs started and stopped again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

import click

from combine.cli import peers, plan, run, verdict
from combine.cli.durations import Duration
from combine.cli.peers import Stat
from combine.cli.plan import Plan
from combine.cli.progress import Progress, span
from combine.cli.queue import scope_of
from combine.cli.run import Bounds, End, Tally
from combine.cli.screen import counted, put_json, say
from combine.cli.seeds import Wish, read
from combine.cli.session import Session, command
from combine.cli.started import Started
from combine.cli.status import count_records
from combine.config import Settings
from combine.errors import EXIT_DONE, EXIT_FINDING, EXIT_TRY_LATER, RetryLater
from combine.keep.home import Home, create, is_home
from combine.keep.spool import Spool
from combine.schedule.clock import epoch_of
from combine.services import UNITS

#: What a Ctrl-C exits with, as shells have it: 128 + SIGINT.
EXIT_INTERRUPTED = 130

#: What people read for the counts of a report, where it is another word.
_WORDS = {
    "ok": "fetched",
    "notmodified": "unchanged",
    "redirect": "redirects",
    "denied": "forbidden by robots.txt",
    "failed": "failed tries",
    "dead": "given up",
}

#: Seconds between two looks at the units that were started.
_REVIVE_S = 1.0

#: Seconds that parsers have after the last STORED to put their batches away: a new one starts and looks in that time.
_PUT_AWAY_S = 5.0


@dataclass(slots=True)
class Report:
    """What a harvest came to: for the summary, and for `--json`."""

    home: str
    code: int
    sentence: str
    seconds: float
    records: int | None  # None while nobody has counted them
    counts: dict[str, int] = field(default_factory=dict)
    left: int = 0
    waits: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    said: frozenset[str] = frozenset()  # of these, what was said when it came about


@command("harvest", json=True, settings=True)
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option(
    "-i", "--input", "file", type=click.File("r", encoding="utf-8"), help="A file of URLs or JCF lines; - for stdin."
)
@click.option(
    "-l", "--depth", type=click.IntRange(0), help="Follow at most so many links from a seed; 0: the URLs only."
)
@click.option(
    "-w", "--delay", metavar="SECONDS", type=click.FloatRange(0, 1e6), help="Seconds between requests to a site."
)
@click.option("--include", metavar="RE", multiple=True, help="Only URLs that match; may be given again.")
@click.option("--exclude", metavar="RE", multiple=True, help="No URLs that match; may be given again.")
@click.option("--limit", metavar="N", type=click.IntRange(1), help="At most so many pages in this run.")
@click.option("--time", "time_s", type=Duration(), help="Hand out nothing more after this time: 90, 10m, 2h.")
@click.option("--tag", metavar="TAG", default="", help="A tag for the records.")
@click.option(
    "--force", is_flag=True, help="Ask again what was asked within 30 days; robots, scope and delay still hold."
)
@click.option(
    "--wait",
    "wait_s",
    type=Duration(),
    default=600.0,
    help="Give up where nothing can be done for this time.  [default: 10m]",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option(
    "--allow-private", metavar="HOST", multiple=True, help="A private host, address or network that may be asked."
)
@click.option("--same-host", is_flag=True, help="Stay on the hosts of the URLs (the default).")
@click.option("--same-domain", is_flag=True, help="Stay on the domains of the URLs.")
@click.option("--under", metavar="PREFIX", help="Stay under a URL, as under a directory.")
@click.option("--sitemap", "sitemaps", metavar="URL", multiple=True, help="A sitemap or feed that lists the pages.")
@click.option("--requisites", is_flag=True, help="Take the images, styles and scripts of pages, too.")
def harvest_command(
    session: Session,
    urls: tuple[str, ...],
    file: IO[str] | None,
    depth: int | None,
    delay: float | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    limit: int | None,
    time_s: float | None,
    tag: str,
    force: bool,
    wait_s: float,
    dry_run: bool,
    allow_private: tuple[str, ...],
    same_host: bool,
    same_domain: bool,
    under: str | None,
    sitemaps: tuple[str, ...],
    requisites: bool,
) -> int:
    """Harvest sites once: start what does not run, load the URLs, end when all is done.

    A second run goes on where the first ended. Without a scheme a URL is tried with https, then with http.
    """
    if not urls and file is None and not sitemaps:
        raise click.UsageError("name a URL, a file of them with -i, or a --sitemap")
    wish = Wish(
        scope=scope_of(same_domain, under, same_host),
        depth=depth,
        include=include,
        exclude=exclude,
        tag=tag,
        delay="auto" if delay is None else f"{delay:g}",
        budget=f"{int(time.time())}-{os.getpid()}",
        limit=limit,
        since=_now() if force else "",
        requisites=requisites,
    )
    seeds = read(urls, file, sitemaps)
    where = session.where()
    if is_home(where):
        session.home(write=False)  # a newer home may have settings that this program does not know
    overrides = tuple(f"harvest.allow_private={host}" for host in allow_private)
    session.overrides += overrides
    settings = session.settings(where)
    made = plan.make(seeds, wish, settings)
    _say_plan(session, made, settings, where)
    if dry_run:
        return EXIT_DONE
    home = create(where) if not is_home(where) else session.home()
    plan.refuse_unfollowed(home)
    report = harvest(home, made, Bounds(wish.budget, time_s, wait_s), session)
    _say_report(session, report)
    return report.code


def _now() -> str:
    """Now, to the millisecond: a round is younger than all that was visited before it, be it in the same second."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def harvest(home: Home, made: Plan, bounds: Bounds, session: Session) -> Report:
    """Do one harvest and report.

    Raises CombineError where it cannot begin. Ctrl-C stops what was started and is reported.
    """
    began = time.monotonic()
    # What is due again is asked for in a standing harvest only: this one has an end.
    overrides = (*session.overrides, "scheduler.standing=false")
    with _interruptible(), Started(home, overrides) as started:
        try:
            report = _attended(home, made, bounds, session, started)
        except KeyboardInterrupt:
            session.say("\ncombine: stopping; the same command goes on from here")
            sentence = "interrupted; the same command goes on from here"
            report = Report(str(home.path), EXIT_INTERRUPTED, sentence, 0.0, None)
        started.stop()
    report.seconds = round(time.monotonic() - began, 1)
    if report.records is None:
        report.records = count_records(home)
    return report


def begin_of_round(wished: str, left: str) -> str:
    """When the forced round begins, "" without one.

    One that was interrupted is taken up again, so that no page of it is asked twice; but not one that begins in the
    future, since the clock was set back: it would ask for nothing.
    """
    return left if wished and left and epoch_of(left) <= epoch_of(wished) else wished


def _attended(home: Home, made: Plan, bounds: Bounds, session: Session, started: Started) -> Report:
    """The part during which daemons run."""
    found = started.need(*(unit for unit in UNITS if unit != "harvester"), next_unit="harvester")
    with peers.scheduler(home) as client:
        revive = partial(started.revive, say)
        before = peers.read_stat(run.insist(lambda: client.call("STAT"), bounds.wait_s, revive))
        if before.gate == "paused":
            raise RetryLater("the gate is paused: combine open opens it")
        wish = Wish(**{**_fields(made.wish), "since": begin_of_round(made.wish.since, before.since)})
        loaded = run.load(client, made.seeds, wish, bounds.wait_s, revive)
        refused = [verdict.not_taken(url, reason) for url, reason in loaded.refused.items()][: verdict.SENTENCES]
        for sentence in refused:
            say(f"combine: {sentence}")
        # Only now: what an earlier run left must not go out at that run's delay, and beyond this one's limit.
        found += [unit for unit in started.need(*UNITS) if unit not in (*found, *started.units)]
        if found and session.overrides:
            say(
                f"combine: {', '.join(found)} ran already, with settings of their own: "
                "--set and --allow-private do not reach them"
            )
        tally = Tally(before.counts)
        end, stat = _followed(client, home, bounds, session, started, tally)
        if end.code == EXIT_DONE:
            _await_empty(Spool(home))
        seen = verdict.judge_seeds(client, home, made.seeds, wish, loaded.refused) if stat else verdict.Verdict()
        # idbd has heard of every page when none is under way.
        records = peers.known_records(home) if stat and not stat.under_way else None
    report = _report(home, end, tally, stat, seen)
    report.records = records
    report.said = frozenset(refused)
    return report


def _followed(
    client: peers.Client, home: Home, bounds: Bounds, session: Session, started: Started, tally: Tally
) -> tuple[End, Stat | None]:
    progress = Progress(home, session.quiet, "cabin" in started.units)
    looked = time.monotonic()

    def seen(look: run.Look) -> None:
        nonlocal looked
        progress.show(look)
        if look.stat:
            tally.see(look.stat.counts)
        if time.monotonic() - looked > _REVIVE_S:
            looked = time.monotonic()
            started.revive(progress.live.say)
            started.tell_waits(progress.live.say)

    try:
        return run.follow(client, bounds, seen)
    finally:
        progress.close()


def _await_empty(spool: Spool) -> None:
    """Wait a little until all batches are put away: one that dies after its last STORED leaves them to the next."""
    deadline = time.monotonic() + _PUT_AWAY_S
    while not spool.is_empty() and time.monotonic() < deadline:
        time.sleep(run.LOOK_S / 4)


def _report(home: Home, end: End, tally: Tally, stat: Stat | None, seen: verdict.Verdict) -> Report:
    code = end.code
    if code == EXIT_DONE and seen.missing:
        code = EXIT_FINDING
    report = Report(
        str(home.path), code, end.sentence, 0.0, None, missing=list(seen.missing), elsewhere=list(seen.elsewhere)
    )
    if stat is not None:
        report.left = stat.queued + stat.under_way
        report.waits = run.waits(stat) if code == EXIT_TRY_LATER else []
        report.counts = {**tally.counts, "dead": stat.dead}
    return report


def _fields(wish: Wish) -> dict[str, Any]:
    return {name: getattr(wish, name) for name in Wish.__slots__}


def _say_plan(session: Session, made: Plan, settings: Settings, where: Path) -> None:
    if session.quiet:
        return
    rows = [("home", str(where)), *plan.describe(made, settings)]
    say("\n".join(f"{name:<8}{text}" for name, text in rows))


def _say_report(session: Session, report: Report) -> None:
    if session.json:
        put_json({name: getattr(report, name) for name in Report.__slots__ if name != "said"})
    missing = [sentence for sentence in report.missing if sentence not in report.said]
    for group in (report.elsewhere, missing, report.waits):
        for sentence in group[: verdict.SENTENCES]:
            say(f"combine: {sentence}")
        if len(group) > verdict.SENTENCES:
            say(f"combine: and {len(group) - verdict.SENTENCES:,} more")
    if report.sentence and report.code != EXIT_INTERRUPTED:
        say(f"combine: {report.sentence}")
    counts = ", ".join(f"{count:,} {_WORDS.get(name, name)}" for name, count in report.counts.items())
    done = "done" if report.code == EXIT_DONE and not report.left else "ended"
    session.say(
        f"combine: {done} after {span(report.seconds)}: {counted(report.records or 0, 'record')} in {report.home}/hdb"
        + (f"; this run: {counts}" if counts else "")
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP mean what Ctrl-C means, in the main thread: others have no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    # Under nohup the end of the terminal means nothing. A script's `&` makes its child deaf to SIGINT, but whoever
    # sends one to this process alone means it.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
