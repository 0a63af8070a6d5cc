"""What there is to be known besides: work, alerts, calendars, explanations, and the audit."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from pydantic import BeforeValidator

from cronhare.application.administration.explain import ExplanationView
from cronhare.application.administration.reading.schedules import CalendarView
from cronhare.application.administration.views.access import AuditView
from cronhare.application.administration.views.alerts import AlertView
from cronhare.application.administration.views.work import (
    BreakerView,
    BudgetView,
    NodesView,
    NodeView,
    QueueView,
)
from cronhare.domain.access import Scope
from cronhare.domain.events.alerts import AlertFilter, AlertPlace
from cronhare.domain.events.rules import AlertSeverity, Rule
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.reading import Fault
from cronhare.domain.texts.moments import iso_moment

from ..access import actor_of
from ..asking import Asking
from ..problems import invalid_request
from .operations import (
    LONGEST_TEXT,
    ROWS,
    AfterId,
    Limit,
    Moment,
    Operation,
    Text,
    as_answer,
    as_page,
    digits,
    last_id,
    operation,
    read_body,
)
from .scheduler_actions import Nothing

Named = Annotated[str, Path(min_length=1, max_length=LONGEST_TEXT, pattern=r"^[^\x00/]+$")]


class Work(Asking):
    """Nodes, queues, and the limits of retries."""

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        lists: tuple[tuple[str, Callable[..., Any], type, bool, str], ...] = (
            ("/nodes", self.list_nodes, NodesView, False, "the processes of the ledger"),
            ("/queues", self.list_queues, QueueView, True, "the task queues"),
            ("/budgets", self.list_budgets, BudgetView, True, "the retry budgets of queues"),
            ("/breakers", self.list_breakers, BreakerView, True, "the circuit breakers of tasks"),
        )
        for path, endpoint, gives, many, what in lists:
            yield operation("GET", path, endpoint, what=what, gives=gives, many=many)
        for path, endpoint, gives, what in (
            ("/nodes/{name}/drain", self.drain_node, NodeView, "it takes no more work"),
            ("/nodes/{name}/undrain", self.undrain_node, NodeView, "it takes work again"),
            ("/breakers/{name}/reset", self.reset_breaker, BreakerView, "what it was"),
        ):
            yield operation(
                "POST",
                path,
                endpoint,
                scope=Scope.OPERATE,
                what=what,
                takes=Nothing,
                may_be_empty=True,
                gives=gives,
                refuses=(404, 409),
            )

    async def list_nodes(self) -> Response:
        """List the processes that work on the ledger, and those that have ended of late."""
        return as_answer(await self._asker.ask(self._container.queries().nodes))

    async def list_queues(self) -> Response:
        """List the task queues: what waits in each, what runs, and who consumes."""
        return as_answer(await self._asker.ask(self._container.queries().queues))

    async def list_budgets(self) -> Response:
        """List what each queue has left of its retries; a window gives them back by itself."""
        return as_answer(await self._asker.ask(self._container.limit_views().budgets))

    async def list_breakers(self) -> Response:
        """List circuit breakers: which are open, since when, and when a retry tries again."""
        return as_answer(await self._asker.ask(self._container.limit_views().breakers))

    async def drain_node(self, request: Request, name: Named) -> Response:
        """Let a worker take no more work; it finishes what it has, and stays."""
        await read_body(Nothing, request)
        desk, actor, now = self._container.node_desk(), actor_of(request), self._now
        return as_answer(await self._asker.ask(lambda: desk.drain(name, actor=actor, now=now())))

    async def undrain_node(self, request: Request, name: Named) -> Response:
        """Let a worker take work again."""
        await read_body(Nothing, request)
        desk, actor, now = self._container.node_desk(), actor_of(request), self._now
        return as_answer(await self._asker.ask(lambda: desk.undrain(name, actor=actor, now=now())))

    async def reset_breaker(self, request: Request, name: Named) -> Response:
        """Close a task's circuit breaker, by its name or such as `report 25`; it counts anew."""
        await read_body(Nothing, request)
        desk, actor = self._container.limit_desk(), actor_of(request)
        return as_answer(await self._asker.ask(lambda: desk.reset(name, actor=actor)))

    def _now(self) -> Any:  # noqa: ANN401 - a moment
        return self._container.ledger_time().now()


