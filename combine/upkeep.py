"""What hdb's keepalive has done beside its children: old batches compressed, and those past their time removed.

Done in a process of its own at the lowest priority, a little at a time, so that it costs a harvest nothing.
"""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime

from combine.config import Settings
from combine.keep.home import Home
from combine.keep.raw import Raw
from formats.jcf import RecordError

log = logging.getLogger(__name__)

#: Seconds from the start of hdb to the first upkeep, so that a short harvest is not bothered, and from one to the next.
FIRST_S = 60.0
EVERY_S = 3600.0

#: Batches compressed in one go: at 4 MB each about a minute.
BATCHES = 500


def upkeep(home: Home, settings: Settings) -> int:
    """Compress the batches of past days and remove those older than keep.raw_days; gives the exit code."""
    os.nice(19)
    raw, today = Raw(home), datetime.now(UTC).date()
    try:
        removed = raw.sweep(settings.keep.raw_days, today)
        compressed = raw.compress(today, BATCHES)
    except (OSError, RecordError) as error:
        log.warning("raw batches could not be looked after: %s", error)
        return 1
    if removed or compressed:
        log.info("raw batches were looked after compressed=%d removed=%d", compressed, removed)
    return 0
