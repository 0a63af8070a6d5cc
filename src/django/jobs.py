"""The app of a Django project: its tasks and schedules, and how a worker runs them.

Workers and commands find it as `cronhare.django.jobs:app`. It has each function that `@task` made a
task of ours in a `tasks` module of INSTALLED_APPS, or in one that the option `include` names.
"""

import inspect
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, Self
from urllib.parse import quote

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, close_old_connections, connections, reset_queries
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules

from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.python.app import App
from cronhare.entrypoints.python.tasks import Call
from cronhare.entrypoints.python.words import Context, Snooze
from cronhare.entrypoints.settings.sources import find_setting

from .tasks import WEIGHTS, Task, api, made, name_of, queue_of

#: Where workers find the app.
PLACE: Final = "cronhare.django.jobs:app"

#: The words of OPTIONS.
WORDS: Final = ("app", "calendars", "database", "defaults", "include", "notify", "schedules")

_OF_A_TASK: Final = ("timeout", "retry", "executor", "per_child", "memory", "concurrency")
_lock: Final = threading.RLock()  # requests enqueue in threads
_SCHEMES: Final = {"mysql": "mysql+pymysql", "postgresql": "postgresql+psycopg"}


def __getattr__(name: str) -> object:
    """Give `app` to a worker: the children that it forks inherit no connection."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not apps.ready:
        django.setup()
    app = discovered()
    connections.close_all()
    return app


def backends() -> Sequence[Any]:
    """Give the backends of TASKS that are ours.

    Raises:
        ImproperlyConfigured: there is none, or they disagree about what is one app's.
    """
    from .backend import Backend  # noqa: PLC0415 - it enqueues calls that are made here

    found = [backend for backend in api.task_backends.all() if isinstance(backend, Backend)]
    if not found:
        raise ImproperlyConfigured('TASKS has no backend with "BACKEND": "cronhare.django.Backend"')
    for word in ("app", "database", "defaults"):
        if any(each.options.get(word) != found[0].options.get(word) for each in found):
            raise ImproperlyConfigured(f"TASKS: give all backends of cronhare the same {word!r}")
    return found


def database() -> str:
    return str(backends()[0].options.get("database", DEFAULT_DB_ALIAS))


def ledger() -> str:
    """Give the URL of the ledger; empty if no URL can name the database."""
    if said := find_setting("database_url", ""):
        return said
    vendor, given = connections[database()].vendor, connections[database()].settings_dict
    if vendor == "sqlite":
        name = str(given["NAME"])
        return f"sqlite:///{name}" if name and not name.startswith((":memory:", "file:")) else ""
    if vendor not in _SCHEMES or given["HOST"].startswith("/"):
        return ""
    user, password, place = (quote(given[each], safe="") for each in ("USER", "PASSWORD", "NAME"))
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    port = f":{given['PORT']}" if given["PORT"] else ""
    return f"{_SCHEMES[vendor]}://{login}{given['HOST'] or 'localhost'}{port}/{place}"


def weights() -> Mapping[str, int]:
    names = sorted({name for backend in backends() for name in backend.queues})
    return {queue_of(name, 0) + end: each for name in names for end, each in WEIGHTS.items()}


@cache
def own_app() -> App:
    """Give the project's app, with the tasks that were asked for by now.

    Raises:
        ImproperlyConfigured: it cannot have that name, or see `backends`.
    """
    options = backends()[0].options
    queues = [queue for queue in weights() if queue != MAIN_QUEUE]
    name, defaults = options.get("app", "django"), options.get("defaults")
    try:
        return App(name, ledger=ledger() or None, queues=queues, defaults=defaults)
    except ValueError as error:
        raise ImproperlyConfigured(f"TASKS: app: {error}") from error


def call_of(
    task: Task, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Call[Any]:
    """Give a call of a task, which the project's app has from then on.

    Raises:
        TypeError: its function does not take these arguments.
    """
    told = (None, *args) if task.takes_context else args
    try:
        inspect.signature(task.func).bind(*told, **kwargs or {})
    except TypeError as error:
        raise TypeError(f"{task.module_path}(): {error}") from None
    _register(task)
    registered = own_app().tasks[task.registered_name]
    return Call(registered, {"args": list(args), "kwargs": dict(kwargs or {})})


def _register(task: Task) -> None:
    with _lock:
        if (name := task.registered_name) not in own_app().tasks:
            words: dict[str, Any] = {word: getattr(task, word) for word in _OF_A_TASK}
            words["aliases"] = [name_of(path) for path in task.aliases]
            words["queue"] = queue_of(task.queue_name, task.priority)
            own_app().task(name=name, **words)(_function(task))


def discovered() -> App:
    """Give the project's app with all its tasks, and the schedules of the settings.

    Raises:
        ImproperlyConfigured: with every fault at once.
    """
    with _lock:
        return _discovered()


@cache
def _discovered() -> App:
    autodiscover_modules("tasks")
    for module in (each for one in backends() for each in one.options.get("include", ())):
        import_module(module)
    faults = list[str]()
    for task in made.values():
        try:
            _register(task)
        except (ValueError, TypeError) as error:
            faults.append(f"{task.module_path}: {error}")
    for backend in backends():
        faults += [f"{backend.alias}: {fault}" for fault in _add_tables(backend.options)]
    if faults:
        own_app.cache_clear()  # whoever asks again is told the same
        raise ImproperlyConfigured("\n".join(["TASKS of cronhare:", *faults]))
    return own_app()


def _add_tables(options: Mapping[str, Any]) -> Iterator[str]:
    """Add what OPTIONS say in the words of a jobs file; yield what is wrong with it."""
    for word in options.keys() - WORDS:
        yield f"{word} is not known; there are {', '.join(WORDS)}"
    app = own_app()
    adding = {"notify": app.notify, "calendars": app.calendar, "schedules": _schedule}
    for section, add in adding.items():
        for name, table in options.get(section, {}).items():
            try:
                add(name, **table)
            except (ValueError, TypeError) as error:
                yield f"{section}.{name}: {error}"


def _schedule(name: str, **words: Any) -> None:  # noqa: ANN401 - those of a jobs file
    path = words.pop("task", "")
    said = {word: words.pop(word) for word in ("args", "kwargs") if word in words}
    if (task := made.get(name_of(path))) is None:
        known = ", ".join(sorted(made)) or "none"
        raise ValueError(f"task: {path!r} is no task of this project; there are {known}")
    own_app().schedule(name, call_of(task, **said), **words)


# In a worker


class _Attempt:
    """One attempt of a task: what Django is told of it, and the state of its connections.

    Of earlier attempts it is not known here which worker had them: `refresh` reads it.
    """

    def __init__(self, task: Task, ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> None:
        workers, id_ = [platform.node()] * ctx.attempt, str(ctx.execution_id or "")
        self._result = new_result(task, id=id_, args=args, kwargs=kwargs, worker_ids=workers)
        self._sender = type(task.get_backend())
        context = [api.TaskContext(task_result=self._result)] if task.takes_context else []
        self.args, self.value = [*context, *args], None

    def __enter__(self) -> Self:
        """Keep no connection that the database may have closed, in a child that is used again."""
        reset_queries()
        close_old_connections()
        now = timezone.now()
        note(self._result, status="RUNNING", started_at=now, last_attempted_at=now)
        api.signals.task_started.send(self._sender, task_result=self._result)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if not isinstance(self.value, Snooze):
                status = "SUCCESSFUL" if kind is None else "FAILED"
                note(self._result, status=status, finished_at=timezone.now())
                api.signals.task_finished.send(self._sender, task_result=self._result)
        finally:
            close_old_connections()

    async def __aenter__(self) -> Self:
        return await sync_to_async(self.__enter__)()  # type: ignore[no-any-return]

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await sync_to_async(self.__exit__)(kind)


def _function(task: Task) -> Callable[..., Any]:
    """Make the function that runs a task in a worker: Django calls by place as well as by name."""

    def run(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        with _Attempt(task, ctx, args, kwargs) as attempt:
            attempt.value = task.call(*attempt.args, **kwargs)
        return attempt.value

    async def run_async(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        async with _Attempt(task, ctx, args, kwargs) as attempt:
            attempt.value = await task.acall(*attempt.args, **kwargs)
        return attempt.value

    return run_async if inspect.iscoroutinefunction(task.func) else run


def new_result(task: Task, *, status: str = "READY", **known: Any) -> Any:  # noqa: ANN401
    """Make a result of Django's; what is not *known* is not there yet.

    Raises:
        TypeError: an argument has no form in JSON.
    """
    moments = ("enqueued_at", "started_at", "finished_at", "last_attempted_at")
    missing: dict[str, Any] = {"id": "", **dict.fromkeys(moments), "errors": [], "worker_ids": []}
    said = {"status": api.TaskResultStatus(status), "backend": task.backend}
    return api.TaskResult(task=task, **missing | said | known)


def note(result: Any, **values: Any) -> None:  # noqa: ANN401
    """Write into a result, which is frozen for others."""
    for name, value in values.items():
        new = api.TaskResultStatus(value) if name == "status" else value
        object.__setattr__(result, name, new)
