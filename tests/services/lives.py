"""What may be done to a server, by who it belongs to: hurt it, stop it, start it again."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import attrs

from tests.services.finding import free_port, wait_until

PATIENCE = 120.0


class Server(Protocol):
    @property
    def is_ours(self) -> bool: ...

    def kill(self) -> None: ...

    def stop(self) -> None:
        """Stop it politely."""
        ...

    def start(self) -> None: ...


class Lent:
    """Somebody else's server: it is used, and never stopped."""

    is_ours = False

    def kill(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError


@attrs.define
class Private:
    folder: Path
    port: int = attrs.field(factory=free_port)
    is_ours: bool = True
    _process: subprocess.Popen[bytes] | None = None

    def accepts(self) -> bool:
        raise NotImplementedError

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stand still meanwhile (SIGSTOP): the kernel accepts connections, and nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def _launch(self, *command: str, env: Mapping[str, str] | None = None) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        wait_until(self._has_started, seconds=PATIENCE, what=f"the start of {command[0]}")

    def _has_started(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = (self.folder / "server.log").read_text(errors="replace")
            raise RuntimeError(f"{self._process.args!r} ended at its start:\n{log[-2000:]}")
        return self.accepts()


@attrs.define
class Contained:
    """A server in a container, on a port of our choice: it keeps that when it is started again."""

    port: int
    container: Any
    is_ours: bool = True

    def accepts(self) -> bool:
        raise NotImplementedError

    def kill(self) -> None:
        self.container.get_wrapped_container().kill()

    def stop(self) -> None:
        self.container.get_wrapped_container().stop()

    def start(self) -> None:
        self.container.get_wrapped_container().start()
        self.wait()

    def wait(self) -> None:
        wait_until(self.accepts, seconds=2 * PATIENCE, what="the start of a container")
