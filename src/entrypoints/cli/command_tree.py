"""The commands, together."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from ..settings.sources import CONFIG
from ..signals.pending import lives_long
from .commands import running
from .errors import Refusal, Status, report

app = typer.Typer(
    name="cronhare",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        sys.stdout.write(f"cronhare {version('cronhare')}\n")
        raise typer.Exit


@app.callback()
def _global(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            help="The settings file; else cronhare.toml here, in ~/.config/cronhare or in "
            "/etc/cronhare. [env: CRON_CONFIG]"
        ),
    ] = None,
) -> None:
    """A distributed cron that loses nothing.

    Start here: cronhare up --jobs jobs.toml
    """
    if config is not None:
        os.environ[CONFIG] = str(config)  # where whoever reads the settings looks


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Give the command line with what these arguments need.

    A process that lives long needs none of the others, whose tables would take 3 MB of it.
    """
    running.add_to(app)
    if not lives_long(arguments):
        from . import short_lived  # noqa: PLC0415

        short_lived.add_to(app)
    return app


def _refuse_bytes(arguments: Sequence[str]) -> None:
    """Refuse what neither a ledger nor a terminal could be given: bytes that are not text."""
    for number, argument in enumerate(arguments, start=1):
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise Refusal(f"argument {number} is not UTF-8 text: {argument!r}") from error


def run() -> int:
    """Run a command, and give its exit status."""
    try:
        arguments = sys.argv[1:]
        _refuse_bytes(arguments)
        status: int | None = app_for(arguments)(standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - the edge: every error becomes a sentence
        return report(error)
    return status or Status.DONE
