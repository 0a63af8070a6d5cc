"""`/tasks/{name}/runs`, as code enqueues runs; and `/reports/generate`, of the original.

The body of the latter is that of S0.8 in docs/compatibility.md.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID, uuid4

import attrs
import msgspec
from msgspec import Meta

from cronhare.adapters.jobs.fields import JsonText
from cronhare.application.administration.views.executions import ExecutionView
from cronhare.domain.lifecycle.enqueue import Wanted
from cronhare.domain.reading import REQUIRED, Duration, Fault, read_table
from cronhare.domain.schedules.draft import ScheduleInvalid
from cronhare.domain.schedules.task import fault_of_params

from ..operations import Call, Reply, Resource, operates
from ..reading import Moment, Named


@attrs.frozen(kw_only=True)
class TaskRun:
    """A run of a task with these `params`, at once, after a `delay` or `at` a time.

    One `key` is one run of the task, however often it is asked for; without it the Idempotency-Key
    counts. What has not begun when it `expires`, so long after its time, does not run.
    """

    params: JsonText = None
    key: str | None = None
    delay: Duration | None = None
    at: Moment | None = None
    expires: Duration | None = None
    queue: str | None = None


class Tasks(Resource):
    """Tasks that have a schedule by hand of their own."""

    @operates("/tasks/{name}/runs", "it is on its way, or was before", status=202, refuses=(409,))
    def run_task(
        self, name: Named, body: TaskRun, call: Call, key: UUID | None
    ) -> Reply[ExecutionView]:
        """Enqueue a run of the task `SOURCE:TASK`."""
        params = body.params or ("null" if "params" in call.content else "{}")
        wanted = Wanted(
            schedule=name,
            key=str(key or uuid4()) if body.key is None else body.key,
            params=params,
            delay=body.delay,
            at=body.at,
            expires=body.expires,
            queue=body.queue,
        )
        run = self._container.task_desk().run(wanted, actor=call.actor)
        view = ExecutionView.of(run, now=run.executed_at)
        return Reply(view, headers={"Location": f"/executions/{view.id}"})


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


class Reports(Resource):
    """Reports, run by their names."""

    @operates(
        "/reports/generate",
        "it is on its way",
        status=202,
        takes=GenerateReport,
        refuses=(404, 409),
        needs_body=True,
    )
    def generate_report(self, call: Call, key: UUID | None) -> Reply[ExecutionView]:
        """Run a report now; asked again with the same key, answer the run that it began."""
        controller, params = read_report(call.content, call.faults)
        execution = self._container.report_desk().generate(
            controller, params=params, request=key, actor=call.actor
        )
        return Reply(ExecutionView.of(execution, now=execution.executed_at))
