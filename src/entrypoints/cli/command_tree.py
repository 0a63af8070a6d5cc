"""The commands: their names, where each is, and what the list of them says."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from .commands_on_demand import CommandsOnDemand


class Commands(CommandsOnDemand):
    """All commands, in the order of `cronhare --help`."""

    places = {  # noqa: RUF012 - a class variable, as its base says
        "init": ("service:init", "Make a jobs file to begin with."),
        "up": ("processes:up", "Apply a jobs file; run scheduler and worker in one process."),
        "scheduler": ("processes:scheduler", "Run a scheduler: one of any number."),
        "worker": ("processes:worker", "Run a worker: one of any number."),
        "web": ("processes:web", "Show the page, and answer for the API and metrics."),
        "check": ("jobs:check", "Validate jobs files, of several also beside each other."),
        "plan": ("jobs:plan", "Show what `apply` would change."),
        "apply": ("jobs:apply", "Make the schedules table as the jobs file says."),
        "next": ("next_due:next_due", "Show the next due instants of a cron expression."),
        "queues": ("work:queues", "List the task queues: what waits in each for how long."),
        "run": ("executions:run", "Run a schedule now; its next due instant does not move."),
        "explain": ("executions:explain", "Say why a schedule ran at an instant, or did not."),
        "doctor": ("doctor:doctor", "Look at settings, database, clock, nodes and broker."),
        "metrics": ("work:metrics", "Print metrics, for Prometheus, counted in the ledger now."),
        "settings": ("settings:settings", "Show each setting, and where it came from."),
        "schedules": ("groups:schedules", "The schedules; without a command they are listed."),
        "executions": ("groups:Executions", "What the ledger knows of each due instant."),
        "logs": ("logs:logs", "Print what a run wrote, or a schedule's newest; -f follows."),
        "nodes": ("groups:Nodes", "The processes that work on the ledger."),
        "budgets": ("groups:Budgets", "The retry budgets of the queues."),
        "breakers": ("groups:Breakers", "The circuit breakers of the tasks."),
        "failed": ("groups:Failed", "What failed for good, and what becomes of it."),
        "quarantine": (
            "groups:Quarantine",
            "Poison pills and broken rows, and what becomes of them.",
        ),
        "alerts": ("groups:Alerts", "What is wrong now, since when, and who was told."),
        "events": ("groups:Events", "Who was told of what, and who was not."),
        "notify": ("groups:Notify", "Who is told when something fails: the jobs file's targets."),
        "replays": (
            "groups:Replays",
            "Replays of many failures, and backfills.",
        ),
        "tokens": ("groups:Tokens", "Who may ask over HTTP, and how far that reaches."),
        "audit": ("groups:Audit", "Who changed what, when, from where."),
        "import": ("groups:Import", "Bring schedules from elsewhere."),
        "service": ("groups:Service", "Units for systemd."),
        "db": ("groups:Database", "The ledger: its schema, and copies of it."),
    }


app = typer.Typer(
    name="cronhare",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        from importlib.metadata import version  # noqa: PLC0415 - it takes as long as all else here

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

    Start here: cronhare init, and then: cronhare up --jobs jobs.toml
    """
    if config is not None:
        from ..settings.sources import CONFIG  # noqa: PLC0415 - all that reads settings

        os.environ[CONFIG] = str(config)  # where the settings are read from


def _refuse_bytes(arguments: Sequence[str]) -> None:
    """Refuse bytes that are not text: neither a ledger nor a terminal takes them."""
    for number, argument in enumerate(arguments, start=1):
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            from .errors import Refusal  # noqa: PLC0415 - as below

            raise Refusal(f"argument {number} is not UTF-8 text: {argument!r}") from error


def run() -> int:
    """Run a command, and give its exit status."""
    try:
        _refuse_bytes(sys.argv[1:])
        status: int | None = app(standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - the edge: every error becomes a sentence
        from .errors import report  # noqa: PLC0415 - whoever succeeds without it is done sooner

        return report(error)
    return status or 0
