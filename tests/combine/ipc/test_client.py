from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from combine.errors import CombineError, Rejected, RetryLater, WireError
from combine.ipc.client import AsyncClient, Client, Reply
from combine.services import CALL_S
from formats import jcf
from tests.combine.ipc.desk import aside, run, serving

JOB = jcf.job(URL="http://a/")
LINE = jcf.dump(JOB)
GREETING = b"combine/1 idbd\n"

#: A caller of either client: path, verb, time-out.
Call = Callable[[Path, str, float], Reply]


def blocking(path: Path, verb: str, timeout_s: float) -> Reply:
    with Client(path, "idbd", timeout_s=timeout_s) as client:
        return client.call(verb, [JOB])


def awaiting(path: Path, verb: str, timeout_s: float) -> Reply:
    async def work() -> Reply:
        client = AsyncClient(path, "idbd", "scheduler", timeout_s)
        try:
            return await client.call(verb, [JOB])
        finally:
            client.close()

    return run(work())


both = pytest.mark.parametrize("call", [blocking, awaiting])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "idbd.sock"


@contextmanager
def scripted(path: Path, *connections: Sequence[bytes | None]) -> Iterator[list[bytes]]:
    """A peer that says, on each connection in turn, a greeting and then one thing for each request.

    b"" closes the connection, None says nothing and waits for the peer to close it.
    """
    heard: list[bytes] = []
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen(8)

    def serve() -> None:
        for script in connections:
            connection, _ = listening.accept()
            with connection, suppress(ConnectionError):
                for place, part in enumerate(script):
                    if place and (data := connection.recv(65536)):
                        heard.append(data)
                    if part is None:
                        while connection.recv(65536):
                            pass
                    elif not part:
                        break
                    else:
                        connection.sendall(part)
                else:
                    while connection.recv(65536):
                        pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield heard
    finally:
        thread.join(10)
        listening.close()
        assert not thread.is_alive()


GOOD = b"OK 1 text\n" + LINE + b"\n"

ANSWERS: list[tuple[list[Sequence[bytes | None]], type[CombineError] | None, str]] = [
    ([[GREETING, GOOD]], None, "text"),
    ([[GREETING, b"RETRY 0 not now\n"]], RetryLater, "idbd: not now"),
    ([[GREETING, b"RETRY 0\n"]], RetryLater, "idbd: not now"),
    ([[GREETING, b"REJECT 0 never\n"]], Rejected, "idbd: never"),
    ([[GREETING, b"REJECT 0\n"]], Rejected, "idbd: rejected"),
    ([[GREETING, b"MAYBE 0\n"]], WireError, "MAYBE, which is no answer"),
    ([[GREETING, b"OK 1\nURL=x\n"]], WireError, "a line that is none"),
    ([[GREETING, b"hello\n"]], WireError, "WORD COUNT"),
    ([[b"combine/2 idbd\n"]], WireError, "idbd speaks combine/2, this program combine/1: restart the older"),
    ([[b"combine/1 scheduler\n"]], WireError, "at the socket of idbd answers scheduler"),
    ([[b"\n"]], WireError, "idbd speaks nothing"),
    ([[b""]], RetryLater, "idbd is away"),
    ([[b"x" * 2000]], RetryLater, "idbd is away"),
    ([[GREETING, b""]], RetryLater, "idbd is away"),
    ([[GREETING, b"OK 1\n" + LINE[:5], b""]], RetryLater, "idbd is away"),
    ([[GREETING[:5], None]], RetryLater, "idbd is away"),
    ([[GREETING, None]], RetryLater, "idbd is away"),
]


@both
@pytest.mark.parametrize(("script", "error", "text"), ANSWERS)
def test_what_the_peer_says_is_an_answer_or_one_of_three_errors(
    path: Path, call: Call, script: list[Sequence[bytes | None]], error: type[CombineError] | None, text: str
) -> None:
    waits = None in script[-1] or len(script[-1]) == 3
    with scripted(path, *script):
        if error is None:
            reply = call(path, "LOOKUP", CALL_S)
            assert (text, [JOB], [JOB]) == (reply.text, list(reply), reply.lines)
        else:
            with pytest.raises(error, match=text):
                call(path, "LOOKUP", 0.1 if waits else CALL_S)


@both
def test_a_daemon_that_is_not_there_is_away(path: Path, call: Call) -> None:
    with pytest.raises(RetryLater, match=r"idbd is away .*No such file"):
        call(path, "PING", CALL_S)
    path.touch()
    with pytest.raises(RetryLater, match=r"idbd is away .*refused"):
        call(path, "PING", CALL_S)


@both
def test_what_no_line_can_hold_is_not_sent(path: Path, call: Call) -> None:
    client = Client(path, "idbd")
    with pytest.raises(jcf.RecordError):
        client.call("LOOKUP", [jcf.job(URL='a"b')])


def test_a_stale_connection_is_replaced_once(path: Path) -> None:
    with scripted(path, [GREETING, GOOD, b""], [GREETING, GOOD]) as heard, Client(path, "idbd") as client:
        assert [JOB] == client.call("LOOKUP")
        assert [JOB] == client.call("SAME")
    assert [b"LOOKUP 0\n", b"SAME 0\n"] == [heard[0], heard[-1]]


