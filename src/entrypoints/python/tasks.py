"""A task of an app: its function with a name, and calls of it with parameters."""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from .context import Context
from .signatures import Signature
from .words import Table

if TYPE_CHECKING:
    from .app import App

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Task(Generic[P, R]):
    """A function that workers may run under a *name*. Called, it is the plain function.

    *aliases* are names that it had before: runs that were begun under them find it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        app: "App",
        *,
        name: str,
        words: Table,
        run_words: Table,
    ) -> None:
        """*words* are those of `[tasks.NAME]`, *run_words* those of the schedules that run it.

        Raises:
            TypeError: a parameter cannot be given by name.
        """
        self.function = function
        self.app = app
        self.name = name
        self.words = words
        self.run_words = run_words
        self.signature = Signature(function)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__module__ = function.__module__
        self.__wrapped__ = function

    @property
    def own_schedule(self) -> str:
        """The schedule of the runs that are enqueued."""
        return f"{self.app.name}:{self.name}"

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(self.words.get("aliases", ()))

    @property
    def place(self) -> str:
        """Where its function begins, for people: `shop/jobs.py:12`."""
        code = getattr(self.function, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(self.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - see `PlainTask` and others
        return self.function(*args, **kwargs)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> "Call[R]":
        """Give a call with these parameters, for a schedule or to enqueue.

        Raises:
            TypeError: they do not fit the signature.
        """
        return Call(self, self.signature.bind(args, kwargs))

    def __repr__(self) -> str:
        return f"<task {self.name} of {self.app.name}>"


class Call(Generic[R]):
    """A task with its parameters, which are JSON by name."""

    def __init__(self, task: Task[..., R], params: Mapping[str, Any]) -> None:
        """*params* have been checked."""
        self.task = task
        self.params = dict(params)

    def __repr__(self) -> str:
        return f"<{self.task.name}({', '.join(f'{k}={v!r}' for k, v in self.params.items())})>"


# What the decorator gives, by the kind of its function: they differ in what a plain call takes.
if TYPE_CHECKING:

    class PlainTask(Task[P, R]):
        """Called as it is."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    class ContextTask(Task[P, R]):
        """Called with a context first."""

        def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    class AsyncTask(Task[P, R]):
        """Called it gives a coroutine."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]: ...

    class AsyncContextTask(Task[P, R]):
        """Called with a context first it gives a coroutine."""

        def __call__(
            self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs
        ) -> Coroutine[Any, Any, R]: ...


class TaskDecorator(Protocol):
    """What `App.task` gives where it is called with options."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> "AsyncContextTask[P, R]": ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> "AsyncTask[P, R]": ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], R], /
    ) -> "ContextTask[P, R]": ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> "PlainTask[P, R]": ...
