"""Exit statuses, and errors for people: what, where, what was done, what to do next."""

import enum
import errno
import io
import sys
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from typer import TyperException

from cronhare.domain.texts.printable import printable, shortened

from .app import OutputLost

if TYPE_CHECKING:
    from cronhare.application.reports.clashes import Clash
    from cronhare.domain.reading import Fault

#: What shells make of a SIGPIPE: 128 and its number. Nothing is printed for it.
NO_READER = 141

#: Characters of one line that are shown.
LONGEST_LINE = 4_096

#: Options of `cronhare` itself.
BEFORE_THE_COMMAND = ("--config", "--version")

#: What pydantic, by which typer reads, puts in front of a sentence that is whole without it.
_PREFIX = "Value error, "


class Status(enum.IntEnum):
    """What a command's exit status means."""

    DONE = 0
    OUR_BUG = 1
    WRONG_INPUT = 2
    UNREACHABLE = 3
    RUN_FAILED = 4  # what `run --wait` ran ended, and not well; or a target was not told


class Refusal(Exception):
    """Wrong input. *details* are its faults, *advice* says what to do next."""

    def __init__(self, what: str, details: Sequence[str] = (), advice: str = "") -> None:
        self.what, self.details, self.advice = what, tuple(details), advice
        super().__init__(what)


class Refusals(Exception):
    """Several inputs are wrong, each by itself."""

    def __init__(self, each: Sequence[Refusal]) -> None:
        self.each = tuple(each)
        super().__init__("; ".join(refusal.what for refusal in each))


def clash_refusal(clashes: "Sequence[Clash]") -> Refusal:
    return Refusal(
        "another jobs file has the same names or numbers, and each would act for the other",
        [str(clash) for clash in clashes],
        "Nothing was applied. Give the schedule another name; one that has moved here: "
        "apply the other file without it, then UPDATE Scheduler SET source = NULL WHERE "
        "name = '…'. Leave `id` out of the task, and a number is assigned that no other "
        "has. If this is that file under another name, begin it with the old one: "
        'source = "…".',
    )


def calendar_refusal(faults: "Sequence[Fault]") -> Refusal:
    return Refusal(
        "there are schedules that would never run, as a calendar that they name would be missing",
        [str(fault) for fault in faults],
        "Nothing was applied. Mend the name; or apply the jobs file that has the calendar first; "
        "or leave the calendar in this file.",
    )


def file_refusal(error: OSError, path: Path, state: str) -> Refusal:
    if isinstance(error, FileNotFoundError):
        state = f"{state} It was looked for at {path.absolute()}."
    return Refusal(f"{path}: {error.strerror or error}", advice=state)


def write_new(path: Path, text: str, *, if_there: str) -> None:
    state = "Nothing was written."
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise Refusal(f"{path} is there already", advice=f"{state} {if_there}") from error
    except OSError as error:
        raise file_refusal(error, path, state) from error


def report(error: BaseException) -> int:
    match error:
        case OutputLost(cause=OSError(errno=errno.EPIPE)):
            return NO_READER
        case OutputLost():
            _print(f"{error}; what was asked for may be done, but not all was told")
        case TyperException():
            _print_usage(error)
        case Refusal():
            _print(error.what, error.details, error.advice)
        case Refusals():
            for refusal in error.each:
                report(refusal)
        case _:
            return _report_of_inside(error)
    return Status.WRONG_INPUT


def _report_of_inside(error: BaseException) -> int:
    """Print what settings, use cases and servers have to say; what raised it has imported it."""
    from ..settings.settings import SettingsInvalid  # noqa: PLC0415

    if isinstance(error, SettingsInvalid):  # before there was a use case
        advice = "Nothing was started. See docs/reference/settings.md."
        return report(Refusal("there are settings that cannot be used", error.faults, advice))
    from cronhare.application.administration import Refused  # noqa: PLC0415
    from cronhare.application.administration.jobs_file.applying import CannotApply  # noqa: PLC0415
    from cronhare.application.administration.reading.lookup import NotFound  # noqa: PLC0415
    from cronhare.ports import LedgerRefused, LedgerUnavailable  # noqa: PLC0415
    from cronhare.ports.broker import BrokerUnavailable  # noqa: PLC0415

    match error:
        case CannotApply():
            found = [clash_refusal(error.clashes)] if error.clashes else []
            found += [calendar_refusal(error.calendars)] if error.calendars else []
            return report(Refusals(found))
        case LedgerUnavailable() | BrokerUnavailable():
            _print(str(error))
            return Status.UNREACHABLE
        case NotFound() | Refused() | LedgerRefused():
            return report(Refusal(str(error)))
    _write("".join(traceback.format_exception(error)).splitlines())
    _print("this is a fault of ours; please report it with the lines above")
    return Status.OUR_BUG


def _print(what: str, details: Sequence[str] = (), advice: str = "") -> None:
    _write([f"cronhare: {what}", *(f"  {detail}" for detail in details), advice])


def _print_usage(error: TyperException) -> None:
    said = io.StringIO()
    if show := getattr(error, "show", None):
        show(said)
    else:
        said.write(f"Error: {error.format_message()}")
    if (option := getattr(error, "option_name", None)) in BEFORE_THE_COMMAND:
        said.write(f"{option} stands before the command: cronhare {option} … COMMAND\n")
    _write(said.getvalue().replace(_PREFIX, "").splitlines())


def _write(lines: Iterable[str]) -> None:
    shown = [printable(shortened(line, LONGEST_LINE)) for line in lines if line]
    # Standard error may be full or gone; the exit status still says how it ended.
    with suppress(OSError):
        print("\n".join(shown), file=sys.stderr)  # noqa: T201 - it is a CLI
