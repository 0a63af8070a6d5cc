"""What became of a run that was enqueued."""

import time
from asyncio import sleep, to_thread
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import msgspec

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.schedules.keys import own_key, task_key
from cronhare.domain.schedules.task import assigned_number
from cronhare.ports.records import RecordsPort

from .client import client_of
from .signatures import converted_result
from .tasks import RemoteTask, Task

if TYPE_CHECKING:
    from .app import App
    from .client import Client

R_co = TypeVar("R_co", covariant=True)

#: Seconds between looks: the first, twice as long each time, and at most.
_FIRST_LOOK: Final = 0.02
_LAST_LOOK: Final = 1.0


class RunFailed(Exception):
    """A run has no result: it failed, or was cancelled or skipped. *state* says which."""

    def __init__(self, text: str, state: State) -> None:
        self.state = state
        super().__init__(text)


class Handle(Generic[R_co]):
    """A run that was enqueued, by the *id* of its execution and the *key* that it was given.

    What is asked here is asked of the ledger. The twins of an event loop are called `a…`, and
    `awaited` is that of `wait`. Until a transaction of the caller's is committed there is no run,
    and after its rollback there is none: that is `NotFound`, a `LookupError`, also where another
    run has got its id.
    """

    def __init__(
        self,
        id_: int,
        *,
        key: str,
        schedule: str,
        client: "Client",
        task: Task[..., R_co] | RemoteTask[Any],
    ) -> None:
        self.id = id_
        self.key = key
        self._schedule = schedule
        self._client = client
        self._task = task

    def state(self) -> State:
        """Say where it is: `claimed`, `running`, `retrying`, `succeeded`, `failed`, and others."""
        return self._execution().state

    def wait(self, timeout: float | None = None) -> State:
        """Wait until it has ended, for *timeout* seconds at most, and say how.

        Raises:
            TimeoutError: it has not.
        """
        for pause in self._looks(timeout):
            if (state := self.state()) not in UNFINISHED:
                break
            time.sleep(pause)
        return state

    def result(self, timeout: float | None = None) -> R_co:
        """Wait until it has ended, and give what the task returned, as its annotation says.

        Raises:
            RunFailed: it has no result; the text is the run's error.
            NotFound: what it returned could not be kept; the text says why.
            TimeoutError: it has not ended.
        """
        self.wait(timeout)
        return self._result()

    def cancel(self) -> State:
        """Ask for its end. What waits is cancelled at once, what runs is stopped soon."""
        container, run = self._client.container, self._execution()
        return container.administrator().cancel(run.id, actor=self._client.actor)

    def explain(self) -> str:
        """Say why it is where it is, as `cronhare explain` does."""
        view = self._client.container.explanations().of_execution(self._execution().id)
        return "\n".join((view.answer, *view.because))

    async def astate(self) -> State:
        return await to_thread(self.state)

    async def awaited(self, timeout: float | None = None) -> State:  # noqa: ASYNC109 - as `wait`
        for pause in self._looks(timeout):
            if (state := await self.astate()) not in UNFINISHED:
                break
            await sleep(pause)
        return state

    async def aresult(self, timeout: float | None = None) -> R_co:  # noqa: ASYNC109 - likewise
        await self.awaited(timeout)
        return await to_thread(self._result)

    async def acancel(self) -> State:
        return await to_thread(self.cancel)

    def _looks(self, timeout: float | None) -> Iterator[float]:
        """Give the pause after each look; after the last one that there is time for, raise."""
        self._client.waits_for(self.id, timeout)
        until = None if timeout is None else time.monotonic() + timeout
        pause = _FIRST_LOOK
        while until is None or (left := until - time.monotonic()) > 0:
            yield pause if until is None else min(pause, left)
            pause = min(2 * pause, _LAST_LOOK)
        yield 0.0
        raise TimeoutError(f"{self} has not ended within {timeout} s")

    def _execution(self) -> Execution:
        found = self._client.container.records().execution(self.id)
        whose = None if found is None else (found.schedule_name, own_key(found.key))
        if found is None or whose != (self._schedule, self.key):
            raise NotFound(
                f"{self} is not there: its transaction is not committed, or was rolled back; or it "
                "ended long ago, and its record was removed"
            )
        return found

    def _result(self) -> R_co:
        run = self._execution()
        if run.state is not State.SUCCEEDED:
            why = f": {run.last_error}" if run.last_error else ""
            raise RunFailed(f"{self} is {run.state}{why}", run.state)
        records, function = self._client.container.records(), self._task.function
        for each in records.reported([run.id])[-1:]:
            if problem := each.report.result_problem:
                raise NotFound(f"{self} is {run.state}, and its result is not there: {problem}")
        return cast("R_co", result_of(records, run.id, function))

    def __repr__(self) -> str:
        return f"<run {self.id} of {self._schedule}>"


def result_of(records: RecordsPort, run: int, function: Callable[..., object] | None) -> Any:  # noqa: ANN401
    reported = [each.report.result for each in records.reported([run]) if each.report.result]
    value = msgspec.json.decode(reported[-1]) if reported else None
    return value if function is None or value is None else converted_result(function, value)


def run_of(app: "App", run: int) -> Handle[Any]:
    client = client_of(app)
    found = client.container.records().execution(run)
    if found is not None and found.source in {app.name, None}:
        known = dict[str | int, Task[..., Any]]()
        for each in app.tasks.values():
            for name in (each.name, *each.aliases):
                known |= {name: each, assigned_number(app.name, name): each}
        task = known.get(found.task_name or found.task.id)
        if task or found.source:
            return _handle(found, client, task or RemoteTask(found.task_name or "", app, None))
    raise NotFound(f"app {app.name} has no run {run}, or its record was removed")


def run_with(task: Task[..., Any] | RemoteTask[Any], key: str) -> Handle[Any]:
    client, own = client_of(task.app), task_key(key)
    container = client.container
    for schedule in container.schedules().schedules([task.own_schedule]):
        instant = container.ledger_time().now()
        found = container.records().covering(schedule.id, key=own, instant=instant)
        if found is not None and found.key == own:
            return _handle(found, client, task)
    raise NotFound(f"{task.own_schedule} has no run with the key {key!r}, or it was removed")


def _handle(
    run: Execution, client: "Client", task: Task[..., Any] | RemoteTask[Any]
) -> Handle[Any]:
    schedule = run.schedule_name
    return Handle(run.id, key=own_key(run.key), schedule=schedule, client=client, task=task)
