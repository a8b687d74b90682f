from __future__ import annotations

import random
import sys

import pytest

from combine.schedule import sites as sites_module
from combine.schedule.sites import (
    BLOCKED,
    DUE,
    EMPTY,
    LEASED,
    STATES,
    UNRESOLVED,
    WAITING,
    Site,
    Sites,
    is_site,
)

NOW = 100.0


def site(**facts: object) -> Site:
    made = Site(1, "a.example")
    made.counts[0] = 1
    made.address, made.address_until = "192.0.2.1", NOW + 300
    for name, value in facts.items():
        setattr(made, name, value)
    return made


PLACES = [
    ({}, DUE),
    ({"next": NOW}, DUE),
    ({"next": NOW + 1}, WAITING),
    ({"address": ""}, UNRESOLVED),
    ({"address_until": NOW}, UNRESOLVED),
    ({"address": "", "next": NOW + 1}, UNRESOLVED),
    ({"blocked": NOW + 1}, BLOCKED),
    ({"blocked": NOW}, DUE),
    ({"blocked": NOW + 1, "address": ""}, BLOCKED),
    ({"blocked": NOW + 1, "errands": 1}, DUE),
    ({"shut": True}, BLOCKED),
    ({"shut": True, "errands": 1}, BLOCKED),
    ({"counts": [0, 3, 0, 2, 1, 4]}, EMPTY),
    ({"parked": True}, EMPTY),
    ({"lease": 7}, LEASED),
    ({"lease": 7, "shut": True, "counts": [0] * 6}, LEASED),
]


@pytest.mark.parametrize(("facts", "state"), PLACES)
def test_a_site_is_where_its_facts_say(facts: dict[str, object], state: str) -> None:
    sites, one = Sites(), site(**facts)
    sites.enter(one)
    sites.settle(one, NOW)
    assert state == one.state
    assert [state] == [name for name in STATES if one.id in sites.members[name]]


def test_what_waits_is_woken_in_time_and_once() -> None:
    sites, one = Sites(), site(next=NOW + 5)
    sites.enter(one)
    sites.settle(one, NOW)
    assert NOW + 5 == sites.next_wake()
    assert [] == list(sites.ripe(NOW + 4))
    assert [one.id] == list(sites.ripe(NOW + 5))
    assert [] == list(sites.ripe(NOW + 5))
    assert sites.next_wake() is None


def test_only_the_latest_wake_counts() -> None:
    sites, one = Sites(), site(blocked=NOW + 50)
    sites.enter(one)
    sites.settle(one, NOW)
    one.blocked = NOW + 90
    sites.settle(one, NOW)
    assert NOW + 90 == sites.next_wake()
    assert [] == list(sites.ripe(NOW + 50))
    one.blocked = 0.0
    sites.settle(one, NOW)
    assert DUE == one.state
    assert sites.next_wake() is None


def test_a_block_without_end_wakes_nobody() -> None:
    sites, one = Sites(), site(shut=True)
    sites.enter(one)
    sites.settle(one, NOW)
    assert sites.next_wake() is None


def test_a_site_without_rows_is_let_go_after_its_rest() -> None:
    sites, one = Sites(), site(counts=[0] * 6, next=NOW + 5)
    sites.enter(one)
    sites.rest(one, NOW + 5)
    assert [] == list(sites.rested(NOW))
    assert [one] == list(sites.rested(NOW + 5))
    sites.leave(one)
    assert [] == list(sites)
    sites.rest(one, NOW + 6)
    assert [] == list(sites.rested(NOW + 6))


def test_who_enters_twice_or_leaves_with_work_is_a_bug() -> None:
    sites, one = Sites(), site()
    sites.enter(one)
    with pytest.raises(AssertionError, match="once"):
        sites.enter(one)
    sites.settle(one, NOW)
    with pytest.raises(AssertionError, match="without work"):
        sites.leave(one)
    one.state = EMPTY
    with pytest.raises(AssertionError, match="exactly one set"):
        sites.move(one, DUE)


@pytest.mark.parametrize("number", range(50))
def test_whatever_happens_a_site_is_in_exactly_one_set(number: int) -> None:
    chance = random.Random(number)
    sites, now = Sites(), NOW
    many = [Site(each, f"{each}.example") for each in range(5)]
    for one in many:
        sites.enter(one)
    for _ in range(300):
        one = chance.choice(many)
        name, value = chance.choice(
            [
                ("next", now + chance.uniform(-5, 5)),
                ("blocked", now + chance.uniform(-5, 5)),
                ("shut", chance.random() < 0.3),
                ("address", chance.choice(("", "192.0.2.1"))),
                ("address_until", now + chance.uniform(-1, 20)),
                ("lease", chance.choice((0, 0, 9))),
                ("parked", chance.random() < 0.3),
                ("errands", chance.choice((0, 0, 1))),
                ("counts", [chance.choice((0, 1)), 0, 0, 0, 0, 0]),
            ]
        )
        setattr(one, name, value)
        now += chance.choice((0.0, 0.5, 3.0))
        for settled in (one, *map(sites.by_id.__getitem__, list(sites.ripe(now)))):
            sites.settle(settled, now)
        for each in many:
            assert [each.state] == [state for state in STATES if each.id in sites.members[state]]
        for each in many:
            assert each.wake == (each.next if each.state == WAITING else each.blocked if each.wake else 0.0)
    wake = sites.next_wake()
    assert wake is None or wake > now


