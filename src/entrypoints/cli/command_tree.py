"""The commands: their names, where each is, and what the lists of them say.

A command is imported when it is called. Lists of commands import none.
"""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

#: By its name: where a command is in `commands`, as `module:function`, and its help of one line. A
#: group has further commands in the place of a function; what it does without one is called "".
Places: TypeAlias = Mapping[str, tuple["str | Places", str]]


class Commands(TyperGroup):
    """A group of commands; all of them, in the order of `cronhare --help`, without *places*."""

    def __init__(self, places: Places | None = None, **options: Any) -> None:  # noqa: ANN401 - as typer gives them
        super().__init__(**options)
        self.places = TREE if places is None else places
        for name, (_, text) in self.places.items():
            if name:
                self.add_command(TyperCommand(name, help=text, rich_markup_mode=None))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer's own types
        name, known, rest = super().resolve_command(ctx, args)
        return name, None if name is None else self.load(name), rest if known else args

    def load(self, name: str) -> TyperCommand | TyperGroup:
        place, text = self.places[name]
        if isinstance(place, str):
            return _made(place, name)
        options: dict[str, Any] = {"no_args_is_help": "" not in place}
        if not options["no_args_is_help"]:
            alone = _made(str(place[""][0]), name)
            options |= {"callback": alone.callback, "params": alone.params}
            options["invoke_without_command"] = True
        return Commands(place, name=name, help=text, rich_markup_mode=None, **options)


def _made(place: str, name: str) -> TyperCommand:
    module, _, function = place.partition(":")
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    found = getattr(import_module(f"{__package__}.commands.{module}"), function)
    alone.command(name)(found)
    command = get_command(alone)
    assert isinstance(command, TyperCommand)
    return command


_SCHEDULES: Final[Places] = {
    "": ("schedules:list_", ""),
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
_EXECUTIONS: Final[Places] = {
    "list": ("executions:list_", "List them, newest first; --watch tells of changes."),
    "show": ("executions:show", "Show one with its attempts: who runs it, what it waits for."),
    "logs": ("logs:logs", "Print what one wrote: the same command as `cronhare logs`."),
    "cancel": ("executions:cancel", "Ask for the end of some, whether they wait or run."),
    "stats": ("stats:executions", "Count the runs of the last week, per day and type."),
}
_NODES: Final[Places] = {
    "list": ("work:nodes", "List them: what they run, when they were seen, their clocks."),
    "drain": ("work:drain", "Have a worker take no more work, until it is taken back."),
    "undrain": ("work:undrain", "Let a worker that was drained take work again."),
    "forget": ("work:forget", "Forget a node that is silent and will not come back."),
}
_BREAKERS: Final[Places] = {
    "list": ("work:breakers", "List them: which are open, since when, until when."),
    "reset": ("work:reset", "Close one, and let it count anew."),
}
_FAILED: Final[Places] = {
    "list": ("failures:list_failed", "List the archive, newest first; --watch tells of changes."),
    "show": ("failures:show_failed", "Show one: its attempts, its last output, and whose it is."),
    "replay": ("failures:replay", "Run them again, with a fresh retry allowance."),
    "discard": ("failures:discard_failed", "Resolve them; they stay in the archive."),
    "stats": ("stats:failures", "Count the failures of the last week, per day and type."),
}
_QUARANTINE: Final[Places] = {
    "list": ("failures:list_quarantined", "List what is quarantined, newest first."),
    "show": (
        "failures:show_quarantined",
        "Show one: its crashes, its attempts, and its last output.",
    ),
    "release": ("failures:release", "Let them run again, with a fresh allowance."),
    "discard": ("failures:discard_quarantined", "Resolve them without a run, with a note."),
}
_ALERTS: Final[Places] = {
    "list": ("alerts:alerts", "List the alerts that hold, since when, and who was told."),
    "show": ("alerts:show", "Show some in full: each number, and why a target was not told."),
    "test": ("alerts:try_", "Send targets a test, and say what became of each."),
}
_NOTIFY: Final[Places] = {
    "list": ("alerts:targets", "List the targets that a jobs file names."),
    "test": ("alerts:try_", "The same command as `cronhare alerts test`."),
}
_REPLAYS: Final[Places] = {
    "list": ("replays:list_", "List them, newest first."),
    "show": ("replays:show", "Show one: how far it has come, and what it waits for."),
    "stop": ("replays:stop", "Let no other run begin; what has begun goes on."),
    "resume": ("replays:resume", "Let a stopped one go on, to its end."),
}
_TOKENS: Final[Places] = {
    "create": ("access:create", "Make one; it is printed once, and kept nowhere."),
    "list": ("access:tokens", "List them: scope, expiry, last use."),
    "revoke": ("access:revoke", "Let one open nothing any more."),
}
_DATABASE: Final[Places] = {
    "backup": ("upkeep:backup", "Copy a ledger in a file, also while others work on it."),
    "upgrade": ("upkeep:upgrade_schema", "Bring the schema to this version; nothing is lost."),
}

TREE: Final[Places] = {
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
    "doctor": ("upkeep:doctor", "Look at settings, database, clock, nodes and broker."),
    "metrics": ("work:metrics", "Print metrics, for Prometheus, counted in the ledger now."),
    "settings": ("upkeep:settings", "Show each setting, and where it came from."),
    "schedules": (_SCHEDULES, "The schedules; without a command they are listed."),
    "executions": (_EXECUTIONS, "What the ledger knows of each due instant."),
    "logs": ("logs:logs", "Print what a run wrote, or a schedule's newest; -f follows."),
    "nodes": (_NODES, "The processes that work on the ledger."),
    "budgets": (
        {"list": ("work:budgets", "List what each queue has left of its retries.")},
        "The retry budgets of the queues.",
    ),
    "breakers": (_BREAKERS, "The circuit breakers of the tasks."),
    "failed": (_FAILED, "What failed for good, and what becomes of it."),
    "quarantine": (_QUARANTINE, "Poison pills and broken rows, and what becomes of them."),
    "alerts": (_ALERTS, "What is wrong now, since when, and who was told."),
    "events": (
        {"list": ("alerts:events", "List events and who is told of them, newest first.")},
        "Who was told of what, and who was not.",
    ),
    "notify": (_NOTIFY, "Who is told when something fails: the jobs file's targets."),
    "replays": (_REPLAYS, "Replays of many failures, and backfills."),
    "tokens": (_TOKENS, "Who may ask over HTTP, and how far that reaches."),
    "audit": (
        {"list": ("access:audit", "List who changed what, newest first.")},
        "Who changed what, when, from where.",
    ),
    "import": (
        {"crontab": ("import_crontab:crontab", "Turn crontabs into a jobs file.")},
        "Bring schedules from elsewhere.",
    ),
    "service": (
        {"install": ("service:install", "Write units for systemd, and what they need beside.")},
        "Units for systemd.",
    ),
    "db": (_DATABASE, "The ledger: its schema, and copies of it."),
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


def run() -> int:
    try:
        for number, argument in enumerate(sys.argv[1:], start=1):
            _refuse_bytes(number, argument)
        status: int | None = app(standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - the edge: every error becomes a sentence
        from .errors import report  # noqa: PLC0415 - whoever succeeds without it is done sooner

        return report(error)
    return status or 0


def _refuse_bytes(number: int, argument: str) -> None:
    """Refuse bytes that are not text: neither a ledger nor a terminal takes them."""
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        from .errors import Refusal  # noqa: PLC0415 - as above

        raise Refusal(f"argument {number} is not UTF-8 text: {argument!r}") from error
