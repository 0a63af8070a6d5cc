"""`cronhare queues | nodes … | budgets … | breakers … | metrics`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cronhare.domain.texts.words import counted, listed

from ...node_identity import this_actor
from ..errors import file_refusal
from ..options import NODES, TASKS, one_of
from ..output import Columns, Json, Styled, answer, print_beside, print_rows
from ..times import moment
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.views.work import (
        BreakerView,
        BudgetView,
        NodesView,
        NodeView,
    )


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


def nodes(*, json: Json = False) -> None:
    """List schedulers and workers: what they run, when they were seen, and how far clocks are off.

    A node that is silent has not reported itself for 9 s: it was killed, or is cut off from the
    database, and what it ran is listed below. One that is disconnected gets nothing from its broker
    for two minutes. An hour later it is forgotten, once another begins.
    The 1,000 that were seen last are listed.
    """
    found = open_ledger().queries().nodes()
    columns: Columns[NodeView] = {
        "NODE": "name",
        "ROLE": "role",
        "VERSION": "version",
        "STATE": lambda node: Styled(node.state.value),
        "STARTED": "started_at",
        "LAST SEEN": "seen_at",
        "RUNNING": "running",
        "OF": "concurrency",
        "QUEUES": lambda node: listed(node.queues),
        "CLOCK S": lambda node: f"{node.clock_offset_seconds:+.1f}",
    }
    empty = "No report can be read." if found.broken else "No node has reported itself."
    print_rows(
        found.nodes,
        columns,
        json=json,
        empty=empty,
        spare=("VERSION", "CLOCK S", "STARTED"),
        elastic=("QUEUES",),
    )
    for line in _left(found):
        print_beside(line, json=json)


Node = Annotated[
    str, one_of("The node's name, or as much of its beginning as no other has.", NODES)
]


def drain(name: Node, *, json: Json = False) -> None:
    """Have a worker take no more work: what it runs goes on, and it stays until it is taken back.

    It hears of it within 3 s. Messages wait for other workers, or for it. A worker that is started
    anew is another node, and takes work.
    """
    container = open_ledger()
    node = container.node_desk().drain(name, actor=this_actor())
    runs = f"it runs {node.running or 0} of {node.concurrency}"
    answer(
        node,
        f"{node.name} is {node.state}: {runs}, and takes no more within 3 s.",
        f"To take it back: cronhare nodes undrain {node.name}",
        json=json,
    )


def undrain(name: Node, *, json: Json = False) -> None:
    """Let a worker that was drained take work again; it hears of it within 3 s."""
    container = open_ledger()
    node = container.node_desk().undrain(name, actor=this_actor())
    answer(node, f"{node.name} takes work again, within 3 s.", json=json)


def forget(name: Node, *, json: Json = False) -> None:
    """Forget a node that was killed, or is cut off, and will not come back.

    It must have been silent for 45 s. If it does come back, it reports itself anew.
    """
    node = open_ledger().node_desk().forget(name, actor=this_actor())
    answer(node, f"{node.name} is forgotten.", json=json)


def _left(found: "NodesView") -> Iterator[str]:
    for run in found.left_runs:
        lost = "" if run.lease_until is None else f"; lost at {moment(run.lease_until)}"
        yield f"{run.node} left execution {run.execution_id} ({run.schedule_name}){lost}"
    if found.unread:
        known = len(found.nodes) + found.broken + found.unread
        others = f"{counted(found.unread, 'other')} of {known:,} in all"
        yield f"{others} are not listed: these were seen last."
    if found.broken:
        rows = counted(found.broken, "row")
        yield f"{rows} of SchedulerNode cannot be read; `cronhare doctor` says what to do."


def budgets(*, json: Json = False) -> None:
    """List what each queue has left of its retries, and when the next place is free.

    A queue is listed once it was asked for a retry. Limit and window are those of the process that
    asked last: CRON_RETRY_BUDGET and CRON_RETRY_BUDGET_WINDOW_SECONDS.
    """
    columns: Columns[BudgetView] = {
        "QUEUE": "queue",
        "LIMIT": lambda budget: f"{budget.limit:,} per {budget.window_seconds:g} s",
        "REMAINING": lambda budget: f"{budget.remaining:,}",
        "DEFERRED UNTIL": "deferred_until",
        "SPENT SINCE": "spent_since",
    }
    found, empty = open_ledger().limit_desk().budgets(), "No queue was asked for a retry of late."
    print_rows(found, columns, json=json, empty=empty, spare=("SPENT SINCE",))


Task = Annotated[
    list[str],
    one_of("The task: its name in a jobs file, or type and number.", TASKS, metavar="TASK"),
]


def breakers(*, json: Json = False) -> None:
    """List circuit breakers: which are open, since when, and when a retry tries again.

    A task is listed once an attempt of it failed while CRON_CIRCUIT_BREAKER was on.
    """
    columns: Columns[BreakerView] = {
        "TASK": "called",
        "STATE": lambda breaker: Styled(breaker.state),
        "FAILED": _failed,
        "OPEN SINCE": "opened_at",
        "PROBE AT": "probe_at",
        "PROBE": "probe",
    }
    found = open_ledger().limit_desk().breakers()
    empty = "No circuit breaker counts: no attempt has failed while CRON_CIRCUIT_BREAKER was on."
    print_rows(found, columns, json=json, empty=empty, spare=("PROBE", "OPEN SINCE"))


def reset(task: Task, *, json: Json = False) -> None:
    """Close a task's circuit breaker, and let it count anew: its failures are retried again.

    What it let fail stays in the archive: see `cronhare failed replay`.
    """
    was = open_ledger().limit_desk().reset(" ".join(task), actor=this_actor())
    since = f", open since {moment(was.opened_at)}" if was.opened_at else ""
    said = f"The circuit breaker of {was.called} counts anew; it was {was.state}{since}."
    answer(was, said, json=json)


def _failed(breaker: "BreakerView") -> str:
    if breaker.failed is None or breaker.succeeded is None:
        return f"{breaker.failures:,}"
    return f"{breaker.failed:,} of {breaker.failed + breaker.succeeded:,}"


def metrics(
    *,
    textfile: Annotated[
        Path | None,
        typer.Option(help="Write them into this file, for node_exporter's textfile collector."),
    ] = None,
) -> None:
    """Print metrics, for Prometheus, counted in the ledger now.

    `cronhare web` and each `up` answer the same at /metrics, and what their process counted.
    """
    from cronhare.adapters.prometheus.metrics import exposition, write_textfile  # noqa: PLC0415 - its library brings an HTTP server

    measured = open_ledger().metrics().measure()
    if textfile is None:
        sys.stdout.write(exposition(measured))
        return
    try:
        write_textfile(measured, textfile)
    except OSError as error:
        raise file_refusal(error, textfile, "The metrics were not written.") from error
