import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine.config import Politeness
from combine.errors import RetryLater
from combine.web.robots import (
    AGAIN_CEILING_S,
    AGAIN_S,
    SHORTEST_S,
    Answer,
    Copy,
    RobotsStore,
    Verdict,
    judge,
    origin_of,
    standing,
)
from tests.conformance import CONFORMANCE, needs_conformance

ORIGIN = "https://a.example"
NOW = 1_764_500_000.0
HOUR, DAY = 3600.0, 86_400.0
LIMITS = Politeness()
RULES = b"user-agent: *\ndisallow: /a\n"


def after(copy: Copy | None, answer: Answer, now: float = NOW) -> tuple[Copy, Verdict]:
    return judge(copy, ORIGIN, answer, now, LIMITS)


def status_cases() -> list[dict[str, Any]]:
    path = CONFORMANCE / "robots" / "status_code_cases.json"
    return list(json.loads(path.read_text())["cases"]) if path.exists() else []


@needs_conformance
@pytest.mark.parametrize("case", status_cases(), ids=lambda case: str(case["status"]))
def test_what_a_status_means(case: dict[str, Any]) -> None:
    _, verdict = after(None, Answer(case["status"], b"user-agent: *\ndisallow: /\n"))
    assert case["allowed"] == (verdict.state == "open")
    assert case["defer"] == (verdict.state == "closed")


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (Answer(200, RULES), "rules"),
        (Answer(204), "rules"),
        (Answer(299, RULES), "rules"),
        (Answer(404, RULES), "open"),
        (Answer(429), "closed"),
        (Answer(500), "closed"),
        (Answer(599), "closed"),
        (Answer(304), "closed"),
        (Answer(0, reason="timeout"), "closed"),
        (Answer(0, reason="dns"), "closed"),
        (Answer(301, reason="redirect", hops=6), "closed"),
    ],
)
def test_first_answers(answer: Answer, state: str) -> None:
    copy, verdict = after(None, answer)
    assert state == verdict.state
    assert not verdict.changed
    assert verdict.body == (answer.body if state == "rules" else b"")
    assert (copy.status, copy.reason, copy.hops) == (answer.status, answer.reason, answer.hops)


@pytest.mark.parametrize(
    ("cache_control", "good_for_s"),
    [
        ("", DAY),
        ("max-age=3600", HOUR),
        ("public, Max-Age=7200, immutable", 2 * HOUR),
        ('max-age="3600"', HOUR),
        ("max-age=31536000", DAY),
        ("max-age=0", SHORTEST_S),
        ("no-store", SHORTEST_S),
        ("no-cache, max-age=3600", SHORTEST_S),
        ("s-maxage=60", DAY),
        ("max-age=soon", DAY),
    ],
)
def test_good_for_a_day_or_less(cache_control: str, good_for_s: float) -> None:
    for status in (200, 404):
        copy, verdict = after(None, Answer(status, cache_control=cache_control))
        assert NOW + good_for_s == copy.expires == verdict.until


def test_standing_until_it_expires() -> None:
    copy, verdict = after(None, Answer(200, RULES))
    assert verdict == standing(copy, NOW, LIMITS) == standing(copy, NOW + DAY - 1, LIMITS)
    assert standing(copy, NOW + DAY, LIMITS) is None
    assert standing(copy, NOW - 1, LIMITS) is None, "the clock went back"


def test_the_last_good_copy_serves_thirty_days_from_its_fetch() -> None:
    copy, _ = after(None, Answer(200, RULES))
    states = []
    for days in (1, 10, 30, 30.9, 31.1):
        copy, verdict = after(copy, Answer(503), NOW + days * DAY)
        states.append((verdict.state, verdict.body))
    # From the 30th day on it is too old to serve, and on the 31st the file was unreachable for 30 days.
    assert [("rules", RULES)] * 3 + [("closed", b""), ("open", b"")] == states
    copy, verdict = after(copy, Answer(200, RULES), NOW + 40 * DAY)
    assert ("rules", False) == (verdict.state, verdict.changed)
    assert (0.0, 0) == (copy.down, copy.failures)


def test_without_a_copy_the_site_stays_closed_for_thirty_days() -> None:
    copy, verdict = after(None, Answer(0, reason="connect"))
    for days in (1, 29.9):
        copy, verdict = after(copy, Answer(503), NOW + days * DAY)
        assert "closed" == verdict.state
    _, verdict = after(copy, Answer(503), NOW + 30 * DAY)
    assert "open" == verdict.state


def test_a_missing_file_is_no_copy_to_live_on() -> None:
    copy, _ = after(None, Answer(404))
    _, verdict = after(copy, Answer(503), NOW + 2 * DAY)
    assert "closed" == verdict.state


def test_asked_again_ever_later_while_unreachable() -> None:
    copy: Copy | None = None
    waits = []
    for _ in range(10):
        copy, verdict = after(copy, Answer(503))
        waits.append(verdict.until - NOW)
    assert [AGAIN_S, 2 * AGAIN_S, 4 * AGAIN_S] == waits[:3]
    assert AGAIN_CEILING_S == waits[-1]
    copy, verdict = after(copy, Answer(429, after_s=2 * HOUR))
    assert 2 * HOUR == verdict.until - NOW


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        (Answer(200, RULES), Answer(200, RULES), False),
        (Answer(200, RULES), Answer(200, b"user-agent: *\nallow: /\n"), True),
        (Answer(200, RULES), Answer(404), True),
        (Answer(404), Answer(200, RULES), True),
        (Answer(404), Answer(410), False),
        (Answer(404), Answer(200, b""), False),
        (Answer(200, RULES), Answer(503), False),
        (Answer(503), Answer(200, RULES), False),
    ],
)
def test_changed(before: Answer, now: Answer, changed: bool) -> None:
    copy, _ = after(None, before)
    assert changed == after(copy, now, NOW + DAY)[1].changed


