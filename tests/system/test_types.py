"""Types in whole harvests: what is not read is closed after the header, and requisites are taken where wished."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from formats.wir import parse
from tests.system.harness import Harness, Web

pytestmark = pytest.mark.system

Webs = Callable[..., Web]
Homes = Callable[..., Harness]


def test_what_is_not_read_is_not_fetched_whole(webs: Webs, homes: Homes) -> None:
    web, home = webs(1), homes()
    (web.root / "index.html").write_text(
        "<title>A</title><link rel=stylesheet href=s.css><link rel=stylesheet href=u.css>"
        "<script src=s.js></script><img src=i.gif>"
        "<a href=b.zip>b</a><a href=page.doc>c</a><a href=d.pdf>d</a>"
    )
    for name in ("s.css", "s.js", "i.gif", "b.zip", "d.pdf"):
        (web.root / name).write_bytes(b"\x89bytes of " + name.encode() * 1000)
    (web.root / "page.doc").symlink_to("index.html")
    (web.root / "u.css").write_text("@import 'v.css'; a { background: url(i.gif) }")
    (web.root / "v.css").write_text("a { background: url('w.gif') }")
    (web.root / "w.gif").write_bytes(b"GIF89a")
    home.run("harvest", web.url("/index.html"), "--delay", "0")
    asked = sorted((entry["method"], entry["path"]) for entry in web.requests() if entry["path"] != "/robots.txt")
    assert [
        ("GET", "/index.html"), ("HEAD", "/b.zip"), ("HEAD", "/d.pdf"), ("HEAD", "/page.doc"),
    ] == asked  # fmt: skip
    pages = {web.url(f"/{name}") for name in ("index.html", "b.zip", "d.pdf", "page.doc")}
    assert pages == home.urls()
    shown = parse(home.run("show", web.url("/b.zip")).stdout.encode())
    assert ("application/zip", str(len(b"\x89bytes of ") + 5000), "") == tuple(
        shown.get(name) for name in ("type", "size", "text")
    )
    home.run("harvest", web.url("/index.html"), "--delay", "0", "--requisites")
    assert (
        pages | {web.url(f"/{name}") for name in ("s.css", "s.js", "i.gif", "u.css", "v.css", "w.gif")} == home.urls()
    )
    shown = parse(home.run("show", web.url("/i.gif")).stdout.encode())
    assert ("image/gif", str(len(b"\x89bytes of ") + 5000)) == (shown.get("type"), shown.get("size"))
    assert "" != shown.get("body_digest")
