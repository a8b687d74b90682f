"""A standing harvest asks again what is due: pages that change sooner, those that do not later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.site.checker import violations
from tests.site.wild import linking
from tests.system.harness import Harness, Web, until

pytestmark = pytest.mark.system

SETTINGS = """
[scheduler]
revisit = "adaptive"
revisit_s = 0.6
revisit_least_s = 0.3
revisit_most_s = 60.0
"""

#: A page that is another each time, one without validators that stays, and one with them.
CHANGING, SAME, VALID = "/_/ticking", "/_/status/200", "/page-2.html"


def test_what_changes_is_asked_sooner(webs: Callable[..., Web], homes: Callable[..., Harness]) -> None:
    web, home = webs(2), homes(SETTINGS)
    moved = f"/_/redirect/301?to={VALID}"  # leads to a page that is asked at its own time only
    (web.root / "index.html").write_bytes(linking("Index", CHANGING, SAME, VALID, moved))
    home.run("start")
    home.run("add", web.url("/index.html"), "--depth", "1", "--delay", "0.05")

    def asked(status: int = 0) -> Counter[str]:
        return Counter(entry["path"] for entry in web.requests() if status in (0, entry["status"]))

    def is_sooner() -> bool:
        counts = asked()
        return counts[VALID] >= 3 and max(5, counts[SAME], counts[VALID]) < counts[CHANGING]

    # However slow the machine is: the pauses of what stays the same grow.
    until(is_sooner, "the changing page is asked for more often than the others")
    home.run("stop")
    counts, unchanged = asked(), asked(304)
    assert 2 <= unchanged[VALID] == counts[VALID] - 1
    assert {f"/{name}" for name in ("index.html", "page-2.html")} == set(unchanged)
    assert [] == violations(web.requests(), 0.05)
