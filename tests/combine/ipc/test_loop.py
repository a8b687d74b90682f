from __future__ import annotations

import asyncio
import importlib
import resource
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from combine.channel import Channel
from combine.ipc import loop
from combine.ipc.loop import run, run_child
from combine.ipc.server import Server
from tests.combine.ipc.desk import Desk


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Channel]]:
    parent, child = socket.socketpair()
    yield parent, Channel(child)
    parent.close()
    child.close()


def test_a_child_answers_pings_and_ends_with_its_parent(ends: tuple[socket.socket, Channel]) -> None:
    parent, channel = ends
    heard: list[bytes] = []

    async def work() -> None:
        over = asyncio.Event()
        stopped.append(over)
        parent.sendall(b"PING\n")
        heard.append(await asyncio.get_running_loop().run_in_executor(None, parent.recv, 100))
        parent.shutdown(socket.SHUT_RDWR)
        await over.wait()

    stopped: list[asyncio.Event] = []
    run_child(work, channel, lambda: stopped[0].set())
    assert [b"PONG\n"] == heard


def test_a_server_runs_until_its_keepalive_is_gone(ends: tuple[socket.socket, Channel], tmp_path: Path) -> None:
    parent, channel = ends
    desk = Desk()

    def recover(reason: str) -> None:
        raise AssertionError(reason)

    async def start(server: Server) -> None:
        parent.shutdown(socket.SHUT_RDWR)

    desk.recover, desk.start = recover, start  # type: ignore[method-assign]
    run(Server(desk, tmp_path / "idbd.sock"), channel)
    assert "stop" == desk.log[-1]


def test_asyncio_serves_where_uvloop_is_absent(
    ends: tuple[socket.socket, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[asyncio.AbstractEventLoop] = []

    async def work() -> None:
        seen.append(asyncio.get_running_loop())

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "uvloop", None)
        importlib.reload(loop)
    try:
        loop.run_child(work, ends[1], lambda: None)
    finally:
        importlib.reload(loop)
    loop.run_child(work, ends[1], lambda: None)
    assert [False, True] == [isinstance(one, uvloop.Loop) for one in seen]


def test_the_soft_limit_of_open_files_is_raised(
    ends: tuple[socket.socket, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[tuple[int, int]] = []
    asked = iter([(1024, 4096), (1024, resource.RLIM_INFINITY), (1_000_000, 1_000_000), (resource.RLIM_INFINITY,) * 2])
    monkeypatch.setattr(resource, "getrlimit", lambda which: next(asked))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limit: limits.append(limit))

    async def nothing() -> None:
        pass

    for _ in range(4):
        run_child(nothing, ends[1], lambda: None)
    assert [(4096, 4096), (8192, resource.RLIM_INFINITY)] == limits
