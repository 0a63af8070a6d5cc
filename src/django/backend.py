"""The backend of `django.tasks`: what is enqueued is a run in cronhare's ledger."""

import builtins
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django import conf
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.utils import timezone

import cronhare
from cronhare.adapters.addresses import parse_ledger
from cronhare.adapters.jobs.reader import JobsFileInvalid, read_content
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.domain.execution import State
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.entrypoints.python.client import client_of
from cronhare.ports.claims import OtherDatabase

from . import jobs, tasks
from .tasks import BaseTaskBackend, InvalidTask, Task, api, find, queue_of

if TYPE_CHECKING:
    from cronhare.application.administration.views.executions import AttemptView
    from cronhare.entrypoints.python.tasks import Call

_STATUS: Final = {
    State.RUNNING: "RUNNING",
    State.SUCCEEDED: "SUCCESSFUL",
    **dict.fromkeys((State.FAILED, State.QUARANTINED, State.CANCELLED, State.SKIPPED), "FAILED"),
}


class Backend(BaseTaskBackend):
    """Enqueues tasks in the ledger, in the transaction of the caller where there is one.

    OPTIONS: `app` names the app (`django`), `database` the alias of the database with the ledger
    (`default`); `include` names modules with tasks beside the `tasks` of INSTALLED_APPS;
    `defaults`, `schedules`, `notify` and `calendars` are tables of a jobs file.
    """

    task_class = Task
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Task) -> None:
        """Raise InvalidTask for Django's reasons, or if its queue cannot be one of cronhare."""
        super().validate_task(task)
        if not re.fullmatch(r"[a-z0-9_][a-z0-9._-]{0,57}", task.queue_name):
            allowed = "a-z, 0-9, dot, dash and underscore, at most 58"
            raise InvalidTask(f"{task.queue_name!r} cannot be a queue of cronhare: {allowed}")

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Enqueue a run: with the caller's transaction on the database, if there is one.

        If the ledger is in another database, it is enqueued after the commit, and its result has no
        id before.

        Raises:
            InvalidTask: the backend cannot run it.
            TypeError: the arguments are not the function's, or have no form in JSON.
            KeyTaken: its key is that of a run with other arguments.
        """
        self.validate_task(task)
        result, at = jobs.new_result(task, args=args, kwargs=kwargs), task.run_after
        call = jobs.call_of(task, result.args, result.kwargs).options(
            key=task.key,
            at=timezone.make_aware(at) if at is not None and timezone.is_naive(at) else at,
            expires=task.expires,
            queue=queue_of(task.queue_name, task.priority),
        )
        if not connections[database := jobs.database()].in_atomic_block:
            self._enqueue(call, result)
            return result
        try:
            self._enqueue(call, result, on=database)
        except OtherDatabase:
            transaction.on_commit(partial(self._enqueue, call, result), using=database)
        return result

    def _enqueue(self, call: "Call[Any]", result: Any, on: str | None = None) -> None:  # noqa: ANN401
        handle = call.enqueue(on=on)
        jobs.note(result, id=str(handle.id), enqueued_at=timezone.now())
        api.signals.task_enqueued.send(type(self), task_result=result)

    def get_result(self, result_id: str) -> Any:  # noqa: ANN401
        """Read what became of a run.

        Raises:
            TaskResultDoesNotExist: this project has no such run.
        """
        app = jobs.discovered()
        try:
            found = client_of(app).container.queries().execution(int(result_id))
        except (NotFound, ValueError) as error:
            raise api.exceptions.TaskResultDoesNotExist(result_id) from error
        run, attempts = found.execution, found.attempts
        if run.source != app.name or (task := find(run.task_name or "")) is None:
            raise api.exceptions.TaskResultDoesNotExist(result_id)
        result = jobs.new_result(
            task,
            id=result_id,
            status=_STATUS.get(run.state, "READY"),
            args=run.params["args"],
            kwargs=run.params["kwargs"],
            enqueued_at=_moment(run.executed_at),
            started_at=_moment(attempts[0].started_at if attempts else None),
            last_attempted_at=_moment(attempts[-1].started_at if attempts else None),
            finished_at=_moment(run.finished_at),
            errors=list(_errors(attempts)),
            worker_ids=[attempt.node for attempt in attempts],
        )
        jobs.note(result, _return_value=attempts[-1].result if attempts else None)
        return result

    def check(self, **_: Any) -> Iterable[checks.CheckMessage]:  # noqa: ANN401 - as Django has it
        """Find what is wrong with the settings and the tasks, all at once; asks no database."""
        return [checks.Error(fault, id="cronhare.E001") for fault in self._faults()]

    def _faults(self) -> Iterator[str]:
        if not self.queues:
            yield f"TASKS: {self.alias}: QUEUES is empty: name the queues that workers are to serve"
        try:
            if url := jobs.ledger():
                parse_ledger(url)
            else:
                yield f"no URL names the database {jobs.database()!r}: set CRON_DATABASE_URL"
        except ValueError as error:
            yield f"the ledger: {error}"
        try:
            tables = jobs.discovered().tables(jobs.PLACE)
            read_content(tables, jobs.PLACE, folder=Path.cwd(), policy=RetryPolicy())
        except ImproperlyConfigured as error:
            yield str(error)
        except JobsFileInvalid as error:
            yield from map(str, error.faults)


class ImmediateBackend(tasks.ImmediateBackend):
    """Django's backend for tests, which runs a task at once: with what `@task` takes for ours."""

    task_class = Task


class DummyBackend(tasks.DummyBackend):
    """Django's backend for tests, which keeps results and runs nothing; likewise."""

    task_class = Task


def _moment(moment: datetime | None) -> Any:  # noqa: ANN401 - Django has no types
    is_naive = moment is not None and not conf.settings.USE_TZ
    return timezone.make_naive(moment) if is_naive else moment


def _errors(attempts: "Sequence[AttemptView]") -> Iterator[Any]:
    """Give the errors of attempts. A class is known by its name: its path is in the traceback.

    What ended without an exception of its own is said to have raised one that is built in.
    """
    for attempt in attempts:
        if (error := attempt.error) is not None:
            usual = "TimeoutError" if attempt.ending == "timed-out" else "RuntimeError"
            stack = error.stack or error.message
            path = next(filter(None, (_path(name, stack) for name in (*error.types, usual))))
            yield api.base.TaskError(exception_class_path=path, traceback=stack)


def _path(name: str, stack: str) -> str | None:
    paths = re.findall(rf"^((?:\w+\.)+{re.escape(name)})(?::|$)", stack, re.MULTILINE)
    ours = (module for module in (builtins, cronhare) if hasattr(module, name))
    return paths[-1] if paths else next((f"{each.__name__}.{name}" for each in ours), None)
