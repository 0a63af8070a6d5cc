"""Runs that no due instant stands for: by hand, with a start, at a boot, to stay alive."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from cronhare.domain.execution import Execution
from cronhare.domain.schedules.keys import Trigger, trigger_of
from cronhare.domain.texts.moments import say_moment
from cronhare.ports.records import ExecutionFilter, RecordsPort

from .reading.schedules import came_of

#: So many runs of one minute are looked through.
_LOOKED_AT = 200
_MINUTE = timedelta(minutes=1)


def begun_at(name: str, instant: datetime, records: RecordsPort) -> Execution | None:
    """Find the run that began exactly then, and not because the schedule was due."""
    return next((run for run in _begun(name, instant, records) if run.due_at == instant), None)


def begun_beside(name: str, instant: datetime, records: RecordsPort) -> Iterator[str]:
    """Tell of the runs that began in that minute, and not because the schedule was due."""
    for run in _begun(name, instant, records):
        yield f"{came_of(run)}, at {say_moment(run.due_at)}: execution {run.id}, {run.state}."


def _begun(name: str, instant: datetime, records: RecordsPort) -> Iterator[Execution]:
    minute = instant.replace(second=0, microsecond=0)
    # Such a run is claimed when it is asked for.
    in_minute = ExecutionFilter(
        schedule=name, since=minute, until=minute + _MINUTE, limit=_LOOKED_AT
    )
    for run in records.executions(in_minute):
        if trigger_of(run.key) not in {Trigger.TIME, Trigger.BACKFILL}:
            yield run
