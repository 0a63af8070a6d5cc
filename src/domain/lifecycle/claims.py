"""New executions: claims of due instants, of manual runs and of messages; and skips."""

from datetime import datetime
from typing import Any

import msgspec

from ..execution import Execution, State
from ..nodes import container_id
from ..schedules.catalog import NoListener
from ..schedules.keys import is_standalone
from ..schedules.planning import Run, Unfinished
from ..schedules.schedule import BrokenSchedule, ByHand, Schedule
from ..schedules.skips import Skip
from ..schedules.task import TaskRef
from .gates import schedule_gate


class NotToBeRun(LookupError):
    """There is no such schedule, or its row names no task that can be run."""


class RunsAlready(NotToBeRun):
    """It stays alive, and the one run that it has at a time has not ended."""


def claim(
    schedule: Schedule, key: str, *, due: datetime, now: datetime, node: str, begins: datetime
) -> Execution:
    """Describe the claim of a run of *schedule* as it is now; the ledger gives it an id."""
    is_event = schedule.topic is not None or schedule.no_listener is not NoListener.COMPLETE
    return Execution(
        id=0,
        scheduler_id=schedule.id,
        schedule_name=schedule.name,
        key=key,
        state=State.CLAIMED,
        source=schedule.source,
        task_name=schedule.task_name,
        task=schedule.task,
        params=schedule.params,
        queue=schedule.queue,
        attempt=1,
        deaths=0,
        version=1,
        due_at=due,
        executed_at=now,
        container_id=container_id(node),
        retry=schedule.retry,
        timeout=schedule.timeout,
        next_attempt_at=begins,
        check_at=begins,
        topic=schedule.topic,
        no_listener=schedule.no_listener.value if is_event else None,
        concurrency_key=_concurrency_key(schedule, schedule.params),
        overlap_policy=schedule.overlap.value if schedule.overlap.waits else None,
    )


def _concurrency_key(schedule: Schedule, params: str) -> str | None:
    return None if schedule.concurrency is None else schedule.concurrency.key_of(params)


def claim_run(schedule: Schedule, run: Run, *, now: datetime, node: str) -> Execution:
    """Describe the claim of a due instant; it begins after the schedule's jitter.

    One that has to wait for another run of its schedule is held back.
    """
    claimed = claim(schedule, run.key, due=run.due, now=now, node=node, begins=now + run.delay)
    if schedule.conditions is not None and (expires := schedule.conditions.expires) is not None:
        claimed = msgspec.structs.replace(claimed, expires_at=run.due + expires)
    if run.missed:
        claimed = msgspec.structs.replace(claimed, missed=run.missed)
    if not run.waits:
        return claimed
    return msgspec.structs.replace(claimed, state=State.HELD, held_by=schedule_gate(schedule.id))


def skip(schedule: Schedule, skipped: Skip, *, now: datetime, node: str) -> Execution:
    return msgspec.structs.replace(
        claim(schedule, skipped.key, due=skipped.first, now=now, node=node, begins=now),
        state=State.SKIPPED,
        next_attempt_at=None,
        check_at=None,
        finished_at=now,
        last_error=skipped.reason,
        last_due_at=skipped.last,
        missed=skipped.count,
    )


def claim_by_hand(
    schedule: Schedule | BrokenSchedule | None,
    scheduler_id: int,
    *,
    key: str,
    now: datetime,
    node: str,
    begins: datetime | None = None,
    task: TaskRef | None = None,
    **changes: Any,  # noqa: ANN401 - fields of the execution
) -> Execution:
    """Describe the claim of a run outside the plan; *changes* replace what the schedule says.

    A message brings its own *task*. If its number is not the schedule's, its name is unknown; its
    source is the schedule's, as a message cannot reach a task of another source.

    Raises:
        NotToBeRun: there is no such schedule, it is broken, or it is the system's own, for which
            no message may name a task.
    """
    if schedule is None:
        raise NotToBeRun(f"there is no schedule with the id {scheduler_id}")
    if isinstance(schedule, BrokenSchedule):
        if task is None:
            raise NotToBeRun(f"schedule {schedule.name} cannot be run: {schedule.problem}")
        schedule = _stand_in(schedule)
    if task is not None and schedule.is_system:
        raise NotToBeRun(f"schedule {schedule.name} is the system's own")
    run = claim(schedule, key, due=now, now=now, node=node, begins=begins or now)
    if is_standalone(run.queue):  # a message in another queue changes nothing about that
        changes.pop("queue", None)
    if task not in {None, run.task}:
        changes |= {"task": task, "task_name": None, "topic": None}
    if "params" in changes:
        changes["concurrency_key"] = _concurrency_key(schedule, changes["params"])
    return msgspec.structs.replace(run, **changes)


def refuse_beside(unfinished: Unfinished | None) -> None:
    """Refuse a run of what stays alive beside one that has not ended.

    Raises:
        RunsAlready: there is one.
    """
    if unfinished is not None:
        id_ = unfinished.oldest
        raise RunsAlready(
            f"it stays alive, one run at a time, and it has execution {id_}; "
            f"`cronhare executions cancel {id_}` ends that, and it begins again by itself"
        )


def _stand_in(broken: BrokenSchedule) -> Schedule:
    # A message that brings its own task and params can be run in spite of a broken row.
    return Schedule(
        id=broken.id,
        name=broken.name,
        task=TaskRef("", 0),
        timing=ByHand(),
        changed_at=broken.changed_at,
        source=broken.source,
    )
