"""scheduler: keep the queues of all sites, hand out sites, take back outcomes, and tell idbd what was learned.

Takes   ADD of parsers and the command, TAKE DONE of harvesters, STORED of parsers, GATE SITE WHY FORGET of the command.
Calls   idbd LOOKUP REMEMBER DUE FORGET.
Keeps   cabin/queue.sqlite, one commit a tick; in memory the sites that have rows.
Fails   on a full disk it answers RETRY and reads its state again; without idbd ADD answers RETRY, and TAKE goes on.
Limits  one process. A lease past its time is ended by SIGKILL to its holder, never taken from him.
Size:   it has the most verbs, and each is a few lines: unpack, one call, reply.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time

from combine.channel import Channel, Context
from combine.config import load
from combine.errors import ConfigError, RetryLater, WireError
from combine.ipc.client import AsyncClient
from combine.ipc.loop import run
from combine.ipc.message import Message
from combine.ipc.server import Request, Server, Verb, ok
from combine.keep.home import Home, lock, room
from combine.keep.spool import Spool
from combine.schedule import orders, report
from combine.schedule.clock import system_clock
from combine.schedule.database import read_whole
from combine.schedule.duties import Duties, Outside
from combine.schedule.exclusions import ExcludeFile
from combine.schedule.frontier import Frontier
from combine.schedule.intake import Intake, Offer
from combine.schedule.names import literal
from combine.schedule.offered import question
from combine.schedule.rates import Rates
from combine.schedule.rows import Rows
from combine.schedule.takes import Takes
from combine.services import SERVICES
from combine.urls import site_of
from combine.web.addresses import Allowed, Refused
from formats import jcf

log = logging.getLogger(__name__)


class Scheduler:
    """The desk of the scheduler: verbs over a Frontier."""

    service = SERVICES["scheduler"]

    def __init__(self, home: Home, context: Context) -> None:
        self._home, self._context = home, context
        home.cabin.mkdir(exist_ok=True)
        self._allowed = Allowed(context.settings.harvest.allow_private)
        self.database = home.cabin / "queue.sqlite"
        with read_whole(self.database):
            self._rows = Rows(self.database)
            self._frontier = Frontier(self._rows, context.settings, system_clock(), random.Random(), self._is_listed)
        self._intake = Intake(self._frontier)
        self._idbd = AsyncClient(home.socket("idbd"), "idbd", "scheduler")
        self._rates = Rates(time.monotonic)
        self._exclude, self._allow = ExcludeFile(home.exclude_file), ExcludeFile(home.allow_file)
        self._stalled()

    def verbs(self) -> dict[str, Verb]:
        """The verbs of services.py, each by its name in lower case."""
        return {name: getattr(self, name.lower()) for name in self.service.verbs}

    async def ping(self, request: Request) -> Message:
        """Alive."""
        return ok(text="scheduler")

    async def stat(self, request: Request) -> Message:
        """Counters, budgets, and the sites that wait."""
        return ok(report.stat(self._frontier, *self._rates.last_minute()))

    async def add(self, request: Request) -> Message:
        """Jobs and seeds."""
        offer = await self._offer(request.texts())
        return ok(offer.refused, offer.text())

    async def take(self, request: Request) -> Message:
        """Sites for a harvester, relink jobs for a parser, one site for `try`."""
        holder = self._duties.holders.of(request.peer.pid)
        return ok(await self._takes.take(request.jobs(), holder, request.is_gone))

    async def done(self, request: Request) -> Message:
        """Outcomes of what was handed out."""
        lines = request.jobs()
        for line in lines:
            if line.get("OUTCOME") and line.get("LEASE"):
                self._rates.note(line.number("SIZE"))
            if line.get("ROBOTS") == "changed" and line.url:
                question = jcf.job(SITE=site_of(line.url), OUTCOME="denied")
                self._duties.later(self._duties.ask_again(question, is_due=True))
        current = self._frontier.done_all(lines)
        self._duties.changed()
        return ok(f'{jcf.VERSION} FETCH="{fetch}"' for fetch in current)

    async def stored(self, request: Request) -> Message:
        """Results of pages that are on disk."""
        self._frontier.stored_all(request.jobs())
        self._duties.stored.set()
        self._duties.changed()
        return ok()

    async def gate(self, request: Request) -> Message:
        """Open or pause; or set what a run may still take."""
        orders.gate(self._frontier, request.jobs())
        self._duties.changed()
        return ok([jcf.job(GATE=self._frontier.gate)])

    async def site(self, request: Request) -> Message:
        """A site's facts; its delay and its block, as the operator says."""
        lines = [facts for line in request.jobs() if (facts := orders.site(self._frontier, line)) is not None]
        self._duties.changed()
        return ok(lines)

    async def why(self, request: Request) -> Message:
        """Why a URL was, or was not, asked."""
        lines = []
        for line in request.jobs():
            visits: list[jcf.Job] = []
            with contextlib.suppress(RetryLater, WireError):
                visits = await self._idbd.call("LOOKUP", [question(line.url), question(line.url, "sitemap")])
            lines += report.why(self._frontier, line.url, next(iter(visits), None))
        return ok(lines)

    async def forget(self, request: Request) -> Message:
        """Remove URLs from the queue and from idbd."""
        urls = [line.url for line in request.jobs()]
        self._frontier.rows_to_forget(urls)
        await self._idbd.call("FORGET", [jcf.job(URL=url) for url in urls])
        self._frontier.forget(urls)
        self._duties.changed()
        return ok()

    # The skeleton's questions ---------------------------------------------------------------------------------------

    @property
    def syncs(self) -> int:
        """Commits so far."""
        return self._rows.syncs

    def commit(self) -> None:
        """One sync for all that changed in a tick."""
        self._frontier.commit()

    def recover(self, reason: str) -> None:
        """Forget what was not committed, and read the state anew."""
        self._rows.rollback()
        self._frontier.load()
        self._duties.after_load()

    async def start(self, server: Server) -> None:
        """Start the duties."""
        outside = Outside(Spool(self._home).names, self._stalled, self._refusal)
        self._duties = Duties(self._frontier, self._idbd, outside, server, self._offer)
        self._takes = Takes(self._frontier, self._duties)
        self._duties.start()

    async def stop(self) -> None:
        """End the duties, and close."""
        await self._duties.stop()
        self._rows.commit()
        self._rows.db.close()

    def reread(self) -> None:
        """SIGHUP: the settings that may change while running."""
        try:
            settings = load(self._home.path, self._context.overrides)
        except ConfigError as error:
            log.error("the settings stay as they were: %s", error)
            return
        self._allowed = Allowed(settings.harvest.allow_private)
        self._frontier.use(settings)
        self._duties.changed()

    async def _offer(self, lines: list[str], is_due: bool = False) -> Offer:
        offer = await self._intake.offer(lines, self._look_up, is_due)
        self._frontier.tick()
        self._duties.changed()
        return offer

    async def _look_up(self, questions: list[str]) -> list[str]:
        return (await self._idbd.ask("LOOKUP", questions)).texts()

    def _is_listed(self, host: str, address: str) -> bool:
        return self._allowed.listed(host, address or literal(host))

    def _refusal(self, host: str, address: str) -> str:
        try:
            self._allowed.check(host, address)
        except Refused as error:
            return str(error)
        return ""

    def _stalled(self) -> str:
        """Why nothing may be handed out, "" where nothing is in the way; the exclude file is looked at on the way."""
        self._frontier.exclusions, self._frontier.allowed = self._exclude.look(), self._allow.look()
        return self._exclude.fault or self._allow.fault or room(self._home, self._frontier.settings).sentence


def main(context: Context) -> int:
    """Run the scheduler until told to stop; gives the exit code."""
    home = Home(context.home)
    channel = Channel(context.channel)
    with lock(home, "scheduler"):
        run(Server(Scheduler(home, context), home.socket("scheduler")), channel)
    return 0
