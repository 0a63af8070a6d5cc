"""From the `remind` of a `[tasks.NAME]` table, and what goes with it, to a reminder."""

from typing import Final

from cronhare.domain.schedules.draft import Fault
from cronhare.domain.schedules.reminder import Reminder, faults_of_message

from .fields import out_of_place
from .schema import TaskTable

_OF_A_REMINDER: Final = ("subject", "text")
_OF_OTHERS: Final = (
    "command",
    "cwd",
    "env",
    "pass_env",
    "user",
    "url",
    "method",
    "headers",
    "headers_env",
    "success",
)


def read_reminder(table: TaskTable, faults: list[Fault]) -> Reminder | None:
    """Make the reminder of a task that has a `remind`; None for any other, or one at fault."""
    if table.remind is None and "remind" in {fault.field for fault in faults}:
        return None
    if table.remind is None:
        faults += out_of_place(table, _OF_A_REMINDER, "goes with remind; this task has none")
        return None
    found = [*out_of_place(table, _OF_OTHERS, "is for another kind of task; this one reminds")]
    subject, text = table.subject, table.text
    if text is None and "text" not in {fault.field for fault in faults}:
        found.append(Fault("text", "is missing: what is to be said; params may say otherwise"))
    wrong = faults_of_message("-" if subject is None else subject, "-" if text is None else text)
    found += [Fault(field, problem) for field, problem in wrong]
    faults += found
    return Reminder(targets=tuple(dict.fromkeys(table.remind)), subject=subject, text=text or "-")
