"""demo: a whole harvest for who has just cloned this: `make harvest`, or `make harvest URL=https://… DEPTH=2`.

    python -m bench.demo [URL [DEPTH]]

Without a URL the bundled site is served on loopback and harvested into ./harvest-demo, which is made anew each time;
with one, that site is harvested into ./harvest, where a second run goes on. Then a record is printed.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMBINE = ROOT / ".venv" / "bin" / "combine"

#: Where the bundled site is served, if nobody sits there: so that its URLs are the same each time.
PORT = 8421


def combine(home: Path, *arguments: str) -> list[str]:
    """The words of a command on a home."""
    return [str(COMBINE), "--home", str(home), *arguments]


def run(home: Path, *arguments: str) -> int:
    """Show a command and run it."""
    say(f"$ combine --home {home} {' '.join(arguments)}")
    return subprocess.run(combine(home, *arguments), check=False).returncode


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Serve the bundled site while the body runs; gives its address."""
    words = [sys.executable, "-m", "bench.serve", "bench/demo_site", "--port"]
    for port in (PORT, 0):
        with subprocess.Popen(
            [*words, str(port)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as server:
            assert server.stdout
            try:
                if address := server.stdout.readline().decode().strip():
                    yield address
                    return
            finally:
                server.terminate()


def asked(home: Path, *arguments: str) -> str:
    """What a command answers."""
    return subprocess.run(combine(home, *arguments), check=False, capture_output=True, text=True).stdout


def show(home: Path, url: str) -> None:
    """Say where the records are, and print the one of a URL, or another."""
    records = [line.split("\t")[1] for line in asked(home, "list").split("\n") if line]
    if not records:
        return
    url = url if url in records else records[0]
    path = Path(asked(home, "show", "--path", url).strip())
    say(f"\n{len(records)} records lie in {home / 'hdb'}: one file a page, named by the MD5 of its URL.")
    say(f"This is the one of {url}:\n\n$ cat {home / path.relative_to(home.absolute())}")
    sys.stdout.buffer.write(path.read_bytes())


def say(text: str) -> None:
    """Write to stderr: stdout is for the record."""
    print(text, file=sys.stderr, flush=True)


def main(url: str = "", depth: str = "") -> int:
    """Harvest the bundled site, or the one that is named; the exit code is the harvest's."""
    options = ("--depth", depth) if depth else ()
    try:
        if url:
            home = Path("harvest")
            code = run(home, "harvest", url, *options)
        else:
            home = Path("harvest-demo")
            forget(home)
            with served() as url:
                code = run(home, "harvest", url, "--allow-private", "127.0.0.1", *options)
    except KeyboardInterrupt:
        return 130
    show(home, url)
    return code


def forget(home: Path) -> None:
    """Remove what an earlier demonstration left; nothing that does not look like a home."""
    if (home / "FORMAT").is_file():
        subprocess.run(combine(home, "stop"), check=False, capture_output=True)
        shutil.rmtree(home)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
