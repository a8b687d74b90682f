import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.site.checker import Violation, main, violations


def entry(start: float, end: float, path: str = "/", host: str = "a") -> dict[str, object]:
    return {"start": start, "end": end, "path": path, "host": host}


@pytest.mark.parametrize(
    ("requests", "delay_s", "gaps"),
    [
        ([entry(0, 1), entry(2, 3)], 1.0, []),
        ([entry(0, 1), entry(1.5, 3)], 1.0, [0.5]),
        ([entry(0, 2), entry(1, 3)], 0.0, [-1.0]),
        ([entry(1, 3), entry(0, 2)], 0.0, [-1.0]),
        ([entry(0, 1), entry(0.5, 2, host="b")], 1.0, []),
        ([entry(0, 9), entry(1, 2), entry(9.5, 10)], 0.0, [-8.0]),
        ([entry(0, 9, "/hang"), entry(1, 2)], 1.0, []),
        ([entry(0, 9, "/hang"), entry(0.5, 2)], 1.0, [0.5]),
        ([], 1.0, []),
    ],
)
def test_violations(requests: list[dict[str, object]], delay_s: float, gaps: list[float]) -> None:
    assert gaps == [found.gap_s for found in violations(requests, delay_s, abandoned=["/hang"])]


def test_a_violation_reads_well() -> None:
    assert "a: overlap of 0.500 s between /x and /y" == str(Violation("a", -0.5, "/x", "/y"))
    assert "a: gap of 0.500 s between /x and /y" == str(Violation("a", 0.5, "/x", "/y"))


def test_runs_as_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<title>Front</title>")
    log = tmp_path / "log"
    command = [sys.executable, "-m", "tests.site.server", "--root", str(tmp_path), "--log", str(log), "--robots", "503"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            base = server.stdout.readline().split()[1]
            with urllib.request.urlopen(f"{base}/") as answer:
                assert b"<title>Front</title>" == answer.read()
                tag = answer.headers["ETag"]
            unchanged = urllib.request.Request(f"{base}/", headers={"If-None-Match": tag})
            for asked, status in ((unchanged, 304), (f"{base}/none", 404), (f"{base}/robots.txt", 503)):
                with pytest.raises(urllib.error.HTTPError) as error:
                    urllib.request.urlopen(asked)
                with error.value:
                    assert status == error.value.code
        finally:
            server.terminate()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [200, 304, 404, 503] == [line["status"] for line in lines]
    assert [] == violations(log, 0.0)


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    lines = [json.dumps(entry(0, 1, "/x")), json.dumps(entry(1.5, 2, "/y")), '{"cut']
    log.write_text("\n".join(lines))
    assert (0, 1) == (main([str(log), "0.5"]), main([str(log), "1"]))
    assert "2 requests to 1 sites, 0 violations\na: gap of 0.500 s" in capsys.readouterr().out


def test_several_sites_in_one_process(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.site.server",
        "--bind",
        "127.0.0.31,127.0.0.32",
        "--log",
        str(tmp_path / "log"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            bases = [server.stdout.readline().split()[1] for _ in range(2)]
            for base in bases:
                with urllib.request.urlopen(f"{base}/_/status/200") as answer:
                    assert 200 == answer.status
        finally:
            server.terminate()
    hosts = [json.loads(line)["host"] for line in (tmp_path / "log").read_text().splitlines()]
    assert [base.removeprefix("http://") for base in bases] == hosts
