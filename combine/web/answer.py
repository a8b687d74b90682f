"""What is taken from the head of an answer, in the forms in which harvests keep it. This module asks nobody."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

from combine.http_dates import http_date
from combine.urls import of_bytes
from combine.web import retry_after
from combine.web.aiohttp_parts import RawResponseMessage

_ALPHABET = bytes.maketrans(bytes(range(32)), b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


def _masks(width: int) -> tuple[int, int, int]:
    """For pairs of groups of so many bits: which bits stay, which move, and how far, so that 5 bits each take 8."""
    pairs, place = 80 // width, width * 16 // 5
    stays = sum((1 << width) - 1 << place * pair for pair in range(pairs))
    return stays, stays << width, place // 2 - width


#: Halves, quarters and so on of 160 bits, each moved to its half of 256.
_SPREADS = tuple(_masks(width) for width in (80, 40, 20, 10, 5))


@dataclass(slots=True)
class Head:
    """The head of an answer: its status, its protocol, and the status line and fields as a harvest keeps them."""

    code: int
    protocol: str
    header: bytes

    def values(self, name: str) -> list[bytes]:
        """The values of all fields of a name, as they came."""
        start = f"\r\n{name}:".lower().encode()
        lower, found, at = self.header.lower(), [], 0
        while (at := lower.find(start, at)) >= 0:
            at += len(start)
            found.append(self.header[at : lower.find(b"\r\n", at)].strip(b" \t"))
        return found

    def field(self, name: str) -> str:
        """The first value of a field, as text that a URL and a file can hold; "" where there is none."""
        values = self.values(name)
        return values[0].decode("utf-8", "replace").strip() if values else ""

    @property
    def location(self) -> str:
        """The first Location; "" where there is none."""
        values = self.values("Location")
        value = values[0].decode("utf-8", "surrogateescape").strip() if values else ""
        return of_bytes(value.encode("utf-8", "surrogateescape"))

    @property
    def types(self) -> list[str]:
        """The Content-Type fields."""
        return [value.decode("latin-1") for value in self.values("Content-Type")]

    @property
    def after_s(self) -> float | None:
        """The seconds of Retry-After; None where it says none."""
        value = self.field("Retry-After")
        if not value:
            return None
        # A date is meant by the server's own clock, which its Date tells.
        now = time.time()
        told = http_date(self.field("Date"), now)
        return retry_after.seconds(value, now if told is None else told)


def head_of(answer: RawResponseMessage) -> Head:
    """What aiohttp's parser read, its status line and fields written anew."""
    version = answer.version
    number = f"{version.major}.{version.minor}" if version else "1.1"
    first = f"HTTP/{number} {answer.code} {answer.reason or ''}".encode("utf-8", "surrogateescape")
    fields = [name + b": " + value for name, value in answer.raw_headers]
    return Head(answer.code, f"HTTP/{number}" if version else "", b"\r\n".join([first, *fields, b"", b""]))


def utc(moment: float) -> str:
    """A time with milliseconds."""
    milliseconds = int(moment * 1000)
    return f"{_utc_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=16)
def _utc_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def base32(digest: bytes) -> str:
    """A SHA-1 in base32."""
    # The standard library's takes five times as long, and its tables have been forgotten by the caches at each page.
    number = int.from_bytes(digest, "big")
    for stays, moves, shift in _SPREADS:
        number = number & stays | (number & moves) << shift
    return number.to_bytes(32, "big").translate(_ALPHABET).decode("ascii")
