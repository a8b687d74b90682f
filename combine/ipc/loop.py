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

#: New objects that may be part of a cycle before the collector looks at them: a few messages' worth, some megabytes.
COLLECTED = 20_000


def run(server: Server, channel: Channel) -> None:
    """Run a daemon's server until it is told to stop, or its keepalive is gone."""
    server.note = channel.note
    run_child(lambda: server.run(channel.ready), channel, server.stopping.set)


def run_child(work: Callable[[], Coroutine[Any, Any, None]], channel: Channel, stop: Callable[[], None]) -> None:
    """Run a child's coroutine; `stop` is called when its keepalive is gone."""
    _open_files()
    collect_seldom()

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


def collect_seldom() -> None:
    """Let the collector of cycles pass over what is loaded now, which stays, and come for many new objects only.

    A message of a thousand lines makes thousands, which go by themselves: to look at them took a tenth of its time.
    """
    gc.freeze()
    gc.set_threshold(COLLECTED)


def _open_files() -> None:
    """Raise the soft limit of open files, which is 1,024 on most systems, as many as a server has connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
