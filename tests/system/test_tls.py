"""https in whole harvests: certificates that are good, expired, self-signed, another's, and what speaks no TLS."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.site import certificates
from tests.system.harness import Harness, Web

pytestmark = pytest.mark.system

RULE = '[[site]]\nmatch = "accepted.example"\ntls = "accept"\nbecause = "it is our own"\n'

#: What is said of each site that cannot be asked.
FAULTS = {
    "expired.example": "certificate has expired",
    "strange.example": "self-signed certificate",
    "wrong.example": "certificate is not valid for",
    "plain.example": "wrong version number",
    "silent.example": "no answer in time",
    "clear.example": "reset",
}


def test_https(
    webs: Callable[..., Web],
    homes: Callable[..., Harness],
    names: Callable[[dict[str, object]], object],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, other = (certificates.make(place, f"{name}.example") for name in ("good", "other"))
    expired = certificates.make(place, "expired.example", certificates.EXPIRED)
    strange = certificates.make(place, "strange.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(place / "trusted.pem"))
    (place / "trusted.pem").write_bytes(b"".join(pair.read_bytes() for pair in (good, other, expired)))
    sites = {
        "good.example": webs(3, "--cert", str(good), bind="127.33.1.1"),
        "expired.example": webs(3, "--cert", str(expired), bind="127.33.1.2"),
        "strange.example": webs(3, "--cert", str(strange), bind="127.33.1.3"),
        "accepted.example": webs(3, "--cert", str(strange), bind="127.33.1.4"),
        "wrong.example": webs(3, "--cert", str(other), bind="127.33.1.5"),
        "plain.example": webs(3, bind="127.33.1.6"),
    }
    ports = {name: web.address.rpartition(":")[2] for name, web in sites.items()}
    silent = socket.create_server(("127.33.1.7", 0))
    ports |= {"clear.example": ports["good.example"], "silent.example": str(silent.getsockname()[1])}
    numbers = {name: number for number, name in enumerate(sites, 1)} | {"clear.example": 1, "silent.example": 7}
    names({name: [f"45.33.1.{number}"] for name, number in numbers.items()})
    home = homes(f'connect_s = 1.0\n[agent]\nemail = "us@example.org"\n[politeness]\naddress_delay_s = 0.0\n{RULE}')
    seeds = [f"http{'s' * (name != 'clear.example')}://{name}:{port}/index.html" for name, port in ports.items()]
    with silent:
        said = home.run("harvest", *seeds, "--delay", "0", "--wait", "10", code=75).stderr
    records = {url.split("/")[2].partition(":")[0] for url in home.urls()}
    assert {"good.example", "accepted.example"} == records
    for name, fault in FAULTS.items():
        sentence = said.partition(f"combine: {name}:{ports[name]} is blocked")[2].partition("\n")[0]
        assert fault in sentence, said
    raw = [path.read_bytes() for path in (home.home / "raw").rglob("*.hrf")]
    assert any(b"accepted because it is our own" in text for text in raw)
