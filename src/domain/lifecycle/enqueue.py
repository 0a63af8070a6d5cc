"""Runs that programs ask for: each is of its task's schedule by hand, and claimed as any run is."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from ..execution import Execution, Graces
from ..reading import Fault, Invalid
from ..schedules.keys import fault_of_own_key, is_standalone, own_key, task_key
from ..schedules.schedule import BrokenSchedule, Schedule
from ..schedules.task import fault_of_params, same_params
from ..texts.moments import as_span, say_moment
from ..texts.printable import shortened
from ..topology import LONGEST_LANE_DELAY, fault_of_queue
from .claims import begins_by_hand, claim_by_hand

#: So many characters of params are shown.
_SHOWN: Final = 200


class KeyTaken(ValueError):
    """A key names a run with other params; nothing was enqueued."""


class EnqueueInvalid(Invalid):
    """What is asked for cannot be enqueued; *faults* has all that is wrong with it."""


def _span(span: datetime | timedelta | str | float | None) -> datetime | timedelta | None:
    return span if isinstance(span, datetime | None) else as_span(span)


@attrs.frozen(kw_only=True)
class Wanted:
    """A run that a program asks for, of the *schedule* by hand of its task.

    *key* is unique for the task, *params* JSON text. It begins *at* a time, or after a *delay*, or
    at once; *expires* is a time, or counts from then. *queue* replaces the schedule's. Spans may be
    texts, or seconds.
    """

    schedule: str
    key: str
    params: str = "{}"
    at: datetime | None = None
    delay: Any = attrs.field(default=None, converter=_span)
    expires: Any = attrs.field(default=None, converter=_span)
    queue: str | None = None

    def __attrs_post_init__(self) -> None:
        if faults := tuple(self._faults()):
            raise EnqueueInvalid(faults)

    def _faults(self) -> Iterator[Fault]:
        if why := fault_of_own_key(self.key):
            yield Fault("key", why)
        if why := fault_of_params(self.params):
            yield Fault("params", why)
        if self.delay is not None and self.delay < timedelta(0):
            yield Fault("delay", "must not be negative")
        if self.at is not None and self.delay is not None:
            yield Fault("at", "a run begins after a delay, or at a time: give one of them")
        for name, moment in (("at", self.at), ("expires", self.expires)):
            if isinstance(moment, datetime) and moment.tzinfo is None:
                yield Fault(name, f"{moment} has no time zone: add one, as datetime.now(UTC) has")
        if self.queue is not None and (why := fault_of_queue(self.queue)):
            yield Fault("queue", why)
        elif self.queue is not None and is_standalone(self.queue):
            yield Fault("queue", f"{self.queue} is that of a schedule that stays alive")


def enqueue(
    schedule: Schedule | BrokenSchedule,
    wanted: Wanted,
    *,
    now: datetime,
    node: str,
    head_start: timedelta,
) -> Execution:
    """Describe the claim of a run that a program asks for.

    Its message is sent by whoever claims it. If that is lost, a scheduler sends it: at *head_start*
    after the run was to begin. Without one the next scheduler that looks sends it, delayed. If the
    time is farther away than the lanes reach, a scheduler sends it then.

    Raises:
        NotToBeRun: the schedule is broken, or the system's own.
        EnqueueInvalid: it would have expired before it begins.
    """
    begins = wanted.at or now + (wanted.delay or timedelta(0))
    expires = wanted.expires
    if isinstance(expires, timedelta):
        expires += begins
    if expires is not None and expires <= max(begins, now):
        why = f"{say_moment(expires)} is over when it begins, at {say_moment(max(begins, now))}"
        raise EnqueueInvalid([Fault("expires", why)])
    waits = begins > now
    check_at = begins_by_hand(begins if waits and head_start else now, head_start=head_start)
    if begins - now > LONGEST_LANE_DELAY:
        check_at = begins - Graces().claimed
    changes: dict[str, Any] = {} if wanted.queue is None else {"queue": wanted.queue}
    return claim_by_hand(
        schedule,
        schedule.id,
        key=task_key(wanted.key),
        now=now,
        node=node,
        params=wanted.params,
        due_at=max(begins, now),
        next_attempt_at=begins if waits else check_at,
        check_at=check_at,
        expires_at=expires,
        **changes,
    )


def refuse_other(run: Execution, *, execution: int | None, params: str) -> None:
    """Raise `KeyTaken` for a run whose key is that of an *execution* with other *params*.

    Without one it is another run of the same call that has the key.
    """
    if same_params(run.params, params):
        return
    whose = "another run of this call" if execution is None else f"execution {execution}"
    raise KeyTaken(
        f"the key {own_key(run.key)!r} of {run.schedule_name} is that of {whose} with the "
        f"params {shortened(params, _SHOWN)}; these are {shortened(run.params, _SHOWN)}. "
        "Enqueue them under another key"
    )
