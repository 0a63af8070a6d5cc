"""`cronhare queues`."""

from ..output import Json
from ..rows import print_rows
from ..wiring import open_ledger


def queues(*, json: Json = False) -> None:
    """List the task queues: what waits in each for how long, what runs, and who consumes.

    MESSAGES and CONSUMERS are the broker's; without them it is in memory, away, or has no such
    queue: `cronhare doctor` says which.
    """
    found = open_ledger().queries().queues()
    columns = {
        "QUEUE": "queue",
        "SCHEDULES": "schedules",
        "WAITING": "waiting",
        "RETRYING": "retrying",
        "RUNNING": "running",
        "OLDEST DUE": "oldest_due_at",
        "MESSAGES": "messages",
        "CONSUMERS": "consumers",
    }
    empty = "No schedule names a queue, and nothing waits in one."
    print_rows(found, columns, json=json, empty=empty, spare=("SCHEDULES",), elastic=("QUEUE",))
