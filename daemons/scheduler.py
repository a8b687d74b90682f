"""scheduler: keep the queues of all sites, hand out sites, take back outcomes, and tell idbd what was learned.

Takes   ADD of parsers and the command, TAKE DONE of harvesters, STORED of parsers, GATE SITE WHY FORGET of the command.
Calls   idbd LOOKUP REMEMBER DUE FORGET.
Keeps   cabin/queue.sqlite, one commit a tick; in memory the sites that have rows.
Fails   on a full disk it answers RETRY and reads its state again; without idbd ADD answers RETRY, and TAKE goes on.
Limits  one process. A lease past its time is ended by SIGKILL to its holder, never taken from him.
"""

from __future__ import annotations

import logging
import random
import time

from combine.channel import Channel, Context
from combine.config import load
from combine.errors import ConfigError, Rejected, RetryLater
from combine.ipc.client import AsyncClient
from combine.ipc.loop import run
from combine.ipc.message import Message
from combine.ipc.server import Request, Server, Verb, ok
from combine.keep.home import Home, lock, room
from combine.keep.spool import Spool
from combine.schedule import report
from combine.schedule.clock import system_clock
from combine.schedule.duties import Duties, Outside
from combine.schedule.exclusions import ExcludeFile
from combine.schedule.frontier import Frontier
from combine.schedule.intake import Intake, Offer, question
from combine.schedule.leases import Holder
from combine.schedule.rates import Rates
from combine.schedule.rows import Rows
from combine.schedule.sites import is_site
from combine.services import SERVICES
from combine.urls import site_of
from combine.web.addresses import Allowed, Refused
from formats import jcf
from formats.jcf import Job

log = logging.getLogger(__name__)

#: Seconds between two looks at a site that `try` waits for: it may have no row whose turn would wake anybody.
SITE_S = 0.25


