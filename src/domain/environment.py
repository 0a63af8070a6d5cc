"""The environment variables that tell a command what it is called for; none is a setting."""

from typing import Final

#: The environment variables that describe its attempt to a task.
ATTEMPT_VARIABLES: Final = (
    "CRON_EXECUTION_ID",
    "CRON_EXECUTION_KEY",
    "CRON_SCHEDULER_ID",
    "CRON_ATTEMPT",
    "CRON_PARAMS_FILE",
    "CRON_IPC_FD",
    "CRON_DUE_AT",
    "CRON_SCHEDULE",
    "CRON_FENCE",
    "CRON_USER_ID",
    "CRON_GROUP_ID",
    "CRON_LANGUAGE_ID",
    "CRON_TOPIC",
    "RETRY_COUNT",
    "TRACEPARENT",
)

#: The environment variables that describe an event to a command.
EVENT_VARIABLES: Final = (
    "CRON_EVENT",
    "CRON_EVENT_ID",
    "CRON_EVENT_TARGET",
    "CRON_EVENT_SCHEDULE",
    "CRON_EVENT_JSON",
)
