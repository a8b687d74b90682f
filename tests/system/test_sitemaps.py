"""Sitemaps in whole harvests: named by robots.txt or by option, in every form, on another host, broken."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.site.checker import violations
from tests.system import sites
from tests.system.harness import Harness, Web, until

pytestmark = pytest.mark.system

Webs = Callable[..., Web]
Homes = Callable[..., Harness]

ROBOTS = "\n".join(f"Sitemap: SITE/{path}" for path in ("index.xml", "broken.xml", "_/status/404"))


def lay(web: Web, other: Web) -> None:
    """Pages that no page links to, and sitemaps in several forms that list them."""
    root = web.root
    for name in ("xml", "gz", "txt", "rss", "atom"):
        (root / f"only-{name}.html").write_text(f"<title>{name}</title><p>Only the {name} sitemap leads here.")
    urls = {name: web.url(f"/only-{name}.html") for name in ("xml", "gz", "txt", "rss", "atom")}
    outside = other.url("/page-2.html")
    urlset = f"<urlset><url><loc>{urls['xml']}</loc></url><url><loc>{outside}</loc></url></urlset>"
    (root / "map.xml").write_text(urlset)
    (root / "map.gz").write_bytes(gzip.compress(urlset.replace(urls["xml"], urls["gz"]).encode()))
    (root / "map.txt").write_text(urls["txt"] + "\n")
    (root / "map.rss").write_text(f"<rss><channel><item><link>{urls['rss']}</link></item></channel></rss>")
    (other.root / "map.atom").write_text(
        f'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="{urls["atom"]}"/></entry></feed>'
    )
    maps = [*(web.url(f"/map.{name}") for name in ("xml", "gz", "txt", "rss")), web.url("/index.xml")]
    (root / "index.xml").write_text(
        "<sitemapindex>" + "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in maps) + "</sitemapindex>"
    )
    (root / "broken.xml").write_bytes(b"<urlset><url><loc>http://[</loc></url><url>\0\xff")


def test_robots_txt_names_sitemaps_and_an_option_others(webs: Webs, homes: Homes) -> None:
    web, other, home = webs(3, "--robots", ROBOTS), webs(3, bind="127.0.0.32"), homes()
    lay(web, other)
    home.run("harvest", web.url("/index.html"), "--delay", "0.1")
    pages = {web.url(f"/{name}.html") for name in ("index", "page-2", "page-3")}
    listed = {web.url(f"/only-{name}.html") for name in ("xml", "gz", "txt", "rss")}
    assert pages | listed == home.urls()
    asked = Counter(entry["path"] for entry in web.requests())
    assert {1} == set(asked.values()), asked
    assert [] == violations(web.requests(), 0.1)
    assert [] == other.requests()
    assert [] == home.leftovers()
    home.run("harvest", "--sitemap", other.url("/map.atom"), web.url("/index.html"))
    assert pages | listed == home.urls()  # its scope is its own host
    why = json.loads(home.run("why", web.url("/map.xml"), "--json").stdout)
    assert ("stored", "it was read as a sitemap") == (why["state"], why["reason"].partition(" at ")[0])


def test_an_option_alone_and_one_that_is_gone(webs: Webs, homes: Homes) -> None:
    web, home = webs(3), homes()
    lay(web, web)
    home.run("harvest", "--sitemap", web.url("/map.txt"), "--delay", "0")
    assert {web.url("/only-txt.html")} == home.urls()
    ended = home.run("harvest", "--sitemap", web.url("/none.xml"), "--delay", "0", code=1)
    assert "was not read" in ended.stderr


def test_kills_lose_no_page_that_a_sitemap_lists(webs: Webs, homes: Homes) -> None:
    web, home = webs(40, "--robots", "Sitemap: SITE/index.xml"), homes("workers = 2\n")
    pages = sites.within(40, 99)
    for number in range(4):
        listed = "\n".join(web.url(path) for path in sorted(pages)[number::4])
        (web.root / f"{number}.txt").write_text(listed)
    maps = "".join(f"<sitemap><loc>{web.url(f'/{number}.txt')}</loc></sitemap>" for number in range(4))
    (web.root / "index.xml").write_text(f"<sitemapindex>{maps}</sitemapindex>")
    with home.harvest(web.url("/index.html"), "--depth", "1", "--delay", "0.05") as running:
        for count, name in ((2, "parser"), (6, "harvester"), (12, "scheduler"), (20, "parser"), (25, "idbd")):
            until(lambda count=count: len(web.requests()) >= count, f"{count} requests")  # type: ignore[misc]
            home.kill(name)
        home.finish(running)
    assert {web.url(path) for path in pages} == home.urls()
    assert [] == violations(web.requests(), 0.05)
    assert [] == home.leftovers()


HOSTILE = {
    "loop.xml": "<sitemapindex><sitemap><loc>SITE/loop.xml</loc></sitemap><sitemap><loc>SITE/pool.xml</loc></sitemap>"
    "</sitemapindex>",
    "pool.xml": "<sitemapindex><sitemap><loc>SITE/loop.xml</loc></sitemap><sitemap><loc>SITE/dated.xml</loc></sitemap>"
    "</sitemapindex>",
    "laughs.xml": '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {after} "{f"&{name};" * 10}">' for name, after in zip("abcdefgh", "bcdefghi", strict=True))
    + "]><urlset><url><loc>SITE/&i;</loc></url><url><loc>SITE/page-2.html</loc></url></urlset>",
    "inside.xml": '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]>'
    "<urlset><url><loc>SITE/&a;</loc></url><url><loc>SITE/page-3.html</loc></url></urlset>",
    "deep.xml": "<urlset>" * 3000 + "<url><loc>SITE/page-4.html</loc></url>",
    "many.txt": "\n".join(f"SITE/many-{number}.html" for number in range(1, 60)),
}
DATED = (
    "<urlset><url><loc>SITE/index.html</loc><lastmod>2001-01-01</lastmod></url>"
    "<url><loc>SITE/page-5.html</loc><lastmod>NOW</lastmod></url>"
    "<url><loc>SITE/page-6.html</loc><lastmod>2999-01-01</lastmod></url></urlset>"
)


def test_hostile_ones_end_and_lastmod_has_pages_asked_again(webs: Webs, homes: Homes) -> None:
    robots = "\n".join(f"Sitemap: SITE/{name}" for name in HOSTILE)
    web = webs(1, "--robots", robots)
    home = homes("sitemap_urls = 30\n[scheduler]\nsitemap_s = 0.1\n")
    for number in range(2, 7):
        (web.root / f"page-{number}.html").write_text(f"<title>{number}</title><p>Page {number}.")
    for name, text in HOSTILE.items():
        (web.root / name).write_text(text.replace("SITE", web.url("")))
    (web.root / "index.html").write_text("<title>Index</title><p>No links.")
    (web.root / "dated.xml").write_text(DATED.replace("SITE", web.url("")).replace("NOW", "2020-01-01"))
    home.run("harvest", web.url("/index.html"), "--delay", "0")
    once = Counter(entry["path"] for entry in web.requests())
    pages = {f"/page-{number}.html" for number in range(2, 7)} | {"/index.html"}
    many = {f"/many-{number}.html" for number in range(1, 31)}
    assert dict.fromkeys({"/robots.txt", "/dated.xml", *pages, *many, *(f"/{name}" for name in HOSTILE)}, 1) == once
    assert {web.url(path) for path in pages} == home.urls()
    now = datetime.now(UTC).isoformat()
    (web.root / "dated.xml").write_text(DATED.replace("SITE", web.url("")).replace("NOW", now))
    before = len(web.requests())
    home.run("harvest", "--sitemap", web.url("/dated.xml"), "--delay", "0")
    asked = [entry["path"] for entry in web.requests()[before:]]
    assert {"/page-5.html"} == set(asked) & (pages | many)
    assert ["/dated.xml", "/page-5.html"] == asked[:2]
