"""Functions of apps: where each runs, and the interpreter that an app has in this worker."""

import asyncio
import errno
import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePath

import attrs
import msgspec

from cronhare.domain.retries.outcome import NOT_IMPORTED, Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.schedules.task import Task
from cronhare.domain.schedules.work import Executor, PythonCall
from cronhare.ports.runner import AttemptResult, Invocation, StopReason, Written

from .attempt import Attempt, ended_by_us
from .environment import Account, app_environment, environment
from .kept import Pool
from .link import Link
from .loops import Loops
from .runner import ProcessRunner, Started
from .warden import Frame

log = logging.getLogger(__name__)

#: Seconds for an app to be imported; its interpreter is killed after them.
IMPORTING = 60.0
#: Executions that are remembered as suspects: they ran in a child that crashed.
MOST_SUSPECTS = 1_000

_ROOM = "cronhare.entrypoints.python"


#: What becomes of an import: whether it is safe to fork, or how runs end for want of it.
Imported = bool | AttemptResult


class AppInterpreter(ProcessRunner):
    """An app's interpreter (entrypoints/python/zygote.py), and the attempts that it forks.

    *users* counts the runs that need it, those that wait until it is *imported* among them.
    """

    def __init__(self, call: PythonCall, environ: Mapping[str, str], suspects: deque[int]) -> None:
        """Start it; it imports *call*'s app then. Executions in *suspects* are run alone.

        Raises:
            OSError: it cannot be started.
        """
        super().__init__({}, passed={})  # an attempt adds to the environment that is there
        self.users = 0
        self.place = call.app, call.folder
        self._app = call.app
        loop = asyncio.get_running_loop()
        self.imported: asyncio.Future[Imported] = loop.create_future()
        self._kept: dict[int, Started] = {}
        self._hosts: dict[tuple[object, ...], Pool | Loops] = {}
        self._reach: dict[int, Callable[[int], None]] = {}
        self._suspects = suspects
        start = partial(_start, call=call, environ=environ)
        needed = lambda: bool(self._attempts or self._kept)  # noqa: E731 - as of a warden
        self._link = Link(self._on_frame, self._on_lost, needed=needed, start=start)
        too_late = f"{call.app} was not imported within {IMPORTING:g} s"
        self._timer = loop.call_later(IMPORTING, self._fail, too_late)

    @property
    def is_usable(self) -> bool:
        if not self.imported.done():
            return True
        result = self.imported.result()
        return result is False or (result is True and self._link is not None)

    def spawn(
        self, child: Started, work: Frame, descriptors: Sequence[int]
    ) -> Callable[[int], None]:
        """Fork a child that is kept, for *work*; give what sends signals to it.

        Raises:
            OSError: the interpreter has ended.
        """
        link, id_ = self._warden(), next(self._ids)
        self._kept[id_] = child
        frame = {"spawn": id_, "env": {}, "cwd": None, "ids": None, **work}
        link.send(frame, descriptors)
        return partial(self._signal, id_)

    async def run(self, invocation: Invocation, *, memory: int | None = None) -> AttemptResult:
        if self._kept_by(invocation) is Executor.ASYNC:  # its child watches over that of all
            memory = None
        return await super().run(invocation, memory=memory)

    def _kept_by(self, invocation: Invocation) -> Executor | None:
        call = invocation.task.python
        assert call is not None, invocation.task
        is_kept = call.executor in {Executor.POOL, Executor.ASYNC}
        return call.executor if is_kept and invocation.execution_id not in self._suspects else None

    def _begin(self, id_: int, attempt: Attempt, account: Account | None) -> None:
        invocation, executor = attempt.invocation, self._kept_by(attempt.invocation)
        if executor is None:
            super()._begin(id_, attempt, account)
        else:
            host = self._host(invocation.task, executor, account)
            self._reach[id_] = host.begin(id_, attempt, self._frame(id_, invocation))

    def _forget(self, id_: int) -> None:
        if self._reach.pop(id_, None) is None:
            super()._forget(id_)

    def _host(self, task: Task, executor: Executor, account: Account | None) -> Pool | Loops:
        ids = None if account is None else tuple(account.ids)
        host = self._hosts.get(place := (executor, ids, task.cwd))
        if host is None:
            work: Frame = {
                "ids": ids,
                "cwd": None if task.cwd is None else str(task.cwd),
                "env": _encoded({} if account is None else account.environment),
            }
            if executor is Executor.POOL:
                host = Pool(self.spawn, work, self._suspects.append)
            else:
                host = Loops(self.spawn, work, self._suspects.append)
            self._hosts[place] = host
        return host

    def _frame(self, id_: int, invocation: Invocation) -> Frame:
        """Ask a child for a run. What the run starts is known by the variable of its parameters."""
        folder = f"{self._warden().folder}/"
        env = environment(invocation, passed={}, ours={}, params_file=folder)
        del env["CRON_IPC_FD"]
        call = invocation.task.python
        return {
            "run": id_,
            "task": invocation.task.name,
            "params": msgspec.json.encode(invocation.params).decode(),
            "env": env,
            "per_child": call and call.per_child,
        }

    async def close(self) -> None:
        self._timer.cancel()
        is_ready = self.imported.done() and self.imported.result() is True
        if self._link is not None and not is_ready:
            link, self._link = self._link, None
            await link.close(at_once=True)
        await super().close()
        while self._kept:  # nobody is left to tell of their ends
            self._kept.popitem()[1].lost("closed")

    def _warden(self) -> Link:
        if self._link is None:
            raise OSError(errno.ECONNRESET, f"the interpreter of {self._app} has ended")
        return self._link

    def _work(self, task: Task, env: Mapping[str, str]) -> Frame:
        return {"task": task.name, "env": _encoded(env)}

    def _signal(self, id_: int, signum: int) -> None:
        if (reach := self._reach.get(id_)) is not None:
            reach(signum)
        elif self._link is not None and (id_ in self._attempts or id_ in self._kept):
            self._link.send({"kill": id_, "signal": int(signum)})

    def _on_frame(self, frame: Frame) -> None:
        if "ready" in frame:
            self._have_imported(result=True)
        elif "unsafe" in frame:
            text = f"Tasks of {self._app} are processes of their own: {frame['unsafe']}"
            log.warning("%s", text, extra={"action": "app.unsafe"})
            self._have_imported(result=False)
        elif "failed" in frame:
            self._fail(frame["failed"])
        elif (child := self._kept.get(frame.get("started", 0))) is not None:
            child.started(frame["pid"])
        elif (child := self._kept.pop(frame.get("ended", 0), None)) is not None:
            child.ended(frame)
        else:
            super()._on_frame(frame)

    def _fail(self, why: str) -> None:
        if not self.imported.done():
            log.error("%s", why, extra={"action": "app.failed"})
            self._have_imported(_failed(why))

    def _have_imported(self, result: Imported) -> None:
        self._timer.cancel()
        if not self.imported.done():
            self.imported.set_result(result)

    def _on_lost(self, folder: str) -> None:
        super()._on_lost(folder)
        self._fail(f"the interpreter of {self._app} ended during the import")

    def _started(self) -> list[Started]:
        kept, self._kept = self._kept, {}
        return [*super()._started(), *kept.values()]


