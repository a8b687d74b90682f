"""steps: what our own functions cost, one by one: µs of CPU each time, over pages of the synthetic web.

    python -m bench.steps [PART OF A NAME]

A step does its work on every item of a batch; the figure is that of the quickest of five rounds
over the batch, divided by the items. Compare ratios, and both sides in one run: machines differ.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.pages import Web
from combine.codings import decode
from combine.config import Settings
from combine.ipc import message
from combine.keep import home as homes
from combine.keep.batch import BatchWriter
from combine.keep.members import members
from combine.keep.store import WirStore
from combine.page import html
from combine.page.encoding import to_text
from combine.page.lesson import learn
from combine.page.sniff import sniff
from combine.schedule import offered
from combine.schedule.rows import Rows, job_key
from combine.schedule.visits import Visits
from combine.urls import normalise, record_id, site_of, targets_of
from combine.web.rules import Rules
from formats import hrf, jcf, wir

ROUNDS = 5
PAGES = 200

HEADER = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 30 Nov 2026 08:00:00 GMT\r\n"
    b'Content-Type: text/html; charset=utf-8\r\nETag: "1"\r\nContent-Length: %d\r\n\r\n'
)
ROBOTS = b"User-agent: *\n" + b"".join(b"Disallow: /closed/%d/\n" % number for number in range(130))


@dataclass(frozen=True)
class Step:
    """One thing to measure: `run` does it once for each of `count` items."""

    name: str
    count: int
    run: Callable[[], object]


def over(name: str, function: Callable[..., object], items: list[tuple[object, ...]]) -> Step:
    """A step that calls a function with the arguments of each item."""

    def run() -> None:
        for item in items:
            function(*item)

    return Step(name, len(items), run)


def harvests() -> list[hrf.Harvest]:
    """Pages as a harvester hands them on."""
    web = Web(pages=PAGES * 20, hosts=20, port=80)
    found = []
    for number in range(PAGES):
        url = normalise(f"{web.origins[number % 20]}/p/{number // 20}.html")
        body = web.body(number % 20, number // 20)
        line = jcf.job(URL=url, SEED=url, DEPTH=2, VIA=url, FETCH=number, LEASE=7, ADDR="127.1.0.1", DELAY=0)
        found.append(
            hrf.Harvest(
                job=line,
                outcome="ok",
                fetched="2026-11-30T08:00:00.123Z",
                protocol="HTTP/1.1",
                peer="127.1.0.1:80",
                digest="sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
                robots="obeyed",
                request=b"GET / HTTP/1.1\r\nHost: 127.1.0.1\r\n\r\n",
                header=HEADER % len(body),
                body=body,
            )
        )
    return found


def of_formats(pages: list[hrf.Harvest]) -> Iterator[Step]:
    """The three codecs and the wire."""
    lines = [page.job for page in pages]
    yield over("jcf.dump", jcf.dump, [(line,) for line in lines])
    yield over("jcf.parse", jcf.parse, [(jcf.dump(line),) for line in lines])
    yield over("hrf.dump", hrf.dump, [(page,) for page in pages])
    yield over("hrf.parse", hrf.parse, [(hrf.dump(page),) for page in pages])
    asked = message.message("ADD", lines)
    packed = message.dump(asked)

    def read() -> None:
        reader = message.Reader()
        reader.feed(packed)
        taken = reader.take()
        assert taken
        taken.jobs()

    yield Step("message.dump, a line", len(lines), lambda: message.dump(asked))
    yield Step("message.Reader, a line", len(lines), read)


def of_engines(pages: list[hrf.Harvest], directory: Path) -> Iterator[Step]:
    """What a line of ADD meets: read, looked for in the queue and among the visits, of which half have it."""
    urls = [page.job.url for page in pages]
    lines = [f'{jcf.VERSION} URL="{url}" SEED="{url}" VIA="{urls[0]}" DEPTH="2"' for url in urls]
    same = [f'{jcf.VERSION} URL="{url}" SEED="{urls[0]}" VIA="{urls[0]}" DEPTH="2"' for url in urls]
    yield Step("offered.read, alone", len(lines), lambda: offered.read(lines))
    yield Step("offered.read, of one page", len(same), lambda: offered.read(same))
    yield over("job_key", job_key, [("page", url) for url in urls])
    rows, visits = Rows(directory / "queue.sqlite"), Visits(directory / "visits.sqlite", Settings())
    keys = [(1 + number % 20, job_key("page", url)) for number, url in enumerate(urls)]
    rows.insert_many([(*key, "page", 0, 2, 1, "", line) for key, line in list(zip(keys, lines, strict=True))[::2]])
    rows.commit()
    news = [jcf.job(URL=url, OUTCOME="ok", STATUS=200, RECORD=1, SEED=url, DEPTH=2, SCOPES="1:*") for url in urls[::2]]
    visits.remember(news, 1_780_315_200.0)
    visits.commit()
    questions = [offered.question(url) for url in urls]
    yield Step("Rows.find_many, a key", len(keys), lambda: rows.find_many(keys))
    yield Step("Visits.lookup, a URL", len(urls), lambda: visits.lookup(questions, 1_780_315_200.0))
    yield Step("Visits.remember, a visit", len(news), lambda: visits.remember(news, 1_780_315_200.0))


def of_pages(pages: list[hrf.Harvest]) -> Iterator[Step]:
    """From bytes to what is known of a page."""
    limits = Settings().page
    bodies = [page.body for page in pages]
    yield over("decode, nothing to do", decode, [(body, [], limits.decoded_bytes, limits.ratio) for body in bodies])
    yield over("sniff", sniff, [(body, ["text/html; charset=utf-8"], False) for body in bodies])
    yield over("to_text", to_text, [(body, "utf-8", True) for body in bodies])
    yield over("html.read", html.read, [(body, limits.depth) for body in bodies])


def of_urls(pages: list[hrf.Harvest]) -> Iterator[Step]:
    """One link."""
    base = pages[0].job.url
    hrefs = [f"/p/{number}.html" for number in range(1_000)]
    urls = [f"{base}{number}" for number in range(1_000)]
    yield Step("urls.targets_of, a link", len(hrefs), lambda: targets_of(base, hrefs))
    yield over("urls.normalise", normalise, [(url,) for url in urls])
    yield over("urls.site_of", site_of, [(url,) for url in urls])
    yield over("urls.record_id", record_id, [(url,) for url in urls])
    rules = Rules.parse(ROBOTS, "combine")
    yield over("Rules.parse, 130 lines", Rules.parse, [(ROBOTS, "combine")])
    yield over("Rules.allows, 130 lines", rules.allows, [(url,) for url in urls])


def of_disk(pages: list[hrf.Harvest], directory: Path) -> Iterator[Step]:
    """The record's making, and both ways to the disk."""
    settings = Settings()
    home = homes.create(directory / "home")
    records = [
        learn(page, ("", 0, 0), lambda _: None, settings.page).settle(None, 0.0, "bench").record for page in pages
    ]
    yield over("learn", learn, [(page, ("", 0, 0), lambda _: None, settings.page) for page in pages])
    yield over("wir.dump", wir.dump, [(record,) for record in records])
    yield over("wir.parse", wir.parse, [(wir.dump(record),) for record in records if record])
    yield over("members", members, [(wir.dump(record),) for record in records if record])
    store = WirStore(home, "parser-1")
    yield over("store.put", store.put, [(record,) for record in records])
    yield over("store.get", store.get, [(page.job.url,) for page in pages])
    batch = BatchWriter(home, "harvester-1", settings)
    yield over("batch.put", batch.put, [(page,) for page in pages])


def measure(step: Step) -> float:
    """µs of CPU an item, in the quickest round."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        step.run()
        best = min(best, time.process_time() - began)
    return best / step.count * 1e6


def main(part: str = "") -> None:
    """Print the table."""
    pages = harvests()
    print(f"{len(pages)} pages of {sum(len(page.body) for page in pages) // len(pages)} bytes in the mean\n")
    print(f"{'step':<28}{'µs':>10}")
    with tempfile.TemporaryDirectory(prefix="combine-steps-") as directory:
        place = Path(directory)
        rooms = (of_formats(pages), of_engines(pages, place), of_urls(pages), of_pages(pages), of_disk(pages, place))
        for steps in rooms:
            for step in steps:
                if part in step.name:
                    print(f"{step.name:<28}{measure(step):>10.2f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
