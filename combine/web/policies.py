"""What a site says about the use of its pages beside robots.txt: /.well-known/tdmrep.json, and /ai.txt.

They are asked for once a day, under the lease of the site and at its pace, and only for purposes that they speak of:
tdmrep.json for `research` and `ai`, ai.txt for `ai`. Copies lie beside those of robots.txt. A file that is missing,
unreachable or no such file says nothing: it is not access that it is about, so no page waits for it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from combine.config import Settings
from combine.web.robots import Answer, RobotsStore, judge, origin_of, standing
from combine.web.rules import Rules
from formats import jcf
from formats.jcf import Job

TDMREP, AI_TXT = "/.well-known/tdmrep.json", "/ai.txt"

#: The files that speak of a purpose.
FILES: dict[str, tuple[str, ...]] = {"research": (TDMREP,), "ai": (TDMREP, AI_TXT)}

#: Files remembered.
REMEMBERED = 2000

#: Entries of a tdmrep.json that are read.
ENTRIES = 1000

#: Signal, value, and where it was seen.
Signal = tuple[str, str, str]

#: Asks for a file and follows its redirects on the site; gives the answer, or where on another site it lies.
Follow = Callable[[Job], Awaitable[Answer | tuple[str, int]]]


class Policies:
    """The policies of one harvester process, a bounded memory over the store of robots.txt."""

    def __init__(self, settings: Settings, store: RobotsStore, clock: Callable[[], float]) -> None:
        self._settings, self._store, self._clock = settings, store, clock
        self._known: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    async def of(self, job: Job, rules: Rules, follow: Follow) -> tuple[Signal, ...]:
        """What the site's files say of a page, asked for where that is due and robots.txt allows it."""
        found: list[Signal] = []
        for path in FILES.get(self._settings.rights.purpose, ()):
            url = origin_of(job.url) + path
            if rules.allows(url):
                body = await self._body(url, job, follow)
                found += of_tdmrep(body, job.url) if path == TDMREP else of_ai_txt(body, job.url, self._agent)
        return tuple(found)

    @property
    def _agent(self) -> str:
        return self._settings.agent.name

    async def _body(self, url: str, job: Job, follow: Follow) -> bytes:
        now = self._clock()
        until, body = self._known.get(url, (0.0, b""))
        if now < until:
            return body
        copy = self._store.load(url)
        verdict = standing(copy, now, self._settings.politeness) if copy is not None else None
        if verdict is None:
            answer = await follow(jcf.job(URL=url, KIND="robots", LEASE=job.params.get("LEASE")))
            if not isinstance(answer, Answer):
                answer = Answer(404, reason="redirect")
            copy, verdict = judge(copy, url, answer, self._clock(), self._settings.politeness)
            self._store.save(copy)
        self._known[url] = (verdict.until, verdict.body)
        self._known.move_to_end(url)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return verdict.body


def of_tdmrep(body: bytes, url: str) -> list[Signal]:
    """The reservation and policy of the entry whose location matches a URL best; nothing where none does."""
    try:
        entries = json.loads(body) if body else []
    except (ValueError, RecursionError):
        return []
    best: dict[str, object] = {}
    for entry in entries[:ENTRIES] if isinstance(entries, list) else []:
        location = entry.get("location") if isinstance(entry, dict) else None
        if isinstance(location, str) and len(location) > len(str(best.get("location", ""))) and _covers(location, url):
            best = entry
    values = ((name, best.get(name)) for name in ("tdm-reservation", "tdm-policy"))
    return [(name, str(value), TDMREP) for name, value in values if isinstance(value, (int, str))]


def of_ai_txt(body: bytes, url: str, agent: str) -> list[Signal]:
    """Whether ai.txt, which is written as robots.txt is, forbids a page."""
    return [] if Rules.parse(body, agent).allows(url) else [("ai.txt", "disallow", AI_TXT)]


def _covers(location: str, url: str) -> bool:
    line = "".join(location.split())
    return not Rules.parse(f"User-agent: *\nDisallow: {line}".encode("utf-8", "replace"), "").allows(url)
