"""TAKE: who gets which site when, and what the end of a lease leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from combine.config import SiteRule
from combine.schedule import leases as leases_module
from combine.schedule import sites as sites_module
from combine.schedule.leases import Holder
from combine.schedule.report import stat
from combine.schedule.sites import BLOCKED, DUE, LEASED, UNRESOLVED, WAITING
from combine.urls import site_of
from formats import jcf
from tests.combine.schedule.world import KNOWN, A, B, World, add, all_done, always, urls

DELAY = 60.0
REST = DELAY + KNOWN.politeness.margin_s


def test_a_job_is_handed_out_with_all_that_its_harvester_must_know(world: World) -> None:
    (job,) = world.take()
    assert {
        "URL": "http://a.example/",
        "SEED": "http://a.example/",
        "SCOPES": "1:*",
        "HOSTS": "host:a.example",
        "DEPTH": "0",
        "LEASE": "1",
        "FETCH": "2",
        "ADDR": "198.41.3.123",
        "DELAY": "60",
        "ROOM": "10000 1000000000",
    } == dict(job.params)
    assert "leased" == world.state(job.url)
    assert LEASED == world.site("a.example").state


def test_a_lease_knows_what_is_left_of_the_budget_of_the_day(world: World) -> None:
    (job,) = world.take()
    add(world, "http://a.example/1")
    world.done(job, STATUS=200, SIZE=900, ASKED=2)
    world.clock.sleep(61)
    (job,) = world.take()
    assert "9998 999999100" == job.get("ROOM")
    world.done(job)
    add(world, "http://a.example/2")
    world.clock.sleep(86400)
    (job,) = world.take()
    assert "10000 1000000000" == job.get("ROOM")


@pytest.mark.parametrize(("outcome", "asked", "left"), [("", 3, 9997), ("", None, 10000), ("denied", 1, 9999)])
def test_requests_for_a_job_that_was_not_asked_for_count(
    world: World, outcome: str, asked: int | None, left: int
) -> None:
    add(world, "http://a.example/1")
    (job,) = world.take()
    world.done(job, outcome, ASKED=asked)
    add(world, "http://a.example/2")
    world.clock.sleep(61)
    (job, *_) = world.take()
    assert f"{left} 1000000000" == job.get("ROOM")


def test_a_lease_knows_how_often_its_site_refused(world: World) -> None:
    add(world, "http://a.example/1")
    for expected, outcome in (("", "refused"), ("1", "ok"), ("", "ok")):
        job = world.take()[0]
        assert expected == job.get("REFUSALS")
        world.done(job, outcome, STATUS=403 if outcome == "refused" else 200)
        add(world, f"http://a.example/{outcome}{expected}")
        world.clock.sleep(61)


def test_a_leased_site_is_not_leased_again(world: World) -> None:
    add(world, "http://a.example/1")
    assert 1 == len(world.take(A))
    assert [] == world.take(B)
    assert [] == world.take(A, held=[1])


@pytest.mark.parametrize(("delay", "jobs"), [("0", 100), ("1", 60), ("20", 3), ("100", 1)])
def test_a_lease_has_as_many_jobs_as_fit(delay: str, jobs: int) -> None:
    world = World()
    world.seed("http://a.example/", DELAY=delay)
    add(world, *(f"http://a.example/{number}" for number in range(200)))
    assert jobs == len(world.take())


@pytest.mark.parametrize(("delay", "jobs"), [("0", 1000), ("60", 500)])
def test_many_sites_go_at_once_each_with_its_own_jobs(delay: str, jobs: int) -> None:
    world = World()
    for number in range(500):
        seed = f"http://{number}.example/"
        world.seed(seed, DELAY=delay)
        add(world, *(f"{seed}{page}" for page in range(6)), seed=seed)
    world.addresses = {f"{number}.example": f"198.41.{number // 250}.{number % 250}" for number in range(500)}
    taken = world.take(count=1000)
    assert jobs == len(taken)
    assert all(job.url.startswith(f"{job.get('SEED')}") and job.get("DELAY") == delay for job in taken)
    assert len({job.get("LEASE") for job in taken}) == len({job.get("SEED") for job in taken})
    assert len(taken) == len({job.fetch for job in taken})


def test_an_answer_holds_no_more_jobs_than_a_message() -> None:
    world = World(listed=always)
    for number in range(12):
        seed = f"http://{number}.example/"
        world.seed(seed)
        add(world, *(f"{seed}{page}" for page in range(98)), seed=seed)
    first = world.take()
    assert 1000 == len(first)
    # The eleventh site is leased with what fitted, and the twelfth is free.
    assert 99 == len(world.take(held={job.number("LEASE") for job in first}))


def test_who_sleeps_keeps_his_pace_his_turn_and_his_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites_module, "AWAKE", 2)
    world = World()
    names = [f"{letter}.example" for letter in "abcdefghij"]
    for number, name in enumerate(names):
        world.addresses[name] = f"198.41.0.{number}"
        world.seed(f"http://{name}/")
        world.seed(f"http://{name}/2")
    first = world.take()
    assert names == [site_of(job.url) for job in first]
    for job in first:
        world.done(job)
    blocked = world.site("c.example")
    world.frontier.block(blocked, 1000.0, "a rest")
    world.frontier.settle(blocked)
    world.clock.sleep(REST - 0.1)
    assert [] == world.take()
    assert 7 <= world.frontier.sites.asleep
    world.clock.sleep(0.1)
    again = world.take()
    assert [name for name in names if name != "c.example"] == [site_of(job.url) for job in again]
    world.clock.sleep(1000.0 - REST)
    assert ["c.example"] == [site_of(job.url) for job in world.take(held={job.number("LEASE") for job in again})]


def test_after_a_crash_with_more_leases_than_sites_may_be_awake_each_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites_module, "AWAKE", 1)
    world = World(listed=always)
    for number in range(6):
        world.seed(f"http://{number}.example/")
    jobs = world.take(count=4)
    world.crash()
    for job in jobs:
        world.done(job)
    assert ["queued"] * 2 == [
        state for number in range(6) if (state := world.state(f"http://{number}.example/")) != "fetched"
    ]


def test_sites_that_sleep_on_one_address_go_to_one_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites_module, "AWAKE", 2)
    world = World()
    for number in range(20):
        world.addresses[f"{number}.example"] = "198.41.0.1" if number < 15 else f"198.41.1.{number}"
        world.seed(f"http://{number}.example/")
    world.resolve()
    world.frontier.tick()
    assert 17 <= world.frontier.sites.asleep
    assert 3 == len(world.take(A, 3))
    assert {"198.41.1"} == {job.get("ADDR").rpartition(".")[0] for job in world.take(B)}


def test_priority_first_then_breadth_then_age() -> None:
    world = World(listed=always)
    world.seed("http://a.example/", PRIO=5)
    lines = [("5", 2, 5), ("4", 1, 5), ("2", 9, 4), ("1", 9, 0), ("6", 2, 5)]
    world.add(
        *(
            jcf.job(URL=f"http://a.example/{name}", SEED="http://a.example/", DEPTH=depth, PRIO=prio)
            for name, depth, prio in lines
        )
    )
    assert ["1", "2", "", "4", "5", "6"] == [url.rpartition("/")[2] for url in urls(world.take())]


def test_sites_take_turns(world: World) -> None:
    for name in "bcd":
        world.seed(f"http://{name}.example/")
        world.seed(f"http://{name}.example/2")
    first = [world.take(A, 1, held=range(100))[0] for _ in range(4)]
    assert ["a", "b", "c", "d"] == [job.url[7] for job in first]
    for job in reversed(first):
        world.done(job)
        world.clock.sleep(1)
    world.clock.sleep(DELAY)
    assert ["d", "c", "b"] == [world.take(A, 1, held=range(100))[0].url[7] for _ in range(3)]


def test_a_site_prefers_its_last_harvester() -> None:
    world = World(listed=always)
    for name in "abc":
        world.seed(f"http://{name}.example/")
        world.seed(f"http://{name}.example/2")
    lent = {}
    for holder, name in ((A, "a"), (B, "b"), (A, "c")):
        (job, *rest) = world.take(holder, 1, held=range(100))
        assert name == job.url[7]
        lent[name] = (job, *rest)
    for jobs in lent.values():
        all_done(world, list(jobs), "")
    assert "b" == world.take(B, 1, held=range(100))[0].url[7]
    assert "a" == world.take(A, 1, held=range(100))[0].url[7]


# The delay ----------------------------------------------------------------------------------------------------------


def test_a_site_rests_from_the_end_of_its_lease(world: World) -> None:
    add(world, "http://a.example/1")
    (job,) = world.take()
    world.clock.sleep(30)
    world.done(job)
    assert WAITING == world.site("a.example").state
    world.clock.sleep(REST - 0.01)
    assert [] == world.take()
    world.clock.sleep(0.02)
    assert 1 == len(world.take())


@pytest.mark.parametrize("how", ["death", "not named", "crash", "reboot"])
def test_after_an_unclean_end_a_site_rests_in_full(world: World, how: str) -> None:
    add(world, "http://a.example/1")
    (job,) = world.take()
    world.clock.sleep(500)
    if how == "death":
        world.frontier.keep_only(A, ())
    elif how == "not named":
        assert [] == world.take(A)
    elif how == "crash":
        world.crash()
        assert LEASED == world.site("a.example").state
        world.frontier.keep_only(A, ())
    else:
        world.clock.reboot()
        world.crash()
    world.commit()
    assert "queued" == world.state(job.url)
    assert [] == world.take(B)
    world.clock.sleep(REST - 0.01)
    assert [] == world.take(B)
    world.clock.sleep(0.02)
    assert [job.url] == urls(world.take(B))


@pytest.mark.parametrize("crashes", [False, True])
def test_a_lease_that_is_named_lives(world: World, crashes: bool) -> None:
    (job,) = world.take()
    world.clock.sleep(100_000)
    if crashes:
        world.crash()
    assert [] == world.take(A, held=[job.number("LEASE")])
    assert "leased" == world.state(job.url)
    assert world.done(job)


def test_the_pace_of_a_run_is_known_after_a_crash() -> None:
    world = World()
    world.seed("http://a.example/", DELAY="2")
    add(world, *(f"http://a.example/{number}" for number in range(40)))
    (job, *_) = world.take()
    world.crash()
    world.end(job)
    world.clock.sleep(2.1)
    assert 30 == len(world.take())


def test_waits_begin_again_in_full_after_a_reboot(world: World) -> None:
    add(world, "http://a.example/1")
    world.done(world.take()[0])
    world.clock.sleep(REST / 2)
    world.clock.reboot()
    world.crash()
    world.clock.sleep(REST - 0.01)
    assert [] == world.take()
    world.clock.sleep(0.02)
    assert 1 == len(world.take())


def test_a_block_that_is_over_does_not_begin_again_after_a_reboot(world: World) -> None:
    world.frontier.block(world.site("a.example"), 500, "rest")
    world.commit()
    assert [] == world.take()
    world.clock.sleep(501)
    assert 1 == len(world.take())
    world.clock.reboot()
    world.crash()
    world.clock.sleep(REST + 0.01)
    assert 1 == len(world.take())


def test_a_block_begins_again_in_full_after_a_reboot(world: World) -> None:
    world.frontier.block(world.site("a.example"), 500, "rest")
    world.commit()
    world.clock.sleep(400)
    world.clock.reboot()
    world.crash()
    assert BLOCKED == world.site("a.example").state
    world.clock.sleep(499)
    assert [] == world.take()
    world.clock.sleep(2)
    assert 1 == len(world.take())


def test_the_calendar_may_jump_and_no_site_is_asked_sooner(world: World) -> None:
    add(world, "http://a.example/1")
    world.done(world.take()[0])
    for shift in (1e6, -2e6, 1e8):
        world.clock.shift += shift
        assert [] == world.take()
    world.clock.sleep(REST + 0.01)
    assert 1 == len(world.take())


def test_a_site_that_is_done_leaves_memory_after_its_rest(world: World) -> None:
    world.fetch("http://a.example/")
    assert ["a.example"] == [site.name for site in world.frontier.sites]
    world.clock.sleep(REST - 1)
    world.frontier.tick()
    assert ["a.example"] == [site.name for site in world.frontier.sites]
    world.clock.sleep(2)
    world.frontier.tick()
    assert [] == [site.name for site in world.frontier.sites]
    assert world.frontier.next_event() is None


# What stands in the way ---------------------------------------------------------------------------------------------


def test_nothing_goes_while_the_gate_is_paused_or_the_disk_is_full(world: World) -> None:
    world.frontier.gate = "paused"
    assert [] == world.take()
    world.frontier.gate, world.frontier.stalled = "open", "the disk is full"
    assert [] == world.take()
    world.frontier.stalled = ""
    assert 1 == len(world.take())


@pytest.mark.parametrize("count", [0, -1])
def test_who_wants_nothing_gets_nothing(world: World, count: int) -> None:
    assert [] == world.take(A, count)


def test_an_address_grows_old_while_a_site_is_due(world: World) -> None:
    world.resolve()
    world.clock.sleep(KNOWN.scheduler.name_s + 1)
    assert DUE == world.site("a.example").state
    assert [] == world.frontier.take(A, 10)
    assert UNRESOLVED == world.site("a.example").state
    assert 1 == len(world.take())


def test_what_is_excluded_since_is_dead() -> None:
    world = World(listed=always)
    world.seed("http://a.example/")
    add(world, *(f"http://a.example/{number}" for number in range(250)))
    world.frontier.settings = replace(KNOWN, site=(SiteRule("a.example", blocked=True),))
    assert [] == world.take()
    assert 251 == world.site("a.example").counts[5]
    row = world.row("http://a.example/")
    assert row is not None
    assert "a site rule blocks its host" == row.reason


# Sites on one address -----------------------------------------------------------------------------------------------


@pytest.fixture
def shared() -> World:
    made = World()
    for name in "abcd":
        made.addresses[f"{name}.example"] = "198.41.0.1" if name != "d" else "198.41.0.2"
        made.seed(f"http://{name}.example/")
    made.clock.sleep(1.0)
    return made


def test_sites_on_one_address_go_to_one_holder(shared: World) -> None:
    assert ["a", "b"] == [job.url[7] for job in shared.take(A, 2)]
    assert ["d"] == [job.url[7] for job in shared.take(B)]
    assert ["c"] == [job.url[7] for job in shared.take(A, held=[1, 3])]


def test_an_address_rests_between_two_holders(shared: World) -> None:
    jobs = shared.take(A, 2)
    (other,) = shared.take(B)
    assert "d" == other.url[7]
    held = [other.number("LEASE")]
    for job in jobs:
        shared.done(job)
    assert [] == shared.take(B, held=held)
    at = shared.clock.now + KNOWN.politeness.address_delay_s + KNOWN.politeness.margin_s
    assert at == shared.frontier.next_event()
    shared.clock.now = at
    assert ["c"] == [job.url[7] for job in shared.take(B, held=held)]
    assert [] == shared.take(A)


def test_the_holder_of_an_address_is_known_after_a_crash(shared: World) -> None:
    jobs = shared.take(A, 1)
    shared.crash()
    shared.clock.sleep(5)
    assert ["d"] == [job.url[7] for job in shared.take(B)]
    assert ["b", "c"] == [job.url[7] for job in shared.take(A, held=[jobs[0].number("LEASE")])]


def test_after_a_start_every_address_rests(shared: World) -> None:
    shared.crash()
    assert [] == shared.take(A)
    shared.clock.sleep(1.0 + KNOWN.politeness.margin_s)
    assert ["a", "b", "c", "d"] == [job.url[7] for job in shared.take(A)]


def test_one_network_of_ipv6_is_one_address() -> None:
    world = World()
    world.addresses = {"a.example": "2001:db8:1:2::1", "b.example": "2001:db8:1:2::2", "c.example": "2001:db8:1:3::1"}
    for name in "abc":
        world.seed(f"http://{name}.example/")
    world.clock.sleep(1)
    assert ["a"] == [job.url[7] for job in world.take(A, 1)]
    assert ["c"] == [job.url[7] for job in world.take(B)]


def test_listed_hosts_are_not_spaced() -> None:
    world = World(listed=always)
    world.addresses = {"a.example": "127.0.0.1", "b.example": "127.0.0.1"}
    for name in "ab":
        world.seed(f"http://{name}.example/")
    assert 1 == len(world.take(A, 1))
    assert 1 == len(world.take(B, 1))


def test_many_sites_on_one_address_hide_nobody() -> None:
    world = World()
    for number in range(300):
        world.addresses[f"{number}.example"] = "198.41.0.1"
        world.seed(f"http://{number}.example/")
    world.seed("http://other.example/")
    world.clock.sleep(1)
    assert 2 == len(world.take(A, 2))
    assert ["http://other.example/"] == urls(world.take(B))


def test_addresses_that_rested_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases_module, "ADDRESSES", 2)
    world = World()
    world.clock.sleep(1)
    for number in range(6):
        world.addresses[f"{number}.example"] = f"198.41.0.{number}"
        world.seed(f"http://{number}.example/")
        world.fetch(f"http://{number}.example/")
        world.clock.sleep(100)
    assert len(world.frontier.addresses) <= 3


# Our own line -------------------------------------------------------------------------------------------------------


def test_while_our_line_is_down_one_site_goes_as_a_probe() -> None:
    world = World()
    for number in range(30):
        world.seed(f"http://{number}.example/")
        world.seed(f"http://{number}.example/2")
    world.clock.sleep(1)
    jobs = world.take(A, 10)
    for job in jobs:
        world.done(job, "failed", REASON="connect")
    last = world.row(jobs[-1].url)
    assert last is not None
    assert 0 == last.nrt
    assert world.frontier.line.is_down()
    (probe,) = world.take(B, 10)
    assert [] == world.take(B, 10, held=[probe.number("LEASE")])
    at = world.clock.now + 30
    assert world.frontier.next_event() is not None
    world.clock.now = at
    held = [probe.number("LEASE")]
    (second,) = world.take(B, 10, held=held)
    world.done(second)
    assert not world.frontier.line.is_down()
    assert 10 == len(world.take(B, 10, held=held))


# One site, without a job --------------------------------------------------------------------------------------------


def test_try_leases_a_site_without_a_job(world: World) -> None:
    lease = world.frontier.take_site(A, "a.example")
    assert lease is not None
    world.commit()
    assert (0.0, DELAY) == (world.site("a.example").next, lease.delay)
    assert [] == world.take(B)
    world.end(jcf.job(LEASE=lease.id))
    assert [] == world.take(B)
    assert world.frontier.take_site(A, "a.example") is None
    world.clock.sleep(REST + 0.01)
    assert 1 == len(world.take(B))


def test_try_keeps_the_pace_of_the_run_also_after_a_crash() -> None:
    world = World()
    world.seed("http://a.example/", DELAY="2")
    world.crash()
    lease = world.frontier.take_site(A, "a.example")
    assert lease is not None
    assert 2 == lease.delay


def test_a_site_that_nobody_may_ask_cannot_be_tried(shared: World) -> None:
    shared.resolve()
    shared.take(A, 1)
    assert shared.frontier.take_site(B, "a.example") is None
    assert shared.frontier.take_site(B, "b.example") is None
    shared.site("d.example").shut = True
    assert shared.frontier.take_site(B, "d.example") is None
    assert shared.frontier.take_site(A, "b.example") is not None
    lease = shared.frontier.take_site(B, "unknown.example")
    assert lease is not None
    shared.frontier.keep_only(B, ())
    shared.commit()
    shared.clock.sleep(REST + 1)
    shared.frontier.tick()
    assert "unknown.example" not in shared.frontier.sites.by_name


def test_an_end_that_nobody_knows_changes_nothing(world: World) -> None:
    world.end(jcf.job(LEASE=4711))
    world.frontier.end_lease(4711, is_clean=False)
    assert 1 == len(world.take(Holder(7, 7)))


# Relink jobs --------------------------------------------------------------------------------------------------------


def test_relink_jobs_need_no_site() -> None:
    world = World()
    world.seed("http://a.example/", MAXDEPTH=0)
    world.fetch("http://a.example/")
    world.seed("http://a.example/", MAXDEPTH=1)
    assert "queued" == world.state("http://a.example/", "relink")
    assert [] == world.take()
    world.frontier.gate = "paused"
    assert [] == world.frontier.take_relinks(A, 10)
    world.frontier.gate = "open"
    (job,) = map(jcf.parse_text, world.frontier.take_relinks(A, 10))
    assert ("relink", "1:1", "0", "") == (job.kind, job.get("SCOPES"), job.get("DEPTH"), job.get("ADDR"))
    assert [] == world.frontier.take_relinks(A, 10)
    world.commit()
    world.frontier.keep_only(A, ())
    world.commit()
    (again,) = map(jcf.parse_text, world.frontier.take_relinks(B, 10))
    assert again.fetch > job.fetch


def test_a_take_that_gives_nothing_writes_nothing(world: World) -> None:
    world.take(A)
    assert [] == world.frontier.take(B, 1)
    assert not world.rows.db.in_transaction


def test_no_statement_looks_through_the_whole_queue(world: World) -> None:
    """One that does costs nothing here, and a second where a million rows wait: a partial index is easily missed."""
    said: set[str] = set()
    world.rows.db.set_trace_callback(said.add)
    add(world, *(f"http://a.example/{page}" for page in range(4)))
    for name in "bcd":
        world.seed(f"http://{name}.example/")
    world.clock.sleep(REST)
    first, *others = world.take()
    world.done(first, "ok", end=False, BATCH="b")
    world.stored(first)
    world.rows.fetched([first.fetch])
    world.done(others[0], "failed", end=False, REASON="connect")
    world.frontier.keep_only(A, ())
    world.frontier.requeue_batch("b")
    world.frontier.next_event()
    world.clock.sleep(4 * REST)
    world.frontier.tick()
    stat(world.frontier, 0, 0)
    world.crash()
    world.rows.db.set_trace_callback(None)
    jobs = [text for text in said if "job" in text and text.startswith(("SELECT", "UPDATE", "DELETE"))]
    assert len(jobs) > 20
    plans = {text: [row[3] for row in world.rows.db.execute(f"EXPLAIN QUERY PLAN {text}")] for text in jobs}
    assert {} == {text: plan for text, plan in plans.items() if any(step in ("SCAN job", "SCAN j") for step in plan)}
