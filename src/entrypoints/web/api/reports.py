"""`/reports/generate`, with the body of S0.8 in docs/compatibility.md."""

from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

import attrs
import msgspec
from msgspec import Meta

from cronhare.application.administration.views.executions import ExecutionView
from cronhare.domain.access import Scope
from cronhare.domain.reading import REQUIRED, Fault, read_table
from cronhare.domain.schedules.draft import ScheduleInvalid
from cronhare.domain.schedules.task import fault_of_params

from ..asking import Asking
from .operations import Call, Reply, operation

LONGEST_CONTROLLER: Final = 255

Controller = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_CONTROLLER,
        description=f"a report's name, 1-{LONGEST_CONTROLLER} letters",
    ),
]
Options = Annotated[dict[str, Any], Meta(description="an object")]


@attrs.frozen(kw_only=True)
class GenerateReport:
    """A report to be run now. The whole body is its params.

    `controller` is the task's name in the jobs file, or as the log has it: `RefreshUserToken` for
    `refresh-user-token`.
    """

    controller: Controller = attrs.field(default="-", metadata=REQUIRED)
    options_interface: Options | None = None


def read_report(content: Mapping[str, Any], faults: list[Fault]) -> tuple[str, str]:
    """Read a body as the name of a report and its params.

    Raises:
        ScheduleInvalid: with every fault at once, those in *faults* among them.
    """
    body = read_table(GenerateReport, content, faults)
    options = body.options_interface or {}
    if not isinstance(options.get("delivery", {}), dict):
        faults.append(Fault("options_interface.delivery", "is not an object"))
    params = msgspec.json.encode(content).decode()
    if (too_large := fault_of_params(params)) is not None:
        faults.append(Fault("", too_large))
    if faults:
        raise ScheduleInvalid(tuple(faults))
    return body.controller, params


class Reports(Asking):
    """Reports, run by their names."""

    @operation(
        "POST",
        "/reports/generate",
        scope=Scope.OPERATE,
        status=202,
        what="it is on its way",
        takes=GenerateReport,
        refuses=(404, 409),
    )
    def generate_report(self, call: Call, key: UUID | None) -> Reply[ExecutionView]:
        """Run a report now; asked again with the same key, answer the run that it began."""
        controller, params = read_report(call.content, call.faults)
        desk = self._container.report_desk()
        execution = desk.generate(controller, params=params, request=key, actor=call.actor)
        return Reply(ExecutionView.of(execution, now=execution.executed_at))
