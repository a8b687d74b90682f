"""What strangers' bytes go through, each as one function: it ends soon, and raises nothing but what it is known for.

Beside each target stand the words of its grammar, which random bytes alone would not hit upon, and some whole inputs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import orjson

from combine.codings import decode
from combine.config import Settings, load
from combine.errors import ConfigError, RecordError, WireError
from combine.ipc.message import Reader
from combine.keep.members import members
from combine.page.lesson import learn, targets
from combine.urls import BadURL, normalise, resolve
from combine.web import head, sitemaps
from combine.web.rules import Rules
from formats import hrf, jcf, wir
from formats.hrf import Harvest
from tests.fuzz.home import IN_A_HOME
from tests.fuzz.target import URL
from tests.fuzz.target import Target as Target

LIMITS = Settings()


def run_jcf(data: bytes) -> None:
    try:
        job = jcf.parse(data)
    except RecordError:
        return
    assert job == jcf.parse(jcf.dump(job))


def run_hrf(data: bytes) -> None:
    try:
        for _, _, harvest in hrf.scan(data):
            assert harvest == hrf.parse(hrf.dump(harvest))
            assert isinstance(harvest.status + len(harvest.fields), int)
    except RecordError:
        return


def run_wir(data: bytes) -> None:
    copied, read = made_by(members, data), made_by(as_it_is_read, data)
    assert copied == read
    assert list(copied) == list(read)
    if "refused" not in read:
        record = wir.parse(data)
        assert record == wir.parse(wir.dump(record))


def as_it_is_read(data: bytes) -> dict[str, bytes]:
    return {name: orjson.dumps(value) for name, value in wir.as_json(wir.parse(data)).items()}


def made_by(reader: Callable[[bytes], dict[str, bytes]], data: bytes) -> dict[str, bytes]:
    """The members of a record, or the sentence that refuses it."""
    try:
        return reader(data)
    except RecordError as error:
        return {"refused": str(error).encode()}


def run_wire(data: bytes) -> None:
    reader, step = Reader(), max(len(data) // 7, 1)
    try:
        for start in range(0, len(data), step):
            reader.feed(data[start : start + step])
            while (message := reader.take()) is not None:
                try:
                    message.jobs()
                except RecordError:
                    continue
    except WireError:
        return


def run_robots(data: bytes) -> None:
    rules = Rules.parse(data, "combine")
    for url in (URL, "http://a.example/", "http://a.example/" + "a" * 2_000, "http://a.example/%E4/?a=b$"):
        assert rules.allows(url) in (True, False)


def run_sitemap(data: bytes) -> None:
    sitemaps.parse(data, "http://a.example/sitemap.xml")


def run_html(data: bytes) -> None:
    """A whole page: the first line of the input is its header, as far as there is one."""
    fields, _, body = data.partition(b"\n\n")
    header = b"HTTP/1.1 200 OK\r\n" + fields.replace(b"\r", b"").replace(b"\n", b"\r\n") + b"\r\n\r\n"
    job = jcf.job(URL=URL, FETCH=1, SEED=URL)
    harvest = Harvest(job=job, outcome="ok", fetched="2026-11-30T12:00:00.000Z", header=header, body=body)
    lesson = learn(harvest, ("2026/11/30/x.hrf", 0, 1), lambda url: None, LIMITS.page, "combine")
    lesson = lesson.settle(None, 1_780_000_000.0, "fuzz")
    targets(job, lesson.links, LIMITS.scheduler.links_page)
    jcf.dump(lesson.stored())
    if lesson.record is not None:
        assert lesson.record == wir.parse(wir.dump(lesson.record))


def run_decode(data: bytes) -> None:
    names, _, body = data.partition(b"\n")
    decode(body, [names.decode("latin-1")], 2 << 20, LIMITS.page.ratio)


def run_head(data: bytes) -> None:
    head.mended(data)
    head.length_of(data)
    head.is_interim(data)
    head.end_of(data)


def run_config(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="cmb") as home:
        (Path(home) / "combine.toml").write_bytes(data)
        try:
            load(Path(home))
        except ConfigError:
            return


def run_url(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape" if len(data) % 2 else "replace")
    for given in (text, resolve(URL, text)):
        if given is None:
            continue
        try:
            url = normalise(given)
        except BadURL:
            continue
        assert url == normalise(url)
        assert not set(url) & set(' "\r\n\t\0')


_JCF = b'JCF/0.0 URL="http://a.example/?a=%22&b" SEED="http://a.example/" FETCH="12" ETAG="%22x%22"'
_HRF = hrf.dump(
    Harvest(
        job=jcf.parse(_JCF), outcome="ok", fetched="2026-11-30T12:00:00.000Z",
        header=b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\n\r\n", body=b"<p>x",
    )
)  # fmt: skip
_HTML = (
    b"Content-Type: text/html; charset=utf-8\nLink: <a>; rel=canonical\n\n<!doctype html><html lang=en><head><title>T"
    b'</title><meta name=robots content="nofollow"><base href="/x/"><link rel=next href=n></head><body><h1>H</h1><p>'
    b'A <a href="b?c=d#e" rel=nofollow>link</a><table><tr><td><img src=i></table><script>x</script></body></html>'
)

TARGETS = (
    Target("jcf", run_jcf, (b"JCF/0.0", b' URL="', b'"', b" ", b"%", b"%0A", b"\xc2\x85", b"\n", b"="), (_JCF,)),
    Target(
        "hrf",
        run_hrf,
        (
            b"HRF/1.0",
            b"\n",
            b"Body-Length: 9999999999999999999999",
            b"Job: ",
            b"Outcome: ok",
            b"\r\n\r\n",
            b"HTTP/1.1 ",
        ),
        (_HRF, _HRF * 2),
    ),
    Target(
        "wir",
        run_wir,
        (
            b"WIR/2.0",
            b"\n",
            b"url: ",
            b"id: ",
            b"link: ",
            b"\t",
            b"\\",
            b"\\n",
            b"\\t",
            b"text: ",
            b'"',
            b"size: 0",
            b"tag: ",
        ),
        (
            b"WIR/2.0\nid: 0123456789abcdef0123456789abcdef\nurl: http://a.example/\nlink: a\tb\tc\td\n",
            b'WIR/2.0\ntag: a\ntag: "b"\nsize: 7\nheading: 1\ta\\tb\nlink: a\tb\t\t\ncounts: 1\t2\t3\ntext: a\\nb\n',
        ),
    ),
    Target(
        "wire",
        run_wire,
        (b"ADD 1\n", b"DONE 500\n", b"OK 0 text\n", b"\n", b"PING 0\n", b"9" * 30, _JCF + b"\n"),
        (b"ADD 2\n" + _JCF + b"\n" + _JCF + b"\nPING 0\n",),
    ),
    Target(
        "robots",
        run_robots,
        (
            b"User-agent:",
            b"*",
            b"Disallow: ",
            b"Allow: /",
            b"Crawl-delay: 1e999",
            b"Sitemap: ",
            b"$",
            b"\r",
            b"\n",
            b"%",
        ),
        (b"User-agent: *\nDisallow: /a*b*c$\nAllow: /\nCrawl-delay: 3\nSitemap: http://a.example/s.xml\n",),
    ),
    Target(
        "sitemap",
        run_sitemap,
        (
            b"<urlset>",
            b"<url>",
            b"<loc>",
            b"</loc>",
            b"</url>",
            b"<sitemapindex>",
            b"&a;",
            b"<!--",
            b"-->",
            b"<![CDATA[",
            b"]]>",
            b'<!DOCTYPE a [<!ENTITY a "&b;&b;">]>',
            b'<!ENTITY x SYSTEM "file:///etc/passwd">',
            b"\xff\xfe",
            b"http://a.example/",
            b"\x1f\x8b",
            b"<?xml version='1.0' encoding='utf-16'?>",
            b"<rss>",
            b"<xi:include href='x'/>",
        ),
        (
            b"<?xml version='1.0'?><urlset><url><loc>http://a.example/1</loc><lastmod>2026-01-01</lastmod></url></urlset>",
        ),
    ),
    Target(
        "html",
        run_html,
        (
            b"<a href=",
            b"<b>",
            b"<p",
            b"<table>",
            b"<svg>",
            b"<math>",
            b"<template>",
            b"<select>",
            b"<!--",
            b"<!",
            b"<",
            b">",
            b"&",
            b"&#x110000;",
            b"&amp",
            b"</",
            b"<title>",
            b"<script>",
            b"<plaintext>",
            b"<frameset>",
            b"<base href=//>",
            b"<meta charset=utf-16>",
            b"<meta http-equiv=refresh content='0;url=",
            b"Content-Type: application/xhtml+xml\n\n",
            b"Content-Type: application/rss+xml\n\n<rss>",
            b"<?xml version='1.0'?>",
            b"\0",
            b"\xff",
            b"\xe2\x80\xae",
            b"\x1b[2J",
            b"<div ",
            b"a=",
            b'"',
            b"<nobr>",
            b"<a>",
            b"\xed\xa0\x80",
            b"Content-Encoding: gzip\n",
        ),
        (_HTML,),
    ),
    Target(
        "decode",
        run_decode,
        (
            b"gzip\n",
            b"deflate\n",
            b"br\n",
            b"zstd\n",
            b"gzip, gzip\n",
            b"\x1f\x8b\x08\0\0\0\0\0\0\3",
            b"\x78\x9c",
            b"\x28\xb5\x2f\xfd",
            b"\0",
        ),
        (b"gzip\n\x1f\x8b\x08\0\0\0\0\0\0\x03\xb3)\xb0\x03\0\xd2\xd9\xb6\x15\x04\0\0\0", b"br\n\x0b\x01\x80<p>x\x03"),
    ),
    Target(
        "head",
        run_head,
        (
            b"HTTP/1.1 200 OK\r\n",
            b"\r\n",
            b"\n",
            b"Content-Length: 5",
            b"Content-Length: -1",
            b"Transfer-Encoding: chunked",
            b" ",
            b":",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n z\r\n\r\n",),
    ),
    Target(
        "config",
        run_config,
        (
            b"[harvest]",
            b"[site]",
            b"[[site]]",
            b"match = ",
            b"delay_s = ",
            b"-1",
            b"nan",
            b"inf",
            b'"',
            b"\n",
            b"= ",
            b"[[",
            b"x.y = 1",
            b"allow_private = [",
            b"]",
            b"1e999",
            b"0x" + b"f" * 40,
            b"{a = {",
            b"\xff",
            b"politeness",
        ),
        (b'[harvest]\nallow_private = ["127.0.0.0/8"]\n[[site]]\nmatch = ".a.example"\ndelay_s = 2\n',),
    ),
    Target(
        "url",
        run_url,
        (
            b"http://",
            b"https:",
            b"//",
            b"/../",
            b"%2e",
            b"@",
            b":99999",
            b"[::1]",
            b"[",
            b"\xc3\xa4",
            b"xn--",
            b"?",
            b"#",
            b"\\",
            b"\t",
            b"0x7f.1",
            b"javascript:",
            b"\xed\xa0\x80",
            b" ",
        ),
        (b"http://u:p@B\xc3\xbccher.example:80/%7Ea/./b/../c?d=e%20f#g",),
    ),
    *IN_A_HOME,
)
