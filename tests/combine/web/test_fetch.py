import asyncio
import base64
import hashlib
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
import uvloop

from combine.config import Agent, Harvest, Settings, SiteRule
from combine.errors import RetryLater
from combine.web import body as body_module
from combine.web.addresses import Allowed
from combine.web.fetch import Fetched, Fetcher, outcome_of
from formats import hrf
from formats.jcf import Job, job
from tests.site import certificates
from tests.site.behaviours import PAGE
from tests.site.server import Server

LOOPBACK = Allowed(["127.0.0.0/8", "a.example"])
SETTINGS = Settings(agent=Agent("combine", "https://bot.example/", "bot@bot.example"))


def limits(**changes: Any) -> Settings:
    return replace(SETTINGS, harvest=replace(Harvest(), **changes))


def get(
    path: str,
    tmp_path: Path,
    settings: Settings = SETTINGS,
    server: Server | None = None,
    params: dict[str, str] | None = None,
    **options: Any,
) -> Fetched:
    """One request to a fresh mock web."""

    async def run() -> Fetched:
        async with server or Server() as site, Fetcher(settings, LOOPBACK, tmp_path) as fetcher:
            asked = job(URL=site.url(path), FETCH=1, **(params or {}))
            return await fetcher.fetch(asked, site.bind, robots="obeyed", **options)

    return uvloop.run(run())


def during(run: Callable[[Server, Fetcher], Awaitable[None]], tmp_path: Path, settings: Settings = SETTINGS) -> None:
    async def main() -> None:
        async with Server() as site, Fetcher(settings, LOOPBACK, tmp_path) as fetcher:
            await run(site, fetcher)

    uvloop.run(main())


@pytest.mark.parametrize(
    ("status", "has_location", "conditional", "outcome"),
    [
        (200, False, False, "ok"),
        (204, False, False, "ok"),
        (299, False, False, "ok"),
        (304, False, True, "not-modified"),
        (304, False, False, "failed"),
        (301, True, False, "redirect"),
        (302, True, False, "redirect"),
        (303, True, False, "redirect"),
        (307, True, False, "redirect"),
        (308, True, False, "redirect"),
        (302, False, False, "refused"),
        (300, True, False, "refused"),
        (404, False, False, "gone"),
        (410, False, False, "gone"),
        (401, False, False, "refused"),
        (403, False, False, "refused"),
        (451, False, False, "refused"),
        (418, False, False, "refused"),
        (408, False, False, "failed"),
        (425, False, False, "failed"),
        (429, False, False, "failed"),
        (500, False, False, "failed"),
        (503, False, False, "failed"),
        (599, False, False, "failed"),
        (999, False, False, "failed"),
    ],
)
def test_outcome_of(status: int, has_location: bool, conditional: bool, outcome: str) -> None:
    assert outcome == outcome_of(status, has_location, conditional)


def test_a_page_becomes_a_harvest(tmp_path: Path) -> None:
    server = Server(pages={"/a": b"HTTP/1.1 200 Fine\r\nX-Odd:  spaced \r\nContent-Length: 5\r\n\r\nhello"})
    got = get("/a", tmp_path, server=server)
    assert "ok" == got.outcome
    harvest = got.harvest
    assert harvest is not None
    assert b"HTTP/1.1 200 Fine\r\nX-Odd: spaced\r\nContent-Length: 5\r\n\r\n" == harvest.header
    assert b"hello" == harvest.body
    assert "sha1:" + base64.b32encode(hashlib.sha1(b"hello").digest()).decode() == harvest.digest
    assert f"127.0.0.1:{server.port}" == harvest.peer == got.peer
    assert ("HTTP/1.1", "obeyed", "") == (harvest.protocol, harvest.robots, harvest.truncated)
    assert (200, 5, None, "") == (got.status, got.body_length, got.body_path, got.reason)
    assert got.ended > 0
    assert harvest == hrf.parse(hrf.dump(harvest))


