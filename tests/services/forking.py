"""A process that has imported the command line and forks for each call, as `python -m` is run once.

To import it takes half a second, longer than all else that most commands do; and there are
hundreds of calls. What is forked is a process of its own: its arguments, folder, environment and
streams are its own, and so is its end.
"""

import atexit
import gc
import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import attrs
import typer

_LENGTH = 8


@cache
def forking() -> "Forking":
    """Give the one of this process. It ends with us, however we end: nobody holds its socket."""
    forking = Forking.start()
    atexit.register(forking.end)
    return forking


@attrs.frozen
class Forking:
    """Our end of it."""

    control: socket.socket
    process: "subprocess.Popen[bytes]"

    @classmethod
    def start(cls) -> "Forking":
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        return cls(ours, process)

    def end(self) -> None:
        self.control.close()
        self.process.wait()

    def call(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        streams: tuple[int, int],
        timeout: float,
    ) -> int:
        """Run a command to its end, and give its exit status, or a signal as a negative number.

        Raises:
            TimeoutError: it does not end, and was killed.
        """
        request = json.dumps([list(arguments), str(folder), dict(environment)]).encode()
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                head = len(request).to_bytes(_LENGTH)
                socket.send_fds(self.control, [head], [*streams, theirs.fileno()])
            self.control.sendall(request)
            ours.settimeout(timeout)
            pid = int(ours.recv(16))
            ours.sendall(b".")
            try:
                return int(ours.recv(16))
            except TimeoutError:
                os.kill(pid, 9)
                raise


def _serve(control: socket.socket) -> Sequence[str] | None:
    """Fork for each wish, until nobody is there any more. In the child give its arguments."""
    awaited = selectors.DefaultSelector()
    awaited.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in awaited.select():
            if key.fileobj is not control:
                _tell_end(awaited, key)
                continue
            head, descriptors, _, _ = socket.recv_fds(control, _LENGTH, 3)
            if not head:
                return None
            request = control.recv(int.from_bytes(head), socket.MSG_WAITALL)
            if (pid := os.fork()) == 0:
                awaited.close()
                control.close()
                return _become(request, descriptors)
            reply = socket.socket(fileno=descriptors.pop())
            for descriptor in descriptors:
                os.close(descriptor)
            if not _tell_number(reply, pid):
                os.kill(pid, 9)
            awaited.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, reply))


def _tell_number(reply: socket.socket, pid: int) -> bool:
    with suppress(OSError):  # who called had no more time
        reply.sendall(b"%d" % pid)
        return bool(reply.recv(1))  # so that what follows is another message
    return False


def _tell_end(awaited: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    pid, reply = key.data
    awaited.unregister(key.fileobj)
    os.close(key.fd)
    _, status = os.waitpid(pid, 0)
    with reply, suppress(OSError):  # who called had no more time
        reply.sendall(b"%d" % os.waitstatus_to_exitcode(status))


def _become(request: bytes, descriptors: Sequence[int]) -> Sequence[str]:
    arguments, folder, environment = json.loads(request)
    out, error, reply = descriptors
    os.dup2(out, 1)
    os.dup2(error, 2)
    for descriptor in (out, error, reply):
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    given: Sequence[str] = arguments
    return given


def _warm_up() -> None:
    """Import what commands import when they run, too."""
    import cronhare.adapters.sql.dialects.mysql  # noqa: PLC0415
    import cronhare.adapters.sql.dialects.sqlite  # noqa: F401, PLC0415
    from cronhare.entrypoints import container  # noqa: F401, PLC0415
    from cronhare.entrypoints.cli import errors, output  # noqa: F401, PLC0415
    from cronhare.entrypoints.cli.command_tree import TREE, Commands  # noqa: PLC0415

    for name in TREE:
        Commands().load(name)
    other = typer.Typer()
    other.command()(_with_an_option)
    other([], standalone_mode=False)


def _with_an_option(_path: Path | None = None, _count: int = 0) -> None:
    """Be a command."""


def _main() -> None:
    from cronhare.entrypoints.cli import app  # noqa: PLC0415 - whoever calls it needs none of it

    _warm_up()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        arguments = _serve(control)
    if arguments is not None:
        sys.argv = [str(Path(sys.executable).with_name("cronhare")), *arguments]
        globals()["__package__"] = None  # it is told as the command that it is
        try:
            app.main()
        except SystemExit as end:
            os._exit(int(end.code or 0))  # to take so much apart takes longer than the command


if __name__ == "__main__":
    _main()
