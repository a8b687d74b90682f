"""Time zones that dates call by a name, as feeds, sitemaps and pages write them.

RFC 822 (5.1) knows America's; Europe's are as usual. A name that stands for several zones in the world means the one
that is written most. This module never does I/O and never asks for the local time.
"""

from __future__ import annotations

import re

#: Hours that zones with a name are ahead of UTC: those of RFC 822 (5.1), and Europe's. All others count as UTC.
ZONES = {
    **{"Z": 0, "UT": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "MET": 1, "MEST": 2},
    **{"EET": 2, "EEST": 3, "MSK": 3, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6},
    **{"PST": -8, "PDT": -7},
}
_LAST = re.compile(rf"\s*(?<![A-Za-z])({'|'.join(ZONES)})\s*\Z", re.ASCII | re.IGNORECASE)


def numbered(time: str) -> str:
    """A time with its last word as an offset if that names a zone: what reads times knows few names, or none."""
    return _LAST.sub(lambda name: f" {ZONES[name[1].upper()]:+03}00", time)