def test_the_request_as_sent(tmp_path: Path) -> None:
    server = Server()
    got = get("/_/status/200?q='a|b%7e%2F..%2f", tmp_path, server=server, params={"ETAG": '"e"', "LMOD": "then"})
    assert got.harvest is not None
    lines = got.harvest.request.decode().split("\r\n")
    assert "GET /_/status/200?q='a|b%7e%2F..%2f HTTP/1.1" == lines[0]
    assert ["", ""] == lines[-2:]
    assert {
        f"Host: 127.0.0.1:{server.port}",
        "User-Agent: combine/1 (+https://bot.example/) combine-system/0.1.0",
        "From: bot@bot.example",
        "Accept-Encoding: gzip, deflate, br, zstd",
        'If-None-Match: "e"',
        "If-Modified-Since: then",
    } <= set(lines)
    assert not [line for line in lines if line.lower().startswith("cookie")]
    assert "/_/status/200?q='a|b%7e%2F..%2f" == server.requests[0]["path"]


def test_without_a_contact_none_is_sent(tmp_path: Path) -> None:
    server = Server()
    got = get("/_/status/200", tmp_path, Settings(), server)
    assert "combine/1 combine-system/0.1.0" == server.requests[0]["agent"]
    assert got.harvest is not None
    assert b"From:" not in got.harvest.request


def test_validators_that_no_header_can_hold_are_left_out(tmp_path: Path) -> None:
    got = get("/_/status/200", tmp_path, params={"ETAG": 'a"\r\nX: y', "LMOD": "ü"})
    assert "ok" == got.outcome
    assert got.harvest is not None
    assert b"If-" not in got.harvest.request


def test_robots_are_asked_for_uncoded_and_stay_in_memory(tmp_path: Path) -> None:
    got = get("/_/size/400000", tmp_path, params={"KIND": "robots"})
    assert got.harvest is not None
    assert b"Accept-Encoding: identity\r\n" in got.harvest.request
    assert 400_000 == len(got.harvest.body)
    assert got.body_path is None


@pytest.mark.parametrize(
    ("path", "outcome", "status", "truncated", "body"),
    [
        ("/_/status/200", "ok", 200, "", PAGE),
        ("/_/status/404", "gone", 404, "", PAGE),
        ("/_/status/403", "refused", 403, "", PAGE),
        ("/_/chunked", "ok", 200, "", PAGE),
        ("/_/chunked?broken=1", "ok", 200, "disconnect", PAGE),
        ("/_/informed", "ok", 200, "", PAGE),
        ("/_/length?says=2000", "ok", 200, "disconnect", PAGE),
        ("/_/length?says=20", "ok", 200, "", PAGE[:20]),
        ("/_/raw?bytes=HTTP/1.0 200 OK%0D%0A%0D%0Abare", "ok", 200, "", b"bare"),
        ("/_/raw?bytes=HTTP/1.1 200%0D%0AContent-Length: 1%0D%0A%0D%0Ax", "ok", 200, "", b"x"),
        ("/_/raw?bytes=HTTP/1.1 200 OK%0AContent-Length: 1%0A%0Ax", "ok", 200, "", b"x"),
        ("/_/length?says=many", "ok", 200, "", PAGE),
        ("/_/length?says=20,20", "ok", 200, "", PAGE[:20]),
        ("/_/raw?bytes=HTTP/1.1 200 OK%0D%0Ano field%0D%0AContent-Length : 1%0D%0A%0D%0Ax", "ok", 200, "", b"x"),
        ("/_/raw?bytes=HTTP/1.1 200 OK%0D%0AX: a%0D%0A%0D%0A", "ok", 200, "", b""),
        ("/_/drip-header?every=0", "ok", 200, "", PAGE),
        ("/_/header?bytes=60000", "ok", 200, "", PAGE),
        ("/_/header?bytes=10&fields=2000", "ok", 200, "", PAGE),
        ("/_/reset?after=50", "ok", 200, "disconnect", b"x" * 50),
    ],
)
def test_answers(path: str, outcome: str, status: int, truncated: str, body: bytes, tmp_path: Path) -> None:
    got = get(path.replace(" ", "%20"), tmp_path)
    assert (outcome, status) == (got.outcome, got.status), got.detail
    assert got.harvest is not None
    assert truncated == got.harvest.truncated
    assert body == got.harvest.body


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/_/status/503", "status"),
        ("/_/status/429", "status"),
        ("/_/unchanged", "status"),
        ("/_/reset", "reset"),
        ("/_/raw?bytes=", "reset"),
        ("/_/raw?bytes=HTTP/1.1 200", "reset"),
        ("/_/raw?bytes=nonsense%0D%0A%0D%0A", "http"),
        ("/_/raw?bytes=HTTP/1.1 OK%0D%0A%0D%0A", "http"),
        ("/_/raw?bytes=<html>no header</html>", "http"),
        ("/_/length?says=20,30", "http"),
        ("/_/header?bytes=66000", "http"),
        ("/_/header?bytes=20000&fields=4", "http"),
        ("/_/header?bytes=1&fields=10000", "http"),
        ("/_/endless-header", "http"),
    ],
)
def test_failures(path: str, reason: str, tmp_path: Path) -> None:
    got = get(path.replace(" ", "%20"), tmp_path)
    assert ("failed", reason) == (got.outcome, got.reason), got.detail
    assert got.harvest is None
    assert got.detail
    assert "400" not in got.detail  # which nobody answered
    assert got.ended > 0


