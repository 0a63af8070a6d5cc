"""Exit statuses, and errors as people read them: what, where, in which state we are, what next."""

import enum
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from cronhare.adapters.jobs.reader import JobsFileInvalid
from cronhare.application.administer import CannotRun, NotFound
from cronhare.ports.broker import BrokerUnavailable
from cronhare.ports.ledger import LedgerUnavailable

from ..settings import SettingsInvalid


class Status(enum.IntEnum):
    """What a command's exit status means."""

    DONE = 0
    OUR_BUG = 1
    WRONG_INPUT = 2
    UNREACHABLE = 3
    RUN_FAILED = 4  # `cronhare run --wait`: the run ended, and not well


class Refusal(Exception):
    """The user's input is wrong. *details* are its faults, *advice* says what to do next."""

    def __init__(self, what: str, details: Sequence[str] = (), advice: str = "") -> None:
        """Keep the parts for `describe`."""
        self.what = what
        self.details = tuple(details)
        self.advice = advice
        super().__init__(what)


def jobs_refusal(error: JobsFileInvalid, state: str) -> Refusal:
    """Say what is wrong with a jobs file; *state* says what was done, which is nothing."""
    places = {fault.place for fault in error.faults}
    what = f"{error.path}: {len(error.faults)} faults in {len(places)} places"
    if len(error.faults) == 1:
        what = f"{error.path}: one fault"
    advice = f"{state} Fix the file, then run: cronhare check {error.path}"
    return Refusal(what, [str(fault) for fault in error.faults], advice)


def file_refusal(error: OSError, path: Path, state: str) -> Refusal:
    """Say that a file cannot be read."""
    return Refusal(f"{path}: {error.strerror or error}", advice=state)


def report(error: BaseException) -> Status:
    """Print an error on standard error and give the exit status that belongs to it."""
    match error:
        case Refusal():
            _print(error.what, error.details, error.advice)
            return Status.WRONG_INPUT
        case SettingsInvalid():
            advice = "Nothing was started. The README lists every setting."
            _print("there are settings that cannot be used", error.faults, advice)
            return Status.WRONG_INPUT
        case NotFound() | CannotRun():
            _print(str(error))
            return Status.WRONG_INPUT
        case LedgerUnavailable() | BrokerUnavailable():
            _print(str(error))
            return Status.UNREACHABLE
    traceback.print_exception(error)
    _print("this is a fault of ours; please report it with the lines above")
    return Status.OUR_BUG


def _print(what: str, details: Sequence[str] = (), advice: str = "") -> None:
    lines = [f"cronhare: {what}", *(f"  {detail}" for detail in details), advice]
    print("\n".join(line for line in lines if line), file=sys.stderr)  # noqa: T201 - it is a CLI
