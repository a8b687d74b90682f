"""Run a coroutine as a child of keepalive: uvloop where it is there, pings answered, the end of the parent obeyed."""

from __future__ import annotations

import asyncio
import gc
import resource
from collections.abc import Callable, Coroutine
from typing import Any

from combine.channel import Channel
from combine.ipc.server import Server

_new_loop: Callable[[], asyncio.AbstractEventLoop]
try:
    import uvloop
except ImportError:  # it is not built for every platform; on asyncio a fetch costs a quarter more
    _new_loop = asyncio.new_event_loop
else:
    _new_loop = uvloop.new_event_loop

#: Files that a process may have open at most, where the system lets it: a server's connections, and some.
FILES = 8_192


def run(server: Server, channel: Channel) -> None:
    """Run a daemon's server until it is told to stop, or its keepalive is gone."""
    server.note = channel.note
    run_child(lambda: server.run(channel.ready), channel, server.stopping.set)


def run_child(work: Callable[[], Coroutine[Any, Any, None]], channel: Channel, stop: Callable[[], None]) -> None:
    """Run a child's coroutine; `stop` is called when its keepalive is gone."""
    _open_files()
    keep_loaded()

    async def watched() -> None:
        loop = asyncio.get_running_loop()

        def on_channel() -> None:
            if not channel.answer_pings():
                loop.remove_reader(channel.fileno())
                stop()

        loop.add_reader(channel.fileno(), on_channel)
        await work()

    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(watched())


def keep_loaded() -> None:
    """What is loaded now stays for the process's life: the collector need not look through it again and again."""
    gc.freeze()


def _open_files() -> None:
    """Raise the soft limit of open files, which is 1,024 on most systems, as many as a server has connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