@pytest.mark.parametrize("path", ["/_/hang", "/_/delay/60", "/_/hang?after=0", "/_/drip-header?every=0.02"])
@pytest.mark.parametrize("most", [{"first_byte_s": 0.1}, {"fetch_s": 0.1}])
def test_a_header_that_does_not_come_is_a_failure(path: str, most: dict[str, float], tmp_path: Path) -> None:
    got = get(path, tmp_path, limits(**most))
    assert ("failed", "timeout") == (got.outcome, got.reason), got.detail


@pytest.mark.parametrize("path", ["/_/hang?after=10", "/_/drip?bytes=10000&every=0.02"])
def test_what_came_before_the_end_of_time_is_kept(path: str, tmp_path: Path) -> None:
    got = get(path, tmp_path, limits(fetch_s=1.0))  # in which a busy machine sends a header, too
    assert ("ok", "time") == (got.outcome, got.harvest.truncated if got.harvest else ""), got.detail


def test_the_slowest_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "WINDOW_S", 0.1)
    got = get("/_/drip?bytes=1000&every=0.01", tmp_path)
    assert got.harvest is not None
    assert "time" == got.harvest.truncated
    assert 0 < got.body_length < 1000


def test_a_body_is_cut_at_its_limit(tmp_path: Path) -> None:
    got = get("/_/endless", tmp_path, limits(body_bytes=100_000))
    assert got.harvest is not None
    assert ("ok", "length", 100_000) == (got.outcome, got.harvest.truncated, len(got.harvest.body))
    assert "length" == replace_limit("/_/size/50", tmp_path, 49)
    assert "" == replace_limit("/_/size/50", tmp_path, 50)


def replace_limit(path: str, tmp_path: Path, limit: int) -> str:
    got = get(path, tmp_path, body_limit=limit)
    assert got.harvest is not None
    assert limit == len(got.harvest.body)
    return got.harvest.truncated


def test_a_long_body_spills_to_a_file(tmp_path: Path) -> None:
    got = get("/_/size/400001", tmp_path)
    assert got.harvest is not None
    assert got.body_path is not None
    content = got.body_path.read_bytes()
    assert (400_001, b"") == (got.body_length, got.harvest.body)
    assert content == b"0123456789abcdef" * 25_000 + b"x"
    assert "sha1:" + base64.b32encode(hashlib.sha1(content).digest()).decode() == got.harvest.digest
    whole = hrf.head(got.harvest, got.body_length) + content + b"\n"
    assert replace(got.harvest, body=content) == hrf.parse(whole)


def test_a_full_disk_is_not_the_networks_fault(tmp_path: Path) -> None:
    with pytest.raises(RetryLater, match="cannot be written"):
        get("/_/size/400001", tmp_path / "missing")


