"""What a site's robots.txt means now, judged from the last answer and the last good copy.

RFC 9309 says what each kind of answer means; where it says MAY, Combine takes the side of the site:

    2xx             its rules hold, for a day at most; Cache-Control may shorten that
    4xx but 429     there are no rules (`open`)
    all else        the file is unreachable: the last good copy serves for up to 30 days after it was fetched; without
                    one the site is `closed` until the file is readable, or 30 days of trying have passed

`standing` and `judge` are pure: the clock is a parameter. `RobotsStore` keeps, below robots/, the body as received and
its facts beside it in one JCF line: <md5 of the origin> and <md5>.jcf, each written aside and renamed. An origin is
scheme, host and port, as in `https://example.org`: two origins of one site may have different rules.
"""

from __future__ import annotations

import calendar
import contextlib
import errno
import hashlib
import os
import re
import stat
import time
from dataclasses import dataclass, replace
from pathlib import Path

from combine.config import Politeness
from combine.errors import RetryLater
from combine.web.rules import Rules as Rules
from formats import jcf

#: Seconds that an answer is good for at least, whatever its Cache-Control says: asking is a request to the site, too.
SHORTEST_S = 300.0

#: Seconds until an unreachable file is asked for again: doubled with each failure in a row, up to an hour.
AGAIN_S = 30.0
AGAIN_CEILING_S = 3600.0

