"""`/reports/generate`: S0.8 in docs/compatibility.md."""

from collections.abc import Iterator
from uuid import UUID

from fastapi import Request, Response

from cronhare.application.administration.views.executions import ExecutionView
from cronhare.domain.access import Actor, Scope
from cronhare.domain.execution import Execution
from cronhare.domain.reading import Fault

from ..access import actor_of
from ..asking import Asking
from ..bodies import read_object
from .answers import as_answer
from .operations import Operation, operation
from .parameters import IdempotencyKey, named
from .report_bodies import GenerateReport, read_report


class Reports(Asking):
    """Reports, run by their names."""

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        yield operation(
            "POST",
            "/reports/generate",
            self.generate_report,
            scope=Scope.OPERATE,
            status=202,
            what="it is on its way",
            takes=GenerateReport,
            gives=ExecutionView,
            refuses=(404, 409),
        )

    async def generate_report(
        self, request: Request, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Run a report now; asked again with the same key, answer the run that it began."""
        faults: list[Fault] = []
        content = await read_object(request, faults)
        controller, params = read_report(content, faults)
        key = named(request, idempotency_key)
        execution = await self._asker.ask(
            lambda: self._generate(controller, params, key, actor_of(request))
        )
        return as_answer(ExecutionView.of(execution, now=execution.executed_at), 202)

    def _generate(self, controller: str, params: str, key: UUID | None, actor: Actor) -> Execution:
        container = self._asker.container
        now = container.ledger_time().now()
        return container.report_desk().generate(
            controller, params=params, now=now, request=key, actor=actor
        )
