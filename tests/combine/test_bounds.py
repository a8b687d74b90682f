"""Settings that have the right type and cannot be meant: each is refused by its name, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from combine.bounds import CHOICES, LEAST, ORDERED, POSITIVE
from combine.config import known_keys, load
from combine.errors import ConfigError

KNOWN = {f"{section}.{key}": default for section, key, default in known_keys()}


@pytest.mark.parametrize("name", sorted(POSITIVE))
def test_what_must_be_more_than_0(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^--set: {name} is more than 0"):
        load(Path("/nowhere"), (f"{name}=0",))


def test_every_name_is_a_setting() -> None:
    paired = {name for pair in ORDERED for name in pair}
    assert POSITIVE | LEAST.keys() | paired | CHOICES.keys() <= KNOWN.keys()


def test_every_other_number_may_be_0() -> None:
    numbers = {name for name, value in KNOWN.items() if type(value) in (int, float)}
    above = {high for _, high in ORDERED}
    for name in numbers - POSITIVE - LEAST.keys() - above:
        load(Path("/nowhere"), (f"{name}=0",))


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("[politeness]\nretry_base = 0.5", "politeness.retry_base is at least 1, not 0.5"),
        ("[politeness]\nrobots_bytes = 1000", "at least 512000"),
        ("[traps]\nrepeats = 1", "at least 2"),
        ("[politeness]\nauto_floor_s = 90", "auto_floor_s .90. is at most politeness.auto_ceiling_s .60."),
        ("[supervise]\nping_s = 20", "supervise.ping_s .20. is at most"),
        ('[agent]\nname = "two words"', "product token"),
        ('[agent]\nurl = "example.org"', "agent.url is the address of a page"),
        ('[agent]\nemail = "nobody"', "agent.email is an address"),
        ('[agent]\nurl = "https://ü.example/"', "plain ASCII"),
        ('[harvest]\nallow_private = ["10.0.0.0/99"]', "which is no network"),
        ('[harvest]\nallow_private = ["http://10.0.0.1/"]', "which is no network"),
        ('[harvest]\nallow_private = [".example.org"]', "no host name and no address"),
        ('[harvest]\nallow_private = ["two words"]', "no host name and no address"),
        ('[harvest]\ntypes = ["pdf"]', 'write "application/pdf"'),
        ('[harvest]\nhead_first = [".zip"]', 'write endings as "zip"'),
        ('[harvest]\nhead_first = ["ZIP"]', 'write endings as "zip"'),
        ("[page]\nmemory_bytes = 1000", "at least 67108864, not 1000"),
        ('[keep]\nraw = "warc"', 'keep.raw is "hrf" or "none"'),
        ('[urls]\nrepeated_parameters = "one"', 'is "keep", "pairs" or "names"'),
    ],
)  # fmt: skip
def test_what_cannot_be_meant(tmp_path: Path, lines: str, sentence: str) -> None:
    (tmp_path / "combine.toml").write_text(lines)
    with pytest.raises(ConfigError, match=sentence) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'combine.toml'}: ")


def test_what_may_be_private(tmp_path: Path) -> None:
    entries = ["127.0.0.0/8", "10.0.0.1", "::1", "[::1]:8080", "intranet", "Example.org:80", "fd00::/8", "localhost."]
    listed = ", ".join(f'"{entry}"' for entry in entries)
    (tmp_path / "combine.toml").write_text(f"[harvest]\nallow_private = [{listed}]")
    assert tuple(entries) == load(tmp_path).harvest.allow_private
