"""Which failures a request means: in the query of a list, and in the body of an action."""

from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo

import attrs
from fastapi import Query

from cronhare.adapters.jobs.fields import read_moment
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import FailureFilter, FailureFilterInvalid
from cronhare.domain.reading import Fault
from cronhare.domain.retries.outcome import ErrorClass

from ..problems import invalid_request
from .parameters import Moment, Text

Kind = Literal["failed", "quarantined"]

_UTC: Final = ZoneInfo("UTC")


@attrs.frozen(kw_only=True)
class FailureSelection:
    """Those of the unresolved failures that have all of this; or `all` of them.

    `task` is a task's name, or its reference (`report 25`); `reason` a part of what is said. Failed
    at `since` or later and before `until`; these are in UTC unless they say another offset.
    """

    all: bool = False
    schedule: str | None = None
    task: str | None = None
    type: str | None = None
    queue: str | None = None
    reason: str | None = None
    error_class: ErrorClass | None = None
    code: str | None = None
    kind: Kind | None = None
    since: str | None = None
    until: str | None = None


@attrs.frozen(kw_only=True)
class ReplayRequest(FailureSelection):
    """Which failures to run again, in the background, and how they are spread.

    At most `rate` begin in a second, each gap longer by up to `jitter` of itself. Of those that
    have one `key` in common (schedule, task, queue, or a path such as params.customer.id)
    `at_once` are under way. The first `canary` are judged before any other begins. It stops once
    more than `stop_at` of them go badly, and never if that is null. With `dry_run` they are only
    counted.
    """

    rate: float | None = None
    jitter: float | None = None
    key: str | None = None
    at_once: int | None = None
    canary: int | None = None
    stop_at: float | None = None
    attempts: int | None = None
    dry_run: bool = False


@attrs.frozen(kw_only=True)
class DiscardRequest(FailureSelection):
    """Which failures to resolve without a run, and why."""

    note: str = ""


@attrs.frozen(kw_only=True)
class ReplayOneRequest:
    """So many `attempts` in all; else as many as its policy says."""

    attempts: int | None = None


@attrs.frozen(kw_only=True)
class DiscardOneRequest:
    """Why it is resolved without a run."""

    note: str = ""


def failure_filter(
    *,
    schedule: Text = None,
    task: Text = None,
    type: Text = None,  # noqa: A002 - the query's name
    queue: Text = None,
    reason: Text = None,
    error_class: Annotated[ErrorClass | None, Query()] = None,
    code: Text = None,
    kind: Annotated[Kind | None, Query()] = None,
    since: Moment = None,
    until: Moment = None,
    all: Annotated[bool, Query(description="the resolved ones, too")] = False,  # noqa: A002
) -> FailureFilter:
    """Read the query of a list."""
    return FailureFilter(
        schedule=schedule,
        task=task,
        type=type,
        queue=queue,
        reason=reason,
        error_class=error_class,
        code=code,
        kind=None if kind is None else State(kind),
        since=since,
        until=until,
        unresolved=not all,
    )


def read_selection(body: FailureSelection, *, kind: State | None) -> FailureFilter:
    """Read which failures a body means; it says so, or says `all`.

    *kind* is that of all that may be meant, where there is only one.

    Raises:
        Problem: with every fault at once.
    """
    faults: list[Fault] = []
    asked = {name: getattr(body, name) for name in _CONDITIONS}
    given = {name: value for name, value in asked.items() if value is not None}
    if bool(given) is body.all:
        text = "say which: a condition such as schedule, or all; and not both"
        faults.append(Fault("all", text))
    moments: dict[str, Any] = {
        name: read_moment(name, given.pop(name, None), _UTC, faults) for name in ("since", "until")
    }
    if kind is not None and given.get("kind") not in {None, kind.value}:
        faults.append(Fault("kind", f"here all are {kind}"))
    chosen = kind or (State(given["kind"]) if "kind" in given else None)
    try:
        which = FailureFilter(**{**given, "kind": chosen}, **moments)
    except FailureFilterInvalid as error:
        faults += [Fault(*each) for each in error.faults]
    if faults:
        raise invalid_request(faults)
    return which


_CONDITIONS: Final = tuple(
    field.name for field in attrs.fields(FailureSelection) if field.name != "all"
)
