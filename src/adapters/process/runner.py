"""The task runner of a worker: every attempt is a process of its own."""

import asyncio
import contextlib
import errno
import itertools
import logging
import os
from collections.abc import Collection, Mapping
from functools import partial
from typing import Protocol

from cronhare.domain.retries.outcome import ErrorClass
from cronhare.domain.schedules.task import Task
from cronhare.ports.runner import AttemptResult, Invocation, StopReason, Written

from .attempt import RIGHTS, Attempt, not_started, user_unavailable
from .environment import (
    Account,
    UserUnavailable,
    environment,
    other_account,
    own_login,
    passed_environment,
)
from .link import Link, kill_orphans
from .warden import Frame, remove_folder

log = logging.getLogger(__name__)

#: Seconds that `close` waits for what it killed.
CLOSING = 5.0


class Started(Protocol):
    """What a warden is asked to start: an attempt, or a child that runs many."""

    pid: int | None

    def started(self, pid: int) -> None: ...

    def ended(self, report: Frame) -> None:
        """Nothing of it is left; *report* is the warden's frame."""

    def lost(self, why: str) -> None:
        """Nothing of it is left, and no report will come."""


class ProcessRunner:
    """Runs attempts through a warden, which is started with the first of them.

    Tasks may be given parts of *environ*, by default of our own environment; each is given what is
    *passed*, by default what `passed_environment` has of it.
    """

    def __init__(
        self, environ: Mapping[str, str] | None = None, *, passed: Mapping[str, str] | None = None
    ) -> None:
        self._ours = dict(os.environ if environ is None else environ)
        if passed is None:
            passed = {**own_login(), **passed_environment(self._ours)}
        self._passed = passed
        self._ids = itertools.count(1)
        self._attempts: dict[int, Attempt] = {}
        self._link: Link | None = None
        self._cleanups: set[asyncio.Task[None]] = set()

    async def run(self, invocation: Invocation, *, memory: int | None = None) -> AttemptResult:
        """See `TaskRunnerPort.run`. If this call is cancelled, it first kills the attempt.

        It is killed if its process takes more than *memory* bytes.
        """
        id_ = next(self._ids)
        attempt = Attempt(invocation, partial(self._signal, id_), memory=memory)
        try:
            account = await other_account(invocation.task.user)
            self._attempts[id_] = attempt
            self._begin(id_, attempt, account)
            return await asyncio.shield(attempt.over)
        except UserUnavailable as error:
            return AttemptResult(outcome=user_unavailable(invocation.task, error))
        except OSError as error:  # no disk space, descriptors or processes
            number = error.errno or errno.EIO
            return AttemptResult(outcome=not_started(invocation.task, "preparing", number))
        except asyncio.CancelledError:
            if id_ in self._attempts:
                attempt.kill()
                await asyncio.wait([attempt.over], timeout=CLOSING)
            raise
        finally:
            self._attempts.pop(id_, None)
            attempt.release()
            self._forget(id_)

    def stop(self, execution_id: int, reason: StopReason) -> bool:
        running = self._attempts_of(execution_id)
        for attempt in running:
            attempt.stop(reason)
        return bool(running)

    def written(self, execution_id: int, *, beyond: int = 0) -> Written | None:
        for attempt in self._attempts_of(execution_id):
            return attempt.written(beyond=beyond)
        return None

    async def close(self) -> None:
        """See `TaskRunnerPort.close`. Attempts that it kills end as interrupted."""
        running = list(self._attempts.values())
        for attempt in running:
            attempt.kill()
        if running:
            await asyncio.wait([attempt.over for attempt in running], timeout=CLOSING)
        if self._link is not None:
            link, self._link = self._link, None
            await link.close()
        if self._cleanups:
            await asyncio.wait(self._cleanups, timeout=CLOSING)
        for attempt in running:
            attempt.abandon("its end could not be waited for", is_over=True)

    def _attempts_of(self, execution_id: int) -> list[Attempt]:
        return [
            attempt
            for attempt in self._attempts.values()
            if attempt.invocation.execution_id == execution_id
        ]

    def _warden(self) -> Link:
        if self._link is None:
            self._link = Link(self._on_frame, self._on_lost, needed=lambda: bool(self._attempts))
        return self._link

    def _begin(self, id_: int, attempt: Attempt, account: Account | None) -> None:
        task, link = attempt.invocation.task, self._warden()
        params_file = _params_file(link, id_)
        descriptors: list[int] = []
        try:
            descriptors.append(link.write_params(params_file, attempt.invocation.params))
            descriptors.extend(attempt.open_pipes())
            if account is not None:
                _give(descriptors, account)
        except (OSError, UserUnavailable):
            for fd in descriptors:
                os.close(fd)
            raise
        env = environment(
            attempt.invocation,
            passed=self._passed,
            ours=self._ours,
            params_file=params_file,
            account=None if account is None else account.environment,
        )
        frame = {
            "spawn": id_,
            **self._work(task, env),
            "cwd": None if task.cwd is None else str(task.cwd),
            "ids": None if account is None else account.ids,
        }
        link.send(frame, descriptors)

    def _forget(self, id_: int) -> None:
        if self._link is not None:
            with contextlib.suppress(OSError):
                os.unlink(_params_file(self._link, id_))  # noqa: PTH108 - pathlib is slower, and this is hot

    def _work(self, task: Task, env: Mapping[str, str]) -> Frame:
        return {"argv": task.command, "env": env}

    def _signal(self, id_: int, signum: int) -> None:
        if self._link is not None and id_ in self._attempts:
            self._link.send({"kill": id_, "signal": int(signum)})  # no enum travels

    def _on_frame(self, frame: Frame) -> None:
        attempt = self._attempts.get(frame["started"] if "started" in frame else frame["ended"])
        if attempt is None:  # its `run` was cancelled twice and did not wait
            return
        try:
            if "started" in frame:
                attempt.started(frame["pid"])
            else:
                attempt.ended(frame)
        except Exception as fault:  # it ends that one attempt, not its neighbours
            text = f"A report of execution {attempt.invocation.execution_id} met a fault of ours"
            log.exception("%s", text, extra={"action": "fault"})
            attempt.abandon(f"{text}: {fault!r}", is_over="ended" in frame)

    def _on_lost(self, folder: str) -> None:
        self._link = None
        cleanup = asyncio.create_task(self._end_lost(self._started(), folder))
        self._cleanups.add(cleanup)
        cleanup.add_done_callback(self._cleanups.discard)

    def _started(self) -> list[Started]:
        return list(self._attempts.values())

    async def _end_lost(self, attempts: Collection[Started], folder: str) -> None:
        """Kill what is left of the attempts of a warden that is gone, then settle them as lost."""
        sessions = {attempt.pid for attempt in attempts if attempt.pid is not None}
        try:
            await kill_orphans(sessions=sessions, folder=folder)
        finally:
            for attempt in attempts:
                attempt.lost("lost: the warden that watched over its process was killed")
            remove_folder(folder)


def _params_file(link: Link, id_: int) -> str:
    return f"{link.folder}/{id_}.json"


def _give(descriptors: Collection[int], account: Account) -> None:
    """Let another user read the parameters by name, and open its output so, as `/dev/stderr`."""
    params, *pipes = descriptors
    user, group, *_ = account.ids
    try:
        os.fchown(params, user, group)
    except OSError as error:
        raise UserUnavailable(RIGHTS, ErrorClass.PERMANENT, "EPERM") from error
    with contextlib.suppress(OSError):  # it can write to them anyhow
        for fd in pipes:
            os.fchown(fd, user, group)