def _place(text: object) -> object:
    if isinstance(text, str) and AlertPlace.read(text) is None:
        raise ValueError("it is no place in the list; follow the Link of a page")
    return text


After = Annotated[
    str | None,
    BeforeValidator(_place),
    Query(max_length=LONGEST_TEXT, description="the next page: as the Link of the last one has it"),
]


class Alerts(Asking):
    """Alerts, page by page."""

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        yield operation(
            "GET",
            "/alerts",
            self.list_alerts,
            what="a page of alerts, newest first",
            gives=AlertView,
            many=True,
            refuses=(404,),
            headers={
                "Judged-At": "when the ledger was judged last, in ISO 8601; not there if never",
                "Unjudged": "that nobody has judged it for two minutes, and since when; else none",
            },
        )

    async def list_alerts(
        self,
        request: Request,
        *,
        rule: Annotated[Rule | None, Query()] = None,
        severity: Annotated[AlertSeverity | None, Query()] = None,
        schedule: Text = None,
        cleared: Annotated[
            bool, Query(description="after them those that are over since a day at most")
        ] = False,
        after: After = None,
        limit: Limit = ROWS,
    ) -> Response:
        """List what is wrong now: since when, by which number, who was told, and who was not.

        `Judged-At` says when the ledger was judged last, and `Unjudged` that nobody does now.
        """
        which = AlertFilter(rule=rule, severity=severity, schedule=schedule, cleared=cleared)
        place = None if after is None else AlertPlace.read(after)
        desk = self._container.alert_desk()
        page = await self._asker.ask(lambda: desk.alerts(which, after=place, limit=limit))
        headers = {"Judged_At": page.judged_at and iso_moment(page.judged_at)}
        headers["Unjudged"] = page.unjudged
        said = {name: value for name, value in headers.items() if value}
        return as_page(request, page.alerts, after=page.after, **said)


ExecutionId = Annotated[int | None, BeforeValidator(digits), Query(ge=1, le=LARGEST_ID)]


class Facts(Asking):
    """Calendars, explanations, and the audit."""

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        yield operation(
            "GET",
            "/calendars",
            self.list_calendars,
            what="the calendars, by name",
            gives=CalendarView,
            many=True,
        )
        yield operation(
            "GET",
            "/calendars/{name}",
            self.show_calendar,
            what="the calendar",
            gives=CalendarView,
            refuses=(404,),
        )
        yield operation(
            "GET", "/explain", self.explain, what="why", gives=ExplanationView, refuses=(404,)
        )
        yield operation(
            "GET",
            "/audit",
            self.list_audit,
            what="a page of changes, newest first",
            gives=AuditView,
            many=True,
        )

    async def list_calendars(self) -> Response:
        """List calendars, with their windows; a jobs file has them."""
        return as_answer(await self._asker.ask(self._container.calendars().list))

    async def show_calendar(self, name: Named) -> Response:
        """Show one calendar."""
        calendars = self._container.calendars()
        return as_answer(await self._asker.ask(lambda: calendars.show(name)))

    async def explain(
        self, *, schedule: Text = None, at: Moment = None, execution: ExecutionId = None
    ) -> Response:
        """Say why a schedule ran at an instant, or did not; or why an execution is where it is.

        Without `at` it is about the schedule's last due instant.
        """
        explanations = self._container.explanations()
        if execution is not None and schedule is None and at is None:
            return as_answer(await self._asker.ask(lambda: explanations.of_execution(execution)))
        if schedule is None or execution is not None:
            text = "give a schedule, with `at` or without, or an execution alone"
            raise invalid_request([Fault("schedule", text)])
        return as_answer(await self._asker.ask(lambda: explanations.of_instant(schedule, at)))

    async def list_audit(
        self,
        request: Request,
        *,
        since: Moment = None,
        actor: Text = None,
        target: Text = None,
        after: AfterId = None,
        limit: Limit = ROWS,
    ) -> Response:
        """List who changed what, newest first, from the API, the page and the command line."""
        entries = self._container.audit().entries
        found = await self._asker.ask(
            lambda: entries(since=since, actor=actor, target=target, before=after, limit=limit)
        )
        return as_page(request, found, after=last_id(found, limit=limit))
