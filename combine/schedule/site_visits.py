"""The last visits of sites: the historical table of idbd, JSON values in a sqlitedict, written behind.

It is what `combine site` and people look into; no decision hangs on it, since a site's pace is the scheduler's own. So
it may lag some seconds, and lose those at a crash. sqlitedict writes in a thread of its own, which a full disk ends:
such a thread is replaced.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

from sqlitedict import SqliteDict

from combine.schedule.database import open_database, read_whole
from formats.jcf import Job

log = logging.getLogger(__name__)

# It tells of a disk that fails by the lines of its program; `_say` does so by a sentence.
logging.getLogger("sqlitedict").setLevel(logging.CRITICAL + 1)

#: Sites that wait to be written at most; above, the oldest news are dropped.
WAITING = 10_000

#: Bytes that must be free for a write: the disk's last belong to the queues.
ROOM_BYTES = 1024 * 1024

#: As sqlitedict makes it.
_SCHEMA = 'CREATE TABLE IF NOT EXISTS "site" (key TEXT PRIMARY KEY, value BLOB);'


class SiteVisits:
    """The table of sites, one owner."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._news: dict[str, dict[str, Any]] = {}
        self._written: dict[str, dict[str, Any]] = {}  # news of before: to ask the table's thread costs 100 µs
        threading.excepthook = _say
        open_database(path, _SCHEMA).close()
        self._table = self._open()

    def note(self, site: str, visit: Job, now: str) -> None:
        """Take the visit of one of a site's URLs."""
        facts = self.get(site) or {"REQUESTS": 0}
        if len(self._news) >= WAITING and site not in self._news:
            self._news.pop(next(iter(self._news)))
        self._news[site] = {
            "LAST": visit.get("LAST") or now,
            "OUTCOME": visit.get("OUTCOME"),
            "REQUESTS": int(facts["REQUESTS"]) + 1,
        }

    def get(self, site: str) -> dict[str, Any] | None:
        """What is known of a site."""
        found = self._news.get(site) or self._written.get(site)
        if found is None and self._is_alive():
            with read_whole(self._path):
                found = self._table.get(site)
        return dict(found) if found else None

    def flush(self) -> None:
        """Write the news, where there is room for them."""
        if not self._news or not self._has_room():
            return
        if not self._is_alive():
            self._table = self._open()
        self._table.update(self._news)
        self._table.commit(blocking=False)
        if len(self._written) > WAITING:
            self._written.clear()
        self._written |= self._news
        self._news.clear()

    def close(self) -> None:
        """Write the news and close."""
        self.flush()
        if self._is_alive():
            self._table.close()

    def _open(self) -> Any:
        return SqliteDict(
            str(self._path), "site", encode=json.dumps, decode=json.loads, journal_mode="WAL", outer_stack=False
        )

    def _is_alive(self) -> bool:
        return bool(self._table.conn is not None and self._table.conn.is_alive())

    def _has_room(self) -> bool:
        try:
            facts = os.statvfs(self._path.parent)
        except OSError:
            return False
        return facts.f_bavail * facts.f_frsize >= ROOM_BYTES


def _say(failed: threading.ExceptHookArgs) -> None:
    """A thread that ended by a fault is said in a sentence."""
    log.warning("the table of sites could not be written: %s", failed.exc_value)
