"""`/tasks/{name}/runs`: runs of an app's tasks, as code enqueues them."""

from uuid import UUID, uuid4

import attrs

from cronhare.adapters.jobs.fields import JsonText
from cronhare.application.administration.views.executions import ExecutionView
from cronhare.domain.access import Scope
from cronhare.domain.lifecycle.enqueue import Wanted
from cronhare.domain.reading import Duration

from ..asking import Asking
from .operations import Call, Moment, Named, Reply, operation


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


class Tasks(Asking):
    """Tasks that have a schedule by hand of their own."""

    @operation(
        "POST",
        "/tasks/{name}/runs",
        scope=Scope.OPERATE,
        status=202,
        what="it is on its way, or was before",
        may_be_empty=True,
        refuses=(404, 409),
    )
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
