"""What there is to be known besides: work, alerts, calendars, explanations, and the audit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import attrs
from msgspec import Meta

from cronhare.application.administration.explain import ExplanationView
from cronhare.application.administration.reading.alerts import AlertView
from cronhare.application.administration.reading.schedules import CalendarView
from cronhare.application.administration.views.work import (
    BreakerView,
    BudgetView,
    NodesView,
    NodeView,
    QueueView,
)
from cronhare.domain.audit import AuditEntry
from cronhare.domain.events.rules import AlertSeverity, Rule
from cronhare.domain.reading import Fault, Reads
from cronhare.domain.texts.moments import iso_moment
from cronhare.ports.events import AlertFilter, AlertPlace
from cronhare.ports.records import AuditFilter

from ..operations import Call, Reply, Resource, last_id, operates, reads
from ..problems import invalid_request
from ..reading import LONGEST_TEXT, ROWS, Id, Limit, Moment, Named, Page, Text, described


class Work(Resource):
    """Nodes, queues, and the limits of retries."""

    @reads("/nodes", "the processes of the ledger")
    def list_nodes(self) -> Reply[NodesView]:
        """List the processes that work on the ledger, and those that have ended of late."""
        return Reply(self._container.queries().nodes())

    @reads("/queues", "the task queues")
    def list_queues(self) -> Reply[Sequence[QueueView]]:
        """List the task queues: what waits in each, what runs, and who consumes."""
        return Reply(self._container.queries().queues())

    @reads("/budgets", "the retry budgets of queues")
    def list_budgets(self) -> Reply[Sequence[BudgetView]]:
        """List what each queue has left of its retries; a window gives them back by itself."""
        return Reply(self._container.limit_desk().budgets())

    @reads("/breakers", "the circuit breakers of tasks")
    def list_breakers(self) -> Reply[Sequence[BreakerView]]:
        """List circuit breakers: which are open, since when, and when a retry tries again."""
        return Reply(self._container.limit_desk().breakers())

    @operates("/nodes/{name}/drain", "it takes no more work", refuses=(409,))
    def drain_node(self, name: Named, call: Call) -> Reply[NodeView]:
        """Give a worker no more work; it finishes what it has, and stays."""
        return Reply(self._container.node_desk().drain(name, actor=call.actor))

    @operates("/nodes/{name}/undrain", "it takes work again", refuses=(409,))
    def undrain_node(self, name: Named, call: Call) -> Reply[NodeView]:
        """Give a worker work again."""
        return Reply(self._container.node_desk().undrain(name, actor=call.actor))

    @operates("/nodes/{name}/forget", "what was known of it", refuses=(409,))
    def forget_node(self, name: Named, call: Call) -> Reply[NodeView]:
        """Forget a node that is silent and will not come back."""
        return Reply(self._container.node_desk().forget(name, actor=call.actor))

    @operates("/breakers/{name}/reset", "what it was", refuses=(409,))
    def reset_breaker(self, name: Named, call: Call) -> Reply[BreakerView]:
        """Close a task's circuit breaker, by its name or such as `report 25`; it counts anew."""
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

    @property
    def filter(self) -> AlertFilter:
        asked = ("rule", "severity", "schedule", "cleared")
        return AlertFilter(**{name: getattr(self, name) for name in asked})


class Alerts(Resource):
    """Alerts, page by page."""

    @reads(
        "/alerts",
        "a page of alerts, newest first",
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
        page = self._container.alert_desk().alerts(
            query.filter, after=query.after, limit=query.limit
        )
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


class Facts(Resource):
    """Calendars, explanations, and the audit."""

    @reads("/calendars", "the calendars, by name")
    def list_calendars(self) -> Reply[Sequence[CalendarView]]:
        """List calendars, with their windows; a jobs file has them."""
        return Reply(self._container.queries().calendars())

    @reads("/calendars/{name}", "the calendar")
    def show_calendar(self, name: Named) -> Reply[CalendarView]:
        """Show one calendar."""
        return Reply(self._container.queries().calendar(name))

    @reads("/explain", "why", refuses=(404,))
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

    @reads("/audit", "a page of changes, newest first")
    def list_audit(self, query: WhichChanges) -> Reply[Sequence[AuditEntry]]:
        """List who changed what, newest first, from the API, the page and the command line."""
        which = AuditFilter(since=query.since, actor=query.actor, target=query.target)
        store = self._container.audit_store()
        found = store.entries(which, before=query.after, limit=query.limit)
        return Reply(found, after=last_id(found, limit=query.limit))
