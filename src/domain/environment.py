"""What a command finds around it: variables that say what it is for, and folders that it lacks."""

import re
from pathlib import PurePosixPath
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
    "CRON_MISSED",
    "CRON_PREVIOUS_SUCCESS",
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


#: Folders that a service cannot see: the units have ProtectHome.
UNSEEN: Final = ("/home", "/root", "/run/user")

_NAMED: Final = re.compile(rf"(?<![\w./-])(?:{'|'.join(UNSEEN)})/")


def is_unseen(path: str) -> bool:
    """Tell whether a path is one that a service cannot see.

    >>> is_unseen("/root"), is_unseen("/home/ann/bin"), is_unseen("/rooted")
    (True, True, False)
    """
    return any(PurePosixPath(path).is_relative_to(folder) for folder in UNSEEN)


def names_unseen(text: str) -> bool:
    """Tell whether a command names something in such a folder.

    >>> names_unseen("cd /home/ann && ./backup"), names_unseen("/srv/home/made")
    (True, False)
    """
    return _NAMED.search(text) is not None
