"""The groups of commands: what each has, and where. The list of a group imports none of it."""

from typing import Annotated

import typer

from ..bounds import MOST_LINES
from ..commands_on_demand import CommandsOnDemand


class Schedules(CommandsOnDemand):
    """`cronhare schedules …`."""

    places = {  # noqa: RUF012 - a class variable, as its base says
        "show": ("schedules:show", "Show one: its row, its last run, its next due instants."),
        "pause": ("schedules:pause", "Let nothing of them run until a time, or `resume`."),
        "resume": ("schedules:resume", "End pauses."),
        "enable": ("schedules:enable", "Let them be due again, from now on."),
        "disable": ("schedules:disable", "Let them not be due, until they are enabled."),
        "delete": ("schedules:delete", "Delete one that no jobs file names."),
        "run": ("executions:run", "Run one now; its next due instant does not move."),
        "backfill": ("replays:backfill", "Run past due instants, in the background."),
        "export": ("jobs:export", "Write a jobs file of what is in the table."),
    }


class Executions(CommandsOnDemand):
    """`cronhare executions …`."""

    places = {  # noqa: RUF012 - as above
        "list": ("executions:list_", "List them, newest first; --watch tells of changes."),
        "show": ("executions:show", "Show one with its attempts: who runs it, what it waits for."),
        "logs": ("logs:logs", "Print what one wrote: the same command as `cronhare logs`."),
        "cancel": ("executions:cancel", "Ask for the end of some, whether they wait or run."),
        "stats": ("stats:executions", "Count the runs of the last week, per day and type."),
    }


class Failed(CommandsOnDemand):
    """`cronhare failed …`."""

    places = {  # noqa: RUF012 - as above
        "list": (
            "failures:list_failed",
            "List the archive, newest first; --watch tells of changes.",
        ),
        "show": (
            "failures:show_failed",
            "Show one: its attempts, its last output, and whose it is.",
        ),
        "replay": ("failures:replay", "Run them again, with a fresh retry allowance."),
        "discard": ("failures:discard_failed", "Resolve them; they stay in the archive."),
        "stats": ("stats:failures", "Count the failures of the last week, per day and type."),
    }


class Quarantine(CommandsOnDemand):
    """`cronhare quarantine …`."""

    places = {  # noqa: RUF012 - as above
        "list": ("failures:list_quarantined", "List what is quarantined, newest first."),
        "show": (
            "failures:show_quarantined",
            "Show one: its crashes, its attempts, and its last output.",
        ),
        "release": ("failures:release", "Let them run again, with a fresh allowance."),
        "discard": ("failures:discard_quarantined", "Resolve them without a run, with a note."),
    }


class Replays(CommandsOnDemand):
    """`cronhare replays …`."""

    places = {  # noqa: RUF012 - as above
        "list": ("replays:list_", "List them, newest first."),
        "show": ("replays:show", "Show one: how far it has come, and what it waits for."),
        "stop": ("replays:stop", "Let no other run begin; what has begun goes on."),
        "resume": ("replays:resume", "Let a stopped one go on, to its end."),
    }


class Nodes(CommandsOnDemand):
    """`cronhare nodes …`."""

    places = {  # noqa: RUF012 - as above
        "list": ("work:nodes", "List them: what they run, when they were seen, their clocks."),
        "drain": ("work:drain", "Have a worker take no more work, until it is taken back."),
        "undrain": ("work:undrain", "Let a worker that was drained take work again."),
    }


class Budgets(CommandsOnDemand):
    """`cronhare budgets …`."""

    places = {  # noqa: RUF012 - as above
        "list": ("work:budgets", "List what each queue has left of its retries."),
    }


class Breakers(CommandsOnDemand):
    """`cronhare breakers …`."""

    places = {  # noqa: RUF012 - as above
        "list": ("work:breakers", "List them: which are open, since when, until when."),
        "reset": ("work:reset", "Close one, and let it count anew."),
    }


class Alerts(CommandsOnDemand):
    """`cronhare alerts …`."""

    places = {  # noqa: RUF012 - as above
        "list": ("alerts:alerts", "List the alerts that hold, since when, and who was told."),
        "show": ("alerts:show", "Show some in full: each number, and why a target was not told."),
        "test": ("alerts:try_", "Send targets a test, and say what became of each."),
    }


class Events(CommandsOnDemand):
    """`cronhare events …`."""

    places = {  # noqa: RUF012 - as above
        "list": ("alerts:events", "List events and who is told of them, newest first."),
    }


class Notify(CommandsOnDemand):
    """`cronhare notify …`."""

    places = {  # noqa: RUF012 - as above
        "list": ("alerts:targets", "List the targets that a jobs file names."),
        "test": ("alerts:try_", "Tell a target of an event that says it is a test."),
    }


class Tokens(CommandsOnDemand):
    """`cronhare tokens …`."""

    places = {  # noqa: RUF012 - as above
        "create": ("access:create", "Make one; it is printed once, and kept nowhere."),
        "list": ("access:tokens", "List them: scope, expiry, last use."),
        "revoke": ("access:revoke", "Let one open nothing any more."),
    }


class Audit(CommandsOnDemand):
    """`cronhare audit …`."""

    places = {  # noqa: RUF012 - as above
        "list": ("access:audit", "List who changed what, newest first."),
    }


class Import(CommandsOnDemand):
    """`cronhare import …`."""

    places = {  # noqa: RUF012 - as above
        "crontab": ("import_crontab:crontab", "Turn crontabs into a jobs file."),
    }


class Service(CommandsOnDemand):
    """`cronhare service …`."""

    places = {  # noqa: RUF012 - as above
        "install": ("service:install", "Write units for systemd, and what they need beside."),
    }


class Database(CommandsOnDemand):
    """`cronhare db …`."""

    places = {  # noqa: RUF012 - as above
        "backup": ("db:backup", "Copy a ledger in a file, also while others work on it."),
        "upgrade": ("db:upgrade_schema", "Bring the schema to this version; nothing is lost."),
    }


schedules = typer.Typer(cls=Schedules, invoke_without_command=True, rich_markup_mode=None)


@schedules.callback()
def list_schedules(
    context: typer.Context,
    *,
    search: Annotated[
        str | None, typer.Option(help="Only those with this in their name or description.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST_LINES, help="At most so many, by name.")
    ] = 1_000,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for pipes.")] = False,
) -> None:
    """List the schedules: how the last run of each stands, and when it is due next.

    The last run is one that has not ended, else the one that ended last: where a retry did, that
    may be one which was due before others.
    """
    if context.invoked_subcommand is None:
        from .schedules import list_  # noqa: PLC0415 - whoever lists imports it

        list_(search=search, limit=limit, json=json)
