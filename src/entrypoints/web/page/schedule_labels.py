"""What the fields of the form of a schedule are called there, and what its faults are called."""

from collections.abc import Iterable
from typing import Final

from cronhare.domain.reading import Fault
from cronhare.domain.retries.policy import RetryPolicyInvalid

from .schedule_form import JSON_FIELDS, PARTS

LABELS: Final = {
    "name": "Name",
    "task": "Task",
    "topic": "Or a topic",
    "no_listener": "If nobody listens",
    "description": "Description",
    "status": "State",
    "params": "Params",
    "schedule": "Cron text",
    "every": "Every",
    "date_time": "Once at",
    "timezone": "Time zone",
    "gap": "A time that the clock leaps over",
    "fold": "A time that comes twice",
    "stay_alive": "Runs on and on",
    "overlap": "While an earlier run has not ended",
    "timeout": "Timeout",
    "jitter": "Jitter",
    "queue": "Queue",
    "expires": "Begins within",
    "max_runs": "Runs at most",
    "starts_at": "Not before",
    "ends_at": "Not after",
    "skip_on": "Not on days of",
    "only_on": "Only on days of",
    "blackout": "Blackout",
    "retry": "Retries",
    "misfire_policy": "Runs that were missed",
    "misfire_window": "Missed at most",
    "misfire_cap": "Caught up at most",
    "concurrency_key": "Concurrency key",
    "concurrency_limit": "Concurrency limit",
    "user_id": "User",
    "group_id": "Group",
    "language_id": "Language",
}

#: The fields that are seen without opening what is below "More".
AT_ONCE: Final = frozenset(
    {
        "name", "task", "topic", "no_listener", "description", "status", "params", "schedule",
        "every", "date_time", "timezone", "gap", "fold", "stay_alive",
    }
)  # fmt: skip

#: Fields of a fault that the form has under another name.
_FIELD_OF: Final = {
    "report_id": "task",
    "worker_id": "task",
    "reminder_id": "task",
    "payload": "params",
    **{table: next(iter(parts.values())) for table, parts in PARTS.items()},
    **{f"{table}.{part}": field for table, parts in PARTS.items() for part, field in parts.items()},
}


def of_fields(faults: Iterable[Fault]) -> dict[str, str]:
    """Give what is wrong with each field of the form."""
    found = dict[str, str]()
    for fault in faults:
        field = _FIELD_OF.get(fault.field, fault.field.split(".")[0].split("[")[0])
        problem = fault.problem.removeprefix(f"{RetryPolicyInvalid.code}: ")
        if field in JSON_FIELDS:  # what is a table in a jobs file
            problem = problem.replace("a table", "an object")
        found[field] = f"{found[field]}; {problem}" if field in found else problem
    return found
