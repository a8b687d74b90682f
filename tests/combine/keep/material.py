"""What the tests of this room work on."""

from __future__ import annotations

from pathlib import Path

from combine.config import Settings
from combine.keep.home import Home
from combine.keep.spool import Batch, BatchWriter, Spool
from combine.urls import record_id
from formats import jcf, wir
from formats.hrf import Harvest

SETTINGS = Settings()


def a_harvest(url: str = "http://a.test/", body: bytes = b"body", fetched: str = "2026-11-30T08:00:00.123Z") -> Harvest:
    return Harvest(
        job=jcf.job(URL=url, FETCH=1), outcome="ok", fetched=fetched, header=b"HTTP/1.1 200 OK\r\n\r\n", body=body
    )


def a_record(url: str = "http://a.test/", **fields: str) -> wir.Record:
    return wir.record([("id", record_id(url)), ("url", url), *fields.items()])


def publish(home: Home, *urls: str, slot: str = "harvester-1") -> str:
    """One batch in new with a harvest for each URL; its name."""
    writer = BatchWriter(home, slot, SETTINGS)
    for url in urls or ("http://a.test/",):
        writer.put(a_harvest(url))
    return writer.publish()


def a_batch(home: Home, *urls: str, slot: str = "parser-1") -> Batch:
    """One batch in work."""
    publish(home, *urls)
    return Spool(home).claim(slot, 1)[0]


def files(directory: Path) -> list[str]:
    """Every file below a directory, by its path from there."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())
