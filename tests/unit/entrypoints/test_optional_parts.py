"""The container: what it names can be made, and a setting's library is imported for that alone."""

import inspect
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from cronhare.entrypoints.parts import Part, providers
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
    ("settings", "imported"),
    [
        ({}, []),
        ({"CRON_TRACING": "on"}, ["opentelemetry", "requests"]),
    ],
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
