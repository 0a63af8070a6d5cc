"""The commands, together."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from . import administration, doctor, executions, failed, files, imports, running, times
from .trouble import report

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
) -> None:
    """A distributed cron that loses nothing.

    Start here: cronhare up --jobs jobs.toml
    """


running.add_to(app)
files.add_to(app)
times.add_to(app)
administration.add_to(app)
doctor.add_to(app)
app.add_typer(executions.app, name="executions")
app.add_typer(failed.app, name="failed")
app.add_typer(imports.app, name="import")
app.add_typer(administration.db, name="db")


def run() -> None:
    """Run a command and leave with its exit status."""
    try:
        app()
    except Exception as error:  # noqa: BLE001 - the edge: every error becomes a sentence
        sys.exit(report(error))
