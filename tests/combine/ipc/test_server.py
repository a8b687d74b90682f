# ruff: noqa: ASYNC110, ASYNC240 -- what another end of a socket does has no event to wait for
from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from combine.errors import ConfigError, Rejected, RetryLater, WireError
from combine.ipc import server as server_module
from combine.services import EVERYONE
from formats import jcf
from tests.combine.ipc.desk import Desk, aside, connect, run, serving

LINE = jcf.dump_text(jcf.job(URL="http://a/"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "idbd.sock"


ANSWERS = [
    (b"PING 0\n", "OK 0 PING\n"),
    (b"STAT 0 some text\n", "OK 0 STAT\n"),
    (b"LOOKUP 0\n", "OK 0\n"),
    (b"FETCH 0\n", "REJECT 0 FETCH is no verb of idbd: PING STAT LOOKUP REMEMBER DUE SAME SITE FORGET\n"),
    (b"LOOKUP 1\nURL=x\n", "REJECT 0 line 1 of LOOKUP: a JCF line starts with 'JCF/0.0', not with 'URL=x'\n"),
    (b"LOOKUP 1\n\xff\xfe\n", "REJECT 0 line 1 of LOOKUP: byte 0 of the JCF line is not UTF-8\n"),
    (f"LOOKUP 1\n{LINE}\n".encode(), f"OK 1\n{LINE}\n"),
]


@pytest.mark.parametrize(("request_", "answer"), ANSWERS)
def test_each_request_has_one_answer_and_the_connection_lives(path: Path, request_: bytes, answer: str) -> None:
    async def work() -> None:
        async with serving(path):
            wire = await connect(path)
            for _ in range(2):
                await wire.say(request_)
                heard = await wire.reader.readexactly(len(answer))
                assert answer == heard.decode()
            await wire.close()

    run(work())


GARBAGE = [b"hello\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\n", b"LOOKUP 5000\n", b"x" * 5000]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_is_rejected_and_ends_the_connection(path: Path, garbage: bytes) -> None:
    async def work() -> None:
        async with serving(path):
            wire = await connect(path)
            assert (await wire.ask(garbage)).startswith("REJECT 0 a message ")
            assert b"" == await wire.end()
            await wire.close()
            other = await connect(path)
            assert "OK 0 PING\n" == await other.ask(b"PING 0\n")
            await other.close()

    run(work())


def test_a_line_of_10_mb_is_refused_early(path: Path) -> None:
    async def work() -> None:
        async with serving(path) as (_, server):
            wire = await connect(path)
            writing = asyncio.ensure_future(wire.say(b"LOOKUP 1\n" + b"x" * 10_000_000))
            assert "REJECT 0 a line has at most 16384 bytes\n" == await wire.hear()
            await wire.end()
            await writing
            await wire.close()
            other = await connect(path)
            assert "OK 0 PING\n" == await other.ask(b"PING 0\n")
            assert 1 == len(server.connections)
            await other.close()

    run(work())


def test_requests_sent_at_once_are_answered_in_their_order(path: Path) -> None:
    async def work() -> None:
        async with serving(path):
            wire = await connect(path)
            await wire.say(b"PING 0\nSAME 0\nSTAT 0\nFORGET 0\n" * 50)
            heard = [await wire.hear() for _ in range(200)]
            assert [f"OK 0 {word}\n" for word in ("PING", "SAME", "STAT", "FORGET")] * 50 == heard
            await wire.close()

    run(work())


def test_a_request_byte_by_byte(path: Path) -> None:
    async def work() -> None:
        async with serving(path):
            wire = await connect(path)
            for byte in f"LOOKUP 1\n{LINE}\n".encode():
                await wire.say(bytes([byte]))
            assert "OK 1\n" == await wire.hear()
            assert f"{LINE}\n" == await wire.hear()
            await wire.close()

    run(work())


FAULTS = [
    (Rejected("never"), "REJECT 0 never\n", ""),
    (RetryLater("not now"), "RETRY 0 not now\n", ""),
    (WireError("idbd speaks combine/2"), "RETRY 0 idbd speaks combine/2\n", ""),
    (jcf.RecordError("bad"), "REJECT 0 bad\n", ""),
    (OSError(28, "No space left on device"), "RETRY 0 the disk failed: [Errno 28] No space left", "recover: the disk"),
    (sqlite3.OperationalError("database or disk is full"), "RETRY 0 the disk failed: database or", "recover: the disk"),
    (KeyError("a bug"), "RETRY 0 REMEMBER failed; see the log\n", "recover: REMEMBER failed"),
    (AssertionError(), "RETRY 0 REMEMBER failed; see the log\n", "recover: REMEMBER failed"),
]


@pytest.mark.parametrize(("fault", "answer", "recovery"), FAULTS)
def test_what_a_verb_raises_is_one_of_the_answers(path: Path, fault: Exception, answer: str, recovery: str) -> None:
    async def work() -> None:
        async with serving(path) as (desk, _):
            desk.fault = fault
            wire = await connect(path)
            assert (await wire.ask(b"REMEMBER 0\n")).startswith(answer)
            assert bool(recovery) == any(entry.startswith(recovery) for entry in desk.log if recovery)
            desk.fault = None
            assert "OK 0\n" == await wire.ask(b"REMEMBER 0\n")
            await wire.close()

    run(work())


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), sqlite3.OperationalError("disk is full")])
def test_what_could_not_be_committed_is_promised_to_nobody(path: Path, fault: Exception) -> None:
    async def work() -> None:
        async with serving(path) as (desk, _):
            first, second = await connect(path), await connect(path)
            desk.commit_faults = [fault]
            answers = await asyncio.gather(first.ask(b"PING 0\n"), second.ask(b"PING 0\n"))
            assert f"RETRY 0 the disk failed: {fault}\n" in answers
            assert f"recover: the disk failed: {fault}" in desk.log
            assert "OK 0 PING\n" == await first.ask(b"PING 0\n")
            await first.close()
            await second.close()

    run(work())


