"""The options that say which failures are meant; all commands on the archive have the same."""

import enum
from datetime import datetime
from typing import Annotated, Any

import typer

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import FailureFilter, FailureFilterInvalid
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.retries.outcome import ErrorClass

from .completion import FAILURES, QUEUES, SCHEDULES, TASKS
from .errors import Refusal
from .times import IN_UTC, PAST, read_span

OfSchedule = Annotated[
    str | None,
    typer.Option("--schedule", help="Only those of this schedule.", autocompletion=SCHEDULES),
]
OfTask = Annotated[
    str | None,
    typer.Option(
        "--task", help="Only those of this task: its name, or `report 25`.", autocompletion=TASKS
    ),
]
OfType = Annotated[str | None, typer.Option("--type", help="Only those of this type of task.")]
OfQueue = Annotated[
    str | None, typer.Option("--queue", help="Only those from this queue.", autocompletion=QUEUES)
]
WithReason = Annotated[
    str | None,
    typer.Option(
        "--reason", help="Only those whose reason or error has this part, letter for letter."
    ),
]
OfClass = Annotated[ErrorClass | None, typer.Option("--error", help="Only errors of this class.")]
WithCode = Annotated[
    str | None, typer.Option("--code", help="Only errors with this code, such as ETIMEDOUT.")
]
Since = Annotated[
    str | None,
    typer.Option(help=f"Failed at this time or later: {PAST}. {IN_UTC}."),
]
Until = Annotated[str | None, typer.Option(help="Failed before this time, written the same way.")]


class Kind(enum.StrEnum):
    """How a run ended for which a row of the archive stands."""

    FAILED = State.FAILED.value
    QUARANTINED = State.QUARANTINED.value


OfKind = Annotated[Kind | None, typer.Option("--kind", help="Only those that ended so.")]
Ids = Annotated[
    list[int] | None,
    typer.Argument(
        min=1, max=LARGEST_ID, help="Numbers from `failed list`.", autocompletion=FAILURES
    ),
]
Note = Annotated[str, typer.Option("--note", help="Why, for whoever reads the archive.")]
All = Annotated[bool, typer.Option("--all", help="Everything that is unresolved.")]


def check_choice(
    ids: list[int] | None,
    *,
    everything: bool,
    has_filter: bool,
    listed_by: str = "cronhare failed list",
) -> None:
    """Expect numbers, as the command *listed_by* has them, a filter, or everything.

    Raises:
        Refusal: it is none of them, or several.
    """
    if [bool(ids), everything, has_filter].count(True) != 1:
        raise Refusal(
            f"say which: numbers from `{listed_by}`, a filter such as --schedule, or --all"
        )


def failure_filter(
    *,
    now: datetime,
    since: str | None,
    until: str | None,
    **asked: Any,  # noqa: ANN401
) -> FailureFilter:
    """Make the filter of what was *asked*, by the names of its fields.

    Raises:
        Refusal: with every fault at once.
    """
    faults: list[str] = []
    first, last = None, None
    try:
        first, last = read_span(since, until, now=now)
    except Refusal as refusal:
        faults += refusal.details
    try:
        which = FailureFilter(since=first, until=last, **asked)
    except FailureFilterInvalid as error:
        faults += [f"--{field.replace('_', '-')}: {why}" for field, why in error.faults]
    if faults:
        raise Refusal("these failures cannot be asked for", faults)
    return which
