"""Duties: tasks that run in a daemon beside the answering of messages, from its start to its end."""

from __future__ import annotations

import asyncio
import logging

log = logging.getLogger(__name__)


def end_with(stopping: asyncio.Event, task: asyncio.Task[None]) -> None:
    """End the daemon where a duty ended by a bug: keepalive's next one has all of them again."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a duty failed, the daemon ends", exc_info=error)
        stopping.set()