def test_a_desk_that_cannot_even_recover_answers_retry_until_it_can(path: Path) -> None:
    async def work() -> None:
        async with serving(path) as (desk, _):
            wire = await connect(path)
            desk.commit_faults = [OSError(28, "full")]
            desk.recover_faults = [sqlite3.OperationalError("full"), AssertionError(), OSError(28, "full")]
            answers = [await wire.ask(b"LOOKUP 0\n") for _ in range(3)]
            assert ["RETRY 0 the disk failed: [Errno 28] full\n"] * 2 == answers[:2]
            assert ["start", "verb"] == desk.log[:2]
            while not (answer := await wire.ask(b"LOOKUP 0\n")).startswith("OK"):
                assert answer.startswith("RETRY")
            assert [] == desk.recover_faults
            assert "recover: the disk failed: [Errno 28] full" in desk.log
            await wire.close()

    run(work())


@pytest.mark.parametrize("place", ["verb", "commit", "recovery"])
def test_a_damaged_database_ends_the_daemon_with_its_name_and_the_remedy(path: Path, place: str) -> None:
    damage = sqlite3.DatabaseError("database disk image is malformed")
    damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT

    async def work() -> None:
        async with serving(path) as (desk, _):
            wire = await connect(path)
            desk.fault = damage if place == "verb" else None
            desk.commit_faults = [damage] if place == "commit" else [OSError(28, "full")]
            desk.recover_faults = [damage] if place == "recovery" else []
            assert "RETRY" == (await wire.ask(b"REMEMBER 0\n")).partition(" ")[0]
            await wire.close()

    with pytest.raises(ConfigError, match=r"idb/visits.sqlite is damaged \(database disk .*: restore it from a backup"):
        run(work())


def test_answers_of_one_turn_share_one_commit(path: Path) -> None:
    async def work() -> None:
        async with serving(path) as (desk, server):
            wires = [await connect(path) for _ in range(20)]
            before = desk.log.count("commit")
            waiting = [asyncio.ensure_future(wire.ask(b"DUE 0\n")) for wire in wires]
            while len([1 for held in server.connections if held.busy]) < 20:
                await asyncio.sleep(0)
            assert before == desk.log.count("commit")
            desk.go.set()
            assert ["OK 0 here\n"] * 20 == await asyncio.gather(*waiting)
            assert before + 1 == desk.log.count("commit")
            for wire in wires:
                await wire.close()

    run(work())


