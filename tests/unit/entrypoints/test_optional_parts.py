"""What a setting asks for is imported for that setting alone."""

import subprocess
import sys

import pytest

#: Wires what publishes, works and is preloaded, as a process that lives long does.
WIRE = """
import sys
from cronhare.entrypoints.working import WorkingContainer
from cronhare.entrypoints.injection import preload
from cronhare.entrypoints.settings.settings import Settings

container = WorkingContainer(settings=Settings.read())
preload(container.providers.values())
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
