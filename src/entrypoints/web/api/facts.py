"""What there is to be known besides: work, alerts, calendars, explanations, and the audit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import attrs
from msgspec import Meta

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
from cronhare.domain.events.rules import AlertSeverity, Rule
from cronhare.domain.reading import Fault, Reads
from cronhare.domain.texts.moments import iso_moment
from cronhare.ports.events import AlertFilter, AlertPlace

from ..asking import Asking
from ..problems import invalid_request
from .operations import (
    LONGEST_TEXT,
    ROWS,
    Call,
    Id,
    Limit,
    Moment,
    Named,
    Page,
    Reply,
    Text,
    described,
    last_id,
    operation,
)
from .scheduler_actions import Nothing


class Work(Asking):
    """Nodes, queues, and the limits of retries."""

    @operation("GET", "/nodes", what="the processes of the ledger")
    def list_nodes(self) -> Reply[NodesView]:
        """List the processes that work on the ledger, and those that have ended of late."""
        return Reply(self._container.queries().nodes())

    @operation("GET", "/queues", what="the task queues")
    def list_queues(self) -> Reply[Sequence[QueueView]]:
        """List the task queues: what waits in each, what runs, and who consumes."""
        return Reply(self._container.queries().queues())

    @operation("GET", "/budgets", what="the retry budgets of queues")
    def list_budgets(self) -> Reply[Sequence[BudgetView]]:
        """List what each queue has left of its retries; a window gives them back by itself."""
        return Reply(self._container.limit_views().budgets())

    @operation("GET", "/breakers", what="the circuit breakers of tasks")
    def list_breakers(self) -> Reply[Sequence[BreakerView]]:
        """List circuit breakers: which are open, since when, and when a retry tries again."""
        return Reply(self._container.limit_views().breakers())

    @operation(
        "POST",
        "/nodes/{name}/drain",
        scope=Scope.OPERATE,
        what="it takes no more work",
        may_be_empty=True,
        refuses=(404, 409),
    )
    def drain_node(self, name: Named, body: Nothing, call: Call) -> Reply[NodeView]:
        """Let a worker take no more work; it finishes what it has, and stays."""
        del body
        desk = self._container.node_desk()
        return Reply(desk.drain(name, actor=call.actor))

    @operation(
        "POST",
        "/nodes/{name}/undrain",
        scope=Scope.OPERATE,
        what="it takes work again",
        may_be_empty=True,
        refuses=(404, 409),
    )
    def undrain_node(self, name: Named, body: Nothing, call: Call) -> Reply[NodeView]:
        """Let a worker take work again."""
        del body
        desk = self._container.node_desk()
        return Reply(desk.undrain(name, actor=call.actor))

    @operation(
        "POST",
        "/breakers/{name}/reset",
        scope=Scope.OPERATE,
        what="what it was",
        may_be_empty=True,
        refuses=(404, 409),
    )
    def reset_breaker(self, name: Named, body: Nothing, call: Call) -> Reply[BreakerView]:
        """Close a task's circuit breaker, by its name or such as `report 25`; it counts anew."""
        del body
        return Reply(self._container.limit_desk().reset(name, actor=call.actor))


def _place(text: str) -> AlertPlace:
    place = AlertPlace.read(text)
    if place is None:
        raise ValueError("it is no place in the list; follow the Link of a page")
    return place


# What is read has another type than what is written, which `Annotated` names.
if TYPE_CHECKING:
    After = AlertPlace
else:
    After = Annotated[
        str,
        Meta(max_length=LONGEST_TEXT, description="the Link of a page"),
        described("the next page: as the Link of the last one has it"),
        Reads(_place),
    ]


@attrs.frozen(kw_only=True)
class WhichAlerts:
    """Which alerts."""

    rule: Rule | None = None
    severity: AlertSeverity | None = None
    schedule: Text | None = None
    cleared: Annotated[bool, described("after them those that are over since a day at most")] = (
        False
    )
    after: After | None = None
    limit: Limit = ROWS


class Alerts(Asking):
    """Alerts, page by page."""

    @operation(
        "GET",
        "/alerts",
        what="a page of alerts, newest first",
        refuses=(404,),
        headers={
            "Judged-At": "when the ledger was judged last, in ISO 8601; not there if never",
            "Unjudged": "that nobody has judged it for two minutes, and since when; else none",
        },
    )
    def list_alerts(self, query: WhichAlerts) -> Reply[Sequence[AlertView]]:
        """List what is wrong now: since when, by which number, who was told, and who was not.

        `Judged-At` says when the ledger was judged last, and `Unjudged` that nobody does now.
        """
        which = AlertFilter(
            rule=query.rule,
            severity=query.severity,
            schedule=query.schedule,
            cleared=query.cleared,
        )
        page = self._container.alert_desk().alerts(which, after=query.after, limit=query.limit)
        said = {
            "Judged-At": page.judged_at and iso_moment(page.judged_at),
            "Unjudged": page.unjudged,
        }
        headers = {name: value for name, value in said.items() if value}
        return Reply(page.alerts, after=page.after, headers=headers)


@attrs.frozen(kw_only=True)
class WhatToExplain:
    """An instant of a schedule, or an execution."""

    schedule: Text | None = None
    at: Moment | None = None
    execution: Id | None = None


@attrs.frozen(kw_only=True)
class WhichChanges(Page):
    """Which entries of the audit."""

    since: Moment | None = None
    actor: Text | None = None
    target: Text | None = None


class Facts(Asking):
    """Calendars, explanations, and the audit."""

    @operation("GET", "/calendars", what="the calendars, by name")
    def list_calendars(self) -> Reply[Sequence[CalendarView]]:
        """List calendars, with their windows; a jobs file has them."""
        return Reply(self._container.calendars().list())

    @operation("GET", "/calendars/{name}", what="the calendar", refuses=(404,))
    def show_calendar(self, name: Named) -> Reply[CalendarView]:
        """Show one calendar."""
        return Reply(self._container.calendars().show(name))

    @operation("GET", "/explain", what="why", refuses=(404,))
    def explain(self, query: WhatToExplain) -> Reply[ExplanationView]:
        """Say why a schedule ran at an instant, or did not; or why an execution is where it is.

        Without `at` it is about the schedule's last due instant.
        """
        explanations = self._container.explanations()
        schedule, at, execution = query.schedule, query.at, query.execution
        if execution is not None and schedule is None and at is None:
            return Reply(explanations.of_execution(execution))
        if schedule is None or execution is not None:
            text = "give a schedule, with `at` or without, or an execution alone"
            raise invalid_request([Fault("schedule", text)])
        return Reply(explanations.of_instant(schedule, at))

    @operation("GET", "/audit", what="a page of changes, newest first")
    def list_audit(self, query: WhichChanges) -> Reply[Sequence[AuditView]]:
        """List who changed what, newest first, from the API, the page and the command line."""
        found = self._container.audit().entries(
            since=query.since,
            actor=query.actor,
            target=query.target,
            before=query.after,
            limit=query.limit,
        )
        return Reply(found, after=last_id(found, limit=query.limit))
