"""Options and arguments of several commands; those that choose failures are a table."""

import enum
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

import attrs
import typer

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.reading import Invalid
from cronhare.domain.retries.outcome import ErrorClass

from .completion import QUEUES, SCHEDULES, TASKS
from .errors import Refusal
from .times import IN_ZONE, PAST, read_span

P = ParamSpec("P")
G = TypeVar("G")

Completes: TypeAlias = Callable[[str], Sequence[tuple[str, str]]]


def one_of(what: str, completes: Completes, *, metavar: str | None = None) -> Any:  # noqa: ANN401 - typer's
    """Make the argument, or arguments, that name something of the ledger."""
    return typer.Argument(metavar=metavar, help=what, show_default=False, autocompletion=completes)


def number(what: str, completes: Completes) -> Any:  # noqa: ANN401 - typer's
    """Make the argument, or arguments, that are numbers of the ledger's."""
    return typer.Argument(
        min=1, max=LARGEST_ID, help=what, show_default=False, autocompletion=completes
    )


def only(flag: str, those: str, completes: Completes | None = None) -> Any:  # noqa: ANN401 - typer's
    """Make an option by which a list is asked for a part of it."""
    return typer.Option(flag, help=f"Only those {those}", autocompletion=completes)


ScheduleName = Annotated[str, one_of("The schedule's name.", SCHEDULES)]
ScheduleNames = Annotated[list[str], one_of("The schedules' names.", SCHEDULES)]
OfSchedule = Annotated[str | None, only("--schedule", "of this schedule.", SCHEDULES)]
OfTask = Annotated[str | None, only("--task", "of this task: its name, or `report 25`.", TASKS)]


class Kind(enum.StrEnum):
    """How a run ended for which a row of the archive stands."""

    FAILED = State.FAILED.value
    QUARANTINED = State.QUARANTINED.value


#: Each option, by the field of the filter that it fills.
_OPTIONS: Final[Mapping[str, Any]] = {
    "schedule": OfSchedule,
    "task": OfTask,
    "type": Annotated[str | None, only("--type", "of this type of task.")],
    "queue": Annotated[str | None, only("--queue", "from this queue.", QUEUES)],
    "reason": Annotated[
        str | None, only("--reason", "whose reason or error has this part, letter for letter.")
    ],
    "error_class": Annotated[ErrorClass | None, only("--error", "with an error of this class.")],
    "code": Annotated[str | None, only("--code", "whose error has this code, such as ETIMEDOUT.")],
    "kind": Annotated[Kind | None, only("--kind", "that ended so.")],
    "since": Annotated[
        str | None,
        typer.Option("--since", help=f"Failed at this time or later: {PAST}. {IN_ZONE}."),
    ],
    "until": Annotated[
        str | None, typer.Option("--until", help="Failed before this time, written the same way.")
    ],
}
EVERY_OPTION: Final = tuple(_OPTIONS)

#: What a quarantine is asked for by.
FEW_OPTIONS: Final = ("schedule", "task", "reason", "since", "until")

#: The most rows or instants that can be asked for at once.
MOST_LINES: Final = 10_000

Limit = Annotated[int, typer.Option(min=1, max=MOST_LINES, help="At most so many.")]
Note = Annotated[str, typer.Option("--note", help="Why, for whoever reads the archive.")]
Before = Annotated[
    int | None,
    typer.Option(min=1, max=LARGEST_ID, help="The next page: those before this number."),
]


@attrs.frozen
class Asked:
    """What was asked for by options, by the names of the filter's fields."""

    values: Mapping[str, Any]

    @property
    def says_something(self) -> bool:
        """Whether any option was given."""
        return any(value is not None for value in self.values.values())

    def filter(self, *, now: datetime, **more: Any) -> FailureFilter:  # noqa: ANN401 - its fields
        """Make the filter."""
        asked = {**self.values, **more}
        faults: list[str] = []
        first, last = None, None
        try:
            first, last = read_span(asked.pop("since", None), asked.pop("until", None), now=now)
        except Refusal as refusal:
            faults += refusal.details
        kind = asked.pop("kind", None)
        try:
            which = FailureFilter(
                since=first, until=last, kind=None if kind is None else State(kind), **asked
            )
        except Invalid as error:
            faults += [f"--{each.field.replace('_', '-')}: {each.problem}" for each in error.faults]
        if faults:
            raise Refusal("these failures cannot be asked for", faults)
        return which

    def expect_one_choice(self, ids: list[int] | None, *, everything: bool, listed_by: str) -> None:
        """Expect numbers, as the command *listed_by* has them, a filter, or everything."""
        if [bool(ids), everything, self.says_something].count(True) != 1:
            raise Refusal(
                f"say which: numbers from `{listed_by}`, a filter such as --schedule, or --all"
            )


def with_options(
    options: Mapping[str, Any], made: Callable[[Mapping[str, Any]], G]
) -> Callable[[Callable[Concatenate[G, P], None]], Callable[..., None]]:
    """Give a command these options; its first parameter is *made* of what they say."""

    def taught(command: Callable[Concatenate[G, P], None]) -> Callable[..., None]:
        given = [*inspect.signature(command).parameters.values()][1:]
        by_name = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(name, by_name, default=None, annotation=option)
            for name, option in options.items()
        ]
        by_place = [one for one in given if one.kind is not by_name]
        parameters = [*by_place, *added, *(one for one in given if one.kind is by_name)]

        @functools.wraps(command)
        def taking(*args: Any, **values: Any) -> None:  # noqa: ANN401 - as typer calls it
            command(made({name: values.pop(name) for name in options}), *args, **values)

        taking.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        taking.__annotations__ = {one.name: one.annotation for one in parameters}
        return taking

    return taught


def chosen_by(
    *fields: str,
) -> Callable[[Callable[Concatenate[Asked, P], None]], Callable[..., None]]:
    """Give a command the options of these fields; its first parameter is what they say."""
    return with_options({field: _OPTIONS[field] for field in fields}, Asked)
