"""Run a coroutine as a child of keepalive: uvloop where it is there, pings answered, the end of the parent obeyed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from combine.channel import Channel
from combine.ipc.server import Server


def run(server: Server, channel: Channel) -> None:
    """Run a daemon's server until it is told to stop, or its keepalive is gone."""
    run_child(lambda: server.run(channel.ready), channel, server.stopping.set)


def run_child(work: Callable[[], Coroutine[Any, Any, None]], channel: Channel, stop: Callable[[], None]) -> None:
    """Run a child's coroutine; `stop` is called when its keepalive is gone."""

    async def watched() -> None:
        loop = asyncio.get_running_loop()

        def on_channel() -> None:
            if not channel.answer_pings():
                loop.remove_reader(channel.fileno())
                stop()

        loop.add_reader(channel.fileno(), on_channel)
        await work()

    uvloop.run(watched())
