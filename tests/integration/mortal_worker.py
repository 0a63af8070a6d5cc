"""A worker that dies as it reads a certain message, as of a fault in a library."""

import os
import signal
from typing import Any

from cronhare.application.worker import foreign
from cronhare.entrypoints.cli.app import main

POISON = b"poison"

_foreign: Any = foreign
_read = _foreign.read


def _die_of_poison(body: bytes, *others: Any) -> Any:  # noqa: ANN401 - as it is
    if POISON in body:
        os.kill(os.getpid(), signal.SIGKILL)
    return _read(body, *others)


if __name__ == "__main__":
    _foreign.read = _die_of_poison
    main()