def test_a_stale_connection_is_not_replaced_twice(path: Path) -> None:
    with scripted(path, [GREETING, GOOD, b""], [GREETING, b""]), Client(path, "idbd") as client:
        client.call("LOOKUP")
        with pytest.raises(RetryLater):
            client.call("SAME")


def test_an_awaiting_client_replaces_a_stale_connection_once(path: Path) -> None:
    async def work() -> None:
        client = AsyncClient(path, "idbd", "scheduler")
        assert [JOB] == await client.call("LOOKUP")
        assert [JOB] == await client.call("SAME")
        with pytest.raises(RetryLater):
            await client.call("DUE")
        client.close()

    with scripted(path, [GREETING, GOOD, b""], [GREETING, GOOD, b""], [GREETING, b""]):
        run(work())


def test_a_late_answer_is_no_answer_to_the_next_request(path: Path) -> None:
    with scripted(path, [GREETING, None], [GREETING, b"OK 0 second\n"]), Client(path, "idbd", timeout_s=0.1) as client:
        with pytest.raises(RetryLater, match="timed out"):
            client.call("LOOKUP")
        client._timeout_s = CALL_S
        assert "second" == client.call("SAME").text


def test_after_an_interrupt_the_next_request_has_a_connection_of_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(self: object) -> None:
        raise Interrupted

    with scripted(path, [GREETING, b"OK 0 first\n"], [GREETING, b"OK 0 second\n"]), Client(path, "idbd") as client:
        with monkeypatch.context() as patch:
            patch.setattr("combine.ipc.message.Reader.take", interrupt)
            with pytest.raises(Interrupted):
                client.call("LOOKUP")
        assert "second" == client.call("SAME").text


def test_a_peer_that_drips_is_given_up_at_the_end_of_the_call(path: Path) -> None:
    drip = [GREETING, b"OK 1\n"]
    with scripted(path, drip), Client(path, "idbd", timeout_s=0.1) as client, pytest.raises(RetryLater):
        client.call("LOOKUP")


def test_a_call_that_is_cancelled_leaves_nothing_behind(path: Path) -> None:
    async def work() -> None:
        async with serving(path) as (desk, _):
            client = AsyncClient(path, "idbd", "scheduler")
            held = asyncio.ensure_future(client.call("DUE"))
            await desk.entered.wait()
            held.cancel()
            with pytest.raises(asyncio.CancelledError):
                await held
            assert "SAME" == (await client.call("SAME")).text
            client.close()
            client.close()

    run(work())


def test_a_call_cancelled_before_the_greeting_leaves_nothing_behind(path: Path) -> None:
    async def work() -> None:
        client = AsyncClient(path, "idbd", "scheduler")
        held = asyncio.ensure_future(client.call("PING"))
        for _ in range(10):
            await asyncio.sleep(0.001)
        held.cancel()
        with pytest.raises(asyncio.CancelledError):
            await held
        assert "second" == (await client.call("SAME")).text
        client.close()

    with scripted(path, [GREETING[:3], None], [GREETING, b"OK 0 second\n"]):
        run(work())


def test_calls_of_several_tasks_go_one_after_another(path: Path) -> None:
    async def work() -> None:
        async with serving(path):
            client = AsyncClient(path, "idbd", "scheduler")
            words = ["PING", "SAME", "STAT", "SITE"] * 10
            replies = await asyncio.gather(*(client.call(word) for word in words))
            assert words == [reply.text for reply in replies]
            client.close()

    run(work())


def test_what_comes_unasked_is_no_answer(path: Path) -> None:
    async def work() -> None:
        client = AsyncClient(path, "idbd", "scheduler")
        assert "mine" == (await client.call("PING")).text
        client.close()

    with scripted(path, [GREETING + b"OK 0 unasked\n", b"OK 0 mine\n"]):
        run(work())


def test_unasked_garbage_hurts_nobody(path: Path) -> None:
    async def work() -> None:
        client = AsyncClient(path, "idbd", "scheduler")
        with pytest.raises((WireError, RetryLater)):
            await client.call("PING")
        client.close()

    with scripted(path, [GREETING + b"garbage\n", b"more garbage\n"]):
        run(work())


def test_a_blocking_client_and_a_server(path: Path) -> None:
    async def work() -> None:
        async with serving(path):
            with Client(path, "idbd", caller="parser") as client:
                assert "PING" == (await aside(lambda: client.call("PING"))).text
                jobs = [JOB] * 1000
                assert jobs == await aside(lambda: client.call("LOOKUP", jobs))

    run(work())


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_calls_go_right(path: Path, kind: type[Client] | type[AsyncClient]) -> None:
    kind(path, "idbd", "scheduler")
    for callee, caller in (("scheduler", "idbd"), ("scheduler", "scheduler"), ("logd", "parser")):
        with pytest.raises(AssertionError, match="calls go right"):
            kind(path, callee, caller)