@pytest.mark.parametrize(
    ("name", "host"),
    [("a.example", "a.example"), ("a.example:8080", "a.example"), ("[::1]", "[::1]"), ("[::1]:81", "[::1]")],
)
def test_the_host_of_a_site(name: str, host: str) -> None:
    assert host == Site(1, name).host
    assert is_site(name)


@pytest.mark.parametrize(
    "name", ["", "A.example", "a b", "http://a.example", "a.example/", "a.example:99999", "u@a.example", "a\x00"]
)
def test_what_is_no_site(name: str) -> None:
    assert not is_site(name)


# Asleep -------------------------------------------------------------------------------------------------------------

ASLEEP = [
    ({}, DUE),
    ({"counts": [300, 2, 0, 4, 5, 70_000], "asked": "auto", "turn": 3, "errands": 2}, DUE),
    ({"next": NOW + 1, "address": "2001:db8::1"}, WAITING),
    ({"next": NOW + 1, "address": "198.41.0.4"}, WAITING),
    ({"address": "198.041.0.4"}, DUE),
    ({"address": "a.b.c.d"}, DUE),
    ({"asked": "60", "counts": [1, 0, 0, 0, 0, 0]}, DUE),
    ({"errands": 1}, DUE),
    ({"blocked": NOW + 1.5}, BLOCKED),
    ({"address": "", "name_failures": 2, "name_failed": 64.0}, UNRESOLVED),
    ({"parked": True}, EMPTY),
]


@pytest.mark.parametrize(("facts", "state"), ASLEEP)
def test_who_wakes_is_as_he_was(facts: dict[str, object], state: str) -> None:
    sites, one = Sites(), site(**facts)
    sites.enter(one)
    sites.settle(one, NOW)
    sites.put_to_sleep(one, is_public=True)
    assert ([], 1, one.counts, 1) == (list(sites), len(sites), sites.asleep_counts, sites.asleep_public)
    assert [(1, one.counts, one.errands)] == list(sites.counts())
    assert state == sites.sleeps_in(1)
    again = Site(1, "a.example", next=one.next, blocked=one.blocked)
    sites.enter(again)
    assert one == again
    assert ("", [0] * 6, 0) == (sites.sleeps_in(1), sites.asleep_counts, sites.asleep_public)


@pytest.mark.parametrize(("good_for", "state"), [(9.0, DUE), (5.0, UNRESOLVED)])
def test_who_waits_asleep_is_due_in_time_and_sleeps_on(good_for: float, state: str) -> None:
    sites, one = Sites(), site(next=NOW + 5, address_until=NOW + good_for)
    sites.enter(one)
    sites.settle(one, NOW)
    sites.put_to_sleep(one, is_public=False)
    assert NOW + 5 == sites.next_wake()
    assert [] == list(sites.ripe(NOW + 4.9))
    assert WAITING == sites.sleeps_in(1)
    assert [] == list(sites.ripe(NOW + 5))
    assert (state, None) == (sites.sleeps_in(1), sites.next_wake())


def test_whose_block_is_over_must_wake() -> None:
    sites, one = Sites(), site(blocked=NOW + 5)
    sites.enter(one)
    sites.settle(one, NOW)
    sites.put_to_sleep(one, is_public=False)
    assert [1] == list(sites.ripe(NOW + 5))


def test_who_woke_longest_ago_is_tired_but_not_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites_module, "AWAKE", 2)
    sites = Sites()
    many = [Site(number, f"{number}.example", lease=number == 1, resolving=number == 2) for number in range(1, 7)]
    for each in many:
        sites.enter(each)
    assert [3, 4, 5, 6] == [each.id for each in sites.tired()]
    del sites.by_id[6], sites.by_id[5], sites.by_id[4]
    assert [] == sites.tired()


def test_a_set_that_has_become_small_gives_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites_module, "FEW", 10)
    sites = Sites()
    for number in range(100):
        sites.enter(Site(number, f"{number}.example"))
    sites.shrink()
    large = sys.getsizeof(sites.members[EMPTY])
    for each in list(sites)[3:]:
        sites.leave(each)
    sites.shrink()
    assert [0, 1, 2] == list(sites.members[EMPTY])
    assert sys.getsizeof(sites.members[EMPTY]) < large / 8
