"""Nothing is lost, whatever happens in whatever order: every state of a small system, and what each rule is good for.

The rules are those of docs/states.md. The larger searches run by `make explore`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from combine.schedule.frontier import Frontier
from combine.schedule.outcomes import Outcomes
from combine.schedule.rows import FETCHED, Row, Rows
from formats.jcf import Job
from tests.explorer.model import Model
from tests.explorer.search import Found, explore
from tests.explorer.state import Limits

#: Searches that together take some seconds: all faults for a page and one worker of each kind; some for two pages.
QUICK = (
    Limits(2, 1, 1, 1, 1, 1, "page"),
    Limits(0, 0, 0, 1),
    Limits(1, 0, 0, 0),
    Limits(0, 1, 1, 0),
)


def searched(model: Model) -> Found:
    with closing(model):
        return explore(model)


@pytest.mark.parametrize("limits", QUICK, ids=str)
def test_nothing_is_lost(limits: Limits) -> None:
    found = searched(Model(limits))
    assert "" == found.broken, str(found)
    assert found.ends > 0


# Each rule is needed: without it the search finds what goes wrong -----------------------------------------------------


@pytest.fixture
def without() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def shows(found: Found, *words: str) -> None:
    """The search has found it, and says how it comes about."""
    assert any(word in found.broken for word in words), str(found)
    assert len(found.trace) > 3
    assert all(f"{number:3} {step}" in str(found) for number, step in enumerate(found.trace, 1))


def test_rule_1_a_row_that_goes_when_its_page_is_fetched_loses_the_page(without: pytest.MonkeyPatch) -> None:
    is_current = Outcomes.done

    def done(self: Outcomes, line: Job) -> bool:
        row = self.rows.fetched_as(line.fetch)
        found = is_current(self, line)
        fetched = self.rows.fetched_as(line.fetch)
        if row is not None and fetched is not None and fetched.state == FETCHED:
            self.delete(fetched)
        return found

    without.setattr(Outcomes, "done", done)
    shows(searched(Model(Limits(kills=0, powers=0, messages=0, rounds=0, web="page"))), "is lost")


def test_rule_1_a_row_that_goes_before_idbd_knows_has_the_page_asked_for_again(without: pytest.MonkeyPatch) -> None:
    mark = Frontier.stored

    def stored(self: Frontier, line: Job) -> None:
        mark(self, line)
        row = self.rows.fetched_as(line.fetch)
        if row is not None:
            self.delete(row)
            self.settle_row(row)

    without.setattr(Frontier, "stored", stored)
    shows(searched(Model(Limits(kills=0, powers=0, messages=0, rounds=0))), "times, with 0 faults", "has no visit")


def test_rule_2_a_lease_taken_from_the_living_has_a_site_asked_twice_at_once() -> None:
    model = Model(Limits(kills=1, powers=0, messages=0, rounds=0, web="page"))
    model.cabin.takes_from_the_living = True
    shows(searched(model), "twice at once", "too soon")


def test_rule_3_a_late_harvest_that_is_not_fenced_stands_for_a_newer_one(without: pytest.MonkeyPatch) -> None:
    def fetched_as(self: Rows, fetch: int) -> Row | None:
        """Of the one page that there is: its row, whatever the number."""
        found = self.db.execute("SELECT site, h FROM job WHERE kind = 'page'").fetchone()
        return self.find(*found) if found else None

    without.setattr(Rows, "fetched_as", fetched_as)
    found = searched(Model(Limits(kills=1, powers=0, messages=0, rounds=1, web="page")))
    shows(found, "old one", "twice at once", "times, with", "is lost")


def test_without_the_sync_before_stored_a_power_loss_loses_the_page() -> None:
    model = Model(Limits(kills=0, powers=1, messages=0, rounds=0, web="page"), syncs=False)
    shows(searched(model), "is lost")
