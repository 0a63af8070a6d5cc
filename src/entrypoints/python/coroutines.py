"""A child of an app's interpreter that runs many coroutines at once (executor `async`).

Its socket is as that of reused.py, but runs come while others go on. Beside its frames there are

    worker → child   {"cancel": id}, {"ping": true}
    child → worker   {"out": id, "fd": 1 or 2, "data": bytes}, {"pong": true}

What is printed belongs to the run that prints it, by a context variable; what is written to a
descriptor belongs to none, and goes to the worker's log. A SIGUSR2 writes the stack to descriptor
3, and the run whose step it is: so the worker learns what holds the loop up.
"""

import asyncio
import contextlib
import faulthandler
import io
import logging
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

from cronhare import task
from cronhare.adapters.process.warden import Frame, Unpacker, pack

from . import calling
from .app import App
from .reused import take_socket
from .words import Context, Snooze

_RECEIVE = 1 << 16
#: Bytes that wait for a worker, beyond which what is printed holds up the loop, as a pipe does.
_MOST_WAITING = 1 << 20
_STACK_FD = 3


class _Run:
    __slots__ = ("ctx", "given", "id", "is_cancelled", "work")

    def __init__(self, id_: int, given: task.Given) -> None:
        self.id = id_
        self.given = given
        self.ctx: Context | None = None
        self.is_cancelled = False
        self.work: asyncio.Task[int]


_current: ContextVar[_Run | None] = ContextVar("run", default=None)


def _given() -> task.Given | None:
    run = _current.get()
    return None if run is None else run.given


class Coroutines:
    """Runs async tasks of *app*, until the worker closes its end."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._line = take_socket()
        self._line.setblocking(False)  # noqa: FBT003 - the standard library's own face
        self._unpacker = Unpacker()
        self._runs: dict[int, _Run] = {}
        self._printed = defaultdict[tuple[int, int], bytearray](bytearray)
        self._outbox = bytearray()
        self._is_flushing = False

    def serve(self) -> int:
        task.ask(_given)
        for fd, name in ((1, "stdout"), (2, "stderr")):
            _replace_stream(name, io.TextIOWrapper(_Printed(fd, self._print), write_through=True))
        signal.signal(signal.SIGUSR2, _say_whose_step)
        faulthandler.register(signal.SIGUSR2, file=_STACK_FD, all_threads=False, chain=True)
        asyncio.run(self._serve())
        return 0

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closed = self._loop.create_future()
        self._loop.add_reader(self._line, self._receive)
        await self._closed

    def _receive(self) -> None:
        try:
            chunk = self._line.recv(_RECEIVE)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        for frame in self._unpacker.feed(chunk):
            if "run" in frame:
                self._begin(frame)
            elif "ping" in frame:
                self._send({"pong": True})
            elif (run := self._runs.get(frame["cancel"])) is not None:
                run.is_cancelled = True
                if run.ctx is not None:
                    run.ctx.cancelled = True
                run.work.cancel()
        if not chunk and not self._closed.done():
            self._loop.remove_reader(self._line)
            self._closed.set_result(None)

    def _begin(self, frame: Frame) -> None:
        send = partial(self._report, frame["run"])
        run = _Run(frame["run"], task.Given(frame["env"], frame["params"], send))
        self._runs[run.id] = run
        run.work = self._loop.create_task(self._perform(run, frame["task"]))
        run.work.add_done_callback(lambda work: self._end(run, work))

    async def _perform(self, run: _Run, name: str) -> int:
        _current.set(run)
        try:
            return task.perform(await self._call(run, name))
        except asyncio.CancelledError as end:
            if run.is_cancelled:
                raise
            return calling.status_of(end)
        except BaseException as end:  # noqa: BLE001 - it ends this run, and not its neighbours
            return calling.status_of(end)

    def _end(self, run: _Run, work: "asyncio.Task[int]") -> None:
        del self._runs[run.id]
        self._frame_printed()
        self._send(
            {
                "ended": run.id,
                "status": int(signal.SIGTERM) if work.cancelled() else work.result() << 8,
                "signalled": run.is_cancelled,
                "left_running": None,
                "max_rss": None,
                "cpu": None,
                "failure": None,
            }
        )

    async def _call(self, run: _Run, name: str) -> Callable[[], object]:
        """Await the task; give what returns its result, or raises what it raised."""
        if os.environ.get("SIMULATE_FAILURE") == "true":  # `task.perform` fails by itself
            return lambda: None
        try:
            found = calling.find(self._app, name)
            arguments, run.ctx = found.signature.arguments(task.params()), calling.context()
            given = (run.ctx,) if found.signature.takes_context else ()
            result = await found.function(*given, **arguments)
        except Exception as error:  # noqa: BLE001 - any is the task's failure
            return partial(_raise, error)
        return partial(_give, result)

    def _report(self, id_: int, line: bytes) -> None:
        self._frame_printed()
        self._send({"report": id_, "lines": line})

    def _print(self, fd: int, data: bytes) -> None:
        run = _current.get()
        if run is None or run.id not in self._runs:
            while data:
                data = data[os.write(fd, data) :]
            return
        self._printed[run.id, fd] += data
        if not self._is_flushing:
            self._send(None)
        if sum(map(len, self._printed.values())) + len(self._outbox) > _MOST_WAITING:
            self._frame_printed()
            self._line.setblocking(True)  # noqa: FBT003 - as above
            with contextlib.suppress(OSError):
                self._line.sendall(self._outbox)
            self._outbox.clear()
            self._line.setblocking(False)  # noqa: FBT003 - as above

    def _frame_printed(self) -> None:
        for (id_, fd), data in self._printed.items():
            for at in range(0, len(data), _RECEIVE):
                self._outbox += pack(
                    {"out": id_, "fd": fd, "data": bytes(data[at : at + _RECEIVE])}
                )
        self._printed.clear()

    def _send(self, frame: Frame | None) -> None:
        """Send a frame with all others of this turn of the loop."""
        if frame is not None:
            self._outbox += pack(frame)
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._frame_printed()
        try:
            del self._outbox[: self._line.send(self._outbox) if self._outbox else 0]
        except BlockingIOError:
            pass
        except OSError:  # the worker is gone, or a task has closed it
            self._outbox.clear()
        self._is_flushing = bool(self._outbox)
        if self._is_flushing:
            self._loop.add_writer(self._line, self._flush)
        else:
            self._loop.remove_writer(self._line)


class _Printed(io.BufferedIOBase):
    """The binary side of a standard stream."""

    def __init__(self, fd: int, take: Callable[[int, bytes], None]) -> None:
        self.name = f"<{'stdout' if fd == 1 else 'stderr'} of a run>"
        self._fd = fd
        self._take = take

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        written = bytes(data)  # type: ignore[call-overload] # any buffer
        self._take(self._fd, written)
        return len(written)


def _replace_stream(name: str, stream: io.TextIOWrapper) -> None:
    """Replace `sys.stdout` or `sys.stderr`, and where a handler of the log writes to it."""
    before = getattr(sys, name)
    before.flush()
    setattr(sys, name, stream)
    for reference in logging._handlerList:  # type: ignore[attr-defined] # noqa: SLF001 - all there are
        handler = reference()
        if isinstance(handler, logging.StreamHandler) and handler.stream is before:
            handler.setStream(stream)


def _say_whose_step(*_: object) -> None:
    run = _current.get()
    os.write(_STACK_FD, f"run {0 if run is None else run.id}\n".encode())


def _raise(error: Exception) -> object:
    raise error


def _give(result: object) -> object:
    if isinstance(result, Snooze):
        task.snooze(result.seconds)
        return None
    return result
