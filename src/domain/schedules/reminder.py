"""A task that is a message at its time: to whom, and what it says (S1.7, C14).

These ids are lines of docs/compatibility.md.
"""

from collections.abc import Iterator
from typing import Final

import attrs

#: Characters of a subject, which is one line, and of a text.
LONGEST_SUBJECT: Final = 200
LONGEST_TEXT: Final = 16 * 1024


@attrs.frozen(kw_only=True)
class Reminder:
    """The names of the targets that are told, and what.

    A run's params may replace the *subject* and the *text*. Without a subject the schedule's name
    is one.
    """

    targets: tuple[str, ...]
    text: str
    subject: str | None = None


@attrs.frozen(kw_only=True)
class ReminderInvalid(ValueError):
    """A message cannot be sent as it is; *faults* are pairs of its field and what is wrong."""

    faults: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "; ".join(f"{field}: {problem}" for field, problem in self.faults)


def faults_of_message(subject: object, text: object) -> Iterator[tuple[str, str]]:
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT:
        yield "subject", f"must be a text of 1 to {LONGEST_SUBJECT} characters"
    elif not subject.isprintable():
        yield "subject", "must be one line that can be printed"
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_TEXT:
        yield "text", f"must be a text of 1 to {LONGEST_TEXT:,} characters"
    elif not all(sign.isprintable() or sign in "\n\t" for sign in text):
        yield "text", "has a character that cannot be printed"


def message_of(reminder: Reminder, params: object, *, schedule: str) -> tuple[str, str]:
    """Give the subject and the text of a run; `ReminderInvalid` if it cannot be sent."""
    given = params if isinstance(params, dict) else {}
    usual = (reminder.subject or schedule)[:LONGEST_SUBJECT]
    subject, text = given.get("subject", usual), given.get("text", reminder.text)
    faults = tuple(faults_of_message(subject, text))
    if faults:
        raise ReminderInvalid(faults=faults)
    return str(subject), str(text)
