"""Points at which a test may end a process: one between every two steps of a page's way.

In use they do nothing: `reached` is an empty function, 125 ns a call as measured on a busy machine of two cores, and no
process calls it more than some ten times a page. Where the environment names a directory (COMBINE_CRASH_PLAN), a file
in it with a point's name is a charge: the first process that comes to the point takes the file away and is killed by
SIGKILL, there and then. The variable is read once, at the import. See docs/faults.md.
"""

from __future__ import annotations

import os
import signal

#: All points, and what is done, and not yet done, where a process ends there.
POINTS = {
    "daemon.changed": "scheduler or idbd has changed its tables; nothing is committed",
    "daemon.committed": "it is committed; nobody has his answer",
    "harvester.asked": "a site has answered; its harvest is in no batch",
    "batch.written": "a batch is whole, and not synced",
    "batch.synced": "it is synced, and not renamed into hrf/new",
    "batch.renamed": "it is renamed; its directory is not synced",
    "batch.published": "it is there to stay; the scheduler was not told",
    "harvester.told": "DONE was acknowledged",
    "batch.claimed": "a batch was renamed into hrf/cur; nothing was done with it",
    "parser.current": "DONE was repeated for it; no record is written",
    "record.written": "a record is written under another name",
    "record.renamed": "a record is in its place; the next is not",
    "parser.kept": "all records of a batch are in their places; no link was offered",
    "parser.offered": "its links were acknowledged; nothing is synced",
    "parser.synced": "its records are synced; STORED was not said",
    "parser.stored": "STORED was acknowledged; the batch is still in hrf/cur",
    "batch.finished": "the batch is in raw/; its mark is still there",
    "scheduler.remembered": "idbd has the visits; the rows are still there",
}

_PLAN = os.environ.get("COMBINE_CRASH_PLAN", "")


def _pass(point: str) -> None:
    """Nothing happens here."""


def _die(point: str) -> None:
    """End this process where the point is charged."""
    try:
        os.unlink(f"{_PLAN}/{point}")
    except OSError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


#: Call it with a point's name, where that point lies.
reached = _die if _PLAN else _pass
