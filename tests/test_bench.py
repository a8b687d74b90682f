"""What is measured must be what it says: the synthetic web and the bundled site hold the pages that they count."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from urllib.parse import urljoin

import pytest

from bench.measure import slow_files
from bench.pages import MEDIAN_BYTES, Web
from tests.tree import ROOT

HREF = re.compile(r'<a href="([^"#?]+)["#?]')


def test_every_page_of_the_synthetic_web_is_reached_on_its_own_host() -> None:
    web = Web(pages=157, hosts=10, port=80)
    assert 157 == sum(web.size_of(host) for host in range(10))
    for host, origin in enumerate(web.origins):
        reached = [f"{origin}/p/0.html"]
        for url in reached:
            index = int(url.rpartition("/")[2].removesuffix(".html"))
            for href in HREF.findall(web.body(host, index).decode()):
                target = urljoin(url, href)
                if target.startswith(f"{origin}/p/") and target not in reached:
                    reached.append(target)
        assert web.size_of(host) == len(reached)


def test_a_plain_web_leads_to_nothing_but_its_pages() -> None:
    webs = {is_plain: Web(pages=157, hosts=10, port=80, is_plain=is_plain) for is_plain in (True, False)}
    paths = {
        is_plain: {
            path for number in range(157) for path in re.findall(rb'href="/(\w+)/', web.body(number % 10, number // 10))
        }
        for is_plain, web in webs.items()
    }
    assert {True: {b"p"}, False: {b"p", b"moved", b"dead", b"closed"}} == paths


def test_figures_of_a_disk_that_makes_files_slowly_say_so() -> None:
    def figures(kernel_ms: float, cpu_s: float = 9.0) -> dict[str, object]:
        return {"processes": {"parser": {"cpu_s": cpu_s, "cpu_ms_page": 1.0, "kernel_ms_page": kernel_ms}}}

    assert "" == slow_files(figures(0.17))
    assert "36% of the parsers' time" in slow_files(figures(0.36))
    assert "" == slow_files(figures(0.5, cpu_s=0.02))  # a harvest of so few pages does not tell
    assert "" == slow_files({"processes": {}})


def test_the_synthetic_web_is_like_real_ones() -> None:
    web = Web(pages=1_024, hosts=16, port=80)
    bodies = [web.body(host, index) for host in range(16) for index in range(web.size_of(host))]
    sizes = sorted(len(body) for body in bodies)
    assert MEDIAN_BYTES * 0.9 < sizes[512] < MEDIAN_BYTES * 1.1
    assert 1_500 < sizes[0]
    assert sizes[-1] < 110_000
    assert 36 < sum(body.count(b"<a href=") for body in bodies) / len(bodies) < 44
    assert len(bodies) == len(set(bodies))
    assert web.body(3, 5) == Web(pages=1_024, hosts=16, port=80).body(3, 5)


@pytest.fixture
def demo() -> Iterator[str]:
    words = [sys.executable, "-m", "bench.serve", "bench/demo_site"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE) as server:
        assert server.stdout
        try:
            yield server.stdout.readline().decode().strip()
        finally:
            server.terminate()


def test_the_bundled_site_has_what_a_real_one_has(demo: str) -> None:
    statuses: dict[str, int] = {}
    waiting = [demo]
    for url in waiting:
        try:
            with urllib.request.urlopen(url) as answer:
                statuses[url] = 200 if answer.url == url else 301
                body, kind = answer.read(), answer.headers["Content-Type"]
        except urllib.error.HTTPError as error:
            statuses[url] = error.code
            error.close()
            continue
        text = body.decode("latin-1") if kind == "text/html" else ""
        for href in HREF.findall(text):
            target = urljoin(url, href)
            if target.startswith(demo) and target not in waiting:
                waiting.append(target)
    assert 49 == list(statuses.values()).count(200)
    assert [f"{demo}opening"] == [url for url, status in statuses.items() if status == 301]
    assert [f"{demo}events/old-poster.html"] == [url for url, status in statuses.items() if status == 404]
    with urllib.request.urlopen(f"{demo}robots.txt") as answer:
        assert f"Sitemap: {demo}sitemap.xml" in answer.read().decode()
