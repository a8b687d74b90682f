"""export by several processes: every record once, in order, whatever the size of its piece."""

from __future__ import annotations

import csv
import io
import json
import os
import select
import signal
from collections.abc import Callable
from mmap import mmap
from pathlib import Path

import pytest
from click.testing import Result

from combine.cli import export
from combine.keep.home import Home
from combine.keep.store import WirStore
from combine.urls import record_id
from formats import wir

Run = Callable[..., Result]
Put = Callable[..., wir.Record]

URLS = sorted((f"http://a.org/{number}" for number in range(20)), key=record_id)


@pytest.fixture
def many(put: Put, home: Home) -> None:
    for number, url in enumerate(URLS):
        put(url, title=f'"{number}"', text="x\n" * 40 * number, changed=f"2026-01-{1 + number:02}T00:00:00Z")
    put(URLS[3], right=wir.join(("noai", "noai", "meta")))
    WirStore(home).path(URLS[5]).write_bytes(b"junk")


#: Pieces that fit, pieces that fit in part, pieces of which nothing fits; and one process.
@pytest.fixture(params=[(2, 1 << 22), (2, 5_000), (3, 10), (1, 10)], ids=str)
def _processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    processes, room = request.param
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processes)))
    monkeypatch.setattr(export, "PORTION", 3)
    monkeypatch.setattr(export, "ROOM", room)


@pytest.mark.usefixtures("many", "_processes")
def test_all_records_are_written_in_order(combine: Run) -> None:
    result = combine("export")
    assert [url for url in URLS if url != URLS[5]] == [json.loads(line)["url"] for line in result.stdout.splitlines()]
    assert ["x\n" * 40 * 19, '"19"'] == [json.loads(result.stdout.splitlines()[-1])[name] for name in ("text", "title")]
    assert "damaged" in result.stderr
    assert 1 == result.exit_code


@pytest.mark.usefixtures("many", "_processes")
def test_what_is_left_out_is_left_out_of_each_piece(combine: Run) -> None:
    result = combine("export", "--format", "csv", "--since", "2026-01-03", "--set", "rights.purpose=ai")
    rows = list(csv.DictReader(io.StringIO(result.stdout, newline="")))
    assert [url for url in URLS[2:] if url not in (URLS[3], URLS[5])] == [row["url"] for row in rows]
    assert "1 page reserved from the purpose ai (1 by noai) is left out" in result.stderr


@pytest.mark.usefixtures("many", "_processes")
def test_what_is_reserved_is_counted_once(combine: Run) -> None:
    result = combine("export", "--include-reserved", "--because", "a test", "--set", "rights.purpose=ai")
    assert 19 == len(result.stdout.splitlines())
    assert "1 page reserved from the purpose ai (1 by noai) is in" in result.stderr


@pytest.mark.usefixtures("many")
def test_a_record_that_does_not_fit_goes_through_no_pipe(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    places = list(WirStore(home).places())
    room = len(next(iter(export.piece(home.path, export.Wanted("jsonl"), places[:1]).data)))
    monkeypatch.setattr(export, "ROOM", room)
    monkeypatch.setattr(export, "_given", [(home.path, export.Wanted("jsonl"), [mmap(-1, room)])])
    end, made, over, left = export._handed_over(0, places)
    assert (room, (), places[1:2], places[2:]) == (end, made.data, over, left)


def _killed(place: int, places: list[str]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.usefixtures("many")
def test_an_export_whose_process_is_killed_says_so(combine: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(export, "PORTION", 3)
    monkeypatch.setattr(export, "_handed_over", _killed)
    result = combine("export")
    assert "was killed" in result.stderr


@pytest.mark.usefixtures("many")
def test_no_process_outlives_an_export_that_is_killed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    heard, said = os.pipe()

    def begun(*_: object) -> None:
        os.write(said, b"x")
        signal.pause()

    monkeypatch.setattr(export, "piece", begun)
    command = os.fork()
    if not command:
        try:
            list(export._made_at_once(home.path, export.Wanted("jsonl"), [["a"], ["b"]], 2))
        finally:
            os._exit(1)
    os.close(said)
    assert b"xx" == os.read(heard, 1) + os.read(heard, 1)
    os.kill(command, signal.SIGKILL)
    os.waitpid(command, 0)
    assert select.select([heard], [], [], 10.0)[0], "whoever lives holds the other end"
    assert b"" == os.read(heard, 1)
    os.close(heard)


@pytest.mark.parametrize(("form", "written"), [("jsonl", ""), ("csv", "url,title\r\n")])
def test_nothing_is_written_of_no_records(combine: Run, form: str, written: str) -> None:
    result = combine("export", "--format", form, "--fields", "url,title")
    assert (0, written) == (result.exit_code, result.stdout_bytes.decode())


@pytest.mark.parametrize("words", [["export"], ["agent-page", "--set", "agent.email=us@example.org"]])
def test_a_dash_is_stdout(combine: Run, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    assert combine(*words).stdout_bytes == combine(*words, "-o", "-").stdout_bytes
    assert before == {path.name for path in tmp_path.iterdir()}


@pytest.mark.usefixtures("many")
def test_a_full_disk_names_the_output(combine: Run) -> None:
    result = combine("export", "-o", "/dev/full")
    assert (75, "combine: /dev/full: No space left on device\n") == (result.exit_code, result.stderr)
