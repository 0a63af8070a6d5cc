"""What a program asks of the ledger: runs of its tasks, what became of them, its schedules.

A process has one client for each ledger. It is made when it is first needed, by any thread, and a
forked child makes its own. Nothing here is needed to run a task.
"""

# ruff: noqa: PLC0415 - who only names tasks waits for no server's library

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

if TYPE_CHECKING:
    from cronhare.domain.access import Actor
    from cronhare.domain.lifecycle.enqueue import Wanted
    from cronhare.domain.schedules.draft import ScheduleDraft

    from ..container import Container
    from .app import App
    from .handles import Handle
    from .tasks import Call, RemoteTask, Task
    from .words import Table

_lock: Final = threading.RLock()
_clients: Final = dict[str | None, "Client"]()
#: Clients of the process that this one was forked from: their connections are not closed here.
_inherited: Final = list["Client"]()
_stand_in: "list[Client]" = []


def client_of(app: "App") -> "Client":
    """Give the client of an app's ledger, and connect if that is the first time.

    Raises:
        ValueError: settings that cannot be used, with every fault at once.
        LedgerUnavailable: the ledger is away, or not made yet; the text says what to do.
    """
    if _stand_in:
        return _stand_in[-1]
    with _lock:
        client = _clients.get(app.ledger)
        if client is None:
            client = _clients[app.ledger] = Client.open(app.ledger)
        return client


def close_clients() -> None:
    """Send what is to be sent, within two seconds, and let go of all connections."""
    with _lock:
        while _clients:
            _clients.popitem()[1].close()


@contextmanager
def using(client: "Client") -> Iterator[None]:
    """Let all apps use this client: for tests, with a ledger of theirs."""
    _stand_in.append(client)
    try:
        yield
    finally:
        _stand_in.remove(client)


def _forget() -> None:
    _inherited.extend(_clients.values())
    _clients.clear()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget)
atexit.register(close_clients)


class Client:
    """The use cases of a program, on a *container*. Threads may share it."""

    def __init__(self, container: "Container") -> None:
        self.container = container

    @classmethod
    def open(cls, ledger: str | None) -> "Client":
        """Read the settings, and make sure that the ledger can be used; raises as `client_of`."""
        import attrs

        from cronhare.adapters.sql.migrations.upgrade import check_schema

        from ..container import Container, check_broker
        from ..settings.settings import Settings

        settings = Settings.read()
        if ledger is not None:
            settings = attrs.evolve(settings, database_url=ledger)
        container = Container(settings=settings)
        check_schema(container.engine())
        if settings.broker_kind == "amqp":
            library = logging.getLogger("pika")
            if library.level == logging.NOTSET and "pika" not in sys.modules:
                # It would log eight errors of each try, where nothing is lost, and we say so once.
                library.setLevel(logging.CRITICAL)
            check_broker(settings.broker_url)
        return cls(container)

    def part_of(self, on: Any) -> Any:  # noqa: ANN401 - see EnqueuePort
        """Say which transaction of the caller's to take part in; in a test there is none."""
        return on

    def waits_for(self, execution_id: int, timeout: float | None) -> None:
        """Take note that somebody waits for a run; in a test time passes until it has ended."""

    def close(self) -> None:
        self.container.background_bell().close()
        self.container.engine().dispose()

    @property
    def actor(self) -> "Actor":
        """Who asks, for the audit: the user of this process."""
        import attrs

        from cronhare.domain.access import Channel

        from ..node_identity import this_actor

        return attrs.evolve(this_actor(), channel=Channel.CODE)

    def enqueue(
        self, calls: "Sequence[Call[Any]]", *, on: object | None = None
    ) -> "list[Handle[Any]]":
        from .handles import Handle

        wanted = _wanted(calls)
        answers = self.container.enqueuer().enqueue(wanted, self._maker(calls), on=self.part_of(on))
        return [
            Handle(answer.id, key=each.key, schedule=each.schedule, client=self, task=call.task)
            for call, each, answer in zip(calls, wanted, answers, strict=True)
        ]

    async def aenqueue(
        self,
        calls: "Sequence[Call[Any]]",
        *,
        on: Any = None,  # noqa: ANN401 - see EnqueuePort
    ) -> "list[Handle[Any]]":
        from asyncio import to_thread

        if (on := self.part_of(on)) is None:
            return await to_thread(self.enqueue, calls)
        if not hasattr(on, "run_sync"):
            return self.enqueue(calls, on=on)
        # Whatever has to be asked of the ledger is known before the loop is kept by it.
        await to_thread(self.container.enqueuer().find, _wanted(calls), self._maker(calls))
        handles: list[Handle[Any]] = await on.run_sync(lambda sync: self.enqueue(calls, on=sync))
        return handles

    def _maker(self, calls: "Sequence[Call[Any]]") -> "Callable[[str], ScheduleDraft | None]":
        tasks = {call.task.own_schedule: call.task for call in calls}
        return lambda name: self.draft_of(tasks[name])

    def draft_of(self, task: "Task[..., Any] | RemoteTask[Any]") -> "ScheduleDraft | None":
        if task.function is None:
            return None
        return self.drafts(task.app, {task.own_schedule: task.own_table})[0]

    def drafts(self, app: "App", schedules: "Table") -> "Sequence[ScheduleDraft]":
        """Read tables of schedules of an app's tasks, as `apply` does.

        Raises:
            Invalid: with every fault at once.
        """
        from pathlib import Path

        from cronhare.adapters.jobs.reader import JobsFileInvalid, read_content
        from cronhare.domain.reading import Fault, Invalid

        tables = {**app.tables("app:app"), "schedules": schedules}
        policy = self.container.settings().policy
        try:
            return read_content(tables, app.name, folder=Path.cwd(), policy=policy).drafts
        except JobsFileInvalid as error:
            faults = [
                Fault(": ".join(filter(None, (each.place, each.fault.field))), each.fault.problem)
                for each in error.faults
            ]
            raise Invalid(faults) from error


def _wanted(calls: "Sequence[Call[Any]]") -> "list[Wanted]":
    """Say what is wanted. Keys that nobody gave are unique, and in the order of the calls."""
    import msgspec

    from cronhare.domain.lifecycle.enqueue import Wanted

    unique, wanted = uuid4(), list[Wanted]()
    for place, call in enumerate(calls):
        asked: dict[str, Any] = {"key": f"{unique}-{place:06}", **call.asked}
        params = msgspec.json.encode(call.params).decode()
        wanted.append(Wanted(schedule=call.task.own_schedule, params=params, **asked))
    return wanted
