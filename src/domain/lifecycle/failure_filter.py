"""Which failures are meant: one question to the archive, from whoever lists, counts, replays."""

from datetime import datetime
from typing import Any, Final

import attrs

from ..execution import State
from ..retries.outcome import ErrorClass
from ..schedules.task import TaskRef
from ..texts.printable import echo

#: Characters of a name, and of a part of a reason.
LONGEST_NAME: Final = 255
LONGEST_PART: Final = 1_000

_LENGTHS: Final = {
    "schedule": LONGEST_NAME,
    "task": LONGEST_NAME,
    "type": LONGEST_NAME,
    "queue": LONGEST_NAME,
    "code": LONGEST_NAME,
    "reason": LONGEST_PART,
}


class FailureFilterInvalid(ValueError):
    """A filter asks for what no row can be. *faults* has a pair of field and reason for each."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{field}: {why}" for field, why in faults))


@attrs.frozen(kw_only=True)
class FailureFilter:
    """Rows of the archive that have all of this; None stands for any, and none left out is all.

    *task* is a task's name, or its reference (`report 25`); *numbers* are those that a task of that
    name has, for rows without a name, and follow from it. *reason* is a part of `failed_reason`,
    or of its error's message, letter for letter. *code* is the error's (`ETIMEDOUT`). It failed at
    *since* or later, and before *until*. *kind* is failed or quarantined. Resolved rows are left
    out if *unresolved*.

    Raises:
        FailureFilterInvalid: with all faults at once.
    """

    execution_id: int | None = None
    schedule: str | None = None
    task: str | None = None
    numbers: tuple[TaskRef, ...] = attrs.field(default=(), eq=False)
    type: str | None = None
    queue: str | None = None
    reason: str | None = None
    error_class: ErrorClass | None = None
    code: str | None = None
    kind: State | None = None
    since: datetime | None = None
    until: datetime | None = None
    unresolved: bool = True

    def __attrs_post_init__(self) -> None:
        if faults := [*_faults_of_texts(self), *_faults_of_range(self)]:
            raise FailureFilterInvalid(faults)

    @property
    def conditions(self) -> dict[str, Any]:
        """What is asked for, by its field: None is not, and what follows from it is not either."""
        return attrs.asdict(
            self, filter=lambda field, value: value is not None and field.name != "numbers"
        )


def _faults_of_texts(which: FailureFilter) -> list[tuple[str, str]]:
    faults = []
    for field, longest in _LENGTHS.items():
        text = getattr(which, field)
        if text is None:
            continue
        if not 0 < len(text) <= longest:
            faults.append((field, f"it has {len(text):,} characters, 1-{longest:,} are allowed"))
        elif not _is_writable(text):
            faults.append((field, f"{echo(text)} has a character that no row can hold"))
    return faults


def _faults_of_range(which: FailureFilter) -> list[tuple[str, str]]:
    faults = []
    if which.kind not in {None, State.FAILED, State.QUARANTINED}:
        faults.append(("kind", f"{which.kind} is neither failed nor quarantined"))
    if which.since and which.until and which.since >= which.until:
        faults.append(("until", "it is to be later than since"))
    return faults


def _is_writable(text: str) -> bool:
    try:
        return "\0" not in text and bool(text.encode())
    except UnicodeEncodeError:  # a lone surrogate, of an argument that is no UTF-8
        return False


#: What still waits for a person, and everything that ever failed for good.
UNRESOLVED: Final = FailureFilter()
EVERY_FAILURE: Final = FailureFilter(unresolved=False)