def test_head_only(tmp_path: Path) -> None:
    server = Server()
    got = get("/_/status/200", tmp_path, server=server, head_only=True)
    assert ("ok", 0) == (got.outcome, got.body_length)
    assert "HEAD" == server.requests[0]["method"]


def test_coding_is_left_as_it_came(tmp_path: Path) -> None:
    got = get("/_/gzip", tmp_path)
    assert got.harvest is not None
    assert got.harvest.body.startswith(b"\x1f\x8b")
    assert "gzip" == got.harvest.field("content-encoding")


@pytest.mark.parametrize(("raw", "location"), [("/%C3%BC", "/%C3%BC"), ("/%FC", "/%FC"), ("%20/a%20b%20", "/a b")])
def test_odd_locations(raw: str, location: str, tmp_path: Path) -> None:
    server = Server(
        pages={"/": b"HTTP/1.1 302 X\r\nContent-Length: 0\r\nLocation: " + unquote_to_bytes(raw) + b"\r\n\r\n"}
    )
    assert location == get("/", tmp_path, server=server).location


def test_robots_are_cut_at_their_own_limit(tmp_path: Path) -> None:
    got = get("/_/size/600000", tmp_path, params={"KIND": "robots"})
    assert got.harvest is not None
    assert ("length", 512 * 1024) == (got.harvest.truncated, len(got.harvest.body))


def test_redirects_are_not_followed(tmp_path: Path) -> None:
    server = Server()
    got = get("/_/redirect/302?to=/elsewhere", tmp_path, server=server)
    assert ("redirect", 302, "/elsewhere") == (got.outcome, got.status, got.location)
    assert 1 == len(server.requests)


@pytest.mark.parametrize(
    ("path", "after_s"),
    [
        ("/_/status/503?after=120", 120.0),
        ("/_/status/429?after=999999", 86_400.0),
        ("/_/status/403?after=60", 60.0),
        ("/_/status/503?after=soon", None),
        ("/_/status/503", None),
        ("/_/status/200?after=60", None),
    ],
)
def test_retry_after(path: str, after_s: float | None, tmp_path: Path) -> None:
    assert after_s == get(path, tmp_path).after_s


def test_not_modified_only_for_those_who_asked(tmp_path: Path) -> None:
    got = get("/_/unchanged", tmp_path, params={"ETAG": '"same"'})
    assert ("not-modified", 304, 0) == (got.outcome, got.status, got.body_length)


def test_private_addresses_are_refused_without_a_request(tmp_path: Path) -> None:
    async def run() -> tuple[Fetched, int]:
        async with Server() as site, Fetcher(SETTINGS, Allowed([]), tmp_path) as fetcher:
            got = await fetcher.fetch(job(URL=site.url("/")), "127.0.0.1", robots="obeyed")
            return got, len(site.requests)

    got, requests = asyncio.run(run())
    assert ("refused", "address", 0) == (got.outcome, got.reason, requests)
    assert 'harvest.allow_private = ["127.0.0.1"]' in got.detail
    assert got.harvest is not None
    assert hrf.parse(hrf.dump(got.harvest)).outcome == "refused"


@pytest.mark.parametrize(
    ("url", "address", "outcome", "reason"),
    [
        ("http://127.0.0.9:{port}/", "127.0.0.1", "refused", "address"),
        ("http://a.example:{port}/", "127.0.0.1", "ok", ""),
        ("http://b.example:{port}/", "10.0.0.1", "refused", "address"),
        ("http://a.example:{port}/", "", "failed", "dns"),
        ("http://127.0.0.1:1/", "127.0.0.1", "failed", "connect"),
        ("http://[::ffff:7f00:1]:{port}/", "::ffff:7f00:1", "ok", ""),
        ("http://2130706433:{port}/", "127.0.0.1", "refused", "url"),
        ("ftp://a.example/", "127.0.0.1", "refused", "url"),
        ("http:///x", "127.0.0.1", "refused", "url"),
        ("http://a.example:99999/", "127.0.0.1", "refused", "url"),
        ("", "127.0.0.1", "refused", "url"),
    ],
)
def test_connects_to_the_leased_address_only(url: str, address: str, outcome: str, reason: str, tmp_path: Path) -> None:
    async def run(site: Server, fetcher: Fetcher) -> None:
        site.pages["/"] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        got = await fetcher.fetch(job(URL=url.format(port=site.port)), address, robots="obeyed")
        assert (outcome, reason) == (got.outcome, got.reason), got.detail

    during(run, tmp_path)


