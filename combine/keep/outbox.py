"""The outbox of a harvester: harvests go into batches, and the scheduler is told after their batch is in the spool.

Invariant, "disk before message": a DONE line that speaks of a harvest is sent only when the batch that holds it is
published. Lines go out in the order in which they came, so an END is never before the outcomes of its lease. A full
disk or an absent scheduler costs time only: the outbox tries again, and what waits in it is bounded by the leases
that its harvester holds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from combine.errors import CombineError
from combine.ipc.client import AsyncClient
from combine.keep.batch import BatchWriter, Sealed
from combine.services import MESSAGE_LINES
from formats.hrf import Harvest
from formats.jcf import Job

log = logging.getLogger(__name__)

#: Seconds between two tries, and between two looks at what is old enough to go.
AGAIN_S, LOOK_S = 0.5, 0.05


class Outbox:
    """Takes harvests and DONE lines, and sees to it that both arrive."""

    def __init__(self, writer: BatchWriter, scheduler: AsyncClient, wait_s: float, is_idle: Callable[[], bool]) -> None:
        self._writer, self._scheduler, self._wait_s, self._is_idle = writer, scheduler, wait_s, is_idle
        self._lines: list[Job] = []
        self._with_batch: list[int] = []  # places in `_lines` whose harvests are in the open batch
        self._since = 0.0
        self._ripe = asyncio.Event()
        self._closing = False
        self.ended: Callable[[int], None] = lambda lease: None

    async def put(self, line: Job, harvest: Harvest, body: Path | None) -> None:
        """Take a harvest and the line that tells of it; waits while the disk is full."""
        said = False
        while True:
            try:
                self._writer.put(harvest, body)
                break
            except OSError as error:
                if not said:
                    log.error("a harvest cannot be written, it is kept and tried again: %s", error)
                    said = True
                await asyncio.sleep(AGAIN_S)
        if body is not None:
            os.unlink(body)
        self._with_batch.append(len(self._lines))
        self.tell(line)

    def tell(self, line: Job) -> None:
        """Take a line that needs no batch."""
        if not self._lines:
            self._since = time.monotonic()
        self._lines.append(line)
        self._ripe.set()

    async def run(self) -> None:
        """Publish and send, until `close` and nothing is left."""
        while True:
            await self._ripe.wait()
            if not self._is_due():
                await asyncio.sleep(LOOK_S)
                continue
            lines, places = self._lines, self._with_batch
            self._lines, self._with_batch = [], []
            sealed = self._writer.seal()
            if sealed is not None:
                name = await self._publish(sealed)
                for place in places:
                    lines[place] = lines[place].having(BATCH=name)
            await self._send(lines)
            if not self._lines:
                self._ripe.clear()
                if self._closing:
                    return

    async def close(self) -> None:
        """What is in the box may go at once; `run` ends when it is empty."""
        self._closing = True
        self._ripe.set()

    def _is_due(self) -> bool:
        return (
            self._closing
            or self._is_idle()
            or self._writer.should_publish()
            or len(self._lines) >= MESSAGE_LINES // 2
            or time.monotonic() - self._since >= self._wait_s
        )

    async def _publish(self, sealed: Sealed) -> str:
        said = False
        while True:
            try:
                return await asyncio.get_running_loop().run_in_executor(None, sealed.publish)
            except OSError as error:
                if not said:
                    log.error("a batch cannot be published, it is kept and tried again: %s", error)
                    said = True
                await asyncio.sleep(AGAIN_S)

    async def _send(self, lines: list[Job]) -> None:
        for start in range(0, len(lines), MESSAGE_LINES // 2):
            part = lines[start : start + MESSAGE_LINES // 2]
            while True:
                try:
                    await self._scheduler.call("DONE", part)
                    break
                except CombineError as error:
                    log.info("the scheduler is to hear of outcomes later reason=%s", error)
                    await asyncio.sleep(AGAIN_S)
            for line in part:
                if line.get("END"):
                    self.ended(line.number("LEASE"))
