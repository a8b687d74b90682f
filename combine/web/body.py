"""Read a body as it comes in, within its limits: to memory while it is short, to a file when it grows.

What came before a fault is kept and the fault is named, because half a page is worth more than none. Content coding
is left as it is. The network's faults never raise; a full disk raises RetryLater, and nothing is left behind.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from combine.errors import RetryLater
from combine.web.aiohttp_parts import ClientError, StreamReader

#: Seconds over which the slowest rate is judged.
WINDOW_S = 30.0


@dataclass(slots=True)
class Body:
    """A body, whole or cut. `data` is empty where it lies in `path`; `truncated` is "", length, time or disconnect."""

    data: bytes
    length: int
    sha1: bytes
    truncated: str = ""
    path: Path | None = None


async def read_body(
    content: StreamReader,
    limit_bytes: int,
    slowest_bytes_s: int,
    *,
    spill: Callable[[], Path] | None = None,
    spill_bytes: int = 0,
) -> Body:
    """Read to the end, to `limit_bytes` or to a fault.

    Beyond `spill_bytes` the body goes to the file that `spill` names.
    """
    sink = _Sink(limit_bytes, spill, spill_bytes)
    try:
        truncated = await _pump(content, sink, slowest_bytes_s)
        return sink.finish(truncated)
    except BaseException:
        sink.discard()
        raise


async def _pump(content: StreamReader, sink: _Sink, slowest_bytes_s: int) -> str:
    mark_s, mark_bytes = time.monotonic(), 0
    fault = ""
    while not fault:
        try:
            chunk = await content.readany()
        except TimeoutError:
            fault = "time"
        except (ClientError, OSError, ValueError):
            fault = "disconnect"
        if fault:
            chunk = _left_over(content)
        if not chunk:
            break
        if not sink.put(chunk):
            return "length"
        now = time.monotonic()
        if now - mark_s >= WINDOW_S:
            if sink.length - mark_bytes < slowest_bytes_s * WINDOW_S:
                return "time"
            mark_s, mark_bytes = now, sink.length
    return fault


def _left_over(content: StreamReader) -> bytes:
    # What came before a fault still lies in the stream, whose own methods only raise the fault again.
    chunks = list(getattr(content, "_buffer", ()))
    return b"".join(chunks)[getattr(content, "_buffer_offset", 0) :]


class _Sink:
    """Where the bytes go. Invariant: length, digest and bytes kept are of the same bytes."""

    def __init__(self, limit_bytes: int, spill: Callable[[], Path] | None, spill_bytes: int) -> None:
        self.length = 0
        self._limit_bytes = limit_bytes
        self._spill = spill
        self._spill_bytes = spill_bytes
        self._chunks: list[bytes] = []
        self._sha1 = hashlib.sha1(usedforsecurity=False)
        self._path: Path | None = None
        self._file: io.FileIO | None = None

    def put(self, chunk: bytes) -> bool:
        """Take a chunk; False where the limit cut it."""
        room = self._limit_bytes - self.length
        fits = len(chunk) <= room
        if not fits:
            chunk = chunk[:room]
        self.length += len(chunk)
        self._sha1.update(chunk)
        if self._file is None:
            self._chunks.append(chunk)
            if self._spill is not None and self.length > self._spill_bytes:
                self._write(self._chunks)
                self._chunks.clear()
        else:
            self._write([chunk])
        return fits

    def _write(self, chunks: list[bytes]) -> None:
        try:
            if self._file is None:
                assert self._spill is not None
                self._path = self._spill()
                self._file = self._path.open("wb", buffering=0)
            for chunk in chunks:
                view = memoryview(chunk)
                while view:
                    view = view[self._file.write(view) :]
        except OSError as error:
            raise RetryLater(f"{self._path} cannot be written: {error.strerror}") from error

    def finish(self, truncated: str) -> Body:
        """Close the file and hand the body over."""
        if self._file is not None:
            self._file.close()
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        return Body(data, self.length, self._sha1.digest(), truncated, self._path)

    def discard(self) -> None:
        """Leave nothing behind."""
        if self._file is not None:
            self._file.close()
        if self._path is not None:
            with contextlib.suppress(OSError):  # what cannot be removed goes with the slot's next holder
                self._path.unlink()
