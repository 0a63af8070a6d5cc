"""Writes the table of operations in `docs/api.md`, read from the operations themselves.

Run it after a change:  python -m scripts.api_operations
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.web.api.openapi import ALWAYS, describe
from cronhare.entrypoints.web.application import operations_of_api
from cronhare.entrypoints.web.asking import Asker
from cronhare.entrypoints.web.operations import Operation

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "api.md"

_TABLE: Final = re.compile(r"(?<=<!-- operations -->\n).*?(?=<!-- /operations -->)", re.DOTALL)
#: From here on a status is a refusal.
REFUSED: Final = 400

_HEAD: Final = "| operation | scope | does | answers | refuses |\n| --- | --- | --- | --- | --- |\n"


def operations() -> list[Operation]:
    """Make the operations, of a container that opens nothing."""
    nobody: Any = None
    return operations_of_api(Asker(Container(settings=Settings.read()), nobody))


def page() -> str:
    """Give the page with the table as the operations have it.

    What all refuse with (`ALWAYS`) is told beside it.
    """
    return _TABLE.sub("".join([_HEAD, *_rows()]), PAGE.read_text(encoding="utf-8"))


def _rows() -> Iterator[str]:
    paths = describe(operations(), title="cronhare", version="")["paths"]
    for each in operations():
        method = each.declared.method
        one = paths[each.path_format][method.lower()]
        scope, does = one["x-scope"], " ".join(one["description"].split("\n\n")[0].split())
        statuses = [int(status) for status in one["responses"]]
        given = ", ".join(str(status) for status in statuses if status < REFUSED)
        refused = ", ".join(
            str(status) for status in statuses if status >= REFUSED and status not in ALWAYS
        )
        yield f"| `{method} {each.path_format}` | {scope} | {does} | {given} | {refused} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
