"""What a shell completes beside commands and options: names and numbers of the ledger.

A TAB asks for help, and gets none where there is no ledger: no error, no file, and no long wait.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

#: Seconds after which a person has typed on.
PATIENCE: Final = 1.5


def _completes(kind: str) -> Callable[[str], Sequence[tuple[str, str]]]:
    def complete(incomplete: str) -> Sequence[tuple[str, str]]:
        # Whatever it is: a shell would print the error into the line that is being typed.
        with suppress(Exception), _patiently():
            from cronhare.adapters.sql.records.known_names import known_names  # noqa: PLC0415 - for TAB alone

            return known_names(_ledger(), kind, incomplete)
        return []

    return complete


SCHEDULES: Final = _completes("schedules")
TASKS: Final = _completes("tasks")
QUEUES: Final = _completes("queues")
NODES: Final = _completes("nodes")
EXECUTIONS: Final = _completes("executions")
FAILURES: Final = _completes("failures")
REPLAYS: Final = _completes("replays")


def runs(incomplete: str) -> Sequence[tuple[str, str]]:
    return [*SCHEDULES(incomplete), *EXECUTIONS(incomplete)]


def _ledger() -> str:
    from ..settings.sources import find_setting  # noqa: PLC0415 - as above

    return find_setting("database_url", "sqlite:///cronhare.sqlite3")


@contextmanager
def _patiently() -> Iterator[None]:
    def give_up(*_: Any) -> None:  # noqa: ANN401 - a signal's own
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
