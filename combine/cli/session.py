"""What every command shares: the home that was asked for, how to speak, and the options that all of them take.

`--home` and `-q` are taken before and after the subcommand; the later one wins. Opening the home is left to the
command, since only `init` and `harvest` may make one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from combine.cli.screen import say

if TYPE_CHECKING:
    from combine.config import Settings
    from combine.keep.home import Home

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(slots=True)
class Session:
    """The options that stand for one run of the command."""

    home_option: str | None = None
    quiet: bool = False
    json: bool = False
    overrides: tuple[str, ...] = ()

    def where(self) -> Path:
        """The directory of the home, which may not exist yet."""
        from combine.keep.home import find

        return find(self.home_option, os.environ, Path.cwd())

    def home(self, write: bool = True) -> Home:
        """The home, checked; raises ConfigError where there is none, or where it is not fit to be written."""
        from combine.keep.home import open_home

        return open_home(self.where(), write=write)

    def settings(self, home: Path) -> Settings:
        """The settings of a home with what `--set` says."""
        from combine.config import load

        return load(home, self.overrides)

    def say(self, text: str) -> None:
        """Write a sentence to stderr unless `-q` was given."""
        if not self.quiet:
            say(text)


pass_session = click.make_pass_decorator(Session, ensure=True)


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value:
            setattr(context.ensure_object(Session), name, value)

    return callback


home_option = click.option(
    "--home",
    metavar="DIR",
    expose_value=False,
    callback=_keep("home_option"),
    help="The harvest's directory; else $COMBINE_HOME, else the current directory if it is one, else ./harvest.",
)
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, expose_value=False, callback=_keep("quiet"), help="Say errors only."
)
json_option = click.option("--json", is_flag=True, expose_value=False, callback=_keep("json"), help="Print JSON.")
output_option = click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=lambda _context, _option, path: None if path == Path("-") else path,
    help="A file instead of stdout, which is also -.",
)
set_option = click.option(
    "--set",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    expose_value=False,
    callback=_keep("overrides"),
    help="A setting for this time, over combine.toml; may be given again.",
)


def command(name: str, *, json: bool = False, settings: bool = False) -> Callable[[_F], click.Command]:
    """Make a function that takes a Session first into the command `name`, with the options that all commands take."""

    def decorate(function: _F) -> click.Command:
        decorated: Any = pass_session(function)
        for option, wanted in ((quiet_option, True), (home_option, True), (set_option, settings), (json_option, json)):
            if wanted:
                decorated = option(decorated)
        return click.command(name)(decorated)

    return decorate
