"""Calling the commands, as a person or a pipe calls them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import attrs

from tests.services.forking import forking

PROGRAM = Path(sys.executable).with_name("cronhare")


@attrs.frozen
class Said:
    """What a command said."""

    status: int
    out: str
    err: str

    def json(self) -> Any:  # noqa: ANN401 - whatever a command prints
        """Read its output."""
        return json.loads(self.out)


def clean_environment() -> dict[str, str]:
    """Give the environment without the settings of whoever runs the tests."""
    return {name: text for name, text in os.environ.items() if "CRON_" not in name}


@attrs.frozen
class Shell:
    """Calls cronhare in a folder of its own, with an environment of its own."""

    folder: Path

    def __call__(self, *arguments: str, **settings: str) -> Said:
        """Call it, and wait for its end."""
        with TemporaryFile() as out, TemporaryFile() as error:
            status = forking().call(
                arguments,
                folder=self.folder,
                environment=clean_environment() | {"TZ": "UTC"} | settings,
                streams=(out.fileno(), error.fileno()),
                timeout=60,
            )
            said = [(file.seek(0), file.read().decode())[1] for file in (out, error)]
        return Said(status, *said)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it with pipes for what it says; it hears Ctrl-C."""
        return subprocess.Popen(
            ["env", "--default-signal=INT", PROGRAM, *arguments],
            cwd=self.folder,
            env=clean_environment() | {"TZ": "UTC"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def write(self, text: str, name: str = "jobs.toml") -> None:
        """Write a file into its folder."""
        (self.folder / name).write_text(text)
