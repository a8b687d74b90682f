"""Certificates for https sites of the mock web, made by openssl when a test wants them: good, expired, another's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

GOOD = ("20200101000000Z", "20991231000000Z")
EXPIRED = ("20200101000000Z", "20200102000000Z")

_AUTHORITY = """
[ca]
default_ca = own
[own]
database = index
serial = serial
new_certs_dir = .
private_key = key.pem
default_md = sha256
policy = any
x509_extensions = server
unique_subject = no
[any]
commonName = supplied
[server]
subjectAltName = DNS:HOST
basicConstraints = critical,CA:TRUE
[req]
distinguished_name = name
[name]
"""


def make(place: Path, host: str, period: tuple[str, str] = GOOD) -> Path:
    """A file with a certificate of this host, which is its own authority, and its key; skips where openssl is not."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    own = place / f"{host}-{period[1]}"
    own.mkdir(parents=True)
    (own / "index").touch()
    (own / "serial").write_text("01\n")
    (own / "ca.cnf").write_text(_AUTHORITY.replace("HOST", host))
    for command in (
        "openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem"
        f" -subj /CN={host} -out request.pem",
        f"openssl ca -config ca.cnf -batch -selfsign -notext -in request.pem -startdate {period[0]}"
        f" -enddate {period[1]} -out own.pem",
    ):
        subprocess.run(command.split(), check=True, capture_output=True, cwd=own)
    pair = own / "pair.pem"
    pair.write_bytes((own / "own.pem").read_bytes() + (own / "key.pem").read_bytes())
    return pair
