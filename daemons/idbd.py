"""idbd: keep the last visits of URLs and sites, and answer what is known, due or the same.

Takes   LOOKUP DUE SAME SITE FORGET of everyone, REMEMBER of the scheduler.
Calls   nobody.
Keeps   idb/visits.sqlite (URLs, one commit a tick), idb/sites.sqlite (the historical table of sites, JSON values).
Fails   on a full disk it answers RETRY and forgets what was not committed.
Limits  one process; a look-up costs some 10 µs; the table of sites is written behind, at most once in five seconds.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from combine.channel import Channel, Context
from combine.config import Settings, load
from combine.duty import end_with
from combine.errors import ConfigError, Rejected, RetryLater
from combine.ipc.loop import run
from combine.ipc.message import Message
from combine.ipc.server import Request, Server, Verb, ok
from combine.keep.home import Home, lock
from combine.schedule.clock import epoch_of, utc_text
from combine.schedule.database import read_whole
from combine.schedule.site_visits import SiteVisits
from combine.schedule.visits import TURNED, Visits
from combine.services import MESSAGE_LINES, SERVICES
from combine.urls import site_of
from formats import jcf

log = logging.getLogger(__name__)

#: Seconds between two writes of the table of sites: one costs 50 µs a site, and a busy site has news all the time.
SITES_S = 5.0

#: What STAT says, in its order.
STATED = ("urls", "records", "sites", "held")

#: Visits of an earlier version brought over at once, and for how many times what that took others come first.
MOVED, MOVE_SHARE = 1_000, 3.0


class Idbd:
    """The desk of idbd: verbs over Visits and the table of sites."""

    service = SERVICES["idbd"]

    def __init__(
        self, directory: Path, settings: Settings, read_settings: Callable[[], Settings] | None = None
    ) -> None:
        directory.mkdir(exist_ok=True)
        self._read_settings = read_settings
        self.database = directory / "visits.sqlite"
        with read_whole(self.database):
            self._visits = Visits(self.database, settings)
        self._sites = SiteVisits(directory / "sites.sqlite")
        self._tasks: list[asyncio.Task[None]] = []

    def verbs(self) -> dict[str, Verb]:
        """The verbs of services.py."""
        return {
            "PING": self.ping,
            "STAT": self.stat,
            "LOOKUP": self.lookup,
            "REMEMBER": self.remember,
            "DUE": self.due,
            "SAME": self.same,
            "SITE": self.site,
            "FORGET": self.forget,
        }

    async def ping(self, request: Request) -> Message:
        """Alive."""
        return ok(text="idbd")

    async def stat(self, request: Request) -> Message:
        """How many URLs, records and sites are known."""
        counts = self._visits.counts()
        return ok([jcf.job(NAME="idbd", **{name.upper(): counts[name] for name in STATED})])

    async def lookup(self, request: Request) -> Message:
        """The visits of URLs."""
        return ok(self._visits.lookup(request.texts(), time.time()))

    async def remember(self, request: Request) -> Message:
        """Visits, from the scheduler."""
        news = request.jobs()
        sites = [site_of(line.url) for line in news]
        if "" in sites:
            raise Rejected(f"a line of REMEMBER names a URL, not {news[sites.index('')].url[:60]!r}")
        self._visits.remember(news, time.time())
        now = utc_text(time.time())
        for line, site in zip(news, sites, strict=True):
            if line.get("OUTCOME"):
                self._sites.note(site, line, now)
        return ok()

    async def due(self, request: Request) -> Message:
        """Visits that are due before a time."""
        asked = next(iter(request.jobs()), jcf.job(COUNT=MESSAGE_LINES))
        before = epoch_of(asked.get("BEFORE")) if asked.get("BEFORE") else time.time()
        count = min(max(asked.number("COUNT", MESSAGE_LINES), 1), MESSAGE_LINES)
        since = epoch_of(asked.get("DUE"))
        return ok(self._visits.due(before, count, asked.get("SITE"), asked.get("OUTCOME"), since))

    async def same(self, request: Request) -> Message:
        """Whether a digest has company, and whether a removal must be held."""
        lines = []
        for line in request.jobs():
            if line.get("DIGEST") and (other := self._visits.same(line.url, line.get("DIGEST"))):
                lines.append(jcf.job(URL=line.url, SAME=other))
            elif line.get("OUTCOME") in TURNED and self._visits.holds(line.url, time.time()):
                lines.append(jcf.job(URL=line.url, HOLD="1"))
        return ok(lines)

    async def site(self, request: Request) -> Message:
        """The last visit of sites."""
        lines = []
        for line in request.jobs():
            name = line.get("SITE")
            facts = self._sites.get(name)
            if facts:
                lines.append(jcf.job(SITE=name, **facts))
        return ok(lines)

    async def forget(self, request: Request) -> Message:
        """Remove visits."""
        for line in request.jobs():
            self._visits.forget(line.url)
        return ok()

    @property
    def syncs(self) -> int:
        """Commits so far."""
        return self._visits.syncs

    def commit(self) -> None:
        """One sync for all that was remembered in a tick."""
        self._visits.commit()

    def recover(self, reason: str) -> None:
        """Forget what was not committed; nothing else is in memory."""
        self._visits.rollback()

    def reread(self) -> None:
        """SIGHUP: the settings that may change while running, which say when to visit again."""
        if self._read_settings is None:
            return
        try:
            self._visits.use(self._read_settings())
        except ConfigError as error:
            log.error("the settings stay as they were: %s", error)

    async def start(self, server: Server) -> None:
        """Write the table of sites behind, and bring over what an earlier version left."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(work) for work in (self._write_sites(), self._move(server))]
        for task in self._tasks:
            task.add_done_callback(partial(end_with, server.stopping))

    async def stop(self) -> None:
        """Write what waits, and close."""
        for task in self._tasks:
            task.cancel()
        self._sites.close()
        self._visits.close()

    async def _write_sites(self) -> None:
        while True:
            await asyncio.sleep(SITES_S)
            self._sites.flush()

    async def _move(self, server: Server) -> None:
        """Visits of an earlier version come over, some at a time, between what is asked."""
        while self._visits.is_moving:
            began = time.monotonic()
            try:
                self._visits.move(MOVED)
                await server.durable()
            except sqlite3.Error as error:
                server.spoil(f"the disk failed: {error}", error)
                await asyncio.sleep(SITES_S)
            except RetryLater:
                await asyncio.sleep(SITES_S)
            await asyncio.sleep(MOVE_SHARE * (time.monotonic() - began))


def main(context: Context) -> int:
    """Run idbd until told to stop; gives the exit code."""
    home = Home(context.home)
    channel = Channel(context.channel)
    with lock(home, "idbd"):
        desk = Idbd(home.idb, context.settings, lambda: load(home.path, context.overrides))
        run(Server(desk, home.socket("idbd")), channel)
    return 0
