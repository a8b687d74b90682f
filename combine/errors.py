"""The errors of Combine, one tree: whose fault it is decides the class, and the class decides the answer.

    CombineError
    ├── ConfigError      the operator's fault: file, key, value, what is allowed   → exit 78
    ├── UsageError       the caller of a command gave something impossible         → exit 2
    ├── RecordError      bytes are not a record (a ValueError too)                 → REJECT
    ├── WireError        the peer broke the protocol                               → drop the connection, warn once
    ├── RetryLater       temporary; carries the reason                             → RETRY, back-off; exit 75
    └── Rejected         permanent; carries the reason                             → REJECT, note it, go on

The network's failures are no exceptions: they are an outcome in the harvest.
"""

from __future__ import annotations

import errno
from pathlib import Path

from formats.jcf import RecordError as RecordError

EXIT_DONE = 0
EXIT_FINDING = 1
EXIT_USAGE = 2
EXIT_TRY_LATER = 75
EXIT_CONFIG = 78

_PASSING = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENFILE, errno.EMFILE, errno.ENOMEM))
_PASSING_SQLITE = frozenset((5, 10, 13, 14))  # SQLITE_BUSY, _IOERR, _FULL, _CANTOPEN: the low byte of the error's code

_DAMAGE_SQLITE = frozenset((11, 26))  # SQLITE_CORRUPT, _NOTADB

#: What to do with a damaged database.
RESTORE = "restore it from a backup, or move it away to begin anew"


def passes(error: BaseException) -> bool:
    """Whether this is the disk's or the machine's, and over some time: a full disk, a failed read, no file left."""
    if isinstance(error, OSError):
        return error.errno in _PASSING
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING_SQLITE


def is_damage(error: BaseException) -> bool:
    """Whether SQLite met a damaged page, or no database at all: that does not pass."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE_SQLITE


class CombineError(Exception):
    """Base of all: its text is one sentence that names the thing, the place and the remedy."""

    exit_code = EXIT_FINDING


class ConfigError(CombineError):
    """A setting, a home or the machine is not fit; the operator can mend it."""

    exit_code = EXIT_CONFIG


def damaged(database: Path, error: BaseException) -> ConfigError:
    """What is to be said of a damaged database."""
    return ConfigError(f"{database} is damaged ({error}): {RESTORE}")


class UsageError(CombineError):
    """A command was given something it cannot mean."""

    exit_code = EXIT_USAGE


class WireError(CombineError):
    """The peer did not speak the protocol; the connection is worth nothing any more."""


class RetryLater(CombineError):
    """Not now: the same request again, later."""

    exit_code = EXIT_TRY_LATER


class Rejected(CombineError):
    """Never: do not send it again."""
