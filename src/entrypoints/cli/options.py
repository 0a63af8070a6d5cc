"""Options and arguments of several commands, and what a shell completes of them.

Those that make a filter or an order are a table. A TAB asks for help, and gets none where there is
no ledger: no error, no file, and no long wait.
"""

import functools
import inspect
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Annotated, Any, Concatenate, Final, Literal, ParamSpec, TypeAlias, TypeVar

import attrs
import typer

from cronhare.domain.execution import State
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.reading import Invalid
from cronhare.domain.retries.outcome import ErrorClass

from .errors import Refusal
from .times import IN_ZONE, PAST, read_span

#: Seconds after which a person has typed on.
PATIENCE: Final = 1.5


def _completes(kind: str) -> Callable[[str], Sequence[tuple[str, str]]]:
    def complete(incomplete: str) -> Sequence[tuple[str, str]]:
        # Whatever it is: a shell would print the error into the line that is being typed.
        with suppress(Exception), _patiently():
            from cronhare.adapters.sql.records.known_names import known_names  # noqa: PLC0415 - for TAB alone

            return known_names(_ledger(), kind, incomplete)
        return []

    return complete


SCHEDULES: Final = _completes("schedules")
TASKS: Final = _completes("tasks")
QUEUES: Final = _completes("queues")
NODES: Final = _completes("nodes")
EXECUTIONS: Final = _completes("executions")
FAILURES: Final = _completes("failures")
REPLAYS: Final = _completes("replays")


def runs(incomplete: str) -> Sequence[tuple[str, str]]:
    return [*SCHEDULES(incomplete), *EXECUTIONS(incomplete)]


def _ledger() -> str:
    from ..settings.sources import find_setting  # noqa: PLC0415 - as above

    return find_setting("database_url", "sqlite:///cronhare.sqlite3")


@contextmanager
def _patiently() -> Iterator[None]:
    def give_up(*_: Any) -> None:  # noqa: ANN401 - a signal's own
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


P = ParamSpec("P")
M = TypeVar("M")

Completes: TypeAlias = Callable[[str], Sequence[tuple[str, str]]]

#: The most rows or instants that can be asked for at once.
MOST_LINES: Final = 10_000


def one_of(what: str, completes: Completes, *, metavar: str | None = None) -> Any:  # noqa: ANN401 - typer's
    return typer.Argument(metavar=metavar, help=what, show_default=False, autocompletion=completes)


def number(what: str, completes: Completes) -> Any:  # noqa: ANN401 - typer's
    return typer.Argument(
        min=1, max=LARGEST_ID, help=what, show_default=False, autocompletion=completes
    )


ScheduleName = Annotated[str, one_of("The schedule's name.", SCHEDULES)]
ScheduleNames = Annotated[list[str], one_of("The schedules' names.", SCHEDULES)]
Limit = Annotated[int, typer.Option(min=1, max=MOST_LINES, help="At most so many.")]
Note = Annotated[str, typer.Option("--note", help="Why, for whoever reads the archive.")]
By = Annotated[str | None, typer.Option("--by", help="Who asks; else the user of this host.")]
Watch = Annotated[
    bool, typer.Option("--watch", help="Go on: a line for each that is new or has moved on.")
]
Before = Annotated[
    int | None, typer.Option(min=1, max=LARGEST_ID, help="The next page: those before this number.")
]


def _option(kind: Any, flag: str, what: str, completes: Completes | None = None) -> Any:  # noqa: ANN401 - typer's
    return Annotated[kind | None, typer.Option(flag, help=what, autocompletion=completes)]


