"""rel=canonical in whole harvests, recorded or honoured."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.system.harness import Harness, Web

pytestmark = pytest.mark.system

#: A page by what it names as its canonical one: one that exists, one outside, each other.
PAGES = {
    "index.html": "",
    "a.html": "real.html",
    "b.html": "http://127.0.0.99/else.html",
    "one.html": "two.html",
    "two.html": "one.html",
    "real.html": "real.html",
}


@pytest.mark.parametrize(("mode", "without"), [("record", set()), ("honour", {"a.html"})])
def test_canonical(webs: Callable[..., Web], homes: Callable[..., Harness], mode: str, without: set[str]) -> None:
    web, home = webs(1), homes(f'[page]\nworkers = 3\ncanonical = "{mode}"\n')
    links = "".join(f"<a href={name}>{name}</a>" for name in PAGES if name not in ("real.html", "two.html"))
    for name, canonical in PAGES.items():
        more = links if name == "index.html" else "<a href=two.html>2</a>" if name == "one.html" else ""
        tag = f"<link rel=canonical href='{canonical}'>" if canonical else ""
        (web.root / name).write_text(f"<title>{name}</title>{tag}<p>{name}{more}")
    home.run("harvest", web.url("/index.html"), "--delay", "0")
    wanted = {web.url(f"/{name}") for name in PAGES if name not in without}
    if mode == "record":
        wanted.discard(web.url("/real.html"))  # no link leads there
        assert wanted == home.urls()
    else:
        assert len(wanted) - 1 == len(wanted & home.urls())  # of two that name each other one stays
        assert home.urls() < wanted
