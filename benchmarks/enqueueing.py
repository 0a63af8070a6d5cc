"""How many runs a second one process enqueues: each in the ledger, its message on the way.

Run by `peers.py` as a process of its own, as each sender of a peer is:

    python benchmarks/enqueueing.py COUNT [MANY]      # by CRON_DATABASE_URL and CRON_BROKER_URL

It prints the rate of COUNT calls of `enqueue` one after the other, or of one `enqueue_many` of as
many; the time includes the last message's confirm, as that of a peer does.
"""

import sys
import time
from datetime import timedelta

from cronhare import App, enqueue_many
from cronhare.domain.nodes import NodeReport
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.python.client import client_of, close_clients

app = App("bench")


@app.task
def nothing(number: int) -> None:
    """Do nothing."""


def prepare() -> None:
    """Have the queue, and a worker that is said to serve it: or nothing would be sent."""
    container = client_of(app).container
    broker = container.broker()
    broker.declare([MAIN_QUEUE])
    broker.close()
    now = container.ledger_time().now()
    report = NodeReport(
        name="bench",
        role="worker",
        host="bench",
        version="1",
        started_at=now,
        seen_at=now,
        queues=(MAIN_QUEUE,),
        consumed_at=now,
    )
    container.nodes().report(report, kept_for=timedelta(hours=1))
    nothing.bind(number=0).enqueue()


def main() -> None:
    count, at_once = int(sys.argv[1]), len(sys.argv) > 2
    prepare()
    began = time.perf_counter()
    if at_once:
        enqueue_many([nothing.bind(number=number) for number in range(count)])
    else:
        for number in range(count):
            nothing.bind(number=number).enqueue()
    close_clients()
    print(count / (time.perf_counter() - began))


if __name__ == "__main__":
    main()
