"""The whole system around the real scheduler and idbd, small: two pages of one site, two harvesters, two parsers.

Page A, the seed, links to page B, B links back to A; or, in a smaller web, to nowhere; or there is no B. Harvesters and
parsers are modelled step by step in the order of the real ones (combine/web/lease.py, combine/keep/outbox.py,
daemons/parser.py), the spool and the store as files with what is on disk and what is safe there. A state is a value;
`steps` gives every step that may come next, faults among them. What is never right wherever it happens raises `Broken`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from combine.page.lesson import targets
from combine.schedule.clock import epoch_of, utc_text
from combine.schedule.offers import Offers
from formats import jcf
from formats.jcf import Job
from formats.wir import Link
from tests.explorer.cabin import Cabin
from tests.explorer.idb import Idb
from tests.explorer.state import (
    LINKS,
    PAGES,
    QUESTIONS,
    A,
    Adding,
    Batch,
    Broken,
    File,
    Harvest,
    Harvester,
    Limits,
    Parser,
    State,
    Step,
    holder_of,
    parsed,
    parser_of,
)
from tests.explorer.tables import DELAY, Answer, utc_at


class Model:
    """All steps of all states."""

    def __init__(self, limits: Limits, *, syncs: bool = True) -> None:
        self.limits, self._syncs, self._web = limits, syncs, limits.web
        self.cabin, self.idb = Cabin(), Idb()

    def close(self) -> None:
        self.cabin.close()
        self.idb.close()

    def start(self) -> State:
        """Page A was added as a seed, and that is all."""
        seed = jcf.job(URL=A, SCOPE="host", DELAY=f"{DELAY:g}")
        return State(self.cabin.start(seed), self.idb.start())

    def steps(self, state: State) -> Iterator[Step]:
        """All that may happen next.

        Where nobody can be killed any more and no power fail, a batch is published at once: it is the only thing that
        its harvester can do, and nothing that another does prevents it or is prevented by it.
        """
        if state.kills == self.limits.kills and state.powers == self.limits.powers:
            for number, harvester in enumerate(state.harvesters):
                if harvester.lines and not harvester.sent and not harvester.is_stopped:
                    yield self._publish(state, number, f"harvester {number + 1}")
                    return
        for number in range(self.limits.harvesters):
            yield from self._harvester_steps(state, number)
        for number in range(self.limits.parsers):
            yield from self._parser_steps(state, number)
        yield from self._cabin_steps(state)
        yield from self._round_steps(state)
        yield from self._message_steps(state)
        if state.powers < self.limits.powers:
            yield from self._power_loss(state)

    # Harvesters --------------------------------------------------------------------------------------------------

    def _harvester_steps(self, state: State, number: int) -> Iterator[Step]:
        harvester = state.harvesters[number]
        name = f"harvester {number + 1}"
        if state.kills < self.limits.kills and harvester != Harvester(harvester.life):
            yield from self._harvester_faults(state, number, name)
        if harvester.is_stopped:
            return
        if harvester.sent:
            yield from self._send(state, number, name)
        elif harvester.lines:
            yield self._publish(state, number, name)
        if harvester.asking:
            yield f"{name} has its answer", False, self._answered(state, number)
        elif harvester.jobs and not harvester.rests and not harvester.lines and not harvester.sent:
            yield from self._ask(state, number, name)
        elif _is_idle(harvester) and self._is_first(state, number):
            yield from self._take(state, number, name)

    def _is_first(self, state: State, number: int) -> bool:
        """Whether a harvester that is idle has something to take: of two that are alike only the first has."""
        if self.cabin.has_lease(state.cabin, holder_of(number, state.harvesters[number])):
            return True  # it never heard of it
        return not any(map(_is_idle, state.harvesters[:number]))

    def _take(self, state: State, number: int, name: str) -> Iterator[Step]:
        harvester = state.harvesters[number]
        holder = holder_of(number, harvester)
        cabin, jobs = self.cabin.take(state.cabin, holder, (), utc_at(state.forced))
        if cabin == state.cabin:
            return
        lost = state._replace(cabin=cabin)
        if not jobs:
            yield f"{name} takes nothing", False, lost
            return
        lease = parsed(jobs[0]).number("LEASE")
        yield f"{name} takes {_names(jobs)}", False, _with(lost, number, harvester._replace(lease=lease, jobs=jobs))
        if state.messages < self.limits.messages:
            yield f"{name} takes, and the answer is lost", True, lost._replace(messages=state.messages + 1)

    def _ask(self, state: State, number: int, name: str) -> Iterator[Step]:
        """A request and its answer: one step, unless the harvester is stopped in between, so that time may pass."""
        harvester = state.harvesters[number]
        job, *rest = harvester.jobs
        label = f"{name} asks for {_names((job,))}"
        if any(other.asking for other in state.harvesters):
            raise Broken(f"{label}: the site is asked twice at once")
        if state.is_resting:
            raise Broken(f"{label}: the site is asked too soon")
        place = PAGES.index(parsed(job).url)
        asked = tuple(count + (page == place) for page, count in enumerate(state.asked))
        if asked[place] > 1 + state.forced + state.faults:
            raise Broken(f"{label}: {asked[place]} times, with {state.faults} faults")
        version = 1 + (state.forced and place == 0)
        began = utc_text(utc_at(state.forced))
        asking = harvester._replace(jobs=tuple(rest), asking=job, answer=version, began=began)
        state = _with(state, number, asking)._replace(asked=(asked[0], asked[1]))
        yield label, False, self._answered(state, number)
        if state.kills < self.limits.kills:
            stopped = asking._replace(is_stopped=True)
            yield (
                f"{label} and is stopped", True,
                _with(state, number, stopped)._replace(kills=state.kills + 1, is_resting=True),
            )  # fmt: skip

    def _answered(self, state: State, number: int) -> State:
        harvester = state.harvesters[number]
        job = parsed(harvester.asking)
        is_known = job.get("FTIME") and job.get("ETAG") == f"v{harvester.answer}"
        outcome = "not-modified" if is_known else "ok"
        harvest = Harvest(harvester.asking, outcome, harvester.answer, harvester.began)
        line = jcf.job(URL=job.url, FETCH=job.fetch, LEASE=job.get("LEASE"), OUTCOME=outcome)
        lines = [*harvester.lines, (jcf.dump_text(line), True)]
        ended = harvester._replace(
            asking="", answer=0, began="", rests=True, open=(*harvester.open, harvest), lines=tuple(lines)
        )
        if not ended.jobs or ended.is_ending:
            ended = _end_of_lease(ended)
        return _with(state, number, ended)._replace(is_resting=True)

    def _publish(self, state: State, number: int, name: str) -> Step:
        """The batch is synced and renamed, its directory synced: one step, since nothing is told before its end."""
        harvester = state.harvesters[number]
        batch, spool = "", state.spool
        if harvester.open:
            batch = "+".join(str(parsed(harvest.job).fetch) for harvest in harvester.open)
            spool = (*spool, Batch(batch, harvester.open, "new", "new"))
        sent = tuple(
            jcf.dump_text(parsed(line).having(BATCH=batch)) if is_in_batch else line
            for line, is_in_batch in harvester.lines
        )
        done = _with(state, number, harvester._replace(open=(), lines=(), sent=sent))
        return f"{name} publishes batch {batch or 'nothing'}", False, done._replace(spool=tuple(sorted(spool)))

    def _send(self, state: State, number: int, name: str) -> Iterator[Step]:
        harvester = state.harvesters[number]
        cabin, _ = self.cabin.done(state.cabin, harvester.sent, utc_at(state.forced))
        lost = state._replace(cabin=cabin)
        sent = harvester._replace(sent=())
        if any(parsed(line).get("END") for line in harvester.sent):
            sent = sent._replace(lease=0, rests=False)
        if sent.is_ending and not sent.lease and not sent.lines:
            sent = Harvester(harvester.life + 1)
            lost = lost._replace(dead=(*lost.dead, holder_of(number, harvester)))
        yield f"{name} says DONE", False, _with(lost, number, sent)
        if state.messages < self.limits.messages and cabin != state.cabin:
            yield f"{name} says DONE, and the answer is lost", True, lost._replace(messages=state.messages + 1)

    def _harvester_faults(self, state: State, number: int, name: str) -> Iterator[Step]:
        harvester = state.harvesters[number]
        worse = state._replace(kills=state.kills + 1)
        dead = self._killed_harvester(worse, number)
        if harvester.sent and not harvester.is_stopped:
            late = tuple(sorted({*dead.late, ("DONE", harvester.sent)}))
            yield f"{name} is killed, its DONE on the way", True, dead._replace(late=late)
        else:
            yield f"{name} is killed", True, dead
        if not harvester.is_stopped and not harvester.is_ending:
            yield f"{name} is stopped", True, _with(worse, number, harvester._replace(is_stopped=True))
            ending = harvester._replace(is_ending=True)
            if ending.jobs and not ending.asking:
                ending = _end_of_lease(ending)
            yield f"{name} is told to end", True, _with(worse, number, ending)

    def _killed_harvester(self, state: State, number: int) -> State:
        harvester = state.harvesters[number]
        dead = tuple(sorted({*state.dead, holder_of(number, harvester)}, key=repr))
        resting = state.is_resting or bool(harvester.asking)
        return _with(state, number, Harvester(harvester.life + 1))._replace(dead=dead, is_resting=resting)

    # Parsers -----------------------------------------------------------------------------------------------------

    def _parser_steps(self, state: State, number: int) -> Iterator[Step]:
        parser = state.parsers[number]
        name = f"parser {number + 1}"
        if state.kills < self.limits.kills and parser != Parser(parser.life, parser.is_fresh):
            yield from self._parser_faults(state, number, name)
        if parser.adding is not None:
            for label, is_fault, after, adding in self._add(state, parser.adding):
                yield f"{name}: {label}", is_fault, self._added(after, number, adding)
            return
        yield from self._claim(state, number, name)
        if parser.ready or parser.leases:
            yield from self._store(state, number, name)

    def _parser_faults(self, state: State, number: int, name: str) -> Iterator[Step]:
        parser = state.parsers[number]
        dead = self._killed_parser(state, number)
        if parser.adding is not None:
            late = tuple(sorted({*dead.late, ("ADD", parser.adding[1])}))
            yield f"{name} is killed, its ADD on the way", True, dead._replace(late=late)
            return
        yield f"{name} is killed", True, dead
        if parser.lines:
            synced = self._killed_parser(self.synced(state), number)
            late = tuple(sorted({*dead.late, ("STORED", parser.lines)}))
            yield f"{name} syncs and is killed, its STORED on the way", True, synced._replace(late=late)

    def _killed_parser(self, state: State, number: int) -> State:
        parser = state.parsers[number]
        dead = _with_parser(state, number, Parser(parser.life + 1, is_fresh=True))
        if parser.adding is not None and parser.adding[0] != "wants":
            dead = dead._replace(cabin=self.cabin.drop(state.cabin))
        if parser.relinks or parser.leases:
            holders = {*dead.dead, parser_of(number, parser)}
            dead = dead._replace(dead=tuple(sorted(holders, key=repr)))
        return dead._replace(kills=state.kills + 1)

    def _claim(self, state: State, number: int, name: str) -> Iterator[Step]:
        parser = state.parsers[number]
        own = f"cur {number + 1}"
        for batch in state.spool:
            if batch.place == own and batch.name not in parser.ready:
                yield from self._learn(state, number, f"{name} goes on with", batch)
                return
        if parser in state.parsers[:number]:  # of two alike the first
            return
        if parser.is_fresh:
            parser = parser._replace(is_fresh=False)
            state = _with_parser(state, number, parser)
        if len(parser.ready) > 1 or parser.leases:
            return
        for batch in state.spool:
            if batch.place == "new":
                yield from self._learn(_moved(state, batch.name, own), number, f"{name} takes", batch)
            elif batch.place == f"cur {2 - number}" and state.parsers[1 - number].is_fresh:
                yield f"{name} puts batch {batch.name} back", False, _moved(state, batch.name, "new")
        if self.cabin.has_relinks(state.cabin):
            yield self._relink(state, number, name)

    def _learn(self, state: State, number: int, name: str, batch: Batch) -> Iterator[Step]:
        """DONE again, then the records, then the links are offered."""
        parser = state.parsers[number]
        lines = tuple(
            jcf.dump_text(jcf.job(URL=job.url, FETCH=job.fetch, OUTCOME=harvest.outcome, BATCH=batch.name))
            for harvest in batch.harvests
            for job in (parsed(harvest.job),)
        )
        cabin, current = self.cabin.done(state.cabin, lines, utc_at(state.forced))
        wanted = [harvest for harvest in batch.harvests if parsed(harvest.job).fetch in current]
        store = list(state.store)
        news = []
        for harvest in wanted:
            place = PAGES.index(parsed(harvest.job).url)
            if harvest.outcome == "ok":
                store[place] = store[place]._replace(seen=harvest.version)
            elif store[place].seen == 0:
                raise Broken(f"{name} a 304 for a page that has no record")
            news.append(_news(harvest))
        links, offered = _links(self._web, parser.offered, tuple(harvest.job for harvest in wanted))
        after = state._replace(cabin=cabin, store=(store[0], store[1]))
        learnt = parser._replace(batch=batch.name, is_fresh=False, news=tuple(news), offered=offered)
        label = f"{name} batch {batch.name}: {len(wanted)} current"
        yield from self._offer(_with_parser(after, number, learnt), number, label, links)

    def _relink(self, state: State, number: int, name: str) -> Step:
        """Relink jobs: the links of stored records are offered again."""
        parser = state.parsers[number]
        cabin, jobs = self.cabin.take_relinks(state.cabin, parser_of(number, parser), parser.leases)
        links: list[str] = []
        news = []
        for job in map(parsed, jobs):
            if state.store[PAGES.index(job.url)].seen:
                links += _links(self._web, (), (jcf.dump_text(job),))[0]
            news.append(jcf.dump_text(jcf.job(URL=job.url, FETCH=job.fetch, OUTCOME="ok")))
        lease = parsed(jobs[0]).number("LEASE")
        taken = _with_parser(state._replace(cabin=cabin), number, parser._replace(relinks=lease, news=tuple(news)))
        return next(self._offer(taken, number, f"{name} takes relink jobs for {_names(jobs)}", tuple(links)))

    def _offer(self, state: State, number: int, label: str, links: Answer) -> Iterator[Step]:
        if not links:
            yield label, False, self._added(state, number, None)
            return
        for said, is_fault, after, adding in self._add(state, ("wants", links, -1, ())):
            yield f"{label}; {said}", is_fault, self._added(after, number, adding)

    def _added(self, state: State, number: int, adding: Adding | None) -> State:
        parser = state.parsers[number]
        if adding is not None:
            return _with_parser(state, number, parser._replace(adding=adding))
        ready = (*parser.ready, parser.batch) if parser.batch else parser.ready
        leases = (*parser.leases, parser.relinks) if parser.relinks else parser.leases
        lines = (*parser.lines, *parser.news)
        done = parser._replace(adding=None, batch="", relinks=0, news=(), ready=ready, leases=leases, lines=lines)
        return _with_parser(state, number, done)

    def synced(self, state: State) -> State:
        """What is seen is safe."""
        if not self._syncs:
            return state
        store = [file._replace(safe=file.seen) for file in state.store]
        spool = [batch._replace(safe=batch.place) for batch in state.spool]
        return state._replace(store=(store[0], store[1]), spool=self._kept(spool, state))

    def _store(self, state: State, number: int, name: str) -> Iterator[Step]:
        """The sync, then STORED, then the batches and the leases go; a death may come before each."""
        parser = state.parsers[number]
        state = self.synced(state)
        told = state
        if parser.lines:
            told = state._replace(cabin=self.cabin.stored(state.cabin, parser.lines))
        label = f"{name} syncs and says STORED"
        idle = parser._replace(ready=(), leases=(), lines=())
        done = told
        for batch in parser.ready:
            done = _moved(done, batch, "raw")
        if parser.leases:
            ends = tuple(jcf.dump_text(jcf.job(LEASE=lease, END="1")) for lease in parser.leases)
            done = done._replace(cabin=self.cabin.done(done.cabin, ends, utc_at(state.forced))[0])
        done = done._replace(spool=self._kept(done.spool, state))
        yield label, False, _with_parser(done, number, idle)
        if state.messages < self.limits.messages and told.cabin != state.cabin:
            yield f"{label}, and the answer is lost", True, told._replace(messages=state.messages + 1)
        if state.kills < self.limits.kills and parser.lines:
            yield f"{label} and is killed", True, self._killed_parser(told, number)

    # ADD, in its steps -------------------------------------------------------------------------------------------

    def _add(self, state: State, adding: Adding) -> Iterator[tuple[str, bool, State, Adding | None]]:
        step, lines, offer, visits = adding
        utc = utc_at(state.forced)
        label = f"ADD {_names(lines)}"
        if step == "wants":
            cabin, offer = self.cabin.sort(state.cabin, lines, utc)
        else:
            label = f"{label} is committed"
            cabin, offer = self.cabin.admit(state.cabin, offer, visits, utc)
        after = state._replace(cabin=cabin)
        if offer < 0:
            yield label, False, after, None
        else:
            found = self.idb.lookup(state.idb, self.cabin.questions(offer), utc)
            yield f"{label}: idbd knows {len(found)}", False, after, ("knows", lines, offer, found)
        if state.messages < self.limits.messages and step == "knows":
            dropped = state._replace(cabin=self.cabin.drop(state.cabin), messages=state.messages + 1)
            yield f"ADD {_names(lines)} has RETRY for an answer", True, dropped, ("wants", lines, -1, ())

    # The scheduler -----------------------------------------------------------------------------------------------

    def _cabin_steps(self, state: State) -> Iterator[Step]:
        if state.telling:
            told = self.cabin.told(state.cabin, state.telling, utc_at(state.forced))
            yield "the rows that idbd knows go", False, state._replace(cabin=told, telling=())
        elif rows := self.cabin.untold(state.cabin):
            idb = self.idb.remember(state.idb, tuple(result for _, result in rows), utc_at(state.forced))
            yield "REMEMBER", False, state._replace(idb=idb, telling=rows)
        for holder in state.dead:
            cabin = self.cabin.died(state.cabin, holder)
            dead = tuple(other for other in state.dead if other != holder)
            yield f"the scheduler hears of the death of {holder.pid}", False, state._replace(cabin=cabin, dead=dead)
        yield from self._overdue(state)
        yield from self._lost_batches(state)
        yield from self._time(state)
        if state.kills < self.limits.kills:
            yield "the scheduler is killed", True, self._restarted(state)._replace(kills=state.kills + 1)

    def _overdue(self, state: State) -> Iterator[Step]:
        cabin, late = self.cabin.overdue(state.cabin)
        for holder in late:
            number = holder.pid - 101
            if number < 2 and holder_of(number, state.harvesters[number]) == holder:
                ended = self._killed_harvester(state, number)
                yield f"harvester {number + 1} is past its time and is ended", False, ended
        if cabin != state.cabin:
            yield "a lease past its time is taken from the living", False, state._replace(cabin=cabin)
        for number, harvester in enumerate(state.harvesters):
            if harvester.is_stopped:
                going = _with(state, number, harvester._replace(is_stopped=False))
                yield f"harvester {number + 1} goes on", False, going

    def _lost_batches(self, state: State) -> Iterator[Step]:
        names = frozenset(batch.name for batch in state.spool if batch.place != "raw")
        cabin = self.cabin.rescue(state.cabin, names)
        if cabin != state.cabin:
            yield "a lost batch's rows are queued again", False, state._replace(cabin=cabin)

    def _time(self, state: State) -> Iterator[Step]:
        """Time passes, until the next moment that changes something."""
        stopped = {
            holder_of(number, harvester) for number, harvester in enumerate(state.harvesters) if harvester.is_stopped
        }
        waits = self.cabin.waits(state.cabin, lambda holder: holder in stopped)
        if any(harvester.rests and harvester.jobs for harvester in state.harvesters):
            waits.append(DELAY)
        busy = any(harvester.asking and not harvester.is_stopped for harvester in state.harvesters)
        if not waits or busy or any(parser.relinks or parser.leases for parser in state.parsers):
            return
        cabin = self.cabin.later(state.cabin, min(waits))
        if min(waits) < DELAY:
            yield f"{min(waits):g} s pass", False, state._replace(cabin=cabin)
            return
        one, other = (harvester._replace(rests=False) for harvester in state.harvesters)
        yield (
            f"{min(waits):g} s pass", False, state._replace(cabin=cabin, harvesters=(one, other), is_resting=False),
        )  # fmt: skip

    def _restarted(self, state: State) -> State:
        """What a scheduler knows after its death is what it had committed; whoever called it calls again."""
        harvesters = (holder_of(number, harvester) for number, harvester in enumerate(state.harvesters))
        parsers = (parser_of(number, parser) for number, parser in enumerate(state.parsers))
        living = frozenset((*harvesters, *parsers))
        cabin = self.cabin.restarted(state.cabin, living, self.cabin.table(state.cabin, "meta")[0]["value"])
        waiting = [
            parser._replace(adding=("wants", parser.adding[1], -1, ())) if parser.adding else parser
            for parser in state.parsers
        ]
        force = ("wants", state.force[1], -1, ()) if state.force else None
        return state._replace(cabin=cabin, parsers=(waiting[0], waiting[1]), force=force, telling=(), dead=())

    # The forced round, late messages, the power -------------------------------------------------------------------

    def _round_steps(self, state: State) -> Iterator[Step]:
        if state.force is not None:
            for label, is_fault, after, force in self._add(state, state.force):
                yield f"the command: {label}", is_fault, after._replace(force=force)
        elif state.forced < self.limits.rounds:
            since = utc_text(utc_at(state.forced + 1))
            line = jcf.dump_text(jcf.job(URL=A, SCOPE="host", DELAY=f"{DELAY:g}", SINCE=since))
            begun = state._replace(forced=state.forced + 1, force=("wants", (line,), -1, ()))
            yield "page A changes, and a forced round begins", False, begun

    def _message_steps(self, state: State) -> Iterator[Step]:
        for message in state.late:
            word, lines = message
            rest = state._replace(late=tuple(other for other in state.late if other != message))
            if word == "DONE":
                cabin, _ = self.cabin.done(state.cabin, lines, utc_at(state.forced))
                yield "a late DONE comes", False, rest._replace(cabin=cabin)
            elif word == "STORED":
                yield "a late STORED comes", False, rest._replace(cabin=self.cabin.stored(state.cabin, lines))
            else:
                yield "a late ADD comes", False, self._late_add(rest, lines)

    def _late_add(self, state: State, lines: Answer) -> State:
        utc = utc_at(state.forced)
        cabin, offer = self.cabin.sort(state.cabin, lines, utc)
        while offer >= 0:
            found = self.idb.lookup(state.idb, self.cabin.questions(offer), utc)
            cabin, offer = self.cabin.admit(cabin, offer, found, utc)
        return state._replace(cabin=cabin)

    def _power_loss(self, state: State) -> Iterator[Step]:
        """All processes end, and of what was not synced anything may be there or not."""
        boot = state.boot + 1
        spools: list[tuple[Batch, ...]] = [()]
        for batch in state.spool:
            places = dict.fromkeys((batch.place, batch.safe))
            spools = [(*spool, batch._replace(place=place, safe=place)) for spool in spools for place in places]
        stores = [
            (File(one, one), File(other, other))
            for one in dict.fromkeys(state.store[0])
            for other in dict.fromkeys(state.store[1])
        ]
        cabin = self.cabin.restarted(state.cabin, frozenset(), f"boot {boot}")
        lives = [Harvester(harvester.life + 1) for harvester in state.harvesters]
        parsers = [Parser(parser.life + 1, is_fresh=True) for parser in state.parsers]
        force = ("wants", state.force[1], -1, ()) if state.force else None
        asking = state.is_resting or any(harvester.asking for harvester in state.harvesters)
        for spool in spools:
            for store in stores:
                yield (
                    "the power fails", True,
                    state._replace(
                        cabin=cabin, harvesters=(lives[0], lives[1]), parsers=(parsers[0], parsers[1]),
                        spool=self._kept(spool, state), store=store, telling=(), force=force, late=(), dead=(),
                        boot=boot,
                        powers=state.powers + 1, is_resting=asking,
                    ),
                )  # fmt: skip

    def _kept(self, spool: Iterable[Batch], state: State) -> tuple[Batch, ...]:
        """The batches that may still matter: one in raw/ that is safe there never comes back."""
        is_safe = state.powers >= self.limits.powers
        return tuple(batch for batch in spool if batch.place != "raw" or not (is_safe or batch.safe == "raw"))

    # The end -----------------------------------------------------------------------------------------------------

    def is_over(self, state: State) -> bool:
        """Nothing is queued, leased or fetched; nobody has anything in hand."""
        return (
            not self.cabin.table(state.cabin, "job")
            and not any(batch.place != "raw" for batch in state.spool)
            and state.force is None
            and not any(parser.batch or parser.relinks or parser.ready or parser.leases for parser in state.parsers)
            and not any(harvester.lease or harvester.sent or harvester.lines for harvester in state.harvesters)
        )

    def judge(self, state: State) -> None:
        """What must hold where a harvest is over; raises Broken."""
        visits = {visit.url: visit for visit in map(parsed, self.idb.lookup(state.idb, QUESTIONS, utc_at(1)))}
        for place, page in enumerate(LINKS[self._web]):
            version = 1 + (state.forced and place == 0)
            if not state.store[place].safe:
                raise Broken(f"the harvest is over, and page {'AB'[place]} is lost")
            if state.store[place].safe != version:
                raise Broken(f"the harvest is over, and page {'AB'[place]} is an old one")
            if page not in visits:
                raise Broken(f"the harvest is over, and page {'AB'[place]} has no visit")
            if state.forced and epoch_of(visits[page].get("LAST")) < utc_at(state.forced):
                raise Broken(f"the harvest is over, and page {'AB'[place]} was not asked for in the forced round")


def _is_idle(harvester: Harvester) -> bool:
    return not (harvester.is_stopped or harvester.lease or harvester.sent or harvester.lines)


def _with(state: State, number: int, harvester: Harvester) -> State:
    held = list(state.harvesters)
    held[number] = harvester
    return state._replace(harvesters=(held[0], held[1]))


def _with_parser(state: State, number: int, parser: Parser) -> State:
    held = list(state.parsers)
    held[number] = parser
    return state._replace(parsers=(held[0], held[1]))


def _moved(state: State, name: str, place: str) -> State:
    spool = [batch._replace(place=place) if batch.name == name else batch for batch in state.spool]
    return state._replace(spool=tuple(spool))


def _end_of_lease(harvester: Harvester) -> Harvester:
    """What was not asked is handed back, and then the END."""
    lines = list(harvester.lines)
    for job in map(parsed, harvester.jobs):
        lines.append((jcf.dump_text(jcf.job(URL=job.url, FETCH=job.fetch, LEASE=job.get("LEASE"))), False))
    lines.append((jcf.dump_text(jcf.job(LEASE=harvester.lease, END="1")), False))
    return harvester._replace(jobs=(), lines=tuple(lines))


def _news(harvest: Harvest) -> str:
    job = parsed(harvest.job)
    line = jcf.job(URL=job.url, FETCH=job.fetch, OUTCOME=harvest.outcome, LAST=harvest.fetched, RECORD="1")
    if harvest.outcome == "ok":
        line = line.having(FTIME=harvest.fetched, ETAG=f"v{harvest.version}", TYP="text/html")
    return jcf.dump_text(line)


@cache
def _links(web: str, offered: Answer, jobs: Answer) -> tuple[Answer, Answer]:
    """The links that go out, without those that the parser offered lately; and what it offered, now."""
    said: list[bytes] = []
    offers = Offers(said.extend, lambda: 0.0)
    offers.send(_targets(web, job) for job in offered)
    said.clear()
    offers.send(_targets(web, job) for job in jobs)
    kept = ("URL", "SEED", "SINCE", "SCOPES", "DEPTH")
    known = {jcf.dump_text(jcf.job(**{name: job.get(name) or None for name in kept})) for job in map(parsed, jobs)}
    return tuple(line.decode() for line in said), tuple(sorted({*offered, *known}))


def _targets(web: str, line: str) -> tuple[Job, dict[str, str]]:
    job = parsed(line)
    links = [Link("a", LINKS[web][job.url], "", "")] if LINKS[web][job.url] else []
    return job, targets(job, links, most=10)


def _names(lines: Answer) -> str:
    return " ".join(
        "AB"[PAGES.index(parsed(line).url)] + (f" as {parsed(line).fetch}" if parsed(line).get("FETCH") else "")
        for line in lines
    )