def test_durable_waits_for_a_commit_and_says_when_there_was_none(path: Path) -> None:
    async def work() -> None:
        async with serving(path) as (desk, server):
            await server.durable()
            assert ["start", "commit"] == desk.log
            desk.commit_faults = [OSError(28, "full")]
            with pytest.raises(RetryLater, match="the disk failed"):
                await server.durable()
            abandoned = asyncio.ensure_future(server.durable())
            await asyncio.sleep(0)
            abandoned.cancel()
            await server.durable()

    run(work())


def test_a_verb_learns_that_its_peer_is_gone(path: Path) -> None:
    async def work() -> None:
        async with serving(path) as (desk, server):
            wire = await connect(path)
            await wire.say(b"DUE 0\n")
            await desk.entered.wait()
            assert not desk.requests[0].is_gone()
            await wire.close()
            while not desk.requests[0].is_gone():
                await asyncio.sleep(0)
            desk.go.set()
            while server.connections:
                await asyncio.sleep(0)

    run(work())


def test_who_closes_only_his_end_is_answered(path: Path) -> None:
    async def work() -> None:
        async with serving(path) as (desk, server):
            wire = await connect(path)
            await wire.say(b"DUE 0\nPING 0\nPI")
            wire.writer.write_eof()
            await desk.entered.wait()
            desk.go.set()
            assert b"OK 0 gone\nOK 0 PING\n" == await wire.end()
            await wire.close()
            while server.connections:
                await asyncio.sleep(0)

    run(work())


def test_half_a_message_and_silence_is_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SWEEP_S", 0.005)
    monkeypatch.setattr(server_module, "CALL_S", -1.0)

    async def work() -> None:
        async with serving(path) as (desk, _):
            busy, idle, half = await connect(path), await connect(path), await connect(path)
            await busy.say(b"DUE 0\nPI")
            await half.say(b"LOOKUP 2\n")
            assert b"" == await half.end()
            assert "OK 0 PING\n" == await idle.ask(b"PING 0\n")
            desk.go.set()
            assert "OK 0 here\n" == await busy.hear()
            for wire in (busy, idle, half):
                await wire.close()

    run(work())


def test_a_socket_that_was_removed_is_made_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SWEEP_S", 0.005)

    async def work() -> None:
        async with serving(path):
            old = await connect(path)
            path.unlink()
            while not path.exists():
                await asyncio.sleep(0.001)
            new = await connect(path)
            assert "OK 0 PING\n" == await new.ask(b"PING 0\n")
            assert "OK 0 PING\n" == await old.ask(b"PING 0\n")
            await new.close()
            await old.close()

    run(work())


def test_where_no_socket_can_be_made_the_daemon_lives_and_tries_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "SWEEP_S", 0.005)

    async def work() -> None:
        async with serving(path):
            path.unlink()
            path.mkdir()
            (path / "in-the-way").touch()
            await asyncio.sleep(0.03)
            (path / "in-the-way").unlink()
            path.rmdir()
            while not path.exists():
                await asyncio.sleep(0.001)
            wire = await connect(path)
            assert "OK 0 PING\n" == await wire.ask(b"PING 0\n")
            await wire.close()

    run(work())


def test_the_socket_is_its_owners_alone_and_goes_at_the_end(path: Path) -> None:
    path.touch()

    async def work() -> None:
        async with serving(path):
            assert stat.S_ISSOCK(path.stat().st_mode)
            assert 0 == path.stat().st_mode & 0o077

    run(work())
    assert not path.exists()


def test_a_socket_of_another_daemon_is_left_at_the_end(path: Path) -> None:
    async def work() -> None:
        async with serving(path):
            path.rename(path.with_suffix(".old"))
            path.touch()

    run(work())
    assert path.exists()


