"""The command doctor: everything that can be wrong with a home, a machine or the settings, looked at, with the remedy.

A check answers with findings and never raises for what it finds.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from combine import __version__
from combine.cli import peers, plan, systemd
from combine.cli.screen import put, put_coloured, put_json
from combine.cli.session import Session, command
from combine.config import Settings, load
from combine.errors import EXIT_CONFIG, EXIT_FINDING, CombineError, ConfigError
from combine.keep.home import Home, open_home, room
from combine.keep.places import file_system_of
from combine.keep.spool import Spool
from combine.page import html
from combine.schedule.exclusions import fault_of
from combine.services import SERVICES, UNITS
from combine.status import holder, read_status, running

#: Seconds that a file may lie in the future before the clock is suspected.
_FUTURE_S = 300.0

#: Seconds that a daemon may take to answer PING before it is called silent.
_PING_S = 5.0

#: Open files a process needs beside its connections: sockets, logs, the spool, libraries.
_FILES = 256

_COLOURS = {"ok": 32, "warn": 33, "fail": 31}
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*([^;]*)(?:;(.*))?")
_BOUND = re.compile(r"(>=|<)\s*([0-9.]+)")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: `ok`, `warn` or `fail`, what was looked at, and a sentence that holds the remedy."""

    level: str
    what: str
    sentence: str


def examine(path: Path, overrides: tuple[str, ...] = ()) -> Iterator[Finding]:
    """Look at everything; the machine first, then the home, as far as it can be opened."""
    yield from _python()
    yield from _libraries()
    yield from _accelerator()
    try:
        settings = load(path, overrides)
        file = path / "combine.toml"
        yield Finding("ok", "settings", f"{file} is understood" if file.exists() else f"the defaults: no {file}")
    except ConfigError as error:
        yield Finding("fail", "settings", str(error))
        settings = Settings()
    if not os.path.lexists(path):
        makes = f"combine harvest URL makes one, and so does combine init {quote(str(path))}"
        yield Finding("warn", "home", f"there is none yet at {path}: {makes}")
        return
    try:
        home = open_home(path)
        yield Finding(
            "ok", "home", f"{home.path} is a home, on {file_system_of(home.path) or 'an unnamed file system'}"
        )
    except ConfigError as error:
        yield Finding("fail", "home", str(error))
        return
    checks: tuple[Callable[[Home, Settings], Iterator[Finding]], ...] = (
        _exclusions,
        _agent,
        _room,
        _files,
        _clock,
        _units,
        _daemons,
        _spool,
        _services,
    )
    for check in checks:
        yield from check(home, settings)


@command("doctor", json=True, settings=True)
def doctor_command(session: Session) -> int:
    """Check the home, the machine and the settings, and name remedies.

    Exit code 1 where there is a finding, such as no home yet, 78 where the home cannot be used at all.
    """
    findings = []
    for finding in examine(session.where(), session.overrides):
        findings.append(finding)
        if not session.json and not (session.quiet and finding.level == "ok"):
            put_coloured(finding.level.ljust(4), _COLOURS[finding.level])
            put(f"  {finding.what}: {finding.sentence}\n")
    if session.json:
        put_json([{"level": found.level, "what": found.what, "sentence": found.sentence} for found in findings])
    if any(finding.what == "home" and finding.level == "fail" for finding in findings):
        return EXIT_CONFIG
    return 0 if all(finding.level == "ok" for finding in findings) else EXIT_FINDING


def _python() -> Iterator[Finding]:
    yield Finding("ok", "python", ".".join(map(str, sys.version_info[:3])))


def _libraries() -> Iterator[Finding]:
    try:
        required = importlib.metadata.requires("combine-system") or []
    except importlib.metadata.PackageNotFoundError:
        yield Finding("warn", "libraries", "combine-system is not installed, so its needs are not known: make install")
        return
    versions = []
    for text in required:
        match = _REQUIREMENT.match(text)
        if match is None or "extra" in (match[3] or ""):
            continue
        name, bounds = match[1], match[2]
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if match[3]:  # a marker: it is not built for every machine
                yield Finding("ok", "libraries", f"{name} is not there, and done without")
            else:
                yield Finding("fail", "libraries", f"{name} is missing: make install")
            continue
        if not within(version, bounds):
            yield Finding("warn", "libraries", f"{name} {version} is not one of {bounds}: make install")
        versions.append(f"{name} {version}")
    yield Finding("ok", "libraries", ", ".join(versions))


def _accelerator() -> Iterator[Finding]:
    how = "in C" if html.is_native() else "in Python; with a C compiler, `make install` builds the accelerator"
    yield Finding("ok", "pages", f"are read {how}")


def within(version: str, bounds: str) -> bool:
    """Is a version within bounds such as `>=3.12,<4`? Other signs are passed over."""
    have = _numbers(version)
    return all(
        have >= _numbers(bound) if sign == ">=" else have < _numbers(bound) for sign, bound in _BOUND.findall(bounds)
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version.partition("+")[0])[:3])


