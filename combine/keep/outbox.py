"""The outbox of a harvester: harvests go into batches, and the scheduler is told after their batch is in the spool.

Invariant, "disk before message": a DONE line that speaks of a harvest is sent only when the batch that holds it is
published. Lines go out in the order in which they came, so an END is never before the outcomes of its lease. A full
disk or an absent scheduler costs time only: the outbox tries again, and what waits in it is bounded by the leases
that its harvester holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from combine.crashpoints import reached
from combine.errors import CombineError
from combine.ipc.client import AsyncClient
from combine.keep.batch import BatchWriter, Sealed
from combine.services import MESSAGE_LINES
from formats.hrf import Harvest
from formats.jcf import Job

log = logging.getLogger(__name__)

#: Seconds between two tries, and between two looks at what is old enough to go.
AGAIN_S, LOOK_S = 0.5, 0.05


@dataclass(slots=True)
class Parcel:
    """What goes together: lines in their order, the places of those whose harvests are in the batch, and the batch."""

    lines: list[Job] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    batch: Sealed | None = None


class Outbox:
    """Takes harvests and DONE lines, and sees to it that both arrive."""

    def __init__(self, writer: BatchWriter, scheduler: AsyncClient, wait_s: float, is_idle: Callable[[], bool]) -> None:
        self._writer, self._scheduler, self._wait_s, self._is_idle = writer, scheduler, wait_s, is_idle
        self._open = Parcel()
        self._full: deque[Parcel] = deque()
        self._since = 0.0
        self._ripe = asyncio.Event()
        self._closing = False
        self.ended: Callable[[int], None] = lambda lease: None
        self.fault = ""  # why harvests or batches wait for the disk
        self.noted: Callable[[str], None] = lambda fault: None

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
                self._note(f"waits: a harvest cannot be written: {error}")
                await asyncio.sleep(AGAIN_S)
        self._note("")
        if body is not None:
            with contextlib.suppress(OSError):  # it is in the batch: what is left goes with the slot's next holder
                os.unlink(body)
        self._open.places.append(len(self._open.lines))
        self.tell(line)
        # A batch is closed when it is full, and not when the one before it is out: parsers wait for the small ones.
        if self._writer.is_full:
            self._close_parcel()

    def tell(self, line: Job) -> None:
        """Take a line that needs no batch."""
        if not self._open.lines:
            self._since = time.monotonic()
        self._open.lines.append(line)
        self._ripe.set()

    async def run(self) -> None:
        """Publish and send, until `close` and nothing is left."""
        while True:
            await self._ripe.wait()
            if not self._full:
                if not self._is_due():
                    await asyncio.sleep(LOOK_S)
                    continue
                self._close_parcel()
            await self._deliver(self._full.popleft())
            if not self._open.lines and not self._full:
                self._ripe.clear()
                if self._closing:
                    return

    async def close(self) -> None:
        """What is in the box may go at once; `run` ends when it is empty."""
        self._closing = True
        self._ripe.set()

    def _note(self, fault: str) -> None:
        if fault != self.fault:
            self.fault = fault
            self.noted(fault)

    def _is_due(self) -> bool:
        return (
            self._closing
            or self._is_idle()
            or self._writer.should_publish()
            or len(self._open.lines) >= MESSAGE_LINES // 2
            or time.monotonic() - self._since >= self._wait_s
        )

    def _close_parcel(self) -> None:
        self._open.batch = self._writer.seal()
        self._full.append(self._open)
        self._open = Parcel()

    async def _deliver(self, parcel: Parcel) -> None:
        """Publish the batch, and then tell."""
        if parcel.batch is not None:
            name = await self._publish(parcel.batch)
            for place in parcel.places:
                parcel.lines[place] = parcel.lines[place].having(BATCH=name)
            reached("batch.published")
        await self._send(parcel.lines)

    async def _publish(self, sealed: Sealed) -> str:
        said = False
        while True:
            try:
                name = await asyncio.get_running_loop().run_in_executor(None, sealed.publish)
                self._note("")
                return name
            except OSError as error:
                if not said:
                    log.error("a batch cannot be published, it is kept and tried again: %s", error)
                    said = True
                self._note(f"waits: a batch cannot be published: {error}")
                await asyncio.sleep(AGAIN_S)

    async def _send(self, lines: list[Job]) -> None:
        for start in range(0, len(lines), MESSAGE_LINES // 2):
            part = lines[start : start + MESSAGE_LINES // 2]
            while True:
                try:
                    await self._scheduler.call("DONE", part)
                    reached("harvester.told")
                    break
                except CombineError as error:
                    log.info("the scheduler is to hear of outcomes later reason=%s", error)
                    await asyncio.sleep(AGAIN_S)
            for line in part:
                if line.get("END"):
                    self.ended(line.number("LEASE"))
