"""The visits: when each URL and site was last asked, and what came of it. idbd's table, behind one small interface.

A visit is one JCF line (see docs/formats.md, "what idbd keeps") in the table of `known`. What hangs on visits lies
beside it, by the site's number and 64 bits of the URL's MD5: digests, removals held, pages that turned bad. Theory of
operation. `remember` merges what a harvest taught into the old visit and computes when the URL is next due; an answer
without a record keeps no validators, so a 304 always has one. The guard counts a site's known pages that turned bad,
each once a day.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from combine.config import Settings
from combine.schedule.clock import epoch_of, utc_text
from combine.schedule.database import open_database
from combine.schedule.known import SCHEMA, Key, Known, Visit, url_key
from combine.schedule.politeness import DAY_S
from combine.schedule.visit import merged, merged_scopes
from combine.urls import site_of
from formats import jcf
from formats.jcf import Job

#: Sites whose numbers are remembered; above, all are forgotten.
SITES = 50_000

#: Share and number of a site's pages that may turn bad within a day before removals are held.
HOLD_SHARE, HOLD_LEAST = 0.30, 20

#: Seconds that a visit may lie ahead of the clock: the processes that note times are not one.
AHEAD_S = 60.0

#: Outcomes that end in a removal when they last.
TURNED = frozenset({"gone", "refused", "denied", "redirect"})

_SCHEMA = """
CREATE TABLE IF NOT EXISTS site(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, records INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS digest(digest BLOB, site INTEGER, h INTEGER, PRIMARY KEY(digest, site, h)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS turned(site INTEGER, day INTEGER, h INTEGER, PRIMARY KEY(site, day, h)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS held(site INTEGER, h INTEGER, PRIMARY KEY(site, h)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS count(name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO count VALUES ('urls', 0), ('records', 0);
"""


_QUESTION = re.compile(r'^JCF/0\.0 URL="(https?://([^/?"\n]+)[^"\n]*)"(?: KIND="([a-z]+)")? *$', re.MULTILINE)


def _asked(lines: list[str]) -> list[tuple[str, str, str]]:
    """URL, site and kind of lines of LOOKUP; raises RecordError for what is no line."""
    found = _QUESTION.findall("\n".join(lines))  # all at once, as long as each is written as `question` writes it
    if len(found) == len(lines):
        return [(url, name if ":" not in name else site_of(url), kind or "page") for url, name, kind in found]
    return [(job.url, site_of(job.url), job.kind) for job in map(jcf.parse_text, lines)]


def _key(url: str, kind: str = "page") -> Key:
    return Key(url, site_of(url), kind, url_key(url, kind))


def _last(line: str) -> str:
    """When a visit was, as its line says; "" where it does not."""
    _, mark, rest = line.partition(' LAST="')
    return rest[: rest.index('"')] if mark else ""


class Visits:
    """The visits of all URLs. One process owns the database; nothing is durable before `commit`."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self._settings = settings
        self._db = open_database(path, SCHEMA + _SCHEMA)
        self._known = Known(self._db)
        self.syncs = 0  # commits of something
        self._sites: dict[str, int] = {}
        self._changes: Counter[str | int] = Counter()  # of the counts: by name, and by site that of its records
        self._digests: dict[tuple[bytes, int, int], bool] = {}  # of a message: whether each is there from now on
        self._held = self._count_held()

    def use(self, settings: Settings) -> None:
        """Other settings are in effect from now on."""
        self._settings = settings

    def close(self) -> None:
        """Commit and close."""
        self.commit()
        self._db.close()

    def commit(self) -> None:
        """Make durable what was remembered."""
        if self._db.in_transaction:
            self._write_counts()
            self._db.execute("COMMIT")
            self.syncs += 1

    def rollback(self) -> None:
        """Forget what was not committed."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._sites.clear()
        self._changes.clear()
        self._digests.clear()
        self._known.read_again()
        self._held = self._count_held()

    @property
    def is_moving(self) -> bool:
        """Whether visits lie in the table of an earlier version yet."""
        return self._known.is_moving

    def move(self, count: int) -> None:
        """Bring so many of them over."""
        self._begin()
        for site, record in self._known.move(count):
            self._changes["urls"] -= 1
            if record:
                self._count_record(site, -1)

    def counts(self) -> dict[str, int]:
        """How many URLs were visited, how many have a record, on how many sites; how many removals are held."""
        self._write_counts()
        counts = dict(self._db.execute("SELECT name, n FROM count"))
        counts["held"] = self._held
        counts["sites"] = self._db.execute("SELECT count(*) FROM site").fetchone()[0]
        return counts

    def lookup(self, questions: Iterable[str], now: float) -> list[str]:
        """The visits of those URLs that have one: lines for lines `URL [KIND]`, in their order.

        `now` is the epoch time. A visit in the future counts as now. Raises RecordError for what is no line.
        """
        keys = [(url, name, kind, url_key(url, kind)) for url, name, kind in _asked(list(questions))]
        lines = [line for _, line in self._known.find(keys)]
        latest = utc_text(now + AHEAD_S)
        if any(_last(line) > latest for line in lines):
            visits = map(jcf.parse_text, lines)
            return [
                jcf.dump_text(self._put_back(visit, now) if visit.get("LAST") > latest else visit) for visit in visits
            ]
        return lines

    def _learn_sites(self, names: set[str]) -> None:
        """Bring the numbers of sites into memory, where they have one."""
        if len(self._sites) > SITES:
            self._sites.clear()
        others = [name for name in names if name not in self._sites]
        if others:
            wanted = "SELECT name, id FROM site WHERE name IN (SELECT value FROM json_each(?))"
            self._sites.update(self._db.execute(wanted, (json.dumps(others),)))

    def remember(self, news: Iterable[Job], now: float) -> None:
        """Merge what came of requests into the visits; `now` is the epoch time."""
        lines = list(news)
        keys = [_key(line.url, line.kind) for line in lines]
        self._learn_sites({key.site for key in keys})
        self._begin()
        held = {keys[n]: jcf.parse_text(text) for n, text in self._known.find(keys)}
        made: dict[Key, Visit] = {}
        for line, key in zip(lines, keys, strict=True):
            old = held.get(key)
            if line.get("OUTCOME"):
                visit = merged(old, line, now, self._settings)
            elif old is not None:
                visit = old.having(SCOPES=merged_scopes(old.get("SCOPES"), line.get("SCOPES")))
            else:
                continue
            held[key] = visit
            self._account((self._site(key.site), key.h), old, visit)
            made[key] = _kept(visit)
        self._known.write(made)
        self._write_digests()

    def due(self, before: float, count: int, site: str = "", outcome: str = "", since: float = 0.0) -> list[Job]:
        """Visits that are due before an epoch time, the most overdue first; or those of a site with an outcome.

        Of both only those that are due at `since` or later, so that a long answer can be had in parts.
        """
        if site:
            found = (jcf.parse_text(line) for line in self._known.of_site(site, since))
            wanted = (visit for visit in found if visit.get("OUTCOME") == outcome and site_of(visit.url) == site)
            return list(islice(wanted, count))
        return [jcf.parse_text(line) for line in self._known.due(before, since, count)]

    def same(self, url: str, digest: str) -> str:
        """Another URL whose page has this text digest, or ""."""
        rows = self._db.execute(
            "SELECT name, h FROM digest JOIN site ON id = site WHERE digest = ? AND NOT (site = ? AND h = ?)",
            (_digest(digest), self._site(site_of(url), create=False), url_key(url)),
        )
        others = (self._known.line_of(site, h) for site, h in rows)
        return next((jcf.parse_text(line).url for line in others if line), "")

    def holds(self, url: str, now: float) -> bool:
        """Count this page as turned bad today; say whether that is too many of its site to remove any."""
        visit = self._get(url)
        if visit is None or not visit.get("RECORD"):
            return False
        site, day = self._site(site_of(url)), int(now // DAY_S)
        self._begin()
        self._write_counts()
        self._db.execute("INSERT OR IGNORE INTO turned VALUES (?, ?, ?)", (site, day, url_key(url)))
        self._db.execute("DELETE FROM turned WHERE site = ? AND day < ?", (site, day))
        (turned,) = self._db.execute("SELECT count(*) FROM turned WHERE site = ?", (site,)).fetchone()
        (records,) = self._db.execute("SELECT records FROM site WHERE id = ?", (site,)).fetchone()
        least = min(HOLD_LEAST, max(records / 2, 1))
        is_held = bool(turned > HOLD_SHARE * records and turned >= least and turned > 1)
        if is_held:
            held = self._db.execute("INSERT OR IGNORE INTO held VALUES (?, ?)", (site, url_key(url)))
            self._held += held.rowcount
        return is_held

    def forget(self, url: str) -> None:
        """Remove a URL's visits."""
        for kind in ("page", "sitemap"):
            self._forget(url, kind)

    def _forget(self, url: str, kind: str) -> None:
        visit = self._get(url, kind)
        if visit is None:
            return
        site, h = self._site(site_of(url)), url_key(url, kind)
        self._begin()
        self._known.remove(_key(url, kind))
        self._release(site, h)
        self._changes["urls"] -= 1
        self._swap_digest(site, h, visit.get("DIGEST"), "")
        self._write_digests()
        if visit.get("RECORD"):
            self._count_record(site, -1)

    def _get(self, url: str, kind: str = "page") -> Job | None:
        found = self._known.find([_key(url, kind)])
        return jcf.parse_text(found[0][1]) if found else None

    def _account(self, key: tuple[int, int], old: Job | None, visit: Job) -> None:
        """Keep what hangs on a visit: digests, counts, removals held."""
        had, has = bool(old and old.get("RECORD")), bool(visit.get("RECORD"))
        if not has or visit.get("OUTCOME") not in TURNED:
            self._release(*key)
        self._swap_digest(*key, old.get("DIGEST") if old else "", visit.get("DIGEST"))
        if old is None:
            self._changes["urls"] += 1
        if had != has:
            self._count_record(key[0], 1 if has else -1)

    def _put_back(self, visit: Job, now: float) -> Job:
        """A visit from a time when the clock was ahead: it is due as long after now as it would have been after that.

        When it was is not known any more, so that a round that begins now asks for its page.
        """
        wait = max(epoch_of(visit.get("DUE")) - epoch_of(visit.get("LAST")), 0.0)
        visit = visit.having(LAST=None, DUE=utc_text(now + wait))
        self._rewrite(visit)
        return visit

    def _rewrite(self, visit: Job) -> None:
        self._begin()
        self._known.write({_key(visit.url, visit.kind): _kept(visit)})

    def _swap_digest(self, site: int, h: int, old: str, new: str) -> None:
        if old == new:
            return
        if old:
            self._digests[_digest(old), site, h] = False
        if new:
            self._digests[_digest(new), site, h] = True

    def _write_digests(self) -> None:
        """Bring the table of digests up to date: those of a message at once."""
        added = [key for key, is_there in self._digests.items() if is_there]
        gone = [key for key, is_there in self._digests.items() if not is_there]
        self._digests.clear()
        self._db.executemany("INSERT OR IGNORE INTO digest VALUES (?, ?, ?)", added)
        if gone:
            self._db.executemany("DELETE FROM digest WHERE digest = ? AND site = ? AND h = ?", gone)

    def _release(self, site: int, h: int) -> None:
        if self._held:
            self._held -= self._db.execute("DELETE FROM held WHERE site = ? AND h = ?", (site, h)).rowcount

    def _count_held(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM held").fetchone()[0])

    def _count_record(self, site: int, change: int) -> None:
        self._changes["records"] += change
        self._changes[site] += change

    def _write_counts(self) -> None:
        """Bring the counts up to date: once a commit, since they change with each visit."""
        counts = [(change, key) for key, change in self._changes.items() if isinstance(key, str)]
        sites = [(change, key) for key, change in self._changes.items() if not isinstance(key, str)]
        self._db.executemany("UPDATE count SET n = n + ? WHERE name = ?", counts)
        self._db.executemany("UPDATE site SET records = records + ? WHERE id = ?", sites)
        self._changes.clear()

    def _site(self, name: str, create: bool = True) -> int:
        number = self._sites.get(name)
        if number is None:
            row = self._db.execute("SELECT id FROM site WHERE name = ?", (name,)).fetchone()
            if row is None and not create:
                return 0
            if row is None:
                self._begin()
                row = (self._db.execute("INSERT INTO site(name) VALUES (?)", (name,)).lastrowid,)
            if len(self._sites) > SITES:
                self._sites.clear()
            number = self._sites[name] = int(row[0])
        return number

    def _begin(self) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN")


def _kept(visit: Job) -> Visit:
    return Visit(int(epoch_of(visit.get("DUE"))), int(bool(visit.get("RECORD"))), jcf.dump_text(visit))


def _digest(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return text.encode()
