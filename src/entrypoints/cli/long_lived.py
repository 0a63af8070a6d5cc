"""What `up`, `scheduler` and `worker` have in common: what they read, and what they refuse."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final

from cronhare.adapters.jobs.reader import JobsFile
from cronhare.adapters.sql.dialects.sqlite_file import Occupied, occupy
from cronhare.domain.addresses.servers import LedgerFile

from ..container import Container
from ..processes.loops import ledger_is_ready
from ..settings.settings import Settings, SettingsInvalid
from ..signals import Shutdown
from .errors import Refusal
from .jobs_files import load, named

_NOT_SHARED = (
    "CRON_BROKER_URL: memory:// is a broker inside of one process, and this one needs one "
    "that others reach: amqp://user:password@host:5672/vhost. On one machine `cronhare up` "
    "is scheduler and worker in one"
)
_SHARED = (
    "CRON_BROKER_URL: memory:// is a broker inside of this process, and the ledger is on a server: "
    "others may work on it, and what they claim would never get here. Set it to a RabbitMQ, "
    "amqp://user:password@host:5672/vhost; or keep the ledger in a file that this process has for "
    "itself, CRON_DATABASE_URL=sqlite:///cronhare.sqlite3"
)


FAILS: Final = "all that is due would fail for good"


def jobs_file(jobs: Path | None, settings: Settings, *, without: str = FAILS) -> JobsFile:
    """Read the tasks of a process; *without* says what would be without any.

    Raises:
        Refusal: it is faulty, is not named, or has no task.
    """
    state, why = "Nothing was started.", f", and without tasks {without}"
    path = named(jobs, settings, state, how="--jobs jobs.toml", why=why)
    file = load(path, settings, state=state)
    if not file.tasks:  # an editor empties a file before it writes it
        raise Refusal(
            f"{file.path} has no task at all: {without}",
            advice=(
                "Nothing was started. Was it being written? Then start again. To switch off all "
                f"that it had: cronhare apply {file.path}"
            ),
        )
    return file


def refuse_memory_broker(settings: Settings) -> None:
    """Refuse a broker in memory: no other process would ever hear of it."""
    if settings.in_memory:
        raise SettingsInvalid((_NOT_SHARED,))


def occupy_ledger(settings: Settings) -> None:
    """Be alone on this ledger if our broker is in memory: others would claim, and never hear.

    All others share it, so that none that wants to be alone comes later. On a server that cannot
    be had: a lock of its sessions ends with a link that breaks.
    """
    ledger, alone = settings.ledger, settings.in_memory
    if not isinstance(ledger, LedgerFile):
        if alone:
            raise SettingsInvalid((_SHARED,))
        return
    try:
        occupy(Path(ledger.path), alone=alone)
    except Occupied as other:
        # An exclusive request is refused while others share the ledger.
        others = (
            "another `cronhare up`, a scheduler or a worker works"
            if alone
            else "another `cronhare up`, whose broker is its own, works"
        )
        raise Refusal(
            f"{others} on {ledger.path}",
            advice=(
                "Nothing was begun. Put all tasks and schedules into its jobs file, or give this "
                "one a ledger of its own, CRON_DATABASE_URL=sqlite:///…; or set CRON_BROKER_URL "
                "to a RabbitMQ, where any number work together."
            ),
        ) from other


async def with_ledger(
    container: Container, shutdown: Shutdown, process: Callable[[], Coroutine[None, None, None]]
) -> None:
    """Run a process once its ledger is there and may be used; not at all if it is to end before."""
    if await ledger_is_ready(container.engine(), shutdown):
        occupy_ledger(container.settings())
        await process()
