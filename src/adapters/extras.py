"""Extras: the libraries that one kind of server alone needs, and the word for a missing one.

Each is an entry of `[project.optional-dependencies]`. Whoever speaks to such a server calls
`require` before the import, so that a missing library is a sentence and no traceback.
"""

import shlex
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

#: The modules that an extra brings, by its name.
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "mysql": ("pymysql",),
    "postgresql": ("psycopg",),
    "rabbitmq": ("pika", "aio_pika", "aiormq", "pamqp"),
}


class ExtraMissing(ValueError):
    """A setting needs an extra that is not installed; the text says how to install it."""


def require(extra: str) -> None:
    """Look for the modules of an extra, and import none of them.

    Raises:
        ExtraMissing: one of them is not there.
    """
    if any(find_spec(module) is None for module in EXTRAS[extra]):
        command = f"{shlex.quote(sys.executable)} -m pip install 'cronhare[{extra}]'"
        raise ExtraMissing(f"it needs the extra {extra}, which is not installed; run: {command}")
