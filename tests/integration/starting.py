"""Runners whose warden starts tasks by fork, and by vfork."""

import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from cronhare.adapters.process import link
from cronhare.adapters.process.runner import ProcessRunner
from tests.integration.invocations import shell

_SOURCE = Path(link.__file__).with_name("vfork.c")


@cache
def compiled() -> Path:
    """The library that a wheel has, made here: an environment may be without it."""
    library = Path(tempfile.mkdtemp()) / "vfork.so"
    flags = ("-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
    subprocess.run(["cc", *flags, "-o", library, _SOURCE], check=True)
    return library


async def started_by(
    how: str, monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str] | None = None
) -> AsyncIterator[ProcessRunner]:
    """A runner whose warden starts `sh` by *how*: fork, or vfork."""
    monkeypatch.setattr(link, "_VFORK", compiled() if how == "vfork" else Path("/nowhere"))
    runner = ProcessRunner(environ)
    if how == "vfork":
        await runner.run(shell("true"))  # the first time it forks
    yield runner
    await runner.close()