def test_a_connect_that_hangs(tmp_path: Path) -> None:
    # A listener with a full backlog does not answer a further connection.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        others = [socket.socket() for _ in range(3)]
        for other in others:
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        server = Server(port=0)

        async def run() -> Fetched:
            async with server, Fetcher(limits(connect_s=0.2), LOOPBACK, tmp_path) as fetcher:
                url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
                return await fetcher.fetch(job(URL=url), "127.0.0.1", robots="obeyed")

        got = asyncio.run(run())
        for other in others:
            other.close()
    assert ("failed", "connect") == (got.outcome, got.reason), got.detail


def test_connections_are_kept_but_never_for_another_address(tmp_path: Path) -> None:
    async def run() -> None:
        async with Server() as one, Server(bind="127.0.0.2", port=one.port) as two, fetcher:
            asked = job(URL=f"http://a.example:{one.port}/_/status/200")
            peers = [
                (await fetcher.fetch(asked, address, robots="obeyed")).peer
                for address in ("127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.1")
            ]
            assert [f"127.0.0.{n}:{one.port}" for n in (1, 1, 2, 1)] == peers
            assert (3, 1) == (len(one.requests), len(two.requests))
            assert 1 == len({entry["peer"] for entry in one.requests}), "all three share a connection"

    fetcher = Fetcher(SETTINGS, LOOPBACK, tmp_path)
    asyncio.run(run())


def test_two_at_once_to_one_place_are_our_own_fault(tmp_path: Path) -> None:
    async def run(site: Server, fetcher: Fetcher) -> None:
        asked = job(URL=site.url("/_/delay/0.02"))
        both = (fetcher.fetch(asked, "127.0.0.1", robots="obeyed") for _ in range(2))
        first, second = await asyncio.gather(*both, return_exceptions=True)
        assert isinstance(first, Fetched)
        assert isinstance(second, AssertionError)
        assert ("ok", 1) == (first.outcome, len(site.requests))

    during(run, tmp_path)


def test_a_request_is_never_repeated(tmp_path: Path) -> None:
    async def run(site: Server, fetcher: Fetcher) -> None:
        kept = await fetcher.fetch(job(URL=site.url("/_/status/200")), "127.0.0.1", robots="obeyed")
        assert "ok" == kept.outcome
        got = await fetcher.fetch(job(URL=site.url("/_/reset")), "127.0.0.1", robots="obeyed")
        assert ("failed", "reset") == (got.outcome, got.reason)
        assert 2 == len(site.requests)

    during(run, tmp_path)


def test_cancellation_leaves_nothing_behind(tmp_path: Path) -> None:
    async def run(site: Server, fetcher: Fetcher) -> None:
        task = asyncio.create_task(
            fetcher.fetch(job(URL=site.url("/_/endless")), "127.0.0.1", robots="obeyed", body_limit=1 << 40)
        )
        while not os.listdir(tmp_path):  # noqa: ASYNC110 – the file is the event
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [] == os.listdir(tmp_path)
        again = await fetcher.fetch(job(URL=site.url("/_/status/200")), "127.0.0.1", robots="obeyed")
        assert "ok" == again.outcome

    during(run, tmp_path)