@pytest.mark.parametrize(("uid", "is_served"), [(os.getuid(), True), (0, True), (os.getuid() + 1, False)])
def test_only_the_owner_and_root_are_served(
    path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, is_served: bool
) -> None:
    monkeypatch.setattr("struct.unpack", lambda form, data: (4711, uid, 0))

    async def work() -> None:
        async with serving(path) as (desk, server):
            reader, writer = await asyncio.open_unix_connection(str(path))
            assert (b"combine/1 idbd\n" if is_served else b"") == await reader.readline()
            if is_served:
                writer.write(b"PING 0\n")
                assert b"OK 0 PING\n" == await reader.readline()
                assert [4711] == [request.peer.pid for request in desk.requests]
            else:
                assert not server.connections
            writer.close()

    run(work())


def test_who_sends_ahead_is_read_only_so_far(path: Path) -> None:
    async def work() -> None:
        async with serving(path) as (desk, server):
            wire = await connect(path)
            await wire.say(b"DUE 0\n")
            await desk.entered.wait()
            flood = asyncio.ensure_future(wire.say(b"PING 0\n" * 300_000))
            (held,) = server.connections
            while held.reader.size < server_module.AHEAD_BYTES:
                await asyncio.sleep(0)
            for _ in range(100):
                await asyncio.sleep(0)
            assert held.reader.size < 600_000
            assert not flood.done()
            desk.go.set()
            assert "OK 0 here\n" == await wire.hear()
            assert "OK 0 PING\n" == await wire.hear()
            wire.writer.transport.abort()
            await flood

    run(work())


def test_the_kernel_says_who_the_peer_is(path: Path) -> None:
    async def work() -> None:
        async with serving(path) as (desk, _):
            wire = await connect(path)
            await wire.ask(b"PING 0\n")
            assert [(os.getpid(), os.getuid())] == [(each.peer.pid, each.peer.uid) for each in desk.requests]
            await wire.close()

    run(work())


def test_a_thousand_idle_connections_do_not_stop_it(path: Path) -> None:
    async def work() -> None:
        async with serving(path) as (_, server):
            idle = [await connect(path) for _ in range(1_000)]
            wire = await connect(path)
            assert "OK 0 PING\n" == await wire.ask(b"PING 0\n")
            assert 1_001 == len(server.connections)
            for each in (*idle, wire):
                await each.close()

    run(work())


def test_above_the_limit_the_longest_idle_connection_goes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS", 3)

    async def work() -> None:
        async with serving(path) as (desk, server):
            busy = await connect(path)
            waiting = asyncio.ensure_future(busy.ask(b"DUE 0\n"))
            await desk.entered.wait()
            idle = [await connect(path) for _ in range(4)]
            assert b"" == await idle[0].end()
            assert b"" == await idle[1].end()
            assert "OK 0 PING\n" == await idle[2].ask(b"PING 0\n")
            desk.go.set()
            assert "OK 0 here\n" == await waiting
            assert 3 == len(server.connections)
            for each in (busy, *idle):
                await each.close()

    run(work())


def signalled(number: int) -> Callable[[Path], Coroutine[Any, Any, Desk]]:
    async def work(path: Path) -> Desk:
        async with serving(path) as (desk, server):
            os.kill(os.getpid(), number)
            if number == signal.SIGHUP:
                while "reread" not in desk.log:
                    await asyncio.sleep(0)
            else:
                await server.stopping.wait()
            return desk

    return work


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(path: Path, number: int) -> None:
    desk = run(signalled(number)(path))
    assert "start" == desk.log[0]
    assert ["commit", "stop"] == desk.log[-2:]


def test_sighup_rereads(path: Path) -> None:
    assert "reread" in run(signalled(signal.SIGHUP)(path)).log


def test_at_the_end_who_waits_is_cut_off_and_nobody_is_lied_to(path: Path) -> None:
    async def work() -> None:
        async with serving(path) as (desk, _):
            wire = await connect(path)
            await wire.say(b"DUE 0\n")
            await desk.entered.wait()
        assert b"" == await wire.end()
        await wire.close()

    run(work())


def test_a_desk_without_all_its_verbs_is_a_bug(path: Path) -> None:
    class Short(Desk):
        def verbs(self) -> dict[str, server_module.Verb]:
            return {name: self.ping for name in EVERYONE}

    async def work() -> None:
        with pytest.raises(AssertionError, match="the verbs are those"):
            server_module.Server(Short(), path)

    run(work())


def test_aside_runs_beside_the_loop() -> None:
    assert 3 == run(aside(lambda: 3))