_MAX_AGE = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?([0-9]{1,12})", re.IGNORECASE)
_NO_STORE = re.compile(r"(?:^|[,\s])no-(?:store|cache)(?:$|[,\s])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of asking for a robots.txt, redirects followed. `status` 0 means that no answer came, for `reason`."""

    status: int
    body: bytes = b""
    reason: str = ""
    cache_control: str = ""
    after_s: float | None = None
    to: str = ""  # where redirects led
    hops: int = 0
    detail: str = ""  # the sentence to `reason`


@dataclass(frozen=True, slots=True)
class Copy:
    """What is known of one origin's robots.txt. Times are seconds since the epoch, 0 for never.

    Invariant: `body` is that of the answer fetched at `good`, and empty where there were no rules or never a good
    answer.
    """

    origin: str
    status: int  # of the last answer
    asked: float  # when that was
    expires: float  # until then nobody asks again
    good: float = 0.0  # when rules were last read (2xx) …
    open: float = 0.0  # … or last found missing (4xx)
    down: float = 0.0  # unreachable since
    failures: int = 0  # in a row
    reason: str = ""
    to: str = ""
    hops: int = 0
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with the origin's URLs: match them with `body` (rules), fetch them (open), leave them (closed)."""

    state: str
    body: bytes = b""
    until: float = 0.0  # the verdict stands so long; then the file is asked for again
    changed: bool = False  # these are other rules than the last good copy's
    fault: str = ""  # of `closed`: what came in place of the file, a status or the kind of failure


def origin_of(url: str) -> str:
    """Scheme, host and port of a normalised URL."""
    # Asked for each job, and a normalised URL always has a path.
    return url[: url.index("/", url.index("://") + 3)]


def standing(copy: Copy, now: float, limits: Politeness) -> Verdict | None:
    """What a copy still says; None where it is time to ask (again), also where the clock went back behind the copy."""
    if not copy.asked <= now < copy.expires:
        return None
    return _verdict(copy, now, limits)


def judge(copy: Copy | None, origin: str, answer: Answer, now: float, limits: Politeness) -> tuple[Copy, Verdict]:
    """What an answer means after what was known before: the copy to keep, and the verdict."""
    before = copy or Copy(origin, 0, 0.0, 0.0)
    fresh = replace(
        before,
        status=answer.status,
        asked=now,
        expires=now + _good_for_s(answer.cache_control, limits),
        down=0.0,
        failures=0,
        reason=answer.reason,
        to=answer.to,
        hops=answer.hops,
    )
    if 200 <= answer.status < 300:
        fresh = replace(fresh, good=now, open=0.0, body=answer.body)
    elif 400 <= answer.status < 500 and answer.status != 429:
        fresh = replace(fresh, good=0.0, open=now, body=b"")
    else:
        fresh = _unreachable(fresh, before, answer, now)
    knew = bool(before.good or before.open)
    changed = knew and not fresh.down and fresh.body != before.body
    return fresh, replace(_verdict(fresh, now, limits), changed=changed)


def _unreachable(fresh: Copy, before: Copy, answer: Answer, now: float) -> Copy:
    failures = before.failures + 1
    wait_s = min(AGAIN_S * 2.0 ** min(before.failures, 20), AGAIN_CEILING_S)
    if answer.after_s is not None:
        wait_s = max(wait_s, answer.after_s)
    return replace(fresh, down=before.down or now, failures=failures, expires=now + wait_s)


def _verdict(copy: Copy, now: float, limits: Politeness) -> Verdict:
    if not copy.down:
        return Verdict("rules" if copy.good else "open", copy.body, copy.expires)
    if copy.good and now - copy.good <= limits.robots_stale_s:
        return Verdict("rules", copy.body, copy.expires)
    if now - copy.down >= limits.robots_stale_s:
        return Verdict("open", b"", copy.expires)
    is_status = copy.status and copy.reason != "redirect"
    return Verdict("closed", b"", copy.expires, fault=str(copy.status) if is_status else copy.reason)


def _good_for_s(cache_control: str, limits: Politeness) -> float:
    longest = limits.robots_s
    if _NO_STORE.search(cache_control):
        return min(SHORTEST_S, longest)
    match = _MAX_AGE.search(cache_control)
    return min(max(float(match[1]), SHORTEST_S), longest) if match else longest


class RobotsStore:
    """The copies on disk: a file and a line of facts for each origin, read and written by many processes.

    Invariant: a body is believed only with the facts that name its digest; after a power cut between the two renames
    the file is asked for again.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, origin: str) -> Path:
        """Where the origin's body lies; its facts lie beside it, with `.jcf`."""
        name = hashlib.md5(origin.encode(), usedforsecurity=False).hexdigest()
        return self._root / name[:2] / name[2:4] / name

    def load(self, origin: str) -> Copy | None:
        """What is known of the origin; None where nothing is, or where what lies there cannot be read."""
        path = self.path(origin)
        try:
            facts = jcf.parse(_read(path.with_suffix(".jcf")))
            body = _read(path) if facts.get("GOOD") else b""
            if facts.url != origin or facts.get("DIGEST") != _digest(body):
                return None
            return Copy(
                origin,
                status=facts.number("STATUS"),
                asked=_epoch(facts.get("FETCHED")),
                expires=_epoch(facts.get("EXPIRES")),
                good=_epoch(facts.get("GOOD")),
                open=_epoch(facts.get("OPEN")),
                down=_epoch(facts.get("DOWN")),
                failures=facts.number("FAILURES"),
                reason=facts.get("REASON"),
                to=facts.get("TO"),
                hops=facts.number("HOPS"),
                body=body,
            )
        except (OSError, ValueError):
            return None

    def save(self, copy: Copy) -> None:
        """Keep the copy: the body first, then the facts that vouch for it.

        Raises RetryLater where the disk does not take it.
        """
        path = self.path(copy.origin)
        facts = jcf.job(
            URL=copy.origin,
            STATUS=copy.status,
            FETCHED=_utc(copy.asked),
            EXPIRES=_utc(copy.expires),
            GOOD=_utc(copy.good) or None,
            OPEN=_utc(copy.open) or None,
            DOWN=_utc(copy.down) or None,
            FAILURES=copy.failures or None,
            REASON=copy.reason or None,
            TO=copy.to or None,
            HOPS=copy.hops or None,
            DIGEST=_digest(copy.body),
        )
        try:
            if copy.good:
                _write(path, copy.body)
            _write(path.with_suffix(".jcf"), jcf.dump(facts) + b"\n")
            if not copy.good:
                with contextlib.suppress(IsADirectoryError):  # it is no copy, and counts as none
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise RetryLater(f"{path} cannot be written: {error.strerror}") from error


def _read(path: Path) -> bytes:
    """What a file holds; raises OSError, also for what is none: a named pipe would be waited for."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path))
    return path.read_bytes()


def _write(path: Path, content: bytes) -> None:
    try:
        _put(path, content)
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP) or not _clear_way(path):
            raise
        _put(path, content)


def _put(path: Path, content: bytes) -> None:
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        try:
            aside.write_bytes(content)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            aside.write_bytes(content)
        aside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def _clear_way(path: Path) -> bool:
    """Give another name to what is in the way of a copy and would stay there; False where nothing is."""
    for level in (path.parent.parent, path.parent, path):
        if os.path.lexists(level) and level.is_dir() == (level == path):
            level.rename(level.with_name(f"{level.name}.strange-{time.time_ns()}"))
            return True
    return False


def _digest(body: bytes) -> str:
    return "sha1:" + hashlib.sha1(body, usedforsecurity=False).hexdigest()


def _utc(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)) if moment else ""


def _epoch(text: str) -> float:
    return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))) if text else 0.0