def test_changed_is_seen_across_an_outage() -> None:
    copy, _ = after(None, Answer(200, RULES))
    copy, _ = after(copy, Answer(503), NOW + DAY)
    assert after(copy, Answer(200, b"x"), NOW + 2 * DAY)[1].changed
    assert not after(copy, Answer(200, RULES), NOW + 2 * DAY)[1].changed


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://a.example/b?c", "https://a.example"),
        ("http://a.example:8080/", "http://a.example:8080"),
        ("http://[::1]:80/x", "http://[::1]:80"),
    ],
)
def test_origin_of(url: str, origin: str) -> None:
    assert origin == origin_of(url)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, RULES),
        Answer(200, b"\xff\x00\r\n" * 9, to="https://b.example/robots.txt", hops=2),
        Answer(200, b""),
        Answer(404),
        Answer(503, after_s=60),
        Answer(0, reason='odd "reason"\n'),
    ],
)
def test_a_copy_survives_the_disk(answer: Answer, tmp_path: Path) -> None:
    store = RobotsStore(tmp_path)
    copy, _ = after(None, answer)
    assert store.load(ORIGIN) is None
    store.save(copy)
    assert copy == store.load(ORIGIN)
    store.save(replace(copy, failures=3))
    assert replace(copy, failures=3) == RobotsStore(tmp_path).load(ORIGIN)
    assert store.load("https://b.example") is None
    assert [] == list(tmp_path.rglob("*.tmp"))


def test_places_are_two_levels_of_the_origins_md5(tmp_path: Path) -> None:
    store = RobotsStore(tmp_path)
    store.save(after(None, Answer(200, RULES))[0])
    assert store.path(ORIGIN).parent.parent.parent == tmp_path
    assert RULES == store.path(ORIGIN).read_bytes()
    line = store.path(ORIGIN).with_suffix(".jcf").read_text()
    assert line.startswith('JCF/0.0 URL="https://a.example" STATUS="200" FETCHED="2025-')
    assert line.endswith('"\n')


def test_a_missing_file_leaves_no_body_behind(tmp_path: Path) -> None:
    store = RobotsStore(tmp_path)
    copy, _ = after(None, Answer(200, RULES))
    store.save(copy)
    store.save(after(copy, Answer(404), NOW + DAY)[0])
    assert not store.path(ORIGIN).exists()
    kept = store.load(ORIGIN)
    assert kept is not None
    assert (404, b"") == (kept.status, kept.body)


@pytest.mark.parametrize("damage", ["body", "empty body", "no body", "facts", "empty facts", "other origin", "number"])
def test_damage_is_as_good_as_nothing(damage: str, tmp_path: Path) -> None:
    store = RobotsStore(tmp_path)
    store.save(after(None, Answer(200, RULES))[0])
    body, facts = store.path(ORIGIN), store.path(ORIGIN).with_suffix(".jcf")
    line = facts.read_bytes()
    if damage == "no body":
        body.unlink()
    elif "body" in damage:
        body.write_bytes(b"" if damage == "empty body" else b"user-agent: *\nallow: /\n")
    else:
        damaged = {
            "facts": line[:40],
            "empty facts": b"",
            "other origin": line.replace(b"a.example", b"b.example"),
            "number": line.replace(b'STATUS="200"', b'STATUS="ok"'),
        }
        facts.write_bytes(damaged[damage])
    assert store.load(ORIGIN) is None


def test_a_full_disk_says_later(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RetryLater, match="cannot be written"):
        RobotsStore(tmp_path / "file").save(after(None, Answer(200, RULES))[0])


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 200, 301, 404, 429, 503]), st.binary(max_size=3), st.floats(0, 20 * DAY)),
        max_size=12,
    )
)
def test_never_open_without_a_reason(history: list[tuple[int, bytes, float]]) -> None:
    copy: Copy | None = None
    now = NOW
    for status, body, wait_s in history:
        now += wait_s
        copy, verdict = after(copy, Answer(status, body), now)
        assert verdict.until > now
        if verdict.state == "open":
            assert status == 404 or now - copy.down >= LIMITS.robots_stale_s
        if verdict.state == "rules":
            assert now - copy.good <= LIMITS.robots_stale_s
            assert verdict.body == copy.body


STRANGE: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("level", [0, 1, 2], ids=["copy", "second", "first"])
@pytest.mark.parametrize("suffix", ["", ".jcf"], ids=["body", "facts"])
def test_what_is_no_copy_counts_as_none_and_is_no_obstacle(tmp_path: Path, kind: str, level: int, suffix: str) -> None:
    store = RobotsStore(tmp_path)
    copy = after(None, Answer(200, RULES))[0]
    store.save(copy)
    place = [Path(f"{store.path(ORIGIN)}{suffix}"), *store.path(ORIGIN).parents][level]
    place.rename(tmp_path / "before")
    STRANGE[kind](place)
    assert None is store.load(ORIGIN)
    store.save(copy)
    assert copy == store.load(ORIGIN)
