"""What a parser offers to the scheduler: ADD in full messages, and the links of menus not with every page.

A link that was acknowledged a moment ago, for the same seed, round and scope and from no more hops, is not sent again:
the row or the visit that the scheduler answered for still stands. Relink jobs pass by this memory, since they exist to
offer again, and so do redirects. Bounded, and forgotten after a while.

Nor is a link sent that the scheduler would not take: beyond the hops left, or on a host outside the scope. What a lease
says of both is true of the scope whose number it bears, and a visit notes that its links were offered for that one.

Of forty links on a page some two are sent, so the others never become a line. A line is put together as text: what
all links of a page share is written once, and a normalised URL holds nothing that JCF would encode.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable

from combine.schedule.scope import admits
from combine.services import MESSAGE_LINES
from combine.urls import site_of
from formats import jcf
from formats.jcf import Job

#: Links remembered, and seconds for which.
REMEMBERED, REMEMBER_S = 50_000, 60.0

#: A job with the URLs that its page leads to, each with its way: "" for a link, redirect, requisite.
Targets = tuple[Job, dict[str, str]]

#: Seed, round and scope.
Round = tuple[str, str, str]

_FARTHEST = 1 << 60
_NO_LINE = (_FARTHEST, b"")


class Offers:
    """Gathers ADD lines and sends them; `call` asks the scheduler and raises nothing but what ends the parser."""

    def __init__(self, call: Callable[[list[bytes]], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._call, self._clock = call, clock
        self._sent: defaultdict[Round, dict[str, int]] = defaultdict(dict)  # by URL, the depth
        self._since = 0.0

    def send(self, offered: Iterable[Targets]) -> None:
        """Offer the links of jobs; when this returns, all are acknowledged."""
        self._forget()
        others: list[bytes] = []
        lines: dict[tuple[Round, str], tuple[int, bytes]] = {}
        for job, targets in offered:
            round_ = (job.get("SEED"), job.get("SINCE"), _scope(job))
            sent, depth = self._sent[round_], job.number("DEPTH") + 1
            line, leads_inside = _line_of(job), _inside(job)
            for url, way in targets.items():
                if way:
                    others.append(line(url, way))
                elif (
                    depth < sent.get(url, _FARTHEST)
                    and depth < lines.get((round_, url), _NO_LINE)[0]
                    and leads_inside(url)
                ):
                    lines[round_, url] = (depth, line(url, way))
        self._send(others)
        self._send([line for _, line in lines.values()])
        for (round_, url), (depth, _) in lines.items():
            self._sent[round_][url] = depth

    def send_again(self, offered: Iterable[Targets]) -> None:
        """Offer links whatever was sent before."""
        lines: list[bytes] = []
        for job, targets in offered:
            line, leads_inside = _line_of(job), _inside(job)
            lines += [line(url, way) for url, way in targets.items() if way or leads_inside(url)]
        self._send(lines)

    def send_jobs(self, jobs: Iterable[Job]) -> None:
        """Offer whole lines: what a sitemap lists says more than that it is there."""
        self._send([jcf.dump(job) for job in jobs])

    def _send(self, lines: list[bytes]) -> None:
        for start in range(0, len(lines), MESSAGE_LINES):
            self._call(lines[start : start + MESSAGE_LINES])

    def _forget(self) -> None:
        now = self._clock()
        if now - self._since > REMEMBER_S or sum(map(len, self._sent.values())) > REMEMBERED:
            self._sent.clear()
            self._since = now


def _line_of(job: Job) -> Callable[[str, str], bytes]:
    """Writes the ADD line of a URL to which a job's page leads in some way."""
    depth, hops = job.number("DEPTH"), job.number("HOPS")
    kept = {name: job.get(name) or None for name in ("TAG", "SINCE", "HDB")}
    shared = jcf.dump_text(jcf.job(SEED=job.get("SEED"), VIA=job.url, **kept)).removeprefix(jcf.VERSION)

    ways = {
        "": f'DEPTH="{depth + 1}"',
        "redirect": f'DEPTH="{depth}" HOPS="{hops + 1}"',
        "requisite": f'DEPTH="{depth}" REQUISITE="1"',
    }
    return lambda url, way: f'{jcf.VERSION} URL="{url}"{shared} {ways[way]}'.encode()


def _inside(job: Job) -> Callable[[str], bool]:
    """Tells whether a link of a job's page may be in scope, as far as its lease says."""
    if job.get("SCOPES").endswith(":0"):
        return lambda _: False
    hosts = job.get("HOSTS")
    return (lambda url: admits(hosts, site_of(url))) if hosts else lambda _: True


def _scope(job: Job) -> str:
    """The scope's number and its depth as a whole: hops left and hops made."""
    number, _, left = job.get("SCOPES").partition(":")
    return f"{number}:{int(left) + job.number('DEPTH')}" if left.isdigit() else job.get("SCOPES")