class PythonRunner:
    """Runs functions of apps, each by its executor.

    An interpreter is started with the first run that needs it. If the app is not safe to fork, runs
    are processes of their own, until `renew`.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """Apps are given *environ*, by default our own environment, without our settings."""
        self._environ = app_environment(os.environ if environ is None else environ)
        self._processes = ProcessRunner(self._environ, passed=self._environ)
        self._current: dict[tuple[str, PurePath | None], AppInterpreter] = {}
        self._all: set[AppInterpreter] = set()
        self._waiting: dict[int, asyncio.Future[StopReason]] = {}
        self._suspects = deque[int](maxlen=MOST_SUSPECTS)
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self, invocation: Invocation) -> AttemptResult:
        call = invocation.task.python
        assert call is not None, invocation.task
        if call.executor is Executor.PROCESS:
            return await self._run_as_process(invocation, call)
        try:
            interpreter = self._interpreter(call)
        except OSError as error:
            why = f"{error.strerror}: {error.filename}" if error.filename else str(error)
            return _failed(f"the interpreter of {call.app} cannot be started: {why}")
        interpreter.users += 1
        try:
            imported = await self._until_imported(interpreter, invocation)
            if isinstance(imported, AttemptResult):
                return imported
            if not imported:
                return await self._run_as_process(invocation, call)
            return await interpreter.run(invocation, memory=call.memory)
        finally:
            interpreter.users -= 1
            self._close_unused(interpreter)

    async def _run_as_process(self, invocation: Invocation, call: PythonCall) -> AttemptResult:
        module, folder = f"{_ROOM}.calling", str(call.folder or "")
        command = (sys.executable, "-m", module, call.app, invocation.task.name, folder)
        task = attrs.evolve(invocation.task, python=None, command=command)
        return await self._processes.run(attrs.evolve(invocation, task=task), memory=call.memory)

    def stop(self, execution_id: int, reason: StopReason) -> bool:
        waiting = self._waiting.get(execution_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(reason)
        stopped = [each.stop(execution_id, reason) for each in (self._processes, *self._all)]
        return waiting is not None or any(stopped)

    def written(self, execution_id: int, *, beyond: int = 0) -> Written | None:
        for each in (self._processes, *self._all):
            if (written := each.written(execution_id, beyond=beyond)) is not None:
                return written
        return None

    def renew(self) -> None:
        """Have later runs import their apps anew. Those that run go on to their end."""
        before, self._current = self._current, {}
        for interpreter in before.values():
            self._close_unused(interpreter)

    async def close(self) -> None:
        for execution_id in self._waiting:
            self.stop(execution_id, StopReason.INTERRUPTED)
        self._current.clear()
        await asyncio.gather(*(each.close() for each in (self._processes, *self._all)))
        if self._closing:
            await asyncio.wait(self._closing)

    def _interpreter(self, call: PythonCall) -> AppInterpreter:
        current = self._current.get(place := (call.app, call.folder))
        if current is None or not current.is_usable:
            current = AppInterpreter(call, self._environ, self._suspects)
            self._current[place] = current
            self._all.add(current)
        return current

    async def _until_imported(
        self, interpreter: AppInterpreter, invocation: Invocation
    ) -> Imported:
        imported = interpreter.imported
        if imported.done():
            return imported.result()
        stopped = asyncio.get_running_loop().create_future()
        self._waiting[invocation.execution_id] = stopped
        try:
            await asyncio.wait({imported, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiting[invocation.execution_id]
        if not stopped.done():
            return imported.result()
        reason = stopped.result()
        return AttemptResult(outcome=ended_by_us(reason.ending, reason.said, None))

    def _close_unused(self, interpreter: AppInterpreter) -> None:
        is_current = self._current.get(interpreter.place) is interpreter
        is_needed = interpreter.users or (is_current and interpreter.is_usable)
        if is_needed or interpreter not in self._all:
            return
        self._all.discard(interpreter)
        closing = asyncio.create_task(interpreter.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _failed(why: str) -> AttemptResult:
    error = TaskError(message=why, code=NOT_IMPORTED, error_class=ErrorClass.TRANSIENT)
    return AttemptResult(outcome=Outcome(ending=Ending.FAILED, error=error))


def _encoded(env: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in env.items()}


def _start(
    line: socket.socket, folder: str, *, call: PythonCall, environ: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    # The first variable is a mark in what `kill_orphans` reads of a process. The second has the
    # linker look up now what each child would look up.
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", f"{_ROOM}.zygote", str(line.fileno()), folder, call.app],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(line.fileno(),),
        env={**environ, "CRON_PARAMS_FILE": f"{folder}/", "LD_BIND_NOW": "1"},
        cwd=call.folder,
        start_new_session=True,
    )
