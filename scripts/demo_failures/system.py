"""`cronhare up` in a folder of its own, and whoever it tells."""

import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree
from typing import TypeVar

from .interrupts import Interrupts
from .receiver import Receiver
from .system_log import Line, SystemLog
from .terminal import Screen, run_on_terminal

T = TypeVar("T")

EXAMPLE = Path(__file__).parents[2] / "examples" / "failures"
PROGRAM = Path(sys.executable).with_name("cronhare")

#: Seconds after which what is waited for has not happened.
PATIENCE = 45.0
#: Seconds that `cronhare up` has for its end: its grace is 1 s, and it is gone 14 s later.
FOR_ITS_END = 20.0
EVERY = 0.02

#: The port in the jobs file.
_PORT = "8710"


class DidNotHappen(Exception):
    """A step did not come to what it is to show."""


class System:
    """The running system, the commands that are typed to it, and what it has logged."""

    def __init__(self, screen: Screen, interrupts: Interrupts) -> None:
        self.screen = screen
        self._interrupts = interrupts
        self._up: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="cronhare-failures-"))
        secret = secrets.token_hex(32)
        self.receiver = Receiver(secret)
        self.log = SystemLog(self.folder / "up.log")
        ours = {name: text for name, text in os.environ.items() if not name.startswith("CRON_")}
        path = f"{PROGRAM.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self._environment = {**ours, "PATH": path, "ALARM_SECRET": secret}

    def start(self) -> None:
        """Copy the example, and start `cronhare up` in it; give up if it does not begin."""
        copytree(EXAMPLE, self.folder, dirs_exist_ok=True)
        jobs = self.folder / "jobs.toml"
        jobs.write_text(jobs.read_text().replace(f":{_PORT}/", f":{self.receiver.port}/"))
        self.file("warehouse-is-closed").touch()
        self.screen.typed("touch warehouse-is-closed")
        self.screen.typed("cronhare up --jobs jobs.toml &")
        with self._interrupts.held(), (self.folder / "up.log").open("wb") as log:
            self._up = subprocess.Popen(
                [PROGRAM, "up", "--no-web", "--jobs", "jobs.toml"],
                cwd=self.folder,
                env={**self._environment, "CRON_LOG_FORMAT": "json"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours: we end it, and wait for it
            )
        self.logged("begun")

    def file(self, name: str) -> Path:
        """Name a file of its folder."""
        return self.folder / name

    def type(self, *arguments: str) -> str:
        """Type a command, show what it prints, and give that; one that fails is a fault."""
        command = shlex.join(("cronhare", *arguments))
        self.screen.typed(command)
        status, printed = run_on_terminal(
            self.screen,
            [str(PROGRAM), *arguments],
            folder=self.folder,
            environment=self._environment,
            interrupts=self._interrupts,
        )
        if status:
            raise DidNotHappen(f"`{command}` ended with status {status}")
        return printed

    def run(self, schedule: str) -> int:
        """Type `cronhare run`, and give the number of the execution."""
        printed = self.type("run", schedule)
        found = re.search(r"Execution (\d+)", printed)
        if found is None:
            raise DidNotHappen(f"`cronhare run {schedule}` named no execution")
        return int(found[1])

    def logged(self, action: str, *, number: int = 1, **fields: object) -> Line:
        """Wait for so many lines of the log; gives the last of them."""

        def enough() -> Line | None:
            found = self.log.lines(action, **fields)
            return found[number - 1] if len(found) >= number else None

        of = "".join(f", {name} {value}" for name, value in fields.items())
        return self.until(enough, f"the log has no {action}{of}")

    def until(self, found: Callable[[], T | None], what: str) -> T:
        """Wait until something is found; *what* is told if that does not happen."""
        give_up_at = time.monotonic() + PATIENCE
        while not (result := found()):
            if self._up is not None and (status := self._up.poll()) is not None:
                raise DidNotHappen(f"`cronhare up` ended with status {status}")
            if time.monotonic() > give_up_at:
                raise DidNotHappen(f"{what}, after {PATIENCE:.0f} s")
            time.sleep(EVERY)
        return result

    def stop(self) -> None:
        """End `cronhare up` as Ctrl-C does; it must say that all is well."""
        if self._up is None:
            return
        self._up.send_signal(signal.SIGINT)
        try:
            status = self._up.wait(FOR_ITS_END)
        except subprocess.TimeoutExpired:
            raise DidNotHappen(f"`cronhare up` did not end in {FOR_ITS_END:.0f} s") from None
        if status:
            raise DidNotHappen(f"Ctrl-C ended `cronhare up` with status {status}")

    def close(self) -> None:
        """Leave nothing behind: no process, no folder. It may be called again."""
        with self._interrupts.held():
            if self._up is not None and self._up.poll() is None:
                self._up.send_signal(signal.SIGINT)
                try:
                    self._up.wait(FOR_ITS_END)
                except subprocess.TimeoutExpired:
                    self._up.kill()  # its warden ends the tasks
                    self._up.wait()
            self.receiver.close()
            rmtree(self.folder, ignore_errors=True)
