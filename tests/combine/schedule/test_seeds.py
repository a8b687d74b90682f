from __future__ import annotations

from pathlib import Path

import pytest

from combine.errors import RecordError, Rejected
from combine.schedule import seeds as seeds_module
from combine.schedule.rows import Rows
from combine.schedule.scope import Rule
from combine.schedule.seeds import UNLIMITED, Seeds
from formats import jcf

URL = "http://a.example/"


@pytest.fixture
def seeds() -> Seeds:
    return Seeds(Rows(Path(":memory:")))


def line(**params: str | int) -> jcf.Job:
    return jcf.job(**{"URL": URL, "SCOPE": "host", **params})


@pytest.mark.parametrize(
    ("first", "then", "depth"),
    [(None, None, None), (2, None, None), (None, 2, None), (2, 3, 3), (3, 2, 3), (0, 0, 0)],
)
def test_a_later_line_widens_a_seed(seeds: Seeds, first: int | None, then: int | None, depth: int | None) -> None:
    one = seeds.put(URL, line(**({} if first is None else {"MAXDEPTH": first})))
    two = seeds.put(URL, line(SCOPE="domain", **({} if then is None else {"MAXDEPTH": then})))
    assert (one.id, depth) == (two.id, two.maxdepth)
    assert {"host", "domain"} == {rule.kind for rule in two.scope.rules}
    assert one.scope_id != two.scope_id
    assert two == seeds.find(URL) == seeds.get(one.id)


def test_the_latest_line_sets_pace_and_budget_and_a_tag_stays(seeds: Seeds) -> None:
    seeds.put(URL, line(TAG="t", DELAY="auto", BUDGET="b", LIMIT=3))
    seed = seeds.put(URL, line(DELAY="2.5"))
    assert ("t", "2.5", "") == (seed.tag, seed.delay, seed.budget)


def test_scopes_with_the_same_rules_have_one_number(seeds: Seeds) -> None:
    one, two = seeds.put(URL, line()), seeds.put("http://www.a.example/x", line())
    assert one.scope_id == two.scope_id
    assert one.id != two.id


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"SCOPE": "world"}, Rejected),
        ({"DELAY": "soon"}, RecordError),
        ({"DELAY": "-1"}, RecordError),
        ({"MAXDEPTH": "x"}, RecordError),
        ({"MAXDEPTH": "-1"}, Rejected),
        ({"BUDGET": "b", "LIMIT": "-1"}, Rejected),
        ({"BUDGET": "b", "LIMIT": "many"}, RecordError),
        ({"INCLUDE": "("}, Rejected),
    ],
)
def test_what_no_seed_can_mean(seeds: Seeds, params: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        seeds.put(URL, line(**params))
    assert seeds.find(URL) is None


@pytest.mark.parametrize(("depth", "left"), [(0, 3.0), (3, 0.0), (4, -1.0)])
def test_hops_left(seeds: Seeds, depth: int, left: float) -> None:
    assert left == seeds.put(URL, line(MAXDEPTH=3)).left(depth)
    assert UNLIMITED == seeds.put("http://b.example/", line()).left(depth)


def test_a_budget_is_opened_once_and_shared(seeds: Seeds) -> None:
    one = seeds.put(URL, line(BUDGET="run", LIMIT=2))
    two = seeds.put("http://b.example/", line(BUDGET="run", LIMIT=2))
    seeds.is_refilled = False
    seeds.spend(one, 1)
    assert (1.0, 1.0) == (seeds.left(one), seeds.left(two))
    assert set() == seeds.spent
    seeds.spend(two, 1)
    assert {"run"} == seeds.spent
    assert not seeds.is_refilled
    seeds.spend(two, -1)
    assert (set(), True) == (seeds.spent, seeds.is_refilled)
    seeds.put(URL, line(BUDGET="run", LIMIT=2))
    assert 1.0 == seeds.left(one)


def test_budgets_that_nobody_names_go(seeds: Seeds) -> None:
    seeds.put(URL, line(BUDGET="one", LIMIT=2))
    seeds.put(URL, line(BUDGET="two", LIMIT=0))
    assert [("one", 2), ("two", 0)] == seeds.budgets()
    seeds.put(URL, line(BUDGET="three", LIMIT=5))
    assert [("three", 5), ("two", 0)] == seeds.budgets()
    assert {"two"} == seeds.spent


@pytest.mark.parametrize("params", [{}, {"BUDGET": "unknown"}, {"LIMIT": "3"}])
def test_without_a_budget_there_is_no_limit(seeds: Seeds, params: dict[str, str]) -> None:
    seed = seeds.put(URL, line(**params))
    seeds.spend(seed, 5)
    assert UNLIMITED == seeds.left(seed)
    assert [] == seeds.budgets()


def test_what_is_spent_is_known_after_a_start(seeds: Seeds) -> None:
    seeds.put(URL, line(BUDGET="run", LIMIT=1))
    seeds.set_budget("run", 0)
    seeds.reload()
    assert {"run"} == seeds.spent
    seeds.set_budget("run", 1)
    assert set() == seeds.spent


def test_the_cache_is_bounded(seeds: Seeds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds_module, "CACHE", 3)
    made = [seeds.put(f"http://{number}.example/", line()) for number in range(10)]
    assert made == [seeds.get(seed.id) for seed in made]
    assert made == [seeds.find(seed.url) for seed in made]


def test_a_rule_added_to_a_seed_keeps_the_rest(seeds: Seeds) -> None:
    seed = seeds.put(URL, line(MAXDEPTH=3, TAG="t", DELAY="1", BUDGET="b", LIMIT=2))
    wider = seeds.widen(seed, Rule("host", "b.example"))
    assert wider.scope.admits("http://b.example/")
    assert (3, "t", "1", "b") == (wider.maxdepth, wider.tag, wider.delay, wider.budget)
