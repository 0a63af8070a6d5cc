"""Calling the commands, as a person or a pipe calls them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs

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
        done = subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.folder,
            env=clean_environment() | {"TZ": "UTC"} | settings,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def write(self, text: str, name: str = "jobs.toml") -> None:
        """Write a file into its folder."""
        (self.folder / name).write_text(text)
