"""Traps: told by their URLs, bounded and not banned, and named by why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from combine.config import Traps
from combine.schedule import report
from combine.schedule.traps import Runs, cap, kind_of, trap_of
from formats import jcf
from tests.combine.schedule.world import KNOWN, World

LIMITS = Traps()
SEED = "http://a.example/"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("", ""),
        ("a/b/c.html", ""),
        ("2026/05/01/a", ""),
        ("1999-12/", ""),
        ("en/a/en/b", ""),
        ("a/a/a/b", "repeated segments"),
        ("a/b/a/b/a/b", "repeated segments"),
        ("x?a=1&b=2&c=3", ""),
        ("x?f=1&f=2", ""),
        ("x?f=1&f=2&f=3", "growing query"),
        ("x?" + "&".join(f"p{n}=1" for n in range(11)), "growing query"),
        ("x?sid=1234", ""),  # too short for a session
        ("x?sid=abcdef0123", "session id"),
        ("x?a=1&PHPSESSID=abcdef0123456789", "session id"),
        ("x;jsessionid=ABCDEF0123456789", "session id"),
        ("(S(abcdefghijklmnopqrstuvwx))/page.aspx", "session id"),
        ("2031/05/", "calendar"),
        ("events/2031-05-12", "calendar"),
        ("events/1903-05", "calendar"),
        ("cal?year=2031&month=5", "calendar"),
        ("cal?month=2031-05", "calendar"),
        ("cal?date=20310512", "calendar"),
        ("cal?date=20311312", ""),  # there is no such month
        ("cal?id=20310512", ""),
        ("cal/20310512", ""),  # what a number of eight digits means by itself, nobody knows
        ("view.php?view=month&time=1999999999", "calendar"),
        ("view.php?view=month&time=1780000000", ""),
        ("soup?time=1200", ""),
        ("cal?year=2027", ""),
        ("isbn/9783-12345", ""),
        ("rfc/9309", ""),
    ],
)
def test_what_looks_like_a_trap(path: str, name: str) -> None:
    found = trap_of(SEED + path, 2026, LIMITS)
    assert name == (found.name if found else "")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("cal/2031/05/", "cal/2032/11/", True),
        ("cal/2031/05/", "day/2031/05/", False),
        ("a/b/a/b/a/b/", "a/b/a/b/a/b/a/b/", True),
        ("x?f=1&f=2&f=3", "x?f=4&f=5&f=6&f=7", True),
        ("x?f=1&f=2&f=3", "y?f=1&f=2&f=3", False),
        ("x?sid=abcdef0123", "x?sid=0123abcdef", True),
        ("x?sid=abcdef0123", "y?sid=abcdef0123", False),
    ],
)
def test_the_urls_of_a_trap_share_a_pattern(one: str, other: str, is_same: bool) -> None:
    patterns = [found.pattern for path in (one, other) if (found := trap_of(SEED + path, 2026, LIMITS))]
    assert 2 == len(patterns)
    assert is_same == (patterns[0] == patterns[1])


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("n/1.html", "n/22.html", True),
        ("n/a", "n/b", True),
        ("n/a", "m/a", False),
        ("show.php?id=1", "show.php?id=2", True),
        ("show.php?id=1", "list.php?id=1", False),
        ("u1/a", "u2/b", True),
    ],
)
def test_pages_of_one_kind(one: str, other: str, is_same: bool) -> None:
    assert is_same == (kind_of(SEED + one) == kind_of(SEED + other))


@pytest.mark.parametrize(
    ("marks", "full_at"),
    [
        ("sss", 2),
        ("ssossss", 5),  # a page of its own takes two from the run
        ("sosososososo", -1),
        ("ssosososososososo", -1),
        ("sssss", 2),
        ("ssooooosss", 9),
    ],
)
def test_a_run_of_the_same_content(marks: str, full_at: int) -> None:
    runs = Runs(replace(LIMITS, same_run=3))
    found = [runs.note(1, f"{SEED}n/{number}", mark == "s") is not None for number, mark in enumerate(marks)]
    assert full_at == (found.index(True) if True in found else -1)


def test_a_flood_with_a_page_of_its_own_now_and_then_is_one() -> None:
    runs = Runs(replace(LIMITS, same_run=20))
    assert any(runs.note(1, f"{SEED}n/{number}", number % 5 > 0) for number in range(100))
    assert not any(runs.note(2, f"{SEED}n/{number}", number % 2 > 0) for number in range(500))


def link(path: str) -> jcf.Job:
    return jcf.job(URL=SEED + path, SEED=SEED, DEPTH=1, VIA=SEED)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("cal/{:04}/05/", "calendar"),
        ("x?sid=abcdef{:04}", "session id"),
        ("x?f=1&f=2&f={}", "growing query"),
    ],
)
def test_a_trap_is_bounded_and_why_names_it(form: str, name: str) -> None:
    settings = replace(KNOWN, traps=replace(LIMITS, urls=5))
    world = World(settings)
    world.seed(SEED)
    paths = [form.format(number) for number in range(3000, 3010)]
    offers = [world.add(link(path)) for path in paths]
    found = trap_of(SEED + paths[0], 2026, settings.traps)
    assert found is not None
    most = cap(found, settings.traps)
    assert ([1] * most + [0] * (10 - most)) == [offer.new for offer in offers]
    assert 10 - most == sum(offer.outside for offer in offers)
    world.crash()
    (first, *_) = report.why(world.frontier, SEED + paths[-1], None)
    assert f"a trap ({name})" in first.get("REASON")
    assert "queued" == report.why(world.frontier, SEED + paths[0], None)[0].get("STATE")
    assert 1 == world.add(link("an/other/page")).new


def test_a_seed_is_no_trap() -> None:
    world = World(replace(KNOWN, traps=replace(LIMITS, urls=0)))
    assert 1 == world.seed(SEED + "cal/3000/05/").new


@pytest.mark.parametrize(
    ("same", "is_full"),
    [
        (SEED + "other", True),
        ("http://b.example/other", False),  # another site's business
        ("", False),
    ],
)
def test_a_flood_of_the_same_content_is_bounded(same: str, is_full: bool) -> None:
    world = World(replace(KNOWN, traps=replace(LIMITS, same_run=3)))
    world.seed(SEED, DELAY="0")
    paths = [f"item/{number}" for number in range(5)]
    world.add(*map(link, paths))
    for path in paths[:3]:
        world.fetch(SEED + path, SAME=same or None)
    assert int(not is_full) == world.add(link("item/99")).new
    world.crash()
    assert int(not is_full) == world.add(link("item/98")).new
    assert 1 == world.add(link("else/1")).new
    if is_full:
        assert "a trap (same content)" in report.why(world.frontier, SEED + "item/99", None)[0].get("REASON")


@pytest.fixture
def flooded() -> World:
    """A world in which a kind of pages is about to end, with more of it and of others in the queue."""
    world = World(replace(KNOWN, traps=replace(LIMITS, same_run=3)))
    world.seed(SEED, DELAY="0")
    world.add(*(link(f"item/{number}") for number in range(9)), link("else/1"))
    for number in range(3):
        world.fetch(f"{SEED}item/{number}", SAME=SEED + "other", FTIME="2026-06-01T12:00:00Z")
    world.clock.sleep(61.0)
    return world


def test_what_is_queued_when_its_kind_ends_is_not_asked_any_more(flooded: World) -> None:
    assert {SEED, SEED + "else/1"} == {job.url for job in flooded.take()}
    assert "" == flooded.state(SEED + "item/5")
    assert "a trap (same content)" in report.why(flooded.frontier, SEED + "item/5", None)[0].get("REASON")
    assert 0 == flooded.add(link("item/5")).new


@pytest.mark.parametrize("name", ["item/50", "item/51"])
def test_what_the_operator_gives_and_what_has_a_record_is_asked_although_its_kind_has_ended(
    flooded: World, name: str
) -> None:
    if name == "item/50":
        flooded.seed(SEED + name, DELAY="0")
    else:
        flooded.add(link("item/0"), is_due=True)
        name = "item/0"
    assert SEED + name in {job.url for job in flooded.take()}


def test_what_a_dead_holder_may_have_harvested_is_asked_although_its_kind_has_ended(flooded: World) -> None:
    flooded.frontier.same.clear()
    jobs = flooded.take()
    flooded.frontier.same.add(flooded.site("a.example").id)
    flooded.take()
    flooded.clock.sleep(61.0)
    assert {job.url for job in jobs} == {job.url for job in flooded.take()}


def test_a_site_all_of_whose_rows_go_is_empty() -> None:
    world = World(replace(KNOWN, traps=replace(LIMITS, same_run=3)))
    world.seed(SEED, DELAY="0")
    world.add(*(link(f"item/{number}") for number in range(300)))
    for url in (SEED, *(f"{SEED}item/{number}" for number in range(3))):
        world.fetch(url, SAME=SEED + "other")
    world.clock.sleep(61.0)
    assert [] == world.take()
    assert 0 == world.row_count()
