"""A task as Django has it, with what cronhare adds.

@task(timeout="5m", retry=Retry(4, first="30s"))
def send(order: int) -> None: ...

send.using(key=f"mail:{order.pk}").enqueue(order.pk)
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from cronhare.domain.texts.words import LONGEST_NAME
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.python.words import Duration, Retry

try:
    from django import tasks as api
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.backends.dummy import DummyBackend
    from django.tasks.backends.immediate import ImmediateBackend
    from django.tasks.exceptions import InvalidTask
except ImportError:  # before Django 6 it is a package
    import django_tasks as api
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.backends.dummy import DummyBackend
    from django_tasks.backends.immediate import ImmediateBackend
    from django_tasks.exceptions import InvalidTaskError as InvalidTask

__all__ = ["BaseTaskBackend", "DummyBackend", "ImmediateBackend", "InvalidTask", "api"]

#: How the queues of a high and of a low priority end, and the weight that each has in a worker.
HIGH, LOW = ".high", ".low"
WEIGHTS = {HIGH: 16, "": 4, LOW: 1}

#: The tasks that modules have made, by what ledger and commands call them.
made: dict[str, "Task"] = {}

_OF_A_CALL = ("priority", "queue_name", "run_after", "backend", "key", "expires")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(api.base.Task):
    """What `@task(…)` makes for our backend.

    *key* and *expires*, for `using`, are those of `Call.enqueue`, all others those of `App.task`;
    *aliases* are paths that its function had before.
    """

    timeout: Duration | None = None
    retry: Retry | str | Mapping[str, Any] | None = None
    executor: Literal["process", "fork", "pool", "async"] | None = None
    per_child: int | None = None
    memory: int | str | None = None
    concurrency: Mapping[str, Any] | None = None
    aliases: Sequence[str] = ()
    key: str | None = None
    expires: timedelta | None = None

    def __post_init__(self) -> None:
        api.base.Task.__post_init__(self)
        known, path = made.get(self.registered_name), self.module_path
        if known is not None and known.module_path != path:
            both = f"{known.module_path} and {path} would both be called {self.registered_name}"
            raise InvalidTask(f"{both}: rename one of them")
        if known is None or known.func is not self.func:  # else it is a copy, by `using`
            made[self.registered_name] = self

    def using(self, **changes: Any) -> "Task":  # noqa: ANN401 - of several types
        """Copy it with another `priority`, `queue_name`, `run_after`, `backend`, `key`, `expires`.

        Raises:
            TypeError: what is to differ belongs to the task itself, or is unknown.
        """
        if others := changes.keys() - _OF_A_CALL:
            raise TypeError(f"using() takes {', '.join(_OF_A_CALL)}; not {', '.join(others)}")
        return replace(self, **{word: each for word, each in changes.items() if each is not None})

    @property
    def registered_name(self) -> str:
        return name_of(self.module_path)


def name_of(path: str) -> str:
    """Name the task of a function by its path; of one that is too long, the end and a hash.

    >>> name_of("shop.tasks.Send_Mail")
    'shop.tasks.send_mail'
    """
    name = re.sub(r"[^a-z0-9._-]", "_", path.lower()).lstrip("._-")
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.blake2b(path.encode(), digest_size=4).hexdigest()
    return f"{name[len(digest) + 1 - LONGEST_NAME :].lstrip('._-')}-{digest}"


def find(name: str) -> Task | None:
    renamed = (task for task in made.values() if name in map(name_of, task.aliases))
    return made.get(name) or next(renamed, None)


def queue_of(queue_name: str, priority: int) -> str:
    """Name the queue for a priority; Django's queue `default` is the main one.

    >>> queue_of("default", 0), queue_of("mail", 10), queue_of("default", -1)
    ('cron_scheduler', 'mail.high', 'cron_scheduler.low')
    """
    queue = MAIN_QUEUE if queue_name == "default" else queue_name
    return queue + (HIGH if priority > 0 else LOW if priority < 0 else "")
