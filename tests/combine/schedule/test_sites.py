from __future__ import annotations

import random

import pytest

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
    assert [one] == list(sites.ripe(NOW + 5))
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
    sites, one = Sites(), site(counts=[0] * 6)
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
        for settled in (one, *sites.ripe(now)):
            sites.settle(settled, now)
        for each in many:
            assert [each.state] == [state for state in STATES if each.id in sites.members[state]]
        for each in sites.members[WAITING].values():
            assert each.wake == each.next
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
