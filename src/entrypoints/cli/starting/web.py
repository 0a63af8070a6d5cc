"""How `cronhare web` starts, once its options are read."""

import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from socket import socket

from cronhare.adapters.extras import ExtraMissing, require
from cronhare.adapters.jobs.reader import JobsFile
from cronhare.application.logs import say
from cronhare.domain.addresses.web import ListenAddress
from cronhare.domain.texts.words import counted
from cronhare.ports import LedgerUnavailable

from ... import logs
from ...container import Container
from ...processes.lifetime import Lifetime, refuse_without_token
from ...processes.loops import ledger_is_ready
from ...processes.reloading import Reloading
from ...settings.settings import Settings
from ...signals import Shutdown
from ..errors import Refusal
from ..long_lived import jobs_file
from ..wiring import read_settings, usable

log = logging.getLogger(__name__)

_WITHOUT_TASKS = "nothing could be created, and no number of a task be called by its name"


def run_web(jobs: Path | None) -> None:
    """Answer over HTTP until it is told to end."""
    settings = read_settings()
    _require_libraries()
    from ...web import server  # noqa: PLC0415 - its libraries are an extra

    file = jobs_file(jobs, settings, without=_WITHOUT_TASKS)
    container = usable(
        Container(
            settings=settings,
            tasks=file.tasks,
            subscriptions=file.subscriptions,
            jobs_file=file,
        )
    )
    with suppress(LedgerUnavailable):  # then it is asked before anything is answered
        refuse_without_token(container)
    bound = _bound(server.bind, settings)
    _announce(container, settings, file)
    life = Lifetime(container, grace=2 * server.ENDING, with_page=True)
    reloading = Reloading(container, forced_exit=life.shutdown.forced_exit, jobs=jobs)
    run = partial(server.run, container, life.shutdown, bound)
    life.run(_once_there_is_a_ledger(container, life.shutdown, run), on_hangup=reloading.reload)


def _require_libraries() -> None:
    try:
        require("web")
    except ExtraMissing as error:
        raise Refusal(f"web: {error}", advice="Nothing was started.") from error


def _bound(bind: Callable[[ListenAddress], socket], settings: Settings) -> socket:
    try:
        return bind(settings.listen_address)
    except OSError as error:
        raise Refusal(
            f"{settings.called('web_address')}: {settings.listen_address}: {error.strerror}",
            advice="Nothing was started. Name another port; is a `cronhare up` there, or another "
            "`cronhare web`?",
        ) from error


def _announce(container: Container, settings: Settings, file: JobsFile) -> None:
    logs.sign_as(container.node())
    tasks = f"{counted(len(file.tasks), 'task')} of {file.path}"
    text = f"Web {container.node()}: ledger {settings.ledger}; {tasks}"
    say(log, logging.INFO, "process.start", text)


async def _once_there_is_a_ledger(
    container: Container, shutdown: Shutdown, run: Callable[[], Coroutine[None, None, None]]
) -> None:
    # It works on no queue, so it may stand beside an `up` that is alone on its ledger.
    if await ledger_is_ready(container.engine(), shutdown):
        refuse_without_token(container)
        await run()
