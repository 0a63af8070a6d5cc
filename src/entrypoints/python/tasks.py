"""A task of an app: its function with a name, and calls of it with parameters."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from .signatures import Signature, json_params
from .words import Context, Duration, Retry, Table, TaskWords, refuse_foreign

if TYPE_CHECKING:
    from .app import App
    from .client import Client
    from .handles import Handle

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K")
Given = TypeVar("Given")
R_co = TypeVar("R_co", covariant=True)

#: A timedelta, its text such as `"5m"`, or seconds.
Span: TypeAlias = timedelta | str | float


class Task(Generic[P, R]):
    """A function that workers may run under a *name*. Called, it is the plain function.

    *words* are those of `[tasks.NAME]`, *run_words* those of the schedules that run it. *aliases*
    are names that it had before. The runs that are enqueued are of its *own_schedule*.
    """

    __name__: str

    def __init__(
        self,
        function: Callable[..., Any],
        app: "App",
        *,
        name: str,
        words: Table,
        run_words: Table,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.app = app
        self.name = name
        self.aliases: tuple[str, ...] = tuple(words.get("aliases", ()))
        self.words = words
        self.run_words = run_words
        self.signature = Signature(function)
        self.own_schedule = f"{app.name}:{name}"

    @property
    def own_table(self) -> Table:
        return {"task": self.name, "manual": True, **self.run_words}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - see `PlainTask` and others
        return self.function(*args, **kwargs)

    if not TYPE_CHECKING:  # where every name would do then

        def __getattr__(self, name: str) -> object:
            celery = name in {"delay", "apply_async", "s", "si"}
            raise AttributeError(
                f"task {self.__dict__.get('name')} has no {name}"
                f"{': write TASK.bind(…).enqueue(…)' if celery else ''}"
            )

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> "Call[R]":
        """Give a call with these parameters, for a schedule or to enqueue.

        Raises:
            TypeError: they do not fit the signature.
        """
        return Call(self, self.signature.bind(args, kwargs))

    def run(self, key: str) -> "Handle[R]":
        """Find the run that was enqueued with a *key*.

        Raises:
            NotFound: there is none, or its record was removed.
        """
        return _run_with(self, key)

    def __repr__(self) -> str:
        return f"<task {self.name} of {self.app.name}>"


class RemoteTask(Generic[K]):
    """A task of an app whose code is elsewhere: it is enqueued by its name.

    Whether there is such a task, and what it takes, the worker tells.
    """

    function: None = None

    def __init__(self, name: str, app: "App", kind: "type[K] | None") -> None:
        self.name = name
        self.app = app
        self.own_schedule = f"{app.name}:{name}"
        self._kind = kind

    def bind(self, params: "K | None" = None, /, **said: Any) -> "Call[Any]":  # noqa: ANN401
        """Give a call with *params*, or with the parameters that are *said*.

        Raises:
            TypeError: they do not fit the kind that was named.
        """
        return Call(self, json_params(self.name, self._kind, said if params is None else params))

    def run(self, key: str) -> "Handle[Any]":
        """Find the run that was enqueued with a *key*; see `Task.run`."""
        return _run_with(self, key)

    def __repr__(self) -> str:
        return f"<remote task {self.name} of {self.app.name}>"


class Options(TypedDict, total=False):
    """The options of `Call.enqueue`."""

    key: str | None
    delay: Span | None
    at: datetime | None
    expires: Span | datetime | None
    queue: str | None


class Call(Generic[R_co]):
    """A task with its parameters, which are JSON by name; and how it is to be enqueued, if so."""

    def __init__(
        self,
        task: "Task[..., R_co] | RemoteTask[Any]",
        params: Mapping[str, Any],
        **asked: Unpack[Options],
    ) -> None:
        refuse_foreign(asked)
        self.task = task
        self.params = dict(params)
        self.asked = asked

    def options(self, **options: Unpack[Options]) -> "Call[R_co]":
        """Give the same call with these options of `enqueue` as well, for `enqueue_many`."""
        said: Any = {name: it for name, it in options.items() if it is not None}
        return Call(self.task, self.params, **{**self.asked, **said})

    def enqueue(self, *, on: object | None = None, **options: Unpack[Options]) -> "Handle[R_co]":
        """Have a worker run it, once, at once.

        *key* makes it one run however often it is enqueued: with the same parameters that run is
        answered, with others `KeyTaken` is raised. It begins after a *delay*, or *at* a time. A run
        that has not begun when it *expires*, so long after its time or at a moment, does not run.
        *queue* replaces the task's. Spans are timedeltas, texts such as `"5m"`, or seconds.

        *on* is a connection or session of SQLAlchemy, a connection of a driver, or the alias of a
        database of Django: the run is committed with the transaction there, or rolled back.

        Raises:
            EnqueueInvalid: options that cannot be; all faults at once.
            KeyTaken: see above.
            OtherDatabase: *on* does not lead to the ledger's database.
            NotFound: the ledger has no such task, and its code is elsewhere.
            LedgerUnavailable: the ledger is away, or not made yet; the text says what to do.
        """
        [handle] = enqueue_many([self.options(**options)], on=on)
        return handle

    async def aenqueue(
        self, *, on: object | None = None, **options: Unpack[Options]
    ) -> "Handle[R_co]":
        """Enqueue without keeping the event loop waiting; *on* may be asynchronous."""
        [handle] = await aenqueue_many([self.options(**options)], on=on)
        return handle

    def __repr__(self) -> str:
        return f"<{self.task.name}({', '.join(f'{k}={v!r}' for k, v in self.params.items())})>"


def enqueue_many(calls: "Iterable[Call[R]]", *, on: object | None = None) -> "list[Handle[R]]":
    """Enqueue calls in one transaction, all or none: `send.bind(order=7).options(key="mail:7")`.

    They are of apps on one ledger; for the rest see `Call.enqueue`.
    """
    listed = list(calls)
    return _client_of(listed).enqueue(listed, on=on) if listed else []


async def aenqueue_many(
    calls: "Iterable[Call[R]]", *, on: object | None = None
) -> "list[Handle[R]]":
    """Do so without keeping the event loop waiting; *on* may be asynchronous."""
    listed = list(calls)
    return await _client_of(listed).aenqueue(listed, on=on) if listed else []


def _client_of(calls: "list[Call[R]]") -> "Client":
    from .client import client_of  # noqa: PLC0415 - who only names tasks does without

    apps = {call.task.app.ledger: call.task.app for call in calls}
    if len(apps) > 1:
        names = " and ".join(sorted(app.name for app in apps.values()))
        raise ValueError(f"{names} have two ledgers: enqueue the calls of each apart")
    return client_of(*apps.values())


def _run_with(task: "Task[..., Any] | RemoteTask[Any]", key: str) -> "Handle[Any]":
    from .handles import run_with  # noqa: PLC0415 - as above

    return run_with(task, key)


# What the decorator gives, by the kind of its function: they differ in what a plain call takes.
if TYPE_CHECKING:

    class PlainTask(Task[P, R], Generic[P, R, Given]):
        """Called as it is; what it gives is a coroutine where the function is async."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Given: ...

    class ContextTask(Task[P, R], Generic[P, R, Given]):
        """Called with a context first."""

        def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> Given: ...


class TaskDecorator(Protocol):
    """What `App.task` is, with options or without."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> "ContextTask[P, R, Coroutine[Any, Any, R]]": ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> "PlainTask[P, R, Coroutine[Any, Any, R]]": ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], R], /
    ) -> "ContextTask[P, R, R]": ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> "PlainTask[P, R, R]": ...
    @overload
    def __call__(
        self,
        *,
        name: str | None = None,
        aliases: Sequence[str] = (),
        timeout: Duration | None = None,
        retry: Retry | str | Mapping[str, Any] | None = None,
        queue: str | None = None,
        executor: Literal["process", "fork", "pool", "async"] | None = None,
        per_child: int | None = None,
        memory: int | str | None = None,
        concurrency: Mapping[str, Any] | None = None,
        **words: Unpack[TaskWords],
    ) -> "TaskDecorator": ...
