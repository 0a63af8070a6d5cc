"""The archive, as people look at it."""

from datetime import datetime
from typing import Any, Self

import attrs

from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.schedules.task import TaskRef

from .values import ErrorView, json_value


@attrs.frozen(kw_only=True)
class FailureView:
    """A row of the archive; see `Archived`. *execution_id* is None where there is no execution."""

    id: int
    execution_id: int | None
    scheduler_id: int
    schedule_name: str
    execution_key: str
    kind: str
    task: TaskRef
    task_name: str | None
    source: str | None
    queue: str
    params: Any
    failed_at: datetime
    failed_reason: str
    error: ErrorView | None
    attempts: int
    retry_count: int
    resolved_at: datetime | None
    resolution: str | None
    note: str | None
    check_at: datetime | None
    problem: str | None

    @classmethod
    def of(cls, archived: Archived) -> Self:
        """Show a row of the archive."""
        fields = attrs.asdict(archived)
        task = TaskRef(fields.pop("task_type"), fields.pop("task_id"))
        shown = {
            "execution_id": archived.execution_id or None,
            "task": task,
            "params": json_value(archived.params),
            "error": ErrorView.of(archived.error),
        }
        return cls(**{**fields, **shown})