class Scheduler:
    """The desk of the scheduler: verbs over a Frontier."""

    service = SERVICES["scheduler"]

    def __init__(self, home: Home, context: Context) -> None:
        self._home, self._context = home, context
        home.cabin.mkdir(exist_ok=True)
        self._allowed = Allowed(context.settings.harvest.allow_private)
        self._rows = Rows(home.cabin / "queue.sqlite")
        self._frontier = Frontier(self._rows, context.settings, system_clock(), random.Random(), self._is_listed)
        self._intake = Intake(self._frontier)
        self._idbd = AsyncClient(home.socket("idbd"), "idbd", "scheduler")
        self._taking: dict[Holder, object] = {}
        self._rates = Rates(time.monotonic)
        self._exclude = ExcludeFile(home.exclude_file)
        self._stalled()

    def verbs(self) -> dict[str, Verb]:
        """The verbs of services.py."""
        return {
            "PING": self.ping,
            "STAT": self.stat,
            "ADD": self.add,
            "TAKE": self.take,
            "DONE": self.done,
            "STORED": self.stored,
            "GATE": self.gate,
            "SITE": self.site,
            "WHY": self.why,
            "FORGET": self.forget,
        }

    async def ping(self, request: Request) -> Message:
        """Alive."""
        return ok(text="scheduler")

    async def stat(self, request: Request) -> Message:
        """Counters, budgets, and the sites that wait."""
        return ok(report.stat(self._frontier, *self._rates.last_minute()))

    async def add(self, request: Request) -> Message:
        """Jobs and seeds."""
        offer = await self._offer(request.jobs())
        return ok(offer.refused, offer.text())

    async def take(self, request: Request) -> Message:
        """Sites for a harvester, relink jobs for a parser, one site for `try`."""
        lines = request.jobs()
        asked = lines[0] if lines else jcf.job(SITES=1)
        holder = self._duties.holders.of(request.peer.pid)
        if asked.kind == "relink" or not asked.get("SITE"):
            self._frontier.keep_only(holder, [line.number("LEASE") for line in lines[1:]])
        turn = self._taking[holder] = object()
        deadline = time.monotonic() + min(asked.seconds("WAIT", 20.0), self._frontier.settings.scheduler.take_wait_s)
        try:
            while not request.is_gone() and self._taking.get(holder) is turn:
                jobs = self._take(asked, holder)
                left = deadline - time.monotonic()
                if jobs or left <= 0 or self._server.stopping.is_set():
                    return ok(jobs)
                await self._duties.pulse.wait(min(left, SITE_S) if asked.get("SITE") else left)
        finally:
            if self._taking.get(holder) is turn:
                del self._taking[holder]
        return ok()

    def _take(self, asked: Job, holder: Holder) -> list[Job]:
        if asked.kind == "relink":
            return self._frontier.take_relinks(holder, min(asked.number("COUNT", 100), 500))
        if asked.get("SITE"):
            return self._take_site(asked.get("SITE"), holder)
        jobs = self._frontier.take(holder, min(max(asked.number("SITES", 1), 0), 1000))
        self._duties.looked()
        return jobs

    def _take_site(self, name: str, holder: Holder) -> list[Job]:
        if not is_site(name):
            raise Rejected(f"SITE={name[:200]!r} is no host, and no host with its port")
        lease = self._frontier.take_site(holder, name)
        if lease is None:
            return []
        self._duties.changed()
        return [jcf.job(SITE=name, LEASE=lease.id, DELAY=f"{lease.delay:g}")]

    async def done(self, request: Request) -> Message:
        """Outcomes of what was handed out."""
        current = []
        for line in request.jobs():
            if line.get("OUTCOME") and line.get("LEASE"):
                self._rates.note(line.number("SIZE"))
            if line.get("ROBOTS") == "changed" and line.url:
                question = jcf.job(SITE=site_of(line.url), OUTCOME="denied")
                self._duties.later(self._duties.ask_again(question, is_due=True))
            if self._frontier.done(line):
                current.append(jcf.job(FETCH=line.fetch))
        self._duties.changed()
        return ok(current)

    async def stored(self, request: Request) -> Message:
        """Results of pages that are on disk."""
        for line in request.jobs():
            self._frontier.stored(line)
        self._duties.stored.set()
        self._duties.changed()
        return ok()

    async def gate(self, request: Request) -> Message:
        """Open or pause; or set what a run may still take."""
        for line in request.jobs():
            word = line.get("GATE")
            if word and word not in ("open", "paused"):
                raise Rejected(f"GATE={word!r}: it is open or paused")
            if word:
                self._frontier.gate = word
                self._rows.set_meta("gate", word)
            if line.get("BUDGET"):
                self._frontier.seeds.set_budget(line.get("BUDGET"), line.number("LEFT"))
        self._frontier.tick()
        self._duties.changed()
        return ok([jcf.job(GATE=self._frontier.gate)])

    async def site(self, request: Request) -> Message:
        """A site's facts; its delay and its block, as the operator says."""
        lines = []
        for line in request.jobs():
            changes = bool(line.get("DELAY") or line.get("BLOCK"))
            if changes and not is_site(line.get("SITE")):
                raise Rejected(f"SITE={line.get('SITE')[:200]!r} is no host, and no host with its port")
            site = self._frontier.site_named(line.get("SITE"), create=changes)
            if site is None:
                continue
            if changes:
                self._frontier.instruct(site, line)
            lines.append(report.site_line(self._frontier, site))
            self._frontier.settle(site)
        self._duties.changed()
        return ok(lines)

    async def why(self, request: Request) -> Message:
        """Why a URL was, or was not, asked."""
        lines = []
        for line in request.jobs():
            try:
                asked = [question(line.url), question(line.url, "sitemap")]
                visit = next(iter(await self._idbd.call("LOOKUP", asked)), None)
            except RetryLater:
                visit = None
            lines += report.why(self._frontier, line.url, visit)
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

    def commit(self) -> None:
        """One sync for all that changed in a tick."""
        self._rows.commit()

    def recover(self, reason: str) -> None:
        """Forget what was not committed, and read the state anew."""
        self._rows.rollback()
        self._frontier.load()
        self._duties.after_load()

    async def start(self, server: Server) -> None:
        """Start the duties."""
        self._server = server
        outside = Outside(Spool(self._home).names, self._stalled, self._refusal)
        self._duties = Duties(self._frontier, self._idbd, outside, server, self._offer)
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
        self._frontier.settings = settings
        self._duties.changed()

    async def _offer(self, lines: list[Job], is_due: bool = False) -> Offer:
        offer = await self._intake.offer(lines, self._look_up, is_due)
        self._frontier.tick()
        self._duties.changed()
        return offer

    async def _look_up(self, questions: list[Job]) -> list[Job]:
        return await self._idbd.call("LOOKUP", questions)

    def _is_listed(self, host: str, address: str) -> bool:
        return self._allowed.listed(host, address)

    def _refusal(self, host: str, address: str) -> str:
        try:
            self._allowed.check(host, address)
        except Refused as error:
            return str(error)
        return ""

    def _stalled(self) -> str:
        """Why nothing may be handed out, "" where nothing is in the way; the exclude file is looked at on the way."""
        self._frontier.exclusions = self._exclude.look()
        return self._exclude.fault or room(self._home, self._frontier.settings).sentence


def main(context: Context) -> int:
    """Run the scheduler until told to stop; gives the exit code."""
    home = Home(context.home)
    channel = Channel(context.channel)
    with lock(home, "scheduler"):
        desk = Scheduler(home, context)
        run(Server(desk, home.socket("scheduler")), channel)
    return 0
