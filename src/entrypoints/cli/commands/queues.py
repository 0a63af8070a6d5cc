"""`cronhare queues`."""

from ..output import Json, print_json, table
from ..wiring import open_ledger


def queues(*, json: Json = False) -> None:
    """List the task queues: what waits in each for how long, what runs, and who consumes.

    MESSAGES and CONSUMERS are the broker's; without them it is in memory, away, or has no such
    queue: `cronhare doctor` says which.
    """
    found = open_ledger().queries().queues()
    if json:
        print_json(found)
        return
    table(
        "QUEUE",
        "SCHEDULES",
        "WAITING",
        "RETRYING",
        "RUNNING",
        "OLDEST DUE",
        "MESSAGES",
        "CONSUMERS",
        rows=[
            (
                each.queue,
                each.schedules,
                each.waiting,
                each.retrying,
                each.running,
                each.oldest_due_at,
                each.messages,
                each.consumers,
            )
            for each in found
        ],
        empty="No schedule names a queue, and nothing waits in one.",
    )