#: Each option, by the field of a filter or an order that it fills.
_OPTIONS: Final[Mapping[str, Any]] = {
    "schedule": _option(str, "--schedule", "Only those of this schedule.", SCHEDULES),
    "task": _option(str, "--task", "Only those of this task: its name, or `report 25`.", TASKS),
    "type": _option(str, "--type", "Only those of this type of task."),
    "queue": _option(str, "--queue", "Only those from this queue.", QUEUES),
    "states": _option(list[State], "--state", "Only those in this state; may be repeated."),
    "reason": _option(
        str, "--reason", "Only those whose reason or error has this part, letter for letter."
    ),
    "error_class": _option(ErrorClass, "--error", "Only those with an error of this class."),
    "code": _option(str, "--code", "Only those whose error has this code, such as ETIMEDOUT."),
    "kind": _option(Literal["failed", "quarantined"], "--kind", "Only those that ended so."),
    "since": _option(str, "--since", f"Only from this time on: {PAST}. {IN_ZONE}."),
    "until": _option(str, "--until", "Only before this time, written the same way."),
    # How runs in the background are spread.
    "rate": _option(float, "--rate", "At most so many begin in a second."),
    "jitter": _option(
        float, "--jitter", "By how much of itself a gap grows at most, by chance: 0.2 is 20 %."
    ),
    "canary": _option(int, "--canary", "Judge so many before any other begins."),
    "stop_at": _option(
        str, "--stop-at", "Stop if more than this part goes badly, such as 0.2; or never."
    ),
    "attempts": _option(int, "--attempts", "Try each so often in all; else as its policy says."),
    "author": By,
    "key": _option(
        str,
        "--per",
        "Limit those that have this in common: schedule, task, queue, or a path such as "
        "params.customer.id.",
    ),
    "at_once": _option(
        int,
        "--at-once",
        "So many are under way at a time, by default 1; of failures, so many of one --per.",
    ),
}

#: What failures are asked for by, and quarantined ones; and the rules of replays and backfills.
OF_FAILURES: Final = (
    *("schedule", "task", "type", "queue", "reason", "error_class", "code", "kind"),
    *("since", "until"),
)
OF_QUARANTINED: Final = ("schedule", "task", "reason", "since", "until")
RULES: Final = ("rate", "jitter", "canary", "stop_at", "attempts", "author")

#: Options that are not called as their field.
_CALLED: Final = {"key": "--per", "author": "--by", "error_class": "--error"}


@attrs.frozen
class Asked:
    """What was asked for by options, by the names of the fields that they fill."""

    values: Mapping[str, Any]

    @property
    def given(self) -> dict[str, Any]:
        return {name: value for name, value in self.values.items() if value is not None}

    def filter(self, of: Callable[..., M], /, *, now: datetime, **more: Any) -> M:  # noqa: ANN401 - its fields
        asked, faults = self.given | more, list[str]()
        if "kind" in asked:
            asked["kind"] = State(asked["kind"])
        try:
            since, until = read_span(asked.pop("since", None), asked.pop("until", None), now=now)
            asked |= {"since": since, "until": until}
        except Refusal as refusal:
            faults += refusal.details
        try:
            made = of(**asked)
        except Invalid as error:
            faults += said_by_option(error)
        if faults:
            raise Refusal("that cannot be asked for", faults)
        return made

    def expect_one_choice(self, ids: list[int] | None, *, everything: bool, listed_by: str) -> None:
        if [bool(ids), everything, bool(self.given)].count(True) != 1:
            raise Refusal(
                f"say which: numbers from `{listed_by}`, a filter such as --schedule, or --all"
            )


def option_of(field: str) -> str:
    return _CALLED.get(field, f"--{field.replace('_', '-')}")


def said_by_option(error: Invalid) -> list[str]:
    return [f"{option_of(each.field)}: {each.problem}" for each in error.faults]


@contextmanager
def told_by_option(what: str) -> Iterator[None]:
    try:
        yield
    except Invalid as error:
        raise Refusal(what, said_by_option(error)) from error


def chosen_by(
    *fields: str, **defaults: str
) -> Callable[[Callable[Concatenate[Asked, P], None]], Callable[..., None]]:
    """Give a command the options of these fields; its first parameter is what they say."""

    def taught(command: Callable[Concatenate[Asked, P], None]) -> Callable[..., None]:
        given = [*inspect.signature(command).parameters.values()][1:]
        by_name = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(name, by_name, default=defaults.get(name), annotation=_OPTIONS[name])
            for name in fields
        ]
        by_place = [one for one in given if one.kind is not by_name]
        parameters = [*by_place, *added, *(one for one in given if one.kind is by_name)]

        @functools.wraps(command)
        def taking(*args: Any, **values: Any) -> None:  # noqa: ANN401 - as typer calls it
            command(Asked({name: values.pop(name) for name in fields}), *args, **values)

        taking.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        taking.__annotations__ = {one.name: one.annotation for one in parameters}
        return taking

    return taught
