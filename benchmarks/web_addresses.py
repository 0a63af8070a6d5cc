"""The addresses of pages and lists, of which each is asked on the full ledger."""

from collections.abc import Iterator
from datetime import timedelta

from questions import BUSY, DAILY

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import UNRESOLVED
from cronhare.entrypoints.container import Container
from cronhare.ports.records import ExecutionFilter


def pages(container: Container) -> Iterator[str]:
    """Give the pages."""
    queries = container.queries()
    last = queries.executions(ExecutionFilter(limit=1))[0].id
    failed = queries.executions(ExecutionFilter(states=[State.FAILED], limit=1))[0].id
    yield from (
        "/", "/ui/schedules", "/ui/schedules?search=customer-0999", "/ui/schedules?search=nothing",
        "/ui/schedules?state=paused", "/ui/schedules?state=disabled",
        f"/ui/schedules?after={DAILY}", f"/ui/schedules/{BUSY}", f"/ui/schedules/{DAILY}",
        f"/ui/schedules/{BUSY}/explain", f"/ui/schedules/{BUSY}/edit", "/ui/timeline",
        f"/ui/executions/{last}", f"/ui/executions/{failed}", "/ui/executions",
        "/ui/executions?task=invoice-016", "/ui/failed",
        f"/ui/failed?schedule={DAILY}", "/ui/quarantine", "/ui/queues", "/ui/load", "/ui/audit",
    )  # fmt: skip


def lists(container: Container) -> Iterator[str]:
    """Give what the API lists and shows."""
    queries = container.queries()
    last = queries.executions(ExecutionFilter(limit=1))[0].id
    failure = queries.failures(UNRESOLVED, limit=1)[0].id
    schedule = queries.schedule(BUSY).id
    hour = (queries.now() - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    yield from (
        "/schedulers", "/schedulers?search=customer-0999", "/schedulers?paused=true",
        f"/schedulers/{schedule}", f"/schedulers/{schedule}/next", "/executions",
        "/executions?state=succeeded", "/executions?state=failed", "/executions?state=running",
        f"/executions?schedule={BUSY}", "/executions?task=invoice-016",
        "/executions?task=worker+116", f"/executions?since={hour}",
        f"/executions/{last}", f"/executions/{last}/output", "/failed", "/failed?all=true",
        f"/failed?schedule={DAILY}", f"/failed/{failure}", "/quarantine", "/replays", "/nodes",
        "/queues", "/budgets", "/breakers", "/calendars", f"/explain?schedule={BUSY}", "/audit",
        "/metrics", "/healthz", "/readyz", "/openapi.json",
    )  # fmt: skip
