"""`/calendars`, `/explain`, `/audit`: what there is to be known besides."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Path, Query, Request, Response
from pydantic import BeforeValidator

from cronhare.application.administration.explanations import ExplanationView
from cronhare.application.administration.reading.schedules import CalendarView
from cronhare.application.administration.views.access import AuditView
from cronhare.domain.access import Scope
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.reading import Fault

from ..asking import Asking
from ..problems import invalid_request
from .answers import as_answer, as_page, last_id
from .operations import Operation, operation
from .parameters import LONGEST_TEXT, ROWS, AfterId, Limit, Moment, Text, digits

Named = Annotated[str, Path(min_length=1, max_length=LONGEST_TEXT, pattern=r"^[^\x00/]+$")]
ExecutionId = Annotated[int | None, BeforeValidator(digits), Query(ge=1, le=LARGEST_ID)]


class Facts(Asking):
    """Calendars, explanations, and the audit."""

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        yield operation(
            "GET",
            "/calendars",
            self.list_calendars,
            scope=Scope.READ,
            what="the calendars, by name",
            gives=CalendarView,
            many=True,
        )
        yield operation(
            "GET",
            "/calendars/{name}",
            self.show_calendar,
            scope=Scope.READ,
            what="the calendar",
            gives=CalendarView,
            refuses=(404,),
        )
        yield operation(
            "GET",
            "/explain",
            self.explain,
            scope=Scope.READ,
            what="why",
            gives=ExplanationView,
            refuses=(404,),
        )
        yield operation(
            "GET",
            "/audit",
            self.list_audit,
            scope=Scope.READ,
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
