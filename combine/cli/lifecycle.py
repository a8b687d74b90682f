"""The commands of a standing harvest: init, start, stop, restart, config, pause, open."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

import click

from combine.cli import peers, plan, run, systemd, units
from combine.cli.screen import counted, put, put_json, say
from combine.cli.session import Session, command
from combine.cli.started import Started
from combine.config import Settings, SiteRule, known_keys
from combine.errors import ConfigError
from combine.keep.home import Home, create, find, is_home
from combine.services import UNITS, WORKERS
from combine.status import read_status
from formats.jcf import job

#: Seconds that `start` waits for names to be looked up, and between two looks.
_NAMES_S = 5.0
_LOOK_S = 0.1

#: Seconds that it waits for the answer, while other commands start and stop the scheduler that it asks.
_ANSWER_S = 30.0

_unit_argument = click.argument("names", nargs=-1, type=click.Choice(list(UNITS)), metavar="[cabin|hdb|harvester]...")


@command("init")
@click.argument("directory", required=False, metavar="[DIR]")
def init_command(session: Session, directory: str | None) -> None:
    """Make a home for a harvest."""
    place = find(directory, os.environ, Path.cwd()) if directory else session.where()
    existed = is_home(place)
    home = create(place)
    what = "was a home already" if existed else "is a home now"
    session.say(f"combine: {home.path} {what}; settings are in {home.config_file}")


@command("start", settings=True)
@_unit_argument
@click.option("-n", "--harvesters", metavar="N", type=click.IntRange(1, 500), help="So many harvester processes.")
@click.option("-p", "--parsers", metavar="N", type=click.IntRange(1, 500), help="So many parser processes.")
def start_command(session: Session, names: tuple[str, ...], harvesters: int | None, parsers: int | None) -> int:
    """Start the daemons of a standing harvest.

    Without names all units are started: cabin, hdb and harvester.
    """
    home = session.home()
    settings = session.settings(home.path)
    wanted = _in_order(names)
    plan.refuse_unfollowed(home)
    if "harvester" in wanted:
        refuse_without_contact(home, settings, session.overrides)
    if systemd.runs(home):
        systemd.order("start", wanted)
        return 0
    counts = {"harvester": harvesters or 0, "hdb": parsers or 0}
    return max(units.start_unit(home.path, unit, counts.get(unit, 0), session.overrides) for unit in wanted)


@command("stop")
@_unit_argument
def stop_command(session: Session, names: tuple[str, ...]) -> int:
    """Stop the daemons.

    What is under way is finished or handed back; nothing is lost. Without names all units are stopped.
    """
    home = session.home(write=False)  # what runs is stopped on a home that is not fit any more, too
    wanted = _in_order(names)
    if systemd.runs(home):
        systemd.order("stop", wanted)
        return 0
    stopped = units.stop_units(home.path, wanted)
    session.say(f"combine: stopped {', '.join(stopped)}" if stopped else f"combine: nothing of it runs on {home.path}")
    return 0


@command("restart", settings=True)
@_unit_argument
def restart_command(session: Session, names: tuple[str, ...]) -> int:
    """Stop the daemons and start them again.

    Each unit gets as many workers as it had. Without names all units that run are restarted.
    """
    home = session.home()
    session.settings(home.path)
    plan.refuse_unfollowed(home)
    workers = {unit["unit"]: _workers(unit) for unit in read_status(home.path)}
    wanted = _in_order(names) if names else tuple(workers) or tuple(UNITS)
    if systemd.runs(home):
        systemd.order("restart", wanted)
        return 0
    units.stop_units(home.path, wanted)
    return max(units.start_unit(home.path, unit, workers.get(unit, 0), session.overrides) for unit in wanted)


@command("config", json=True, settings=True)
def config_command(session: Session) -> None:
    """Print every setting in effect and where it comes from."""
    settings = session.settings(session.where())
    rows = effective(settings)
    if session.json:
        put_json({"settings": rows, "site": [_shown(rule) for rule in settings.site]})
        return
    width = max(len(f"{row['key']} = {_toml(row['value'])}") for row in rows if len(_toml(row["value"])) < 40)
    for row in rows:
        put(f"{row['key']} = {_toml(row['value'])}".ljust(width) + f"  # {row['origin']}\n")
    for rule in settings.site:
        pairs = [f"{name} = {_toml(value)}" for name, value in _shown(rule).items() if value not in (None, "")]
        put("[[site]] " + ", ".join(pairs) + "\n")


def _shown(rule: SiteRule) -> dict[str, Any]:
    """A rule as it may be shown: nobody's password."""
    return {**dataclasses.asdict(rule), "auth": "(set)" if rule.auth else ""}


@command("pause", settings=True)
def pause_command(session: Session) -> None:
    """Hand out no more jobs until `combine open`.

    What is leased finishes. The gate stays as it is over restarts.
    """
    set_gate(session.home(), "paused", session.overrides)
    session.say("combine: the gate is paused; combine open opens it")


@command("open", settings=True)
def open_command(session: Session) -> None:
    """Hand out jobs again after `combine pause`."""
    set_gate(session.home(), "open", session.overrides)
    session.say("combine: the gate is open")


def set_gate(home: Home, state: str, overrides: tuple[str, ...] = ()) -> None:
    """Put the gate into a state; where no scheduler runs, one is started for it."""
    with Started(home, overrides) as started:
        started.need("cabin")
        with peers.scheduler(home) as client:
            client.call("GATE", [job(GATE=state)])


def effective(settings: Settings) -> list[dict[str, Any]]:
    """Every setting with its value and where that comes from."""
    return [
        {
            "key": f"{section}.{key}",
            "value": getattr(getattr(settings, section), key),
            "origin": settings.origins.get(f"{section}.{key}", "default"),
        }
        for section, key, _ in known_keys()
    ]


def refuse_without_contact(home: Home, settings: Settings, overrides: tuple[str, ...] = ()) -> None:
    """Raise ConfigError where jobs of public hosts are queued and nobody to ask is named.

    Only the scheduler can tell, so it is started for the question where it does not run.
    """
    if settings.agent.has_contact:
        return
    with Started(home, overrides) as started:
        started.need("cabin")
        with peers.scheduler(home) as client:
            # Another `start` may ask the same at this moment, of a scheduler of its own that is stopped then.
            stat = run.insist(lambda: _settled(client), _ANSWER_S, lambda: started.revive(_unsaid))
    if stat.public:
        raise ConfigError(
            f"jobs of {counted(stat.public, 'public site')} are queued and nobody to ask is named: "
            "set agent.url or agent.email in combine.toml"
        )
    say(f"combine: {plan.contact_lines()}")


def _unsaid(_: str) -> None:
    """That a scheduler is started for one question is not worth a sentence."""


def _settled(client: peers.Client) -> peers.Stat:
    """The counters when every name has been looked up: before that nobody knows which hosts are private."""
    deadline = time.monotonic() + _NAMES_S
    while True:
        stat = peers.read_stat(client.call("STAT"))
        if not stat.unresolved or not stat.public or time.monotonic() > deadline:
            return stat
        time.sleep(_LOOK_S)


def _in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(unit for unit in UNITS if not names or unit in names)


def _workers(unit: dict[str, Any]) -> int:
    return sum(1 for child in unit["children"] if str(child.get("name", "")).partition("-")[0] in WORKERS)


def _toml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