def test_job_lines_go_into_the_harvest_as_they_are(tmp_path: Path) -> None:
    got = get("/_/status/200", tmp_path, params={"TAG": "a b", "DEPTH": "3"})
    assert got.harvest is not None
    asked: Job = got.harvest.job
    assert ("a b", "3") == (asked.get("TAG"), asked.get("DEPTH"))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two certificates with their keys, each its own authority: a good one and one that has expired."""
    place = tmp_path_factory.mktemp("certificates")
    periods = {"good": certificates.GOOD, "expired": certificates.EXPIRED}
    return {name: certificates.make(place, "a.example", period) for name, period in periods.items()}


@pytest.mark.parametrize(
    ("name", "trusted", "host", "accepted", "fault"),
    [
        ("good", True, "a.example", False, ""),
        ("good", False, "a.example", False, "self-signed"),
        ("good", True, "b.example", False, "ostname mismatch"),
        ("expired", True, "a.example", False, "expired"),
        ("good", False, "a.example", True, ""),
        ("good", True, "b.example", True, ""),
        ("expired", True, "a.example", True, ""),
    ],
)
def test_tls_is_verified(
    name: str,
    trusted: bool,
    host: str,
    accepted: bool,
    fault: str,
    tmp_path: Path,
    pairs: dict[str, Path],
    monkeypatch: Any,
) -> None:
    pair = pairs[name]
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(pair))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair)
    rule = SiteRule(match=".example", tls="accept", because="it is ours")
    settings = replace(SETTINGS, site=(rule,)) if accepted else SETTINGS

    async def run() -> Fetched:
        async with Server(tls=context) as site, Fetcher(settings, Allowed(["127.0.0.1"]), tmp_path) as fetcher:
            url = f"https://{host}:{site.port}/_/status/200"
            return await fetcher.fetch(job(URL=url), "127.0.0.1", robots="obeyed")

    got = asyncio.run(run())
    assert (("failed", "tls") if fault else ("ok", "")) == (got.outcome, got.reason), got.detail
    assert fault in got.detail
    if fault:
        assert f'[[site]] match = "{host}" tls = "accept"' in got.detail
    else:
        assert got.harvest is not None
        assert ("accepted because it is ours" if accepted else "") == got.harvest.tls
        assert got.harvest == hrf.parse(hrf.dump(got.harvest))


def test_what_speaks_no_tls(tmp_path: Path) -> None:
    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 400 X\r\n\r\n")
        writer.close()

    async def main() -> Fetched:
        listener = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with listener, Fetcher(SETTINGS, LOOPBACK, tmp_path) as fetcher:
            port = listener.sockets[0].getsockname()[1]
            return await fetcher.fetch(job(URL=f"https://127.0.0.1:{port}/"), "127.0.0.1", robots="obeyed")

    got = asyncio.run(main())
    assert ("failed", "tls") == (got.outcome, got.reason), got.detail


@pytest.mark.parametrize("head_only", [False, True])
def test_a_type_that_nobody_reads_is_closed_after_the_header(tmp_path: Path, head_only: bool) -> None:
    async def run() -> Fetched:
        wanted: list[list[str]] = []

        def is_wanted(_: Job, content_types: list[str]) -> bool:
            wanted.append(content_types)
            return False

        (tmp_path / "a.gif").write_bytes(b"x" * 5_000_000)
        async with Server(tmp_path) as site, Fetcher(SETTINGS, LOOPBACK, tmp_path, is_wanted=is_wanted) as fetcher:
            asked = job(URL=site.url("/a.gif"), FETCH=1)
            fetched = await fetcher.fetch(asked, site.bind, robots="obeyed", head_only=head_only)
            assert [["image/gif"]] == wanted
            return fetched

    fetched = uvloop.run(run())
    assert fetched.harvest is not None
    assert ("ok", True, 0, "") == (fetched.outcome, fetched.is_unread, fetched.body_length, fetched.harvest.digest)
    assert "5000000" == fetched.harvest.field("content-length")


def test_a_kept_connection_that_the_server_left_is_told_from_one_that_broke(tmp_path: Path) -> None:
    async def run(site: Server, fetcher: Fetcher) -> None:
        site.pages["/leaves"] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        for path, is_stale in (("/_/reset", False), ("/leaves", False), ("/_/reset", True), ("/_/reset", False)):
            got = await fetcher.fetch(job(URL=site.url(path), FETCH=1), site.bind, robots="obeyed")
            assert (is_stale, path) == (got.is_stale, path)

    during(run, tmp_path)
