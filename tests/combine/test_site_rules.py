"""Rules for single sites: what is refused with a sentence, and hours of a day."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from combine import hours
from combine.config import load
from combine.errors import ConfigError
from combine.site_rules import SiteRule


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ('hours = "from six"', "hours are written"),
        ('hours = "6:00-06:00"', "no part of a day"),
        ('hours = "24:00-06:00"', "no part of a day"),
        ('hours = "22:00-06:00 Mars/Phobos"', "no time zone"),
        ('hours = "22:00-06:00 ../../etc/passwd"', "hours are written"),
        ('robots = "some"', "robots is"),
        ('robots = "ignore"', "because"),
        ('tls = "accept"', "because"),
        ('tls = "none"', "tls is"),
        ('auth = "secretword"', 'auth is "user:password"'),
        ('auth = ":secretword"', 'auth is "user:password"'),
        ('source = "eth0"', "source is an address"),
        ("bytes_s = 0", "more than 0"),
        ("revisit_s = 0", "more than 0"),
        ("requests_day = 0", "write blocked = true"),
        ("bytes_day = 0", "write blocked = true"),
        ("delay = 1\ndelay_s = 2", "delay and delay_s are one setting"),
        ("revisit = 1\nrevisit_s = 2", "revisit and revisit_s are one setting"),
        ('cookies = "/etc/passwd"', "no file below the home"),
        ('cookies = "../x"', "no file below the home"),
        ('cookies = "a/../../x"', "no file below the home"),
        ('cookies = "."', "no file below the home"),
        ('cookies = "a\\u0000b"', "no file below the home"),
        ("depth = -1", "depth is a number from 0 up"),
        ('depht = 1', "did you mean 'depth'"),
        ('cookies = 1', "cookies is a string"),
    ],
)  # fmt: skip
def test_a_malformed_rule_is_refused_by_its_fault(tmp_path: Path, lines: str, sentence: str) -> None:
    (tmp_path / "combine.toml").write_text(f'[[site]]\nmatch = "example.org"\n{lines}\n')
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert sentence in str(caught.value)
    assert "secretword" not in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        ("example.org", "EXAMPLE.org", "make them one"),
        (".example.org", ".example.org", "make them one"),
        (".example.org", "www.example.org", "put it first"),
        (".example.org", "example.org", "put it first"),
        (".example.org", ".a.example.org", "put it first"),
        ("www.example.org", ".example.org", ""),
        ("example.org", "www.example.org", ""),
        (".example.org", ".anexample.org", ""),
    ],
)
def test_a_rule_that_never_counts_is_refused(tmp_path: Path, first: str, second: str, sentence: str) -> None:
    (tmp_path / "combine.toml").write_text(f'[[site]]\nmatch = "{first}"\n[[site]]\nmatch = "{second}"\n')
    if not sentence:
        assert 2 == len(load(tmp_path).site)
        return
    with pytest.raises(ConfigError, match=sentence):
        load(tmp_path)


@pytest.mark.parametrize(
    ("match", "remedy"),
    [
        ("http://example.org/", ".example.org"),
        ("*.example.org", ".example.org"),
        ("example.org:8080", ".example.org"),
        ("example org", ".example.org"),
        ("bücher.example", '"xn--bcher-kva.example"'),
        ("127.1", ".example.org"),
    ],
)
def test_a_rule_for_what_no_host_is_called_is_refused(tmp_path: Path, match: str, remedy: str) -> None:
    (tmp_path / "combine.toml").write_text(f'[[site]]\nmatch = "{match}"\nblocked = true\n')
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert remedy in str(caught.value)


@pytest.mark.parametrize("match", ["localhost", ".org", "127.0.0.1", "[::1]", "WWW.Example.org", "a_b.example.org"])
def test_a_rule_for_any_kind_of_host(tmp_path: Path, match: str) -> None:
    (tmp_path / "combine.toml").write_text(f'[[site]]\nmatch = "{match}"\nblocked = true\n')
    assert load(tmp_path).site_rule(match.lower().removeprefix(".")) is not None


def test_blanks_are_no_reason(tmp_path: Path) -> None:
    (tmp_path / "combine.toml").write_text('[[site]]\nmatch = "example.org"\nrobots = "ignore"\nbecause = " "\n')
    with pytest.raises(ConfigError, match="because"):
        load(tmp_path)


def test_all_that_a_rule_may_say(tmp_path: Path) -> None:
    (tmp_path / "combine.toml").write_text(
        '[[site]]\nmatch = ".example.org"\ndelay = 2\ndepth = 3\nrobots = "ignore"\nbecause = "ours"\ntls = "accept"\n'
        'hours = "22:00-06:00 Europe/Ljubljana"\nrequests_day = 5\nbytes_day = 6\nbytes_s = 7\nrevisit = 8\n'
        'auth = "a:b:c"\ncookies = "jar"\nsource = "192.0.2.1"\nblocked = false\n'
    )
    rule = load(tmp_path).site_rule("www.example.org")
    assert rule is not None
    assert (2.0, 3, 8.0, "a:b:c") == (rule.delay_s, rule.depth, rule.revisit_s, rule.auth)
    assert "a:b:c" not in repr(rule)


@pytest.mark.parametrize(
    ("host", "expected"), [("example.org", True), ("a.example.org", True), ("xexample.org", False), ("org", False)]
)
def test_whom_a_rule_covers(host: str, expected: bool) -> None:
    assert expected == SiteRule(".example.org").covers(host)


NIGHT, LUNCH = "22:00-06:00 Europe/Ljubljana", "12:00-13:30"


@pytest.mark.parametrize(
    ("text", "now", "zone", "closed_s"),
    [
        (NIGHT, "2026-05-01 23:00", "Europe/Ljubljana", 0),
        (NIGHT, "2026-05-01 05:59", "Europe/Ljubljana", 0),
        (NIGHT, "2026-05-01 06:00", "Europe/Ljubljana", 16 * 3600),
        (NIGHT, "2026-05-01 20:00", "UTC", 0),
        (NIGHT, "2026-03-29 10:00", "Europe/Ljubljana", 12 * 3600),  # the clocks went forward that night
        (LUNCH, "2026-05-01 12:00", "UTC", 0),
        (LUNCH, "2026-05-01 13:30", "UTC", 22.5 * 3600),
        (LUNCH, "2026-05-01 11:00", "UTC", 3600),
        ("20:00-24:00", "2026-05-01 23:59", "UTC", 0),
        ("08:00-20:00 Europe/Ljubljana", "2026-10-25 00:00", "Europe/Ljubljana", 9 * 3600),  # a day of 25 hours
    ],
)
def test_hours(text: str, now: str, zone: str, closed_s: float) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=ZoneInfo(zone)).timestamp()
    assert closed_s == hours.parse(text).closed_for(moment)
