"""Extras: the libraries that only one kind of server needs, or one command.

Each is an entry of `[project.optional-dependencies]`. Call `require` before the import, so that a
missing library is a sentence and no traceback.
"""

import shlex
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

#: The modules that each extra installs.
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "mysql": ("pymysql",),
    "postgresql": ("psycopg",),
    "rabbitmq": ("pika", "aio_pika", "aiormq", "pamqp"),
    "web": ("h11", "jinja2", "starlette", "uvicorn"),
    "calendars": ("icalendar", "recurring_ical_events"),
    "notify": ("apprise",),
    "tracing": ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk"),
}


class ExtraMissing(ValueError):
    """A setting, or a command, needs an extra that is not installed; the text says what to do."""


def require(extra: str) -> None:
    """Make sure that the modules of an extra are installed; none is imported.

    Raises:
        ExtraMissing: one of them is not.
    """
    if not all(map(_is_there, EXTRAS[extra])):
        command = f"{shlex.quote(sys.executable)} -m pip install 'cronhare[{extra}]'"
        raise ExtraMissing(f"it needs the extra {extra}, which is not installed; run: {command}")


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # what it would be part of
        return False
