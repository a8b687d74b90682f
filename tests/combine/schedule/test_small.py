"""The small parts: clocks, rates, names, what a parser offers, and who holds leases."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from combine.errors import RetryLater
from combine.schedule import names
from combine.schedule.clock import epoch_of, system_clock, utc_text
from combine.schedule.holders import Holders, start_time
from combine.schedule.leases import Holder
from combine.schedule.names import Answer, literal, look_up
from combine.schedule.offers import REMEMBER_S, REMEMBERED, Offers
from combine.schedule.rates import MINUTE_S, Rates
from combine.services import MESSAGE_LINES
from combine.urls import network_of
from formats import jcf
from formats.jcf import Job

# Clocks -------------------------------------------------------------------------------------------------------------


def test_the_clocks_of_this_machine() -> None:
    clock = system_clock()
    assert abs(time.time() - clock.utc()) < 60
    assert 0 < clock.boot() <= clock.boot()
    assert 36 == len(clock.boot_id)


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01T00:01:00.500Z", 60.5),
        ("2026-06-01T12:00:00Z", 1780315200.0),
        ("", 0.0),
        ("soon", 0.0),
        ("2026-13-01T00:00:00Z", 0.0),
        ("9999999999999", 0.0),
        ("0001-01-01T00:00:00+10:00", -62135632800.0),
    ],
)
def test_times_as_text(text: str, epoch: float) -> None:
    assert epoch == epoch_of(text)
    if epoch >= 60.5:
        assert text[:19] == utc_text(epoch)[:19]


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process cannot be set here")
def test_a_time_without_a_zone_is_utc_whatever_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Pacific/Kiritimati")
        time.tzset()
        assert 1780315200.0 == epoch_of("2026-06-01T12:00:00") == epoch_of("2026-06-01 12:00")
    time.tzset()


# Rates --------------------------------------------------------------------------------------------------------------


def test_rates_are_of_the_last_minute() -> None:
    now = [0.0]
    rates = Rates(lambda: now[0])
    assert (0, 0) == rates.last_minute()
    rates.note(100)
    now[0] = 30.0
    rates.note(50)
    assert (2, 150) == rates.last_minute()
    now[0] = MINUTE_S + 1
    assert (1, 50) == rates.last_minute()
    now[0] = 2 * MINUTE_S
    assert (0, 0) == rates.last_minute()


# Names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
        ("name", "name"),
    ],
)
def test_what_counts_as_one_address(address: str, network: str) -> None:
    assert network == network_of(address)


@pytest.mark.parametrize(
    ("host", "address"), [("192.0.2.1", "192.0.2.1"), ("[::1]", "::1"), ("a.example", ""), ("", "")]
)
def test_a_literal_address(host: str, address: str) -> None:
    assert address == literal(host)


def free(host: str, address: str) -> str:
    return f"{address} is private" if address.startswith("10.") else ""


ANSWERS: list[tuple[str, object, Answer]] = [
    ("192.0.2.1", None, Answer("192.0.2.1")),
    ("10.0.0.1", None, Answer(reason="10.0.0.1 is private", is_refused=True)),
    ("a.example", ["192.0.2.7", "192.0.2.8"], Answer("192.0.2.7")),
    ("a.example", ["10.0.0.1", "192.0.2.8"], Answer("192.0.2.8")),
    ("a.example", ["10.0.0.1"], Answer(reason="10.0.0.1 is private", is_refused=True)),
    ("a.example", [], Answer(reason="the name a.example has no address", is_refused=True)),
    (
        "a.example",
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        Answer(reason="the name a.example has no address (Name or service not known)", no_such_name=True),
    ),
    (
        "a.example",
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure"),
        Answer(reason="the name a.example has no address (Temporary failure)"),
    ),
    ("a.example", TimeoutError(), Answer(reason="the name a.example could not be looked up (time-out)")),
    ("a.example", OSError("broken"), Answer(reason="the name a.example could not be looked up (broken)")),
    ("a.example", UnicodeError("label"), Answer(reason="the name a.example could not be looked up (label)")),
]


@pytest.mark.parametrize(("host", "found", "answer"), ANSWERS)
def test_a_look_up(host: str, found: Any, answer: Answer) -> None:
    async def getaddrinfo(*args: object, **named: object) -> list[tuple[object, ...]]:
        if isinstance(found, Exception):
            raise found
        return [(0, 0, 0, "", (address, 0)) for address in found]

    async def work() -> Answer:
        asyncio.get_running_loop().getaddrinfo = getaddrinfo  # type: ignore[method-assign, assignment]
        return await look_up(host, free)

    assert answer == asyncio.run(work())


@pytest.mark.parametrize(("turn", "address"), [(0, "192.0.2.7"), (1, "192.0.2.8"), (2, "192.0.2.7")])
def test_each_address_that_may_be_asked_has_its_turn(turn: int, address: str) -> None:
    async def getaddrinfo(*args: object, **named: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", (found, 0)) for found in ("192.0.2.7", "10.0.0.1", "192.0.2.8")]

    async def work() -> Answer:
        asyncio.get_running_loop().getaddrinfo = getaddrinfo  # type: ignore[method-assign, assignment]
        return await look_up("a.example", free, turn)

    assert Answer(address) == asyncio.run(work())


def test_a_resolver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "LOOKUP_S", 0.01)

    async def work() -> Answer:
        loop = asyncio.get_running_loop()
        loop.getaddrinfo = lambda *args, **named: loop.create_future()  # type: ignore[method-assign, assignment]
        return await look_up("a.example", free)

    assert "time-out" in asyncio.run(work()).reason


# What a parser offers -----------------------------------------------------------------------------------------------


def numbered(count: int) -> list[str]:
    return [f"http://a/{number}" for number in range(count)]


class Told:
    """What was sent, and what time it is."""

    def __init__(self) -> None:
        self.calls: list[list[Job]] = []
        self.now = 1000.0
        self.offers = Offers(self.take, lambda: self.now)

    def take(self, lines: list[bytes]) -> None:
        self.calls.append([jcf.parse(line) for line in lines])

    def send(self, *urls: str, way: str = "", **job: Any) -> list[list[Job]]:
        self.calls.clear()
        self.offers.send([(page(**job), dict.fromkeys(urls, way))])
        return list(self.calls)


def page(**params: str | int) -> Job:
    return jcf.job(**{"URL": "http://a/", "SEED": "http://a/", **params})


def test_a_link_is_one_hop_further_and_a_redirect_is_not() -> None:
    told = Told()
    job: dict[str, Any] = {
        "DEPTH": 2,
        "HOPS": 1,
        "TAG": 'a "tag"',
        "SINCE": "now",
        "HDB": "x",
        "SCOPES": "1:*",
        "ETAG": "e",
    }
    common: dict[str, Any] = {"SEED": "http://a/", "VIA": "http://a/", "TAG": 'a "tag"', "SINCE": "now", "HDB": "x"}
    assert [[jcf.job(URL="http://a/1", **common, DEPTH=3)]] == told.send("http://a/1", **job)
    assert [[jcf.job(URL="http://a/2", **common, DEPTH=2, HOPS=2)]] == told.send("http://a/2", way="redirect", **job)
    assert [[jcf.job(URL="http://a/3", **common, DEPTH=2, REQUISITE=1)]] == told.send(
        "http://a/3", way="requisite", **job
    )


@pytest.mark.parametrize(
    ("url", "way", "job", "again"),
    [
        ("http://a/1", "", {"DEPTH": 1}, False),
        ("http://a/1", "", {"DEPTH": 2}, False),
        ("http://a/1", "", {"DEPTH": 0}, True),
        ("http://a/1", "", {"DEPTH": 1, "SINCE": "now"}, True),
        ("http://a/1", "", {"DEPTH": 1, "SCOPES": "1:3"}, True),
        ("http://a/1", "redirect", {"DEPTH": 1}, True),
        ("http://a/2", "", {"DEPTH": 1}, True),
    ],
)
def test_what_was_acknowledged_is_not_sent_again(url: str, way: str, job: dict[str, str | int], again: bool) -> None:
    told = Told()
    told.send("http://a/1", DEPTH=1)
    assert again == bool(told.send(url, way=way, **job))


@pytest.mark.parametrize(
    ("url", "way", "lease", "is_sent"),
    [
        ("http://a/1", "", {"HOSTS": "host:a"}, True),
        ("https://www.a:8443/1", "", {"HOSTS": "host:a", "SCOPES": "1:*"}, True),
        ("http://b/1", "", {"HOSTS": "host:a"}, False),
        ("http://b/1", "", {"HOSTS": "host:a host:b"}, True),
        ("http://x.b/1", "", {"HOSTS": "domain:b host:a"}, True),
        ("http://b/1", "", {}, True),  # more than hosts decides
        ("http://a/1", "", {"HOSTS": "host:a", "SCOPES": "1:1"}, True),
        ("http://a/1", "", {"HOSTS": "host:a", "SCOPES": "1:0"}, False),  # no hop is left
        ("http://a/1", "", {"HOSTS": "host:a", "SCOPES": "1:10"}, True),
        ("http://b/1", "redirect", {"HOSTS": "host:a", "SCOPES": "1:0"}, True),  # is no hop, and a seed's may widen
        ("http://b/1", "requisite", {"HOSTS": "host:a", "SCOPES": "1:0"}, True),
    ],
)
def test_a_link_that_would_not_be_taken_is_not_sent(
    url: str, way: str, lease: dict[str, str | int], is_sent: bool
) -> None:
    told = Told()
    assert is_sent == bool(told.send(url, way=way, **lease))
    told.calls.clear()
    told.offers.send_again([(page(**lease), {url: way})])
    assert is_sent == bool(told.calls)


@pytest.mark.parametrize(
    ("first", "then", "again"),
    [
        ({"SCOPES": "1:3", "DEPTH": "0"}, {"SCOPES": "1:2", "DEPTH": "1"}, False),
        ({"SCOPES": "1:3", "DEPTH": "0"}, {"SCOPES": "1:3", "DEPTH": "1"}, True),
        ({"SCOPES": "1:*", "DEPTH": "0"}, {"SCOPES": "1:*", "DEPTH": "4"}, False),
        ({"SCOPES": "1:*", "DEPTH": "0"}, {"SCOPES": "2:*", "DEPTH": "0"}, True),
    ],
)
def test_a_wider_scope_has_links_sent_again(first: dict[str, Any], then: dict[str, Any], again: bool) -> None:
    told = Told()
    told.send("http://a/1", **first)
    assert again == bool(told.send("http://a/1", **then))


def test_of_two_ways_in_one_message_the_shorter_goes() -> None:
    told = Told()
    told.offers.send([(page(DEPTH=depth), {"http://a/1": ""}) for depth in (3, 1, 4)])
    assert [[2]] == [[line.number("DEPTH") for line in call] for call in told.calls]


def test_what_was_sent_is_forgotten_after_a_while() -> None:
    told = Told()
    told.send("http://a/1")
    told.now += REMEMBER_S + 1
    assert told.send("http://a/1")


def test_messages_are_full_and_memory_is_bounded() -> None:
    told = Told()
    links = [f"http://a/{number}" for number in range(REMEMBERED + 1)]
    assert [MESSAGE_LINES, 1] == [len(call) for call in told.send(*links[: MESSAGE_LINES + 1])]
    told.send(*links)
    assert told.send("http://a/1")
    told.calls.clear()
    told.offers.send_again([(page(), dict.fromkeys(links[:MESSAGE_LINES], "")), (page(), {"http://b/": "redirect"})])
    assert [MESSAGE_LINES, 1] == [len(call) for call in told.calls]


def test_what_was_not_acknowledged_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()

    def away(lines: list[bytes]) -> None:
        raise RetryLater("away")

    with monkeypatch.context() as patch:
        patch.setattr(told.offers, "_call", away)
        with pytest.raises(RetryLater):
            told.send("http://a/1")
    assert told.send("http://a/1")


# Who holds leases ---------------------------------------------------------------------------------------------------


def child() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)


def with_holders(work: Callable[[Holders, list[Holder], asyncio.Event], Any]) -> Any:
    async def run() -> Any:
        dead: list[Holder] = []
        died = asyncio.Event()

        def on_death(holder: Holder) -> None:
            dead.append(holder)
            died.set()

        holders = Holders(on_death)
        try:
            return await asyncio.wait_for(work(holders, dead, died), 20)
        finally:
            holders.close()

    return asyncio.run(run())


@pytest.mark.parametrize("ends", ["by itself", "by us"])
def test_a_holders_death_is_known_once(ends: str) -> None:
    async def work(holders: Holders, dead: list[Holder], died: asyncio.Event) -> None:
        with child() as process:
            holder = holders.of(process.pid)
            assert holder == holders.of(process.pid)
            assert holders.watch(holder)
            if ends == "by us":
                holders.kill(holder)
            else:
                process.communicate(b"\n")
            await died.wait()
            assert [holder] == dead
            holders.kill(holder)

    with_holders(work)


def test_a_pid_used_again_is_another_process() -> None:
    async def work(holders: Holders, dead: list[Holder], died: asyncio.Event) -> None:
        assert not holders.watch(Holder(os.getpid(), 1))
        assert not holders.watch(Holder(os.getpid(), 0))
        assert holders.watch(Holder(os.getpid(), start_time(os.getpid())))

    with_holders(work)


def test_a_process_that_is_gone_holds_nothing() -> None:
    process = child()
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()

    async def work(holders: Holders, dead: list[Holder], died: asyncio.Event) -> None:
        with pytest.raises(RetryLater, match="is gone"):
            holders.of(process.pid)
        assert 0 == start_time(process.pid)

    with_holders(work)


def test_a_zombie_is_dead() -> None:
    process = child()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert 0 == start_time(process.pid)
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
