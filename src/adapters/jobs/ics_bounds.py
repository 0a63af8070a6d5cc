"""What reading an iCalendar file may cost: occurrences to look at, and the processor's time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

#: The most occurrences that are looked at, those of years gone by included.
MOST_OCCURRENCES: Final = 100_000

#: Seconds of the processor for following rules, over all files of a reading. A rule steps through
#: many days for each that it comes to, or through all until the year 9999 for none.
LONGEST_SEARCH: Final = 5.0


class IcsInvalid(ValueError):
    """A calendar file that cannot be used."""


class SearchTime:
    """How long rules were followed in a reading, which the caller may make of several files."""

    def __init__(self, seconds: Callable[[], float] = time.thread_time) -> None:
        """*seconds* is a stopwatch: of the processor, so that a busy machine refuses no file."""
        self._seconds = seconds
        self._spent = 0.0

    @contextmanager
    def spending(self) -> Iterator[Callable[[], None]]:
        """Count the time within; what this gives is to be called at each step.

        Raises:
            IcsInvalid: it was too long.
        """
        began = self._seconds()

        def check() -> None:
            if self._spent + self._seconds() - began > LONGEST_SEARCH:
                text = f"takes more than {LONGEST_SEARCH:.0f} s to find the days of all its rules"
                raise IcsInvalid(f"{text}; write fewer rules, or such as come to more of the days")

        try:
            check()
            yield check
        finally:
            self._spent += self._seconds() - began


class OccurrenceCount:
    """Counts the occurrences that may still be looked at."""

    def __init__(self, search: SearchTime) -> None:
        """*search* is that of all files of a reading."""
        self.search = search
        self._left = MOST_OCCURRENCES

    def take(self) -> None:
        """Count one.

        Raises:
            IcsInvalid: there were too many.
        """
        self._left -= 1
        if self._left < 0:
            raise IcsInvalid(f"has more than {MOST_OCCURRENCES:,} occurrences to look at")
