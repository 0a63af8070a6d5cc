"""What an app says, for whoever must not import it: `cronhare … --app MODULE:APP`.

Run as `python -m cronhare.entrypoints.python.describe MODULE:APP` in the folder of the app.
Standard output has the answer alone: JSON with the tables of a jobs file and the files that they
come from; or with status 2 the reason why there are none. What the import prints goes to standard
error.
"""

import os
import signal
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, NoReturn

import msgspec

from .loading import ImportFailed, load

#: Seconds after which this process is gone, whatever becomes of those who began it.
ALARM: Final = 90

_LIBRARIES: Final = tuple(
    f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib", "platlib")
)


def _not_json(value: object, place: str) -> Iterator[str]:
    """Find the values that JSON cannot hold, as people would write their places."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _not_json(inner, f"{place}.{name}".removeprefix("."))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _not_json(inner, f"{place}[{number}]")
    elif not isinstance(value, str | int | float | None):
        kind = type(value).__qualname__
        yield f"{place}: is of type {kind}, which JSON has not; give a text, say, or a number"


def _files(package: str) -> Iterator[str]:
    """Name the files of the modules that are the user's: of the app's package, or no library's."""
    for name, module in sorted(sys.modules.items()):
        top, path = name.partition(".")[0], getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(path, str) or top in {"__main__", "cronhare"}:
            continue
        if top == package or not path.startswith(_LIBRARIES):
            yield os.path.abspath(path)  # noqa: PTH100 - pathlib is slow


def main(place: str) -> NoReturn:
    signal.alarm(ALARM)
    answer = os.dup(1)
    os.dup2(2, 1)
    try:
        app = load(place)
        tables = app.tables(place)
        files = [*_files(place.partition(":")[0].partition(".")[0])]
        told = {"tables": tables, "files": files, "ledger": app.ledger}
        faults = "\n".join(_not_json(tables, ""))
        text, status = (faults.encode(), 2) if faults else (msgspec.json.encode(told), 0)
    except ImportFailed as error:
        text, status = str(error).encode(errors="backslashreplace"), 2
    with os.fdopen(answer, "wb") as file:
        file.write(text)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the import may have closed it
            stream.flush()
    os._exit(status)  # threads of the import may go on for ever


if __name__ == "__main__":
    main(*sys.argv[1:])
