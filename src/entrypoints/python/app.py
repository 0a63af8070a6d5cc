"""An app: tasks and schedules that are written in Python.

    app = App("shop")

    @app.task(timeout="5m", retry=Retry(4, first="30s"))
    def refresh(ctx: Context, region: str) -> int: ...

    app.schedule("refresh-eu", refresh.bind(region="eu"), cron("0 8 * * *", tz="Europe/Berlin"))

It says what a jobs file says, in its words, and goes through the same reader: `App.tables`. The
app's name is its source in the ledger. Nothing connects before something is enqueued.
"""

import inspect
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast
from weakref import WeakSet

from cronhare.domain.texts.words import LONGEST_NAME, NAME

from .tasks import Call, RemoteTask, Task, TaskDecorator
from .words import ScheduleWords, Table, When, refuse_foreign, written

if TYPE_CHECKING:
    from .handles import Handle
    from .schedules import AppSchedules

K = TypeVar("K")

#: What `App.task` takes for the schedules of a task: they may say otherwise.
_OF_RUNS = ("queue", "concurrency")

#: All apps of this process: whoever tests one need not name it.
APPS: WeakSet["App"] = WeakSet()


class App:
    """A registry of tasks and schedules, under a *name* of its own."""

    def __init__(
        self,
        name: str,
        *,
        ledger: str | None = None,
        include: Sequence[str] = (),
        queues: Sequence[str] = (),
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        """*ledger* is a database URL; without it CRON_DATABASE_URL counts, as for the commands.

        *include* names modules that register tasks as well: they are imported when the app is
        loaded. *queues* are those that a `Call` may be enqueued into, beside those that tasks and
        schedules name: `cronhare up` serves them all. *defaults* are the words of `[defaults]`.

        Raises:
            ValueError: the name is not allowed.
        """
        self.name = _checked(name, "an app")
        self.ledger = ledger
        self._include = tuple(include)
        self._queues = tuple(queues)
        self._defaults = written(defaults or {})
        self._tasks: dict[str, Task[..., Any]] = {}
        self._tables: dict[str, dict[str, Table]]
        self._tables = {"schedules": {}, "notify": {}, "calendars": {}}
        APPS.add(self)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The tasks that are registered by now, by their names."""
        return MappingProxyType(self._tasks)

    @property
    def task(self) -> TaskDecorator:
        """Register a function, plain or async; it stays callable.

        *name* is how ledger, messages and people call it: the function's own, unless it is given.
        Once runs of it may be on their way, a name that is given up belongs into *aliases*.
        *executor* says where it runs: `fork` (a fresh child of an interpreter that has the app;
        the default), `pool` (children that are used again, until *per_child* runs), `async` (many
        in one child; the default of an `async def`), or `process` (an interpreter of its own).
        *memory* is what a run may take, such as `"512M"`; *concurrency* `{"key": …, "limit": …}`
        how many of them run at once.

        Raises:
            ValueError: the name is taken, or not allowed.
            TypeError: a parameter of the function cannot be given by its name, or executor
                `async` is asked for a plain function.
        """
        return cast("TaskDecorator", self._decorate)

    def _decorate(self, function: Callable[..., Any] | None = None, /, **words: Any) -> Any:  # noqa: ANN401 - see TaskDecorator
        def register(function: Callable[..., Any]) -> Task[..., Any]:
            refuse_foreign(words)
            said = written(words)
            own = said.pop("name", getattr(function, "__name__", ""))
            is_async = inspect.iscoroutinefunction(function)
            said.setdefault("executor", "async" if is_async else "fork")
            if said["executor"] == "async" and not is_async:
                raise TypeError(
                    f"task {own!r}: executor async runs coroutines, and a plain function would "
                    "hold up all of them; make it an `async def`, or use executor fork or pool"
                )
            of_runs = {word: said.pop(word) for word in _OF_RUNS if word in said}
            own = _checked(own, "a task")
            task = Task[..., Any](function, self, name=own, words=said, run_words=of_runs)
            for other in self._tasks.values():
                if taken := {other.name, *other.aliases} & {own, *task.aliases}:
                    raise ValueError(
                        f"task {taken.pop()!r} of {self.name} is taken, by the function at "
                        f"{_place(other)}; the one at {_place(task)} needs another: "
                        "@app.task(name=…)"
                    )
            self._tasks[own] = task
            return task

        return register if function is None else register(function)

    def schedule(
        self, name: str, call: Call[Any], when: When | None = None, **words: Unpack[ScheduleWords]
    ) -> None:
        """Have a call run by times: `cron`, `every` or `at`; the *words* are those of a jobs file.

        It is in force once the app is applied, by `cronhare apply --app` or `up --app`.

        Raises:
            ValueError: the name is taken, or not allowed; or the task is another app's.
            TypeError: *call* is not bound, or *when* says no times.
        """
        self._add("schedules", name, self.schedule_table(call, when, words))

    def schedule_table(
        self, call: Call[Any], when: When | None, words: Mapping[str, object]
    ) -> Table:
        """Say a schedule as a jobs file does; raises as `schedule`."""
        if not isinstance(call, Call):
            raise TypeError(f"{call!r} is no call of a task: give TASK.bind(…)")
        if not isinstance(when, When | None):
            raise TypeError(f"{when!r} says no times: give cron(…), every(…) or at(…)")
        if not isinstance(call.task, Task) or call.task.app is not self:
            raise ValueError(f"{call.task} is not of {self.name}: schedule it where it belongs")
        times = {} if when is None else when.words
        said = {"task": call.task.name, **call.task.run_words, **times, **written(words)}
        return said | ({"params": call.params} if call.params else {})

    def notify(self, name: str, **words: Any) -> None:  # noqa: ANN401 - of several kinds of targets
        """Define whom `notify = ["NAME"]` tells: the words of `[notify.NAME]`."""
        self._add("notify", name, written(words))

    def calendar(self, name: str, **words: Any) -> None:  # noqa: ANN401 - as above
        """Define days that `skip_on` and `only_on` name: the words of `[calendars.NAME]`."""
        self._add("calendars", name, written(words))

    def _add(self, section: str, name: str, table: Table) -> None:
        tables = self._tables[section]
        if _checked(name, f"one of {section}") in tables:
            raise ValueError(f"{section}.{name} of {self.name} is there already")
        tables[name] = table

    def remote(self, name: str, kind: type[K] | None = None) -> RemoteTask[K]:
        """Name a task whose code is not here, to enqueue it; *kind* is the class of its params.

        That is a dataclass, a TypedDict, a Struct of msgspec or a model of Pydantic; without one
        any parameters do.
        """
        return RemoteTask(_checked(name, "a task"), self, kind)

    def run(self, id_: int) -> "Handle[Any]":
        """Find a run of this app again, by the `id` that its handle had.

        Raises:
            NotFound: it has none, or the record was removed.
        """
        from .handles import run_of  # noqa: PLC0415 - who only names tasks does without

        return run_of(self, id_)

    @cached_property
    def schedules(self) -> "AppSchedules":
        """The schedules that code makes, changes and deletes while it runs, beside those above."""
        from .schedules import AppSchedules  # noqa: PLC0415 - few do

        return AppSchedules(self)

    @asynccontextmanager
    async def lifespan(self, _application: object = None) -> AsyncIterator[None]:
        """Connect to the ledger at the start, and let go of it: `FastAPI(lifespan=app.lifespan)`.

        What cannot be used fails there, as in `client_of`.
        """
        from asyncio import to_thread  # noqa: PLC0415 - what is not asynchronous does without

        from .client import client_of, close_clients  # noqa: PLC0415 - see `tasks`

        await to_thread(client_of, self)
        try:
            yield
        finally:
            await to_thread(close_clients)

    def load(self) -> None:
        for module in self._include:
            __import__(module)  # which `Watch` sees

    def tables(self, place: str) -> Table:
        """Say all of it as a jobs file does; *place* is where the app is found, `shop.jobs:app`."""
        self.load()
        tasks = {
            name: {
                "python": place,
                **({"context": True} if task.signature.takes_context else {}),
                **task.words,
            }
            for name, task in self._tasks.items()
        }
        own = {task.own_schedule: task.own_table for task in self._tasks.values()}
        return {
            "source": self.name,
            "queues": list(self._queues),
            "defaults": self._defaults,
            "tasks": tasks,
            **self._tables,
            "schedules": {**self._tables["schedules"], **own},
        }

    def __repr__(self) -> str:
        return f"<app {self.name}>"


def _place(task: Task[..., Any]) -> str:
    """Say where its function begins, for people: `shop/jobs.py:12`."""
    code = getattr(task.function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(task.function)


def _checked(name: str, what: str) -> str:
    if re.fullmatch(NAME, name):
        return name
    raise ValueError(
        f"{name!r} cannot name {what}: allowed are a-z, 0-9, dot, dash and underscore, at most "
        f"{LONGEST_NAME}, beginning with a letter or digit"
    )
