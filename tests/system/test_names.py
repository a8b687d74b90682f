"""Names and addresses in whole harvests of a pretended internet: rebinding, private answers, domains, neighbours."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.site.checker import violations
from tests.site.wild import linking
from tests.system.harness import Harness, Web

pytestmark = pytest.mark.system

Webs = Callable[..., Web]
Homes = Callable[..., Harness]
Names = Callable[[dict[str, object]], Callable[[], list[str]]]

AGENT = '[agent]\nurl = "https://example.org/us"\nemail = "us@example.org"\n'

#: Names whose addresses may not be asked, and by what each answer is called.
PRIVATE = {
    "loopback.example": ("127.0.0.1", "a loopback"),
    "loopback6.example": ("::1", "a loopback"),
    "mapped.example": ("::ffff:127.0.0.1", "a loopback"),
    "nat64.example": ("64:ff9b::7f00:1", "a loopback"),
    "six-to-four.example": ("2002:7f00:1::", "a loopback"),
    "zone.example": ("fe80::1%lo", "a link-local"),
    "metadata.example": ("169.254.169.254", "a link-local or metadata"),
    "zero.example": ("0.0.0.0", "an unspecified"),
    "zero6.example": ("::", "an unspecified"),
    "shared.example": ("100.64.0.1", "a shared"),
    "inner.shop.co.uk": ("10.0.0.1", "a private"),
    "robots.example": ("192.168.0.1", "a private"),
    "map.example": ("127.0.0.1", "a loopback"),
}


def reason(home: Harness, url: str) -> str:
    """What `combine why` says first."""
    return str(json.loads(home.run("why", url, "--json").stdout)["reason"])


def lay(web: Web, url: Callable[[str, str], str]) -> None:
    """A site of a domain with several hosts, neighbours whose names only look alike, and ways inside."""
    pages = [f"p{number}.html" for number in range(6)]
    others = ("img.shop.co.uk", "shop.co.uk", "other.co.uk", "co.uk", "shop.co.uk.evil.example")
    inside = [f"/_/redirect/302?to={url(host, '/x')}" for host in ("inner.shop.co.uk", "127.0.0.1", "0x7f.1", "[::]")]
    (web.root / "index.html").write_bytes(linking("Index", *pages, *(url(host, "/a.html") for host in others), *inside))
    for name in (*pages, "a.html"):
        (web.root / name).write_bytes(linking(name))


def test_names_lead_to_public_addresses_alone(webs: Webs, homes: Homes, names: Names) -> None:
    inner = webs(1, bind="127.0.0.1")  # first: others have ports on this address, too, and nobody on those below
    port = inner.address.rpartition(":")[2]
    web = webs(1, "--port", port, bind="127.33.0.1")
    shut = webs(1, "--robots", f"redirect:http://robots.example:{port}/robots.txt", bind="127.33.0.2")
    many = webs(1, "--robots", f"Sitemap: http://map.example:{port}/map.xml", bind="127.33.0.3")
    (many.root / "index.html").write_bytes(linking("Small", "a.html"))
    (many.root / "a.html").write_bytes(linking("Page"))

    def url(host: str, path: str = "/", port: str = port) -> str:
        return f"http://{host}:{port}{path}"

    lay(web, url)
    small = [f"small{number}.example" for number in range(6)]
    public = ("www.shop.co.uk", "img.shop.co.uk", "shop.co.uk", "other.co.uk", "co.uk", "shop.co.uk.evil.example")
    lookups = names(
        {
            **{name: [address] for name, (address, _) in PRIVATE.items()},
            **{name: ["45.33.0.1"] for name in public},
            **{name: ["45.33.0.3"] for name in small},
            "rebind.example": ["45.33.0.1", "127.0.0.1"],
            "second.example": [["10.0.0.1", "45.33.0.1"]],
            "shut.example": ["45.33.0.2"],
        }
    )
    home = homes()
    (home.home / "combine.toml").write_text(
        f"{AGENT}[harvest]\nworkers = 2\n[politeness]\naddress_delay_s = 0.15\n[scheduler]\nname_s = 1.0\n"
    )
    seeds = [url(host) for host in ("www.shop.co.uk", "rebind.example", "second.example", *PRIVATE)]
    seeds += [url(host, "/", many.address.rpartition(":")[2]) for host in small]
    seeds.append(url("shut.example", "/", shut.address.rpartition(":")[2]))
    said = home.run("harvest", *seeds, "--same-domain", "--delay", "0.4", "--wait", "10", code=75).stderr

    assert [] == inner.requests()
    hosts = {entry["host"].partition(":")[0] for entry in web.requests()}
    assert {"www.shop.co.uk", "img.shop.co.uk", "shop.co.uk", "rebind.example", "second.example"} == hosts
    assert 1 == len({line.split()[0] for line in lookups()}), lookups()  # the scheduler's alone
    assert {"/robots.txt"} == {entry["path"] for entry in shut.requests()}
    assert 2 * len(small) == len([found for found in home.urls() if "//small" in found])
    for site in (web, many):
        assert [] == violations(site.requests(), 0.4)
        one = [{**entry, "host": "all", "path": entry["host"] + entry["path"]} for entry in site.requests()]
        assert [] == violations(one, 0.15)
    kinds = [
        (name, kind) for name, (_, kind) in PRIVATE.items() if f"{name} is at" in said.partition("shut.example")[0]
    ]
    assert 10 == len(kinds)  # so many are named
    assert all(f"{kind} " in said.partition(f"{name} is at")[2].partition("address")[0] for name, kind in kinds)
    assert "shut.example" in said
    assert "robots.txt cannot be read: robots.example is at 192.168.0.1" in said
    assert "rebind.example is at 127.0.0.1" in reason(home, url("rebind.example", "/p5.html"))
    assert "outside the scope" in reason(home, url("other.co.uk", "/a.html"))
