"""The verdict on the seeds of a harvest: whether each, followed through its redirects, has a record, and if not, why.

The store answers for the many that have one; only for the others is the scheduler asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from combine import urls
from combine.cli.seeds import Seed, Wish
from combine.errors import CombineError
from combine.ipc.client import Client
from combine.keep.home import Home
from combine.keep.store import WirStore
from combine.schedule.scope import Scope, seed_rule
from formats.jcf import Job, job

#: Redirects followed here: as many as the scheduler follows, and the seed.
_HOPS = 11

#: Sentences a run says about its seeds; the rest is counted.
SENTENCES = 10

#: What a person reads for an outcome that left no record.
_WORDS = {
    "gone": "is gone",
    "refused": "was refused",
    "denied": "is forbidden by its robots.txt",
    "failed": "failed",
    "redirect": "redirects",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Sentences about seeds: `missing` have no record, `elsewhere` led out of their scope."""

    missing: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Why:
    """What the scheduler answers to WHY: the row, the visit, and the last outcomes, oldest first."""

    row: Job
    visit: Job | None
    events: tuple[Job, ...]

    @property
    def outcome(self) -> str:
        """The last outcome that anybody knows of."""
        last = self.events[-1].get("OUTCOME") if self.events else ""
        return last or (self.visit.get("OUTCOME") if self.visit else "")


def ask_why(client: Client, url: str) -> Why:
    """Ask the scheduler why a URL was, or was not, fetched."""
    first, *rest = client.call("WHY", [job(URL=url)])
    visit = next((line for line in rest if line.kind == "visit"), None)
    return Why(first, visit, tuple(line for line in rest if line.kind == "event"))


def judge_seeds(client: Client, home: Home, seeds: Iterable[Seed], wish: Wish, refused: Mapping[str, str]) -> Verdict:
    """Look at every seed of a run that is over."""
    store = WirStore(home)
    missing: list[str] = []
    elsewhere: list[str] = []
    for seed in seeds:
        if not seed.is_sitemap and any(store.path(url).exists() for url in (seed.url, seed.fallback) if url):
            continue
        if seed.url in refused:
            missing.append(not_taken(seed.url, refused[seed.url]))
            continue
        if seed.is_sitemap:
            missing += _of_sitemap(ask_why(client, seed.url))
            continue
        first, last, why = _follow(client, store, seed)
        if why is None:
            if not _is_inside(seed, wish, last):
                elsewhere.append(outside(first, last))
        elif why.row.get("STATE") not in ("queued", "leased", "fetched"):
            missing.append(sentence(first, last, why))
    return Verdict(tuple(missing), tuple(elsewhere))


def not_taken(url: str, reason: str) -> str:
    """The sentence about a URL that ADD refused."""
    return f"{url} was not taken: {reason}"


def outside(seed: str, target: str) -> str:
    """The sentence about a seed whose redirect leads out of its scope."""
    scheme, _, rest = target.partition("://")
    root = f"{scheme}://{rest.partition('/')[0]}/"
    return (
        f"{seed} redirects to {target}, which is outside its scope: that one page was taken; "
        f"to harvest that site: combine harvest {root}"
    )


def sentence(seed: str, last: str, why: Why) -> str:
    """The sentence about a seed without a record."""
    through = f" (redirected to {last})" if last != seed else ""
    event = why.events[-1] if why.events else why.visit
    said = _WORDS.get(why.outcome, "was not fetched")
    status = event.get("STATUS") if event else ""
    shown = [f"status {status}"] if status not in ("", "0") else []
    shown += [event.get("REASON")] if event and event.get("REASON") else []
    details = ", ".join(shown) or why.row.get("REASON")
    return f"{seed}{through} has no record: it {said}" + (f" ({details})" if details else "")


def _of_sitemap(why: Why) -> list[str]:
    """The sentence about a sitemap that could not be read."""
    if why.outcome in ("", "ok", "redirect") or why.row.get("STATE") in ("queued", "leased", "fetched"):
        return []
    said = _WORDS.get(why.outcome, "was not fetched")
    return [f"the sitemap {why.row.url} was not read: it {said} ({why.row.get('REASON')})"]


def _follow(client: Client, store: WirStore, seed: Seed) -> tuple[str, str, Why | None]:
    """The URL that was asked for a seed, the one it ends at, and why that has no record; None where it has one."""
    first = url = seed.url
    why = ask_why(client, url)
    if seed.fallback and why.row.get("STATE") == "unknown":
        # Where https could not be reached its row has become one of http.
        first = url = seed.fallback
        why = ask_why(client, url)
    for _ in range(_HOPS):
        target = why.visit.get("TO") if why.visit else ""
        if not target:
            break
        url = target
        if store.path(url).exists():
            return first, url, None
        why = ask_why(client, url)
    return first, url, why


def _is_inside(seed: Seed, wish: Wish, target: str) -> bool:
    try:
        scope = Scope((seed_rule(seed.params.get("SCOPE", wish.scope), seed.url),))
    except CombineError:
        return True
    same = urls.registrable_domain(urls.host_of(seed.url)) == urls.registrable_domain(urls.host_of(target))
    return scope.admits(target) or (same and not wish.scope.startswith("under:"))
