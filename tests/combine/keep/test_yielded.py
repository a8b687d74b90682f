"""Pages that leave their records to each other: one of each round stays, whoever comes first."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from combine.keep import yielded
from combine.keep.yielded import Yielded

A, B, C = "http://a.example/a", "http://a.example/b", "http://a.example/c"


@pytest.mark.parametrize("ways", [{A: B, B: A}, {A: B, B: C, C: A}])
def test_one_of_a_round_stays_in_any_order(tmp_path: Path, ways: dict[str, str]) -> None:
    for number, order in enumerate(permutations(ways)):
        place = tmp_path / str(number)
        # Each page is met by a parser of its own.
        left = [url for url in order if Yielded(place).leave(url, ways[url])]
        assert list(order[:-1]) == left


def test_a_page_that_is_parsed_again_leaves_again(tmp_path: Path) -> None:
    table = Yielded(tmp_path / "x")
    assert [True, True, False] == [table.leave(A, B), table.leave(A, B), table.leave(B, A)]


def test_pages_that_share_their_canonical_one_all_leave(tmp_path: Path) -> None:
    table = Yielded(tmp_path / "x")
    assert all(table.leave(f"http://a.example/{number}", A) for number in range(100))
    assert table.leave(A, B)
    assert not table.leave(B, "http://a.example/99")


def test_what_was_long_ago_and_what_is_no_table_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "x"
    place.write_bytes(b"\xff" * 100)
    assert Yielded(place).leave(A, B)
    monkeypatch.setattr(yielded, "AGE_S", 0.0)
    assert Yielded(place).leave(B, A)
    assert place.stat().st_size <= 40 * yielded.SLOTS
