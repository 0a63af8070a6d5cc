"""What is wired and imported, and what a process calls itself."""

import inspect
import os
import pwd
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from cronhare.adapters.extras import EXTRAS
from cronhare.domain.nodes import read_node
from cronhare.entrypoints.cli.commands.replays import this_author
from cronhare.entrypoints.container import Part, providers
from cronhare.entrypoints.node_identity import this_actor, this_node, this_user
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.working import WorkingContainer

#: Wires what publishes, works and is preloaded, as a process that lives long does.
WIRE = """
import sys
from cronhare.entrypoints.processes.lifetime import preload
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.working import WorkingContainer

container = WorkingContainer(settings=Settings.read())
preload(container, with_page=True)
container.dispatcher(), container.reconciler(), container.tracing(), container.counting()
print(*(name for name in ("opentelemetry", "prometheus_client", "requests") if name in sys.modules))
"""


@pytest.mark.parametrize(
    ("settings", "imported"), [({}, []), ({"CRON_TRACING": "on"}, ["opentelemetry", "requests"])]
)
def test_without_its_setting_a_library_is_not_imported(
    settings: dict[str, str], imported: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WIRE], env=settings, capture_output=True, text=True, check=False
    )

    assert (done.stderr, done.stdout.split()) == ("", imported)


def test_each_part_takes_what_the_container_gives_it() -> None:
    wired: Iterable[Any] = WorkingContainer(settings=Settings()).providers.values()
    named: list[Any] = [
        part
        for part in providers.traverse(*wired)
        if isinstance(getattr(part, "provides", None), Part)
    ]

    assert len(named) > 50
    for part in named:
        signature = inspect.signature(part.provides.found())
        is_whole = not isinstance(part, providers.Factory)  # to those the caller adds some
        (signature.bind if is_whole else signature.bind_partial)(*part.args, **part.kwargs)


PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


def module_of(library: str) -> str:
    return library.replace("-", "." if library.startswith("opentelemetry") else "_")


def test_each_extra_is_known_with_the_modules_of_its_libraries() -> None:
    declared = {
        extra: {module_of(re.split(r"[\[<>=~!]", library)[0]) for library in libraries}
        for extra, libraries in PROJECT["optional-dependencies"].items()
    }

    assert declared == {extra: set(modules) for extra, modules in EXTRAS.items()}


@pytest.mark.parametrize("name", ["\udcffhost", "two\nlines", "", "\x1b" * 64])
def test_a_host_name_that_no_ledger_takes_is_written_so_that_one_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)

    node = this_node()

    assert str(node).encode().decode().isprintable()
    assert read_node(str(node)) == node
    assert len(str(node)) <= 255


def test_no_variable_of_the_environment_says_whose_process_this_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody@prod")

    user = pwd.getpwuid(os.getuid()).pw_name
    assert (this_user(), this_author(None)) == (user, user)
    assert this_actor().name.startswith(f"{user}@")
