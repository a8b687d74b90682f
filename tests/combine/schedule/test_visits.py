from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from combine.config import Settings
from combine.errors import ConfigError
from combine.schedule import known
from combine.schedule.clock import epoch_of, utc_text
from combine.schedule.intake import is_due
from combine.schedule.offered import question
from combine.schedule.politeness import DAY_S
from combine.schedule.revisit import next_due
from combine.schedule.visit import EVENTS, SCOPES, is_more, merged, merged_scopes, scopes_of, scopes_text
from combine.schedule.visits import Visits
from formats import jcf
from formats.jcf import Job
from tests.combine.schedule.world import NOON

SETTINGS = Settings()
URL = "http://a.example/"
DIGEST = "d41d8cd98f00b204e9800998ecf8427e"


@pytest.fixture(params=[known.URL_BITS, 8], ids=["numbers", "twins"])
def visits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visits]:
    """Also where a site has 256 numbers in all, so that many of its URLs share one."""
    few_numbers(monkeypatch, request.param)
    opened = Visits(Path(":memory:"), SETTINGS)
    yield opened
    opened.close()


def few_numbers(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    monkeypatch.setattr(known, "URL_BITS", bits)
    monkeypatch.setattr(known, "_URL", (1 << bits) - 1)


def news(url: str = URL, outcome: str = "ok", at: float = NOON, **params: str | int | None) -> Job:
    record = "1" if outcome == "ok" else None
    return jcf.job(**{"URL": url, "OUTCOME": outcome, "LAST": utc_text(at), "RECORD": record, **params})


def look(visits: Visits, url: str = URL, now: float = NOON) -> Job:
    return next(map(jcf.parse_text, visits.lookup([question(url)], now)), jcf.job())


OK = news(STATUS=200, FTIME="t", ETAG='"e"', LMOD="l", TYP="text/html", DIGEST=DIGEST, SEED=URL, DEPTH=1, SCOPES="1:2")

#: what comes after OK: what stays
NEXT = [
    (news(outcome="not-modified", STATUS=304), {"RECORD": "1", "ETAG": '"e"', "DIGEST": DIGEST, "SEED": URL}),
    (news(outcome="ok", STATUS=200, ETAG='"f"'), {"RECORD": "1", "ETAG": '"f"', "DIGEST": "", "TYP": ""}),
    (news(outcome="gone", STATUS=404, RECORD=1), {"RECORD": "1", "ETAG": '"e"', "GONE": utc_text(NOON)}),
    (news(outcome="gone", STATUS=410), {"RECORD": "", "ETAG": "", "DIGEST": "", "FTIME": ""}),
    (news(outcome="refused", RECORD=1, REASON="403"), {"RECORD": "1", "ETAG": '"e"', "REASON": "403", "GONE": ""}),
    (news(outcome="redirect", TO="http://b/", STATUS=301), {"RECORD": "", "TO": "http://b/", "LMOD": ""}),
    (news(outcome="denied", SEED="http://b/", DEPTH=0), {"RECORD": "", "SEED": "http://b/", "DEPTH": "0"}),
]


@pytest.mark.parametrize(("line", "kept"), NEXT)
def test_the_visit_after_one_more_request(line: Job, kept: dict[str, str]) -> None:
    old = merged(None, OK, NOON, SETTINGS)
    visit = merged(old, line.having(LAST=utc_text(NOON + 60)) if "GONE" not in kept else line, NOON, SETTINGS)
    assert kept == {name: visit.get(name) for name in kept}
    assert 2 == len(visit.get("EVENTS").split(";"))
    assert "1:2" == visit.get("SCOPES")


def test_the_same_news_twice_are_news_once() -> None:
    gone = news(outcome="gone", STATUS=404, SCOPES="1:2")
    once = merged(None, gone, NOON, SETTINGS)
    again = merged(once, gone.having(SCOPES="2:3"), NOON + DAY_S, SETTINGS)
    assert once.having(SCOPES="1:2 2:3") == again


def test_without_a_time_a_visit_was_now() -> None:
    visit = merged(None, news(LAST=None), NOON, SETTINGS)
    assert utc_text(NOON) == visit.get("LAST")


@pytest.mark.parametrize(
    ("before", "line", "days"),
    [
        (None, news(), 30),
        (None, news(outcome="redirect"), 30),
        (None, news(outcome="denied"), 30),
        (None, news(outcome="refused"), 30),
        (None, news(outcome="gone", STATUS=404), 1),
        (None, news(outcome="gone", STATUS=410), 30),
        (jcf.job(GONE="then"), news(outcome="gone", STATUS=404), 30),
        (jcf.job(OUTCOME="ok"), news(outcome="gone", STATUS=404), 1),
    ],
)
def test_when_to_ask_again(before: Job | None, line: Job, days: int) -> None:
    assert NOON + days * DAY_S == next_due(before, line, NOON, SETTINGS)


def test_a_page_that_is_there_again_is_not_gone() -> None:
    gone = merged(None, news(outcome="gone"), NOON, SETTINGS)
    still = merged(gone, news(outcome="gone", at=NOON + 9), NOON + 9, SETTINGS)
    assert utc_text(NOON) == still.get("GONE")
    assert "" == merged(still, news(at=NOON + 10), NOON + 10, SETTINGS).get("GONE")


def test_events_are_the_last_ones_oldest_first() -> None:
    visit = None
    for number in range(EVENTS + 3):
        line = news(at=NOON + number, STATUS=200, REASON=f"a;b{number}", EVENTS=f"try-{number}")
        visit = merged(visit, line, NOON, SETTINGS)
    assert visit is not None
    events = visit.get("EVENTS").split(";")
    assert EVENTS == len(events)
    assert f"{utc_text(NOON + EVENTS + 2)} ok 200 a,b{EVENTS + 2}" == events[-1]
    assert f"try-{EVENTS + 2}" == events[-2]


@pytest.mark.parametrize(
    ("old", "new", "both"),
    [
        ("", "", ""),
        ("1:2", "", "1:2"),
        ("", "1:2", "1:2"),
        ("1:2", "1:2", "1:2"),
        ("1:2", "1:1", "1:2"),
        ("1:2", "1:*", "1:*"),
        ("1:*", "1:9", "1:*"),
        ("1:2 3:0", "2:5", "1:2 3:0 2:5"),
        ("junk 1:x", "1:0", "1:0"),
    ],
)
def test_scopes_are_merged_by_hops_left(old: str, new: str, both: str) -> None:
    assert both == merged_scopes(old, new)
    assert scopes_of(both) == scopes_of(scopes_text(scopes_of(both)))
    assert is_more(new, old) == (scopes_of(both) != scopes_of(old))


def test_scopes_are_bounded() -> None:
    text = " ".join(f"{number}:1" for number in range(SCOPES + 5))
    assert SCOPES == len(scopes_of(merged_scopes(text, "99:1")))
    assert "99" in scopes_of(merged_scopes(text, "99:1"))


def test_what_is_remembered_is_found(visits: Visits) -> None:
    visits.remember([OK, news("http://a.example/2", "gone"), news("http://b.example/")], NOON)
    visits.commit()
    asked = [question(url) for url in (URL, "http://unknown.example/", "http://a.example/2", "http://a.example/3")]
    assert [URL, "http://a.example/2"] == [jcf.parse_text(visit).url for visit in visits.lookup(asked, NOON)]
    assert {"urls": 3, "records": 2, "sites": 2, "held": 0} == visits.counts()


def test_what_was_not_committed_is_forgotten(visits: Visits) -> None:
    visits.remember([OK], NOON)
    visits.commit()
    visits.remember([news("http://b.example/")], NOON)
    visits.rollback()
    visits.rollback()
    assert jcf.job() == look(visits, "http://b.example/")
    visits.remember([news("http://c.example/")], NOON)
    visits.commit()
    assert {"urls": 2, "records": 2, "sites": 2, "held": 0} == visits.counts()


def test_a_relinked_page_has_more_scopes_and_nothing_else(visits: Visits) -> None:
    visits.remember([OK], NOON)
    before = look(visits)
    visits.remember([jcf.job(URL=URL, SCOPES="7:*"), jcf.job(URL="http://unknown/", SCOPES="1:1")], NOON + 9)
    assert before.having(SCOPES="1:2 7:*") == look(visits)
    assert 1 == visits.counts()["urls"]


def test_a_visit_from_the_future_is_due_as_if_it_were_now_and_in_any_round(visits: Visits) -> None:
    year = 365 * DAY_S
    visits.remember([news(at=NOON + year)], NOON + year)
    assert utc_text(NOON + year) == look(visits, now=NOON + year - 30).get("LAST")
    visit = look(visits, now=NOON)
    assert ("", utc_text(NOON + 30 * DAY_S)) == (visit.get("LAST"), visit.get("DUE"))
    assert not is_due(visit, "", NOON + 29 * DAY_S)
    for since in (NOON - 5, NOON + 7_200):  # the round began before the clock was set back, too
        assert is_due(visit, utc_text(since), NOON)
    visits.remember([news(at=NOON + 9)], NOON + 9)  # it was asked again: no more in this round
    assert not is_due(look(visits, now=NOON + 10), utc_text(NOON - 5), NOON + 10)
    assert [URL] == [due.url for due in visits.due(NOON + 31 * DAY_S, 10)]


def test_what_is_due_comes_most_overdue_first_and_in_parts(visits: Visits) -> None:
    for day in range(5):
        visits.remember([news(f"http://a.example/{day}", at=NOON + day * DAY_S)], NOON + day * DAY_S)
    before = NOON + 33 * DAY_S + 1
    assert ["0", "1", "2", "3"] == [visit.url[-1] for visit in visits.due(before, 10)]
    assert ["0", "1"] == [visit.url[-1] for visit in visits.due(before, 2)]
    since = epoch_of(visits.due(before, 2)[-1].get("DUE"))
    assert ["1", "2", "3"] == [visit.url[-1] for visit in visits.due(before, 10, since=since)]
    assert [] == visits.due(NOON, 10)


def test_what_a_site_was_denied(visits: Visits) -> None:
    for number, outcome in enumerate(("ok", "denied", "denied", "gone")):
        visits.remember([news(f"http://a.example/{number}", outcome, at=NOON + number)], NOON + number)
    visits.remember([news("http://b.example/", "denied")], NOON)
    found = visits.due(0, 10, "a.example", "denied")
    assert ["1", "2"] == [visit.url[-1] for visit in found]
    assert ["1"] == [visit.url[-1] for visit in visits.due(0, 1, "a.example", "denied")]
    since = epoch_of(found[-1].get("DUE"))
    assert ["2"] == [visit.url[-1] for visit in visits.due(0, 10, "a.example", "denied", since)]
    assert [] == visits.due(0, 10, "unknown.example", "denied")


def test_the_same_text_at_another_url(visits: Visits) -> None:
    other = "http://b.example/2"
    visits.remember([OK], NOON)
    assert "" == visits.same(URL, DIGEST)
    assert URL == visits.same(other, DIGEST)
    visits.remember([news(other, DIGEST=DIGEST)], NOON)
    assert other == visits.same(URL, DIGEST)
    visits.remember([news(other, DIGEST="no hex", at=NOON + 1)], NOON)
    assert "" == visits.same(URL, DIGEST)
    assert other == visits.same(URL, "no hex")
    visits.forget(other)
    assert "" == visits.same(URL, "no hex")


def test_forgotten(visits: Visits) -> None:
    visits.remember([OK, news("http://a.example/2", "gone")], NOON)
    visits.forget(URL)
    visits.forget(URL)
    visits.forget("http://a.example/2")
    assert {"urls": 0, "records": 0, "sites": 1, "held": 0} == visits.counts()
    assert jcf.job() == look(visits)


@pytest.mark.parametrize(
    ("known", "first"),
    [(1, None), (2, 2), (3, 2), (10, 5), (20, 10), (39, 20), (40, 20), (100, 31)],
)
def test_too_many_removals_in_a_day_are_held(visits: Visits, known: int, first: int | None) -> None:
    urls = [f"http://a.example/{number}" for number in range(known)]
    visits.remember([news(url) for url in urls], NOON)
    answers = [visits.holds(url, NOON) for url in urls]
    assert [first is not None and number >= first for number in range(1, known + 1)] == answers
    assert sum(answers) == visits.counts()["held"]
    assert answers[-1] == visits.holds(urls[-1], NOON)
    assert not visits.holds(urls[-1], NOON + DAY_S)


def test_a_page_counts_once_a_day_and_only_with_a_record(visits: Visits) -> None:
    visits.remember([news(f"http://a.example/{number}") for number in range(4)], NOON)
    visits.remember([news("http://a.example/gone", "gone")], NOON)
    assert [False] * 5 == [visits.holds("http://a.example/0", NOON) for _ in range(5)]
    assert not visits.holds("http://a.example/gone", NOON)
    assert not visits.holds("http://a.example/unknown", NOON)


def test_what_is_held_is_let_go_when_the_page_is_back_or_removed(visits: Visits) -> None:
    urls = [f"http://a.example/{number}" for number in range(4)]
    visits.remember([news(url) for url in urls], NOON)
    assert [False, True, True, True] == [visits.holds(url, NOON) for url in urls]
    visits.remember([news(urls[1], "gone", RECORD=1, at=NOON + 1)], NOON)
    assert 3 == visits.counts()["held"]
    visits.remember([news(urls[1], at=NOON + 2), news(urls[2], "gone", at=NOON + 2)], NOON)
    assert 1 == visits.counts()["held"]
    visits.forget(urls[3])
    assert 0 == visits.counts()["held"]


def test_many_sites_are_found_whatever_is_cached(visits: Visits) -> None:
    visits._sites = {str(number): number for number in range(50_001)}
    visits.remember([OK], NOON)
    assert URL == look(visits).url
    assert {"a.example": 1} == visits._sites


@pytest.mark.parametrize("content", [b"this is no database " * 100, bytes(range(256)) * 64])
def test_a_damaged_database_is_named_with_the_remedy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "visits.sqlite"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"visits.sqlite is damaged .* restore it from a backup"):
        Visits(path, Settings())
