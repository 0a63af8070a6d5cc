"""The commands: their names, and where each is."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from ..settings.settings_file import CONFIG
from ..signals.pending import is_long_lived
from .commands import scheduler, up, worker
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
        os.environ[CONFIG] = str(config)  # where the settings are read from


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Give the command line with the commands that these arguments need.

    A process that lives long is spared the others, whose tables take 3 MB.
    """
    for command in (up.up, scheduler.scheduler, worker.worker):
        app.command()(command)
    if not is_long_lived(arguments):
        add_short_lived(app)
    return app


def add_short_lived(to: typer.Typer) -> None:
    """Add the commands that do one thing and end."""
    from .commands import (  # noqa: PLC0415 - what lives long needs none of them
        breakers,
        budgets,
        check,
        db,
        doctor,
        events,
        executions,
        explain,
        failed,
        import_crontab,
        next_due,
        nodes,
        notify,
        plan_apply,
        quarantine,
        queues,
        replays,
        run,
        schedules,
        schedules_export,
        schedules_show,
        schedules_switch,
        settings,
        stats,
    )

    commands: dict[str, Callable[..., None]] = {
        "check": check.check,
        "plan": plan_apply.plan,
        "apply": plan_apply.apply,
        "next": next_due.next_due,
        "queues": queues.queues,
        "run": run.run,
        "explain": explain.explain,
        "doctor": doctor.doctor,
        "settings": settings.settings,
    }
    for name, command in commands.items():
        to.command(name)(command)
    of_schedules: dict[str, Callable[..., None]] = {
        "show": schedules_show.show,
        "enable": schedules_switch.enable,
        "disable": schedules_switch.disable,
        "run": run.run,
        "export": schedules_export.export,
    }
    for name, command in of_schedules.items():
        schedules.app.command(name)(command)
    failed.app.command("stats")(stats.failures)
    executions.app.command("stats")(stats.executions)
    groups = {
        "schedules": schedules.app,
        "executions": executions.app,
        "nodes": nodes.app,
        "budgets": budgets.app,
        "breakers": breakers.app,
        "failed": failed.app,
        "quarantine": quarantine.app,
        "events": events.app,
        "notify": notify.app,
        "replays": replays.app,
        "import": import_crontab.app,
        "db": db.app,
    }
    for name, group in groups.items():
        to.add_typer(group, name=name)


def _refuse_bytes(arguments: Sequence[str]) -> None:
    """Refuse bytes that are not text: neither a ledger nor a terminal takes them."""
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
