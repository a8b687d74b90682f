"""Seekable zstd: a batch compressed one frame a record, with a table of the frames at its end.

The form is the seekable format of the zstd project, version 0.1.0: frames, then one skippable frame that holds a row
for each (compressed size, size) and ends in a footer. So `zstd -d` restores the batch, and one record can be read
alone, at the offset that it had before. This module never does I/O.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from mmap import mmap

import zstandard

from formats.jcf import RecordError

#: Nobody waits for it, and it is read seldom: above 9 the time grows faster than the gain.
LEVEL = 9

_SKIPPABLE_MAGIC = 0x184D2A5E
_SEEKABLE_MAGIC = 0x8F92EAB1
_HEADER = struct.Struct("<II")
_ROW = struct.Struct("<II")
_FOOTER = struct.Struct("<IBI")


def compress(pieces: Iterable[bytes]) -> Iterable[bytes]:
    """Compress pieces, one frame each, and give out the table last."""
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True)
    rows = []
    for piece in pieces:
        frame = compressor.compress(piece)
        rows.append(_ROW.pack(len(frame), len(piece)))
        yield frame
    table = b"".join(rows) + _FOOTER.pack(len(rows), 0, _SEEKABLE_MAGIC)
    yield _HEADER.pack(_SKIPPABLE_MAGIC, len(table)) + table


class Frames:
    """The frames of a compressed batch. Raises RecordError where its table or a frame is damaged."""

    def __init__(self, data: bytes | mmap) -> None:
        self._data = data
        rows = _read_table(data)
        #: Where each frame starts, and a last one: the end. Before and after decompression.
        self._places = list(accumulate((compressed for compressed, _ in rows), initial=0))
        self._offsets = list(accumulate((size for _, size in rows), initial=0))

    @property
    def size(self) -> int:
        """Bytes of the batch before it was compressed."""
        return self._offsets[-1]

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the batch as it was before; raises RecordError for what lies outside of it."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise RecordError(f"bytes {offset} to {offset + length} are not in a batch of {self.size} bytes")
        first = max(0, bisect_right(self._offsets, offset) - 1)
        pieces = []
        for number in range(first, len(self)):
            if self._offsets[number] >= offset + length:
                break
            pieces.append(self.frame(number))
        start = offset - self._offsets[first]
        return b"".join(pieces)[start : start + length]

    def offset(self, number: int) -> int:
        """Where the record of a frame stood in the batch."""
        return self._offsets[number]

    def frame(self, number: int) -> bytes:
        """Decompress one frame; never more than its row says, so that no bomb unfolds here."""
        size = self._offsets[number + 1] - self._offsets[number]
        raw = self._data[self._places[number] : self._places[number + 1]]
        try:
            if zstandard.frame_content_size(raw) != size:
                raise RecordError(f"frame {number} is not of the {size} bytes that the table says")
            return zstandard.ZstdDecompressor().decompress(raw)
        except zstandard.ZstdError as error:
            raise RecordError(f"frame {number} cannot be decompressed: {error}") from None


def _read_table(data: bytes | mmap) -> list[tuple[int, int]]:
    try:
        count, flags, magic = _FOOTER.unpack(data[-_FOOTER.size :])
        table_bytes = count * _ROW.size
        start = len(data) - _FOOTER.size - table_bytes
        head = _HEADER.unpack(data[max(0, start - _HEADER.size) : max(0, start)])
        rows = list(_ROW.iter_unpack(data[start : start + table_bytes]))
    except struct.error:
        raise RecordError("the compressed batch has no table at its end") from None
    if magic != _SEEKABLE_MAGIC or flags or head != (_SKIPPABLE_MAGIC, table_bytes + _FOOTER.size):
        raise RecordError("the compressed batch has no table at its end")
    if sum(compressed for compressed, _ in rows) != start - _HEADER.size:
        raise RecordError("the table of the compressed batch does not fit its frames")
    return [(compressed, size) for compressed, size in rows]
