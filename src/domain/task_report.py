"""What a task reports of itself: how far it is, and what it made."""

from typing import Final

import attrs

#: Bytes of a result, as JSON without blanks.
LARGEST_RESULT: Final = 64 * 1024
#: A fraction is meant, but a task may count instead.
LARGEST_PROGRESS: Final = 10**15
#: In characters, with the middle left out.
LONGEST_PROGRESS_TEXT: Final = 200


@attrs.frozen(kw_only=True)
class TaskReport:
    """The last progress and the last result of an attempt.

    *progress* is between 0 and 1, or a count; *progress_text* is escaped already. *result* is JSON
    text, None if there is none. *result_problem* says why a later one was not taken.
    """

    progress: float | None = None
    progress_text: str | None = None
    result: str | None = None
    result_problem: str | None = None


def say_progress(progress: float | None, text: str | None) -> str | None:
    """Say how far a task is; what is not between 0 and 1 is a count.

    >>> say_progress(0.4, "users"), say_progress(1200, None)
    ('40 % · users', '1200')
    """
    if progress is None:
        return None
    number = f"{progress:.0%}".replace("%", " %") if 0 <= progress <= 1 else f"{progress:.15g}"
    return f"{number} · {text}" if text else number


#: Of most attempts.
NOTHING_REPORTED: Final = TaskReport()
