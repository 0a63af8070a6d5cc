"""Testing tasks and schedules of an app: pytest's fixture `cronhare`, of this class.

def test_two_missed_mornings_make_one_run(cronhare: Cronhare) -> None:
    cronhare.start("2026-11-26T07:00", tz="Europe/Berlin")
    cronhare.down("26h")
    cronhare.advance("1h")
    assert cronhare.runs("refresh-eu").one().missed == 2
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .system import Cronhare, Run, Runs

__all__ = ["Cronhare", "Run", "Runs"]


def __getattr__(name: str) -> object:
    """Import it when it is asked for: pytest loads the plugin for tests that need none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import system  # noqa: PLC0415 - as above

    return getattr(system, name)
