"""When a harvest is over, and when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from combine.cli import run
from combine.cli.peers import SiteLine, Stat
from combine.cli.run import Bounds, End, Look, Tally
from combine.cli.seeds import Seed, Wish
from combine.errors import RetryLater
from combine.ipc.client import Client
from combine.ipc.message import message
from formats.jcf import job
from tests.combine.cli.fakes import FakeDaemon, ok, stat

BOUNDS = Bounds("run", wait_s=600.0)
BUSY = Stat(queued=5, leased=2, next_s=0.0)


@pytest.mark.parametrize(
    ("look", "code", "said"),
    [
        (Look(Stat(dead=3), 1.0), 0, ""),
        (Look(Stat(gate="paused"), 1.0), 0, ""),
        (Look(BUSY, 1.0), None, ""),
        (Look(Stat(fetched=1), 1.0), None, ""),
        (Look(None, 5.0, away_s=5.0), None, ""),
        (Look(None, 700.0, away_s=601.0), 75, "has not answered for 601 s"),
        # at a limit
        (Look(Stat(queued=5, budgets=(("run", 0, 0),)), 9.0), 0, "5 URLs are left, and the next run goes on"),
        (Look(Stat(queued=5, leased=1, budgets=(("run", 0, 1),)), 9.0), None, ""),
        (Look(Stat(queued=5, fetched=1, budgets=(("run", 0, 0),)), 9.0), None, ""),
        (Look(Stat(queued=5, next_s=0, budgets=(("run", 3, 0),)), 9.0), None, ""),
        (Look(Stat(queued=5, next_s=0, budgets=(("other", 0, 0),)), 9.0), None, ""),
        (Look(Stat(queued=5, next_s=0), 9.0, is_closing=True), 0, "the limit is reached"),
        (Look(Stat(queued=5, leased=1, next_s=0), 9.0, is_closing=True), None, ""),
        # nothing may go
        (Look(Stat(queued=5), 9.0, stuck_s=1.0), None, ""),
        (Look(Stat(queued=5), 9.0, stuck_s=4.0), 75, "nothing of it may be asked: 5 URLs are left"),
        (Look(Stat(queued=5, budgets=(("old", 0, 0),)), 9.0, stuck_s=4.0), 0, "wait for the next run of those"),
        (Look(Stat(queued=5, blocked=1, budgets=(("old", 0, 0),)), 9.0, stuck_s=4.0), 75, "nothing of it may be asked"),
        # too late, too long
        (Look(Stat(queued=5, next_s=600.0), 9.0), None, ""),
        (Look(Stat(queued=5, next_s=601.0), 9.0), 75, "the next request may go in 601 s"),
        (Look(Stat(queued=5, next_s=1.0, idle_s=601.0), 601.0), 75, "nothing but failed tries for 601 s"),
        (Look(Stat(queued=5, next_s=1.0, idle_s=9000.0), 30.0), None, ""),
        (Look(Stat(queued=5, leased=1, next_s=0.0, idle_s=650.0), 650.0), None, ""),
        (Look(Stat(queued=5, leased=1, next_s=0.0, idle_s=721.0), 721.0), 75, "nothing but failed tries"),
    ],
)
def test_when_it_is_over(look: Look, code: int | None, said: str) -> None:
    end = run.judge(look, BOUNDS)
    assert code == (None if end is None else end.code)
    assert said in (end.sentence if end else "")


def test_what_waits_for_what() -> None:
    sites = (SiteLine("a.org", "blocked", 30.0, "robots.txt answers 503"), SiteLine("b.org", "waiting", 0.0, ""))
    assert ["the disk is full", "a.org is blocked for 30 s: robots.txt answers 503", "b.org is waiting"] == run.waits(
        Stat(stalled="the disk is full", sites=sites)
    )


class _Clock:
    """A clock that goes on by a second with each look at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def _client(path: Path, **answers: object) -> tuple[FakeDaemon, Client]:
    daemon = FakeDaemon(path / "scheduler.sock", "scheduler", answers)  # type: ignore[arg-type]
    return daemon, Client(path / "scheduler.sock", "scheduler")


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "LOOK_S", 0.0)
    monkeypatch.setattr(run, "LOOK_LATER_S", 0.0)


def test_it_looks_until_the_queue_is_empty(tmp_path: Path) -> None:
    looks: list[Look] = []
    answers = [ok(stat(QUEUED=2, NEXT=0)), message("RETRY", text="soon"), ok(stat(FETCHED=1, NEXT=0)), ok(stat())]
    daemon, client = _client(tmp_path, STAT=answers)
    with client:
        end, last = run.follow(client, BOUNDS, looks.append, _Clock())
    daemon.close()
    assert End(0, "") == end
    assert last is not None
    assert last.is_done
    assert [2, None, 0, 0] == [look.stat and look.stat.queued for look in looks]


def test_at_its_time_the_budget_is_closed_and_what_is_leased_finishes(tmp_path: Path) -> None:
    answers = [ok(stat(QUEUED=9, LEASED=2, NEXT=0))] * 5 + [ok(stat(QUEUED=9), job(BUDGET="run", LEFT=0, OUT=0))]
    daemon, client = _client(tmp_path, STAT=answers, GATE=[message("RETRY", text="soon"), ok(job(GATE="open"))])
    with client:
        end, _ = run.follow(client, Bounds("run", time_s=2.0), lambda _: None, _Clock())
    daemon.close()
    assert 0 == end.code
    assert "9 URLs are left" in end.sentence
    assert {"BUDGET": "run", "LEFT": "0"} == dict(daemon.lines("GATE")[-1].params)


def test_seeds_go_in_messages_of_a_thousand_and_retry_is_obeyed(tmp_path: Path) -> None:
    seeds = [Seed(f"http://a.org/{number}") for number in range(2500)]
    answers = [message("RETRY", text="idbd is away"), ok(text="1000 new=990 known=10 outside=0 refused=0")] + [
        ok(job(URL="http://a.org/2000", REASON="excluded"), text="500 new=499 known=0 outside=0 refused=1")
    ] * 2
    daemon, client = _client(tmp_path, ADD=answers)
    with client:
        loaded = run.load(client, seeds, Wish(), 60.0)
    daemon.close()
    assert [1000, 1000, 1000, 500] == [len(lines) for verb, lines in daemon.asked if verb == "ADD"]
    assert (1988, 10, {"http://a.org/2000": "excluded"}) == (loaded.new, loaded.known, loaded.refused)


def test_retry_for_too_long_is_said(tmp_path: Path) -> None:
    daemon, client = _client(tmp_path, ADD=[message("RETRY", text="idbd is away")])
    with client, pytest.raises(RetryLater, match="idbd is away"):
        run.load(client, [Seed("http://a.org/")], Wish(), 0.0)
    daemon.close()


def test_a_tally_outlives_schedulers() -> None:
    tally = Tally({"ok": 5, "gone": 1})
    for ok_, gone in ((5, 1), (9, 1), (0, 0), (2, 1), (3, 1)):
        tally.see({"ok": ok_, "gone": gone})
    assert {"ok": 7, "gone": 1} == tally.counts
    tally.see({})
    tally.see({"failed": 2})
    assert {"ok": 7, "gone": 1, "failed": 2} == tally.counts
