"""From what people type to the lines of ADD."""

from __future__ import annotations

import io

import pytest

from combine.cli.seeds import Seed, Wish, parse, read
from combine.errors import UsageError
from formats.jcf import parse_text


@pytest.mark.parametrize(
    ("text", "url", "fallback"),
    [
        ("http://a.org", "http://a.org/", ""),
        ("HTTPS://A.org/x#y", "https://a.org/x", ""),
        ("a.org", "https://a.org/", "http://a.org/"),
        ("a.org/b?c", "https://a.org/b?c", "http://a.org/b?c"),
        ("//a.org/b", "https://a.org/b", "http://a.org/b"),
        ("a.org:8080", "https://a.org:8080/", "http://a.org:8080/"),
        ("localhost:80/x", "https://localhost:80/x", "http://localhost/x"),
        ("127.1:81?q", "https://127.0.0.1:81/?q", "http://127.0.0.1:81/?q"),
        ("[::1]:8000", "https://[::1]:8000/", "http://[::1]:8000/"),
        ("bücher.example", "https://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"),
    ],
)
def test_a_url_as_people_write_it(text: str, url: str, fallback: str) -> None:
    assert Seed(url, fallback) == parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "http://a.org/b c",
        " http://a.org/",
        "http://a.org/\n",
        "mailto:a@b.org",
        "ftp://a.org/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "/index.html",
        "?q",
        "./x",
        "http://",
        "http://u:p@a.org/",
        "u:p@a.org",
        "http://a.org:99999/",
        "http://a.org/" + "x" * 3000,
        "http://[::1/",
        "\x00",
    ],
)
def test_what_cannot_be_harvested_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(text)
    assert "\n" not in str(error.value)


def test_a_file_holds_urls_comments_and_jcf_lines_each_once() -> None:
    file = io.StringIO(
        '# seeds\n\n http://a.org/ \nJCF/0.0 URL="http://b.org" TAG="x" FETCH="9" MAXDEPTH="1" \nhttp://a.org/#again\n'
    )
    seeds = read(["http://c.org/"], file)
    assert ["http://c.org/", "http://a.org/", "http://b.org/"] == [seed.url for seed in seeds]
    assert {"TAG": "x", "MAXDEPTH": "1"} == seeds[2].params


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://a.org/\nmailto:x@y\n", "list, line 2: "),
        ("JCF/0.0 nothing\n", "list, line 1: "),
        ('JCF/0.0 TAG="x"\n', "has no URL"),
        ('JCF/0.0 URL="ftp://a.org/"\n', "list, line 1: "),
    ],
)
def test_a_slip_in_a_file_is_named_by_its_line(text: str, said: str) -> None:
    file = io.StringIO(text)
    file.name = "list"
    with pytest.raises(UsageError, match=said):
        read([], file)


def test_a_file_that_is_not_utf_8_is_refused() -> None:
    file = io.TextIOWrapper(io.BytesIO(b"http://a.org/\n\xff\xfe\n"), encoding="utf-8")
    with pytest.raises(UsageError, match="not UTF-8"):
        read([], file)


def test_a_wish_says_only_what_was_wished() -> None:
    assert 'JCF/0.0 URL="http://a.org/" SCOPE="host"' == _line(Wish().job(Seed("http://a.org/")))


def test_a_wish_says_all_that_was_wished() -> None:
    wish = Wish("domain", 2, ("a", "b"), ("c",), "t", "auto", "run", 5, "2026-01-01T00:00:00Z")
    job = wish.job(Seed("https://a.org/", "http://a.org/", {"TAG": "own", "MAXDEPTH": "7"}))
    assert {
        "URL": "https://a.org/",
        "SCOPE": "domain",
        "ELSE": "http://a.org/",
        "MAXDEPTH": "7",
        "INCLUDE": "(?:a)|(?:b)",
        "EXCLUDE": "c",
        "TAG": "own",
        "DELAY": "auto",
        "BUDGET": "run",
        "LIMIT": "5",
        "SINCE": "2026-01-01T00:00:00Z",
    } == dict(job.params)


def test_a_prefix_is_normalised_and_a_bad_pattern_refused() -> None:
    assert "under:https://a.org/x/" == Wish(scope="under:A.org/x/").checked().scope
    for wish in (Wish(include=("(",)), Wish(exclude=("[",)), Wish(scope="under:mailto:x")):
        with pytest.raises(UsageError):
            wish.checked()


def _line(job: object) -> str:
    from formats.jcf import Job, dump_text

    assert isinstance(job, Job)
    assert job == parse_text(dump_text(job))
    return dump_text(job)
