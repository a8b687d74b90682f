"""The command `combine`: its subcommands as data, and how an error leaves it.

A subcommand's module is imported only when the subcommand is run, so that `combine --help` answers at once. The
sentences of the table below are the first sentences of the commands' docstrings; a test insists. A command returns its
exit code, or None for 0.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from combine import __version__, inherited
from combine.cli import screen
from combine.cli.session import home_option, quiet_option
from combine.errors import EXIT_DONE, EXIT_FINDING, EXIT_TRY_LATER, EXIT_USAGE, CombineError, RecordError, passes
from combine.loading import loading

EXIT_INTERRUPTED = 130

#: heading → command → (module, what it does).
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Harvest": {
        "harvest": ("harvest", "Harvest sites once: start what does not run, load the URLs, end when all is done."),
        "try": ("attempt", "Ask for one page and print the record it would make; store nothing."),
    },
    "A standing harvest": {
        "init": ("lifecycle", "Make a home for a harvest."),
        "start": ("lifecycle", "Start the daemons of a standing harvest."),
        "stop": ("lifecycle", "Stop the daemons."),
        "restart": ("lifecycle", "Stop the daemons and start them again."),
        "status": ("status", "Say what runs, what waits and what was found."),
        "config": ("lifecycle", "Print every setting in effect and where it comes from."),
        "pause": ("lifecycle", "Hand out no more jobs until `combine open`."),
        "open": ("lifecycle", "Hand out jobs again after `combine pause`."),
    },
    "The queue": {
        "add": ("queue", "Put URLs into the queue of a running harvest."),
        "why": ("queue", "Say why a URL was, or was not, fetched."),
        "site": ("queue", "Say how a site stands, and brake or block it."),
    },
    "The records": {
        "list": ("records", "List the records: ID, a tab, and the URL."),
        "show": ("records", "Print a record."),
        "grep": ("records", "Find the records that hold a text."),
        "export": ("export", "Write the records as JSON lines or CSV."),
    },
    "Care": {
        "doctor": ("doctor", "Check the home, the machine and the settings, and name remedies."),
        "log": ("status", "Print the events that the daemons noted."),
        "agent-page": ("agent_page", "Write the static page that agent.url leads to."),
        "check": ("check", "Judge cases of your own, a JSON line each, as the harvest would."),
    },
}

COMMANDS = {name: place for section in SECTIONS.values() for name, place in section.items()}
ALIASES = {"resume": "open"}


class Commands(click.Group):
    """The subcommands, each imported when it is asked for."""

    def list_commands(self, _: click.Context) -> list[str]:
        """All names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        """The command of a name or an alias; None where there is none."""
        name = ALIASES.get(name, name)
        if name not in COMMANDS:
            return None
        with loading():
            module = importlib.import_module(f"combine.cli.{COMMANDS[name][0]}")
        found: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
        return found

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names; for an unknown one the nearest is named."""
        name = args[0]
        if name not in COMMANDS and name not in ALIASES and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, [*COMMANDS, *ALIASES], 1)
            raise click.UsageError(f"there is no command {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(context, args)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the table by its headings, without importing a command."""
        width = max(map(len, COMMANDS))
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in commands.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command; standing alone, every error becomes one sentence on stderr and an exit code."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        if args is None:
            inherited.mend()
            screen.name_stdout()
        try:
            code = super().main(args, prog_name or "combine", complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            code = _complain(_usage(error), error.exit_code)
        except CombineError as error:
            code = _complain(str(error), error.exit_code)
        except RecordError as error:
            code = _complain(str(error), EXIT_FINDING)
        except (click.Abort, KeyboardInterrupt):
            code = EXIT_INTERRUPTED
        except OSError as error:
            code = _complain(
                f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error),
                EXIT_TRY_LATER if passes(error) else EXIT_FINDING,
            )
        if args is None:
            gc.freeze()  # the interpreter ends now, and would search all that is left for garbage
        sys.exit(code if isinstance(code, int) else 0)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the command line; `--help` and `--version` answer here."""
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError:
            raise click.exceptions.Exit(_has_closed()) from None

    def invoke(self, context: click.Context) -> Any:
        """Run the subcommand."""
        try:
            result = super().invoke(context)
            sys.stdout.flush()
        except BrokenPipeError:
            return _has_closed()
        return result


def _has_closed() -> int:
    """Whoever closed the pipe has what he wanted, so that is no error; what is left goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_DONE


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    where = f"; see {context.command_path} --help" if context else ""
    return error.format_message().rstrip(".") + where


def _complain(sentence: str, code: int) -> int:
    screen.say(f"combine: {screen.one_line(sentence)}")
    return code


@click.group(
    name="combine", cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, message="combine-system %(version)s")
@home_option
@quiet_option
@click.pass_context
def main(context: click.Context) -> int | None:
    """Harvest web sites politely, and keep each page as a record that people can read.

    Exit codes: 0 done, 1 a finding, 2 wrong usage, 75 try later, 78 mend the configuration.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        return EXIT_USAGE
    return None
