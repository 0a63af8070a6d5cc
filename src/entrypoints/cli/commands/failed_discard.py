"""`cronhare failed discard`."""

from cronhare.domain.execution import State

from ...node_identity import this_actor
from ..failure_options import (
    All,
    Ids,
    Note,
    OfClass,
    OfKind,
    OfQueue,
    OfSchedule,
    OfTask,
    OfType,
    Since,
    Until,
    WithCode,
    WithReason,
    check_choice,
    failure_filter,
)
from ..output import Json
from ..replaying import REPLAY, show_discarded
from ..wiring import open_ledger


def discard(
    ids: Ids = None,
    *,
    everything: All = False,
    schedule: OfSchedule = None,
    task: OfTask = None,
    type_: OfType = None,
    queue: OfQueue = None,
    reason: WithReason = None,
    error: OfClass = None,
    code: WithCode = None,
    kind: OfKind = None,
    since: Since = None,
    until: Until = None,
    note: Note = "",
    json: Json = False,
) -> None:
    """Resolve failures without a run; they stay in the archive."""
    asked: dict[str, object] = {
        "schedule": schedule,
        "task": task,
        "type": type_,
        "queue": queue,
        "reason": reason,
        "error_class": error,
        "code": code,
        "kind": None if kind is None else State(kind),
    }
    has_filter = any(value is not None for value in (*asked.values(), since, until))
    check_choice(ids, everything=everything, has_filter=has_filter)
    container = open_ledger()
    administrator, now = container.administrator(), container.ledger_time().now()
    if ids:
        done = administrator.discard(ids, note=note, now=now, actor=this_actor())
    else:
        which = failure_filter(now=now, since=since, until=until, **asked)
        done = administrator.discard_all(which, note=note, now=now, actor=this_actor())
    show_discarded(done, REPLAY, everything=everything, json=json)
