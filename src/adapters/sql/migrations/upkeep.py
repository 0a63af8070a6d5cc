"""Which UPDATE of the users' table is an edit: one of what is planned by."""

from typing import Final

#: One of `task_name` alone changes nothing that is planned.
EDITABLE: Final = (
    "schedule",
    "date_time",
    "params",
    "status",
    "stay_alive",
    "description",
    "report_id",
    "worker_id",
    "reminder_id",
    "user_id",
    "group_id",
    "language_id",
    "name",
    "event_id",
    "system_id",
    "timezone",
    "retry",
    "misfire_policy",
    "misfire_window_ms",
    "misfire_cap",
    "overlap_policy",
    "timeout_ms",
    "jitter_ms",
    "starts_at",
    "ends_at",
    "queue",
    "source",
)