def _exclusions(home: Home, _: Settings) -> Iterator[Finding]:
    fault = fault_of(home.exclude_file, home.allow_file)
    yield (
        Finding("fail", "exclude", fault)
        if fault
        else Finding("ok", "exclude", "its lines, and allow's, are understood")
    )


def _agent(_: Home, settings: Settings) -> Iterator[Finding]:
    if settings.agent.has_contact:
        yield Finding("ok", "agent", plan.agent(settings))
    else:
        yield Finding(
            "warn",
            "agent",
            f"no contact: public hosts are limited to {settings.harvest.anonymous_pages} pages a run; set agent.url",
        )


def _room(home: Home, settings: Settings) -> Iterator[Finding]:
    found = room(home, settings)
    free = f"{found.free_bytes >> 20:,} MiB and {found.free_inodes:,} inodes are free"
    yield Finding("ok", "disk", free) if found.ok else Finding("fail", "disk", found.sentence)


def _files(_: Home, settings: Settings) -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.harvest.sites * 2 + _FILES
    if soft < needed:
        yield Finding(
            "warn", "open files", f"{soft} are allowed and {needed} may be needed: ulimit -n {min(hard, 4096)}"
        )
    else:
        yield Finding("ok", "open files", f"{soft:,} are allowed")


def _clock(home: Home, _: Settings) -> Iterator[Finding]:
    newest = max((path.stat().st_mtime for path in (home.log, home.hdb, home.format_file)), default=0.0)
    if newest > time.time() + _FUTURE_S:
        yield Finding(
            "fail", "clock", f"files of this home are {newest - time.time():.0f} s in the future: set the clock"
        )
    else:
        yield Finding("ok", "clock", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def _units(home: Home, _: Settings) -> Iterator[Finding]:
    runs = running(home.path)
    missing = [unit for unit in UNITS if unit not in runs]
    if not runs:
        yield Finding("ok", "units", "none runs")
    elif missing:
        yield Finding(
            "warn", "units", f"only {', '.join(runs)} of {', '.join(UNITS)}: combine start {' '.join(missing)}"
        )
    else:
        yield Finding("ok", "units", "all run")
    for unit in read_status(home.path):
        version = unit.get("version", __version__)
        if version != __version__:
            remedy = f"combine restart {unit['unit']}"
            yield Finding("warn", "units", f"{unit['unit']} is of version {version}, this is {__version__}: {remedy}")
        for child in unit["children"]:
            if child.get("state") not in ("running", "starting"):
                note = child.get("note") or child.get("last_exit") or "it says nothing"
                yield Finding(
                    "fail",
                    "units",
                    f"{child.get('name')} is {child.get('state')} ({note}): see {home.log / unit['unit']}.out",
                )


def _daemons(home: Home, _: Settings) -> Iterator[Finding]:
    runs = running(home.path)
    for service in SERVICES.values():
        if not service.socket:
            continue
        path = home.socket(service.name)
        if service.unit not in runs:
            if path.exists() and holder(home.pid_file(service.name)):
                yield Finding(
                    "fail",
                    service.name,
                    f"it runs without its keepalive: stop process {holder(home.pid_file(service.name))}",
                )
            continue
        yield _answers(home, service.name, path)


def _answers(home: Home, name: str, path: Path) -> Finding:
    try:
        if not SERVICES[name].verbs:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
                probe.connect(str(path))
        else:
            with peers.Client(path, name, timeout_s=_PING_S) as client:
                client.call("PING")
    except (CombineError, OSError) as error:
        return Finding("fail", name, f"{path} does not answer ({error}): combine restart {SERVICES[name].unit}")
    return Finding("ok", name, f"{path} answers")


def _spool(home: Home, _: Settings) -> Iterator[Finding]:
    sizes = Spool(home).sizes()
    if sizes.bad:
        yield Finding(
            "warn", "spool", f"{sizes.bad} harvests could not be parsed: look into {home.spool_bad}, then remove them"
        )
    elif (sizes.new or sizes.cur) and "hdb" not in running(home.path):
        yield Finding("warn", "spool", f"{sizes.new + sizes.cur} batches wait and no parser runs: combine start hdb")
    else:
        yield Finding("ok", "spool", f"{sizes.new} new, {sizes.cur} in work, {sizes.bad} bad")


def _services(home: Home, _: Settings) -> Iterator[Finding]:
    if not systemd.runs(home):
        return
    for unit in UNITS:
        state = systemd.state(unit)
        level = "ok" if state == "active" else "fail" if state == "failed" else "warn"
        remedy = "" if state == "active" else f": systemctl status {systemd.service(unit)}"
        yield Finding(level, "systemd", f"{systemd.service(unit)} is {state}{remedy}")
