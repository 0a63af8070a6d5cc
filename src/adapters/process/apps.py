"""Functions of apps: where each runs, and the interpreter that an app has in this worker."""

import asyncio
import errno
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePath

import attrs
import msgspec

from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.schedules.python_call import Executor, PythonCall
from cronhare.domain.schedules.task import Task
from cronhare.ports.runner import AttemptResult, Invocation, StopReason, Written

from .attempt import STOPPED, Attempt, ended_by_us, not_started, user_unavailable
from .environment import Account, UserUnavailable, app_environment, environment, other_account
from .kept import Host, Pool
from .link import Link
from .loops import Loops
from .runner import ProcessRunner, Started, result_of
from .warden import Frame

log = logging.getLogger(__name__)

#: Seconds for an app to be imported; its interpreter is killed after them.
IMPORTING = 60.0
#: Executions that are remembered as suspects: they ran in a child that crashed.
MOST_SUSPECTS = 10_000

_ROOM = "cronhare.entrypoints.python"


@attrs.frozen
class Unsafe:
    """A fork of the interpreter would share what it must not: tasks are processes of their own."""

    why: str


@attrs.frozen
class Failed:
    """There is no interpreter: the app cannot be imported, or not in time."""

    why: str


class AppInterpreter(ProcessRunner):
    """An app's interpreter (entrypoints/python/zygote.py), and the attempts that it forks.

    *users* counts the runs that need it, those that wait until it is *imported* among them.
    """

    def __init__(
        self, call: PythonCall, environ: Mapping[str, str], suspects: dict[int, None]
    ) -> None:
        """Start it; it imports *call*'s app then. Executions in *suspects* are run alone.

        Raises:
            OSError: it cannot be started.
        """
        super().__init__({}, passed={})  # an attempt adds to the environment that is there
        self.users = 0
        self.place = call.app, call.folder
        self._app = call.app
        loop = asyncio.get_running_loop()
        self.imported: asyncio.Future[Unsafe | Failed | None] = loop.create_future()
        self._kept: dict[int, Started] = {}
        self._hosts: dict[tuple[object, ...], Host] = {}
        self._reach: dict[int, Callable[[int], None]] = {}
        self._suspects = suspects
        start = partial(_start, call=call, environ=environ)
        needed = lambda: bool(self._attempts or self._kept)  # noqa: E731 - as of a warden
        self._link = Link(self._on_frame, self._on_lost, needed=needed, start=start)
        too_late = Failed(f"{call.app} was not imported within {IMPORTING:g} s")
        self._timer = loop.call_later(IMPORTING, self._have_imported, too_late)

    @property
    def is_usable(self) -> bool:
        """Whether another run may ask for it."""
        if not self.imported.done():
            return True
        result = self.imported.result()
        return isinstance(result, Unsafe) or (result is None and self._link is not None)

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
        """See `ProcessRunner.run`."""
        call = invocation.task.python
        assert call is not None, invocation.task
        is_kept = call.executor in {Executor.POOL, Executor.ASYNC}
        if not is_kept or invocation.execution_id in self._suspects:
            return await super().run(invocation, memory=memory)
        if call.executor is Executor.ASYNC:  # its child watches over that of all
            memory = None
        id_ = next(self._ids)
        attempt = Attempt(invocation, partial(self._signal_kept, id_), memory=memory)
        self._attempts[id_] = attempt
        try:
            account = await other_account(invocation.task.user)
            host = self._host(invocation.task, call.executor, account)
            frame = self._frame(id_, invocation, call)
            self._reach[id_] = host.begin(id_, attempt, frame)
        except UserUnavailable as error:
            return AttemptResult(outcome=user_unavailable(invocation.task, error))
        except OSError as error:
            number = error.errno or errno.EIO
            return AttemptResult(outcome=not_started(invocation.task, "preparing", number))
        else:
            return await result_of(attempt)
        finally:
            self._attempts.pop(id_, None)
            self._reach.pop(id_, None)
            attempt.release()

    def _signal_kept(self, id_: int, signum: int) -> None:
        if (reach := self._reach.get(id_)) is not None:
            reach(signum)

    def _host(self, task: Task, executor: Executor, account: Account | None) -> Host:
        ids = None if account is None else tuple(account.ids)
        host = self._hosts.get(place := (executor, ids, task.cwd))
        if host is None:
            work: Frame = {
                "ids": ids,
                "cwd": None if task.cwd is None else str(task.cwd),
                "env": _encoded({} if account is None else account.environment),
            }
            if executor is Executor.POOL:
                host = Pool(self.spawn, work)
            else:
                host = Loops(self.spawn, work, self._suspect)
            self._hosts[place] = host
        return host

    def _frame(self, id_: int, invocation: Invocation, call: PythonCall) -> Frame:
        """Ask a child for a run. What the run starts is known by the variable of its parameters."""
        folder = f"{self._warden().folder}/"
        env = environment(invocation, passed={}, ours={}, params_file=folder)
        del env["CRON_IPC_FD"]
        return {
            "run": id_,
            "task": invocation.task.name,
            "params": msgspec.json.encode(invocation.params).decode(),
            "env": env,
            "per_child": call.per_child,
        }

    def _suspect(self, execution_id: int) -> None:
        """Have an execution run alone from now on."""
        self._suspects[execution_id] = None
        if len(self._suspects) > MOST_SUSPECTS:
            del self._suspects[next(iter(self._suspects))]

    async def close(self) -> None:
        self._timer.cancel()
        is_ready = self.imported.done() and self.imported.result() is None
        if self._link is not None and not is_ready:
            link, self._link = self._link, None
            await link.close(at_once=True)
        await super().close()

    def _warden(self) -> Link:
        if self._link is None:
            raise OSError(errno.ECONNRESET, f"the interpreter of {self._app} has ended")
        return self._link

    def _work(self, task: Task, env: Mapping[str, str]) -> Frame:
        return {"task": task.name, "env": _encoded(env)}

    def _signal(self, id_: int, signum: int) -> None:
        if self._link is not None and (id_ in self._attempts or id_ in self._kept):
            self._link.send({"kill": id_, "signal": int(signum)})

    def _on_frame(self, frame: Frame) -> None:
        if "ready" in frame:
            self._have_imported(None)
        elif "unsafe" in frame:
            self._have_imported(Unsafe(frame["unsafe"]))
        elif "failed" in frame:
            self._have_imported(Failed(frame["failed"]))
        elif (child := self._kept.get(frame.get("started", 0))) is not None:
            child.started(frame["pid"])
        elif (child := self._kept.pop(frame.get("ended", 0), None)) is not None:
            child.ended(frame)
        else:
            super()._on_frame(frame)

    def _have_imported(self, result: Unsafe | Failed | None) -> None:
        self._timer.cancel()
        if self.imported.done():
            return
        self.imported.set_result(result)
        if isinstance(result, Unsafe):
            text = f"Tasks of {self._app} are processes of their own: {result.why}"
            log.warning("%s", text, extra={"action": "app.unsafe"})
        elif isinstance(result, Failed):
            log.error("%s", result.why, extra={"action": "app.failed"})

    def _on_lost(self, folder: str) -> None:
        super()._on_lost(folder)
        self._have_imported(Failed(f"the interpreter of {self._app} ended during the import"))

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
        self._suspects: dict[int, None] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self, invocation: Invocation) -> AttemptResult:
        call = invocation.task.python
        assert call is not None, invocation.task
        if call.executor is Executor.PROCESS:
            return await self._processes.run(_as_command(invocation, call), memory=call.memory)
        try:
            interpreter = self._interpreter(call)
        except OSError as error:
            why = f"{error.strerror}: {error.filename}" if error.filename else str(error)
            return _failed(f"the interpreter of {call.app} cannot be started: {why}")
        interpreter.users += 1
        try:
            match await self._until_imported(interpreter, invocation):
                case StopReason() as reason:
                    return AttemptResult(outcome=ended_by_us(reason.ending, STOPPED[reason], None))
                case Failed(why):
                    return _failed(why)
                case Unsafe():
                    return await self._processes.run(
                        _as_command(invocation, call), memory=call.memory
                    )
            return await interpreter.run(invocation, memory=call.memory)
        finally:
            interpreter.users -= 1
            self._close_unused(interpreter)

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
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(StopReason.INTERRUPTED)
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
    ) -> StopReason | Unsafe | Failed | None:
        imported = interpreter.imported
        if imported.done():
            return imported.result()
        stopped = asyncio.get_running_loop().create_future()
        self._waiting[invocation.execution_id] = stopped
        try:
            await asyncio.wait({imported, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiting[invocation.execution_id]
        return stopped.result() if stopped.done() else imported.result()

    def _close_unused(self, interpreter: AppInterpreter) -> None:
        place = interpreter.place
        is_current = self._current.get(place) is interpreter
        if interpreter.users or (is_current and interpreter.is_usable):
            return
        if is_current:
            del self._current[place]
        self._all.discard(interpreter)
        closing = asyncio.create_task(interpreter.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _failed(why: str) -> AttemptResult:
    """End an attempt that has not begun, and may at another time."""
    error = TaskError(message=why, error_class=ErrorClass.TRANSIENT)
    return AttemptResult(outcome=Outcome(ending=Ending.FAILED, error=error))


def _encoded(env: Mapping[str, str]) -> dict[bytes, bytes]:
    """Variables as bytes, so that a child has less to do."""
    return {os.fsencode(name): os.fsencode(value) for name, value in env.items()}


def _as_command(invocation: Invocation, call: PythonCall) -> Invocation:
    """The same as a process that imports the app for itself."""
    module, folder = f"{_ROOM}.calling", str(call.folder or "")
    command = (sys.executable, "-m", module, call.app, invocation.task.name, folder)
    return attrs.evolve(
        invocation, task=attrs.evolve(invocation.task, python=None, command=command)
    )


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
