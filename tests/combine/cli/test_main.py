"""The command as a whole: its table, its errors, its exit codes, its start."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from combine.cli import ALIASES, COMMANDS, main, records
from combine.errors import CombineError, ConfigError, RecordError, RetryLater, UsageError
from combine.keep.home import Home, create, is_home
from tests.system.harness import until

Run = Callable[..., Result]

PROGRAM = (sys.executable, "-c", "from combine.cli import main; main()")


def _held(pipe: int) -> int:
    """Bytes that wait in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_docstring_says(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert name == command.name
    assert COMMANDS[name][1] == (command.help or "").split("\n\n")[0].replace("\n", " ")


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_an_alias_is_the_command(alias: str, name: str) -> None:
    context = click.Context(main)
    assert main.get_command(context, name) is main.get_command(context, alias)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_home_and_quiet(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert {"home", "quiet"} <= {str(parameter.name) for parameter in command.params}


def test_help_lists_every_command_and_imports_none(tmp_path: Path) -> None:
    code = (
        "import sys; from combine.cli import main\n"
        "try: main(['--help'])\nfinally: print(sorted(sys.modules), file=sys.stderr)"
    )
    # Where coverage is measured, it would load sqlite3 into the child.
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=unmeasured)
    assert not [name for name in COMMANDS if f"\n  {name} " not in done.stdout]
    loaded = [
        name
        for name in ("aiohttp", "lxml", "orjson", "sqlite3", "combine.keep", "combine.urls")
        if f"'{name}'" in done.stderr
    ]
    assert [] == loaded


def test_without_a_command_the_help_is_shown_and_it_is_wrong_usage(combine: Run) -> None:
    result = combine()
    assert 2 == result.exit_code
    assert "" == result.stdout
    assert "Usage:" in result.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("lst",), 2, "there is no command 'lst'; did you mean 'list'?"),
        (("--no-such",), 2, "No such option '--no-such'; see combine --help"),
        (("list", "--no-such"), 2, "see combine list --help"),
        (("show",), 2, "Missing argument"),
        (("show", "--path", "--raw", "http://a.org/"), 2, "cannot be combined"),
        (("show", "http://a.org/"), 1, "there is no record of http://a.org/"),
        (("show", "mailto:a@b.org"), 2, "only http and https"),
    ],
)
def test_an_error_is_one_sentence_and_an_exit_code(combine: Run, words: tuple[str, ...], code: int, said: str) -> None:
    result = combine(*words)
    assert code == result.exit_code
    assert "" == result.stdout
    assert result.stderr.startswith("combine: ")
    assert 1 == result.stderr.count("\n")
    assert said in result.stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (CombineError("it\nis\x1b so"), 1, "combine: it is\\x1b so\n"),
        (ConfigError("set it"), 78, "combine: set it\n"),
        (UsageError("not so"), 2, "combine: not so\n"),
        (RetryLater("later"), 75, "combine: later\n"),
        (RecordError("line 3"), 1, "combine: line 3\n"),
        (KeyboardInterrupt(), 130, ""),
        (OSError(28, "No space left on device"), 75, "combine: No space left on device\n"),
        (PermissionError(13, "Permission denied", "/x"), 1, "combine: /x: Permission denied\n"),
    ],
)
def test_every_error_leaves_by_its_code(
    combine: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(records, "listed", fail)
    result = combine("list")
    assert code == result.exit_code
    assert said == result.stderr.lstrip("\n")


def test_home_is_taken_before_and_after_the_command(tmp_path: Path) -> None:
    first, second = create(tmp_path / "1"), create(tmp_path / "2")
    for words in (["--home", first.path, "list"], ["list", "--home", first.path]):
        assert 0 == CliRunner().invoke(main, [str(word) for word in words]).exit_code
    seen = CliRunner().invoke(main, ["--home", str(first.path), "status", "--home", str(second.path)])
    assert str(second.path) in seen.stdout


def test_no_home_is_the_operators_fault(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--home", str(tmp_path / "none"), "list"])
    assert 78 == result.exit_code
    assert "combine init" in result.stderr


def test_whoever_closes_the_pipe_has_what_he_wanted(home: Home, put: Callable[..., object]) -> None:
    for number in range(2000):
        put(f"http://a.org/{number}/{'x' * 60}")
    with subprocess.Popen(
        [*PROGRAM, "--home", str(home.path), "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        said = child.stderr.read()
    assert (0, b"") == (child.returncode, said)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["list", "--help"], ["config"]])
def test_nor_is_it_an_error_where_the_pipe_was_closed_before(home: Home, words: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [*PROGRAM, "--home", str(home.path), *words], stdout=theirs, stderr=subprocess.PIPE, check=False
    )
    os.close(theirs)
    assert (0, b"") == (done.returncode, done.stderr)


def test_a_pipe_that_does_not_block_gets_all(home: Home, put: Callable[..., object]) -> None:
    for number in range(2000):
        put(f"http://a.org/{number}/{'x' * 60}")
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with subprocess.Popen([*PROGRAM, "--home", str(home.path), "list"], stdout=theirs, stderr=subprocess.PIPE) as child:
        assert child.stderr is not None
        until(lambda: _held(ours) > fcntl.fcntl(theirs, fcntl.F_GETPIPE_SZ) - 8192, "the pipe is full")
        os.close(theirs)
        with os.fdopen(ours, "rb") as file:
            lines = file.read().split(b"\n")
        said = child.stderr.read()
    assert (2001, 0, b"") == (len(lines), child.returncode, said)


@pytest.mark.parametrize(
    "words", [["list"], ["export"], ["show", "http://a.org/"], ["config"], ["status", "--json"], ["--version"]]
)
@pytest.mark.parametrize("records", [1, 200])  # what stdout holds back until the end, and more
def test_a_full_disk_below_stdout_is_one_sentence(
    home: Home, put: Callable[..., object], words: list[str], records: int
) -> None:
    put("http://a.org/")
    for number in range(records - 1):
        put(f"http://a.org/{number}/{'x' * 60}")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PROGRAM, "--home", str(home.path), *words], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (75, b"combine: standard output: No space left on device\n") == (done.returncode, done.stderr)


def test_init_says_what_it_did(tmp_path: Path) -> None:
    for said in ("is a home now", "was a home already"):
        result = CliRunner().invoke(main, ["init", str(tmp_path / "new")])
        assert 0 == result.exit_code
        assert said in result.stderr
    assert is_home(tmp_path / "new")
