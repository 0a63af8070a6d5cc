"""`/alerts`: what is wrong now, since when, and who was told."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import BeforeValidator

from cronhare.application.administration.views.alerts import AlertView
from cronhare.domain.access import Scope
from cronhare.domain.events.alerts import AlertFilter, AlertPlace
from cronhare.domain.events.rules import AlertSeverity, Rule
from cronhare.domain.texts.moments import iso_moment

from ..asking import Asking
from .answers import as_page
from .operations import Operation, operation
from .parameters import LONGEST_TEXT, ROWS, Limit, Text


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
            scope=Scope.READ,
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
