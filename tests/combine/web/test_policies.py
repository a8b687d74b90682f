"""Files about the use of pages: when they are asked for, and what they say of a page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from combine.config import Rights, Settings
from combine.web.policies import AI_TXT, TDMREP, Policies, of_ai_txt, of_tdmrep
from combine.web.robots import Answer, RobotsStore
from combine.web.rules import Rules
from formats import jcf
from formats.jcf import Job

URL = "https://example.org/art/a.html"
ENTRIES = [
    {"location": "/", "tdm-reservation": 0},
    {"location": "/art/*", "tdm-reservation": 1, "tdm-policy": "https://example.org/policy.json"},
    {"location": "/art/*.png$", "tdm-reservation": 0},
]
SAID = json.dumps(ENTRIES).encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SAID, {"tdm-reservation": "1", "tdm-policy": "https://example.org/policy.json"}),
        (json.dumps(ENTRIES[2:]).encode(), {}),
        (json.dumps(ENTRIES[:1]).encode(), {"tdm-reservation": "0"}),
        (b"", {}),
        (b"<html>not found", {}),
        (b'{"location": "/"}', {}),
        (b'[1, null, {"location": 5}, {"location": "/", "tdm-reservation": [1]}]', {}),
        (b"[" * 100_000, {}),
    ],
)
def test_tdmrep(body: bytes, expected: dict[str, str]) -> None:
    assert [(name, value, TDMREP) for name, value in expected.items()] == of_tdmrep(body, URL)


@pytest.mark.parametrize(
    ("body", "is_forbidden"),
    [
        (b"User-Agent: *\nDisallow: /", True),
        (b"User-Agent: *\nDisallow: *.html", True),
        (b"User-Agent: *\nDisallow: *.png", False),
        (b"User-Agent: other\nDisallow: /", False),
        (b"", False),
    ],
)
def test_ai_txt(body: bytes, is_forbidden: bool) -> None:
    assert ([("ai.txt", "disallow", AI_TXT)] if is_forbidden else []) == of_ai_txt(body, URL, "combine")


def policies(
    tmp_path: Path, purpose: str, answer: Callable[[str], Answer | tuple[str, int]], rules: bytes = b""
) -> tuple[list[str], list[str]]:
    """The signals of two pages two times, a day and an hour apart; and what was asked for."""
    asked: list[str] = []
    clock = [1_780_000_000.0]

    async def follow(job: Job) -> Answer | tuple[str, int]:
        asked.append(job.url.removeprefix("https://example.org"))
        return answer(job.url)

    async def run() -> list[str]:
        settings = Settings(rights=Rights(purpose))
        found: list[str] = []
        for _ in range(2):
            known = Policies(settings, RobotsStore(tmp_path), lambda: clock[0])
            for url in (URL, "https://example.org/other"):
                said = await known.of(jcf.job(URL=url), Rules.parse(rules, "combine"), follow)
                found.append(" ".join(value for _, value, _ in said))
            clock[0] += 90_000.0
        return found

    return asyncio.run(run()), asked


@pytest.mark.parametrize(
    ("purpose", "expected"),
    [("search", []), ("archive", []), ("research", [TDMREP] * 2), ("ai", [TDMREP, AI_TXT] * 2)],
)
def test_files_are_asked_for_once_a_day_and_by_purpose(tmp_path: Path, purpose: str, expected: list[str]) -> None:
    _, asked = policies(tmp_path, purpose, lambda url: Answer(404))
    assert expected == asked


def test_what_was_said_is_kept(tmp_path: Path) -> None:
    found, _ = policies(tmp_path, "research", lambda url: Answer(200, SAID))
    assert ["1 https://example.org/policy.json", "0"] * 2 == found


@pytest.mark.parametrize("answer", [Answer(503), Answer(0, reason="timeout"), ("https://elsewhere.example/", 1)])
def test_an_unreachable_file_says_nothing_and_holds_nothing_up(
    tmp_path: Path, answer: Answer | tuple[str, int]
) -> None:
    found, asked = policies(tmp_path, "research", lambda url: answer)
    assert [""] * 4 == found
    assert 2 == len(asked)


def test_a_file_that_robots_txt_forbids_is_not_asked_for(tmp_path: Path) -> None:
    rules = b"User-agent: *\nDisallow: /.w\nDisallow: /ai"
    assert ([""] * 4, []) == policies(tmp_path, "ai", lambda url: Answer(200, SAID), rules)


@pytest.mark.parametrize(
    ("text", "signals"),
    [
        ("Content-Signal: ai-train=no\nUser-agent: *\nAllow: /", [("content-signal", "ai-train=no")]),
        ("User-agent: *\nContent-Signal: a=yes, b=no\nAllow: /", [("content-signal", "a=yes, b=no")]),
        ("User-agent: other\nContent-Signal: ai-train=no\nUser-agent: *\nDisallow:", []),
        ("User-agent: combine\nContent-Usage: train-ai=n\nAllow: /", [("content-usage", "train-ai=n")]),
        ("User-agent: other\nDisallow: /\nLicense: https://a.example/l.xml", [("license", "https://a.example/l.xml")]),
        ("User-agent: *\nDisallow: /", []),
    ],
)  # fmt: skip
def test_lines_of_robots_txt(text: str, signals: list[tuple[str, str]]) -> None:
    assert signals == list(Rules.parse(text.encode(), "combine").signals_of("http://a.example/"))


#: The example of draft-ietf-aipref-attach, and lines of other kinds beside it.
PATHS = """\
Content-Usage: search=y
License: https://a.example/license.xml
User-agent: *
Content-Usage: / train-ai=n
Content-Usage: /ai-ok/ train-ai=y
Disallow: /never/
Content-Signal: ai-input=yes
Content-Signal: /private ai-input=no
Content-Usage: /*.pdf$ train-ai=n, search=n
Content-Usage: /same train-ai=n
Content-Usage:\t/s%61me   search=n # as written
Content-Usage: /caf%C3%A9/ tdm=n

User-agent: other
Content-Usage: / bots=n
"""


@pytest.mark.parametrize(
    ("path", "usage", "signal"),
    [
        ("/", ["/ train-ai=n"], "ai-input=yes"),
        ("/ai-ok/x", ["/ai-ok/ train-ai=y"], "ai-input=yes"),
        ("/ai-ok", ["/ train-ai=n"], "ai-input=yes"),
        ("/private", ["/ train-ai=n"], "/private ai-input=no"),
        ("/a/b.pdf", ["/*.pdf$ train-ai=n, search=n"], "ai-input=yes"),
        ("/a/b.pdf?x", ["/ train-ai=n"], "ai-input=yes"),
        ("/same/page", ["/same train-ai=n", "/s%61me   search=n"], "ai-input=yes"),
        ("/café/", ["/caf%C3%A9/ tdm=n"], "ai-input=yes"),
    ],
)
def test_a_line_with_a_path_is_for_the_pages_that_it_matches(path: str, usage: list[str], signal: str) -> None:
    said = Rules.parse(PATHS.encode(), "combine").signals_of(f"http://a.example{path}")
    assert usage == [value for name, value in said if name == "content-usage"]
    assert [signal] == [value for name, value in said if name == "content-signal"]
    assert ["https://a.example/license.xml"] == [value for name, value in said if name == "license"]


def test_a_path_alone_says_nothing_of_it() -> None:
    rules = Rules.parse(b"User-agent: *\nContent-Usage: /art/\nContent-Usage: tdm=n", "combine")
    assert [("content-usage", "/art/"), ("content-usage", "tdm=n")] == list(rules.signals_of("http://a.example/art/"))
