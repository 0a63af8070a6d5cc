"""What a name in a jobs file looks like."""

from typing import Final

LONGEST_NAME: Final = 63

#: A name of a task, a schedule, a source, a class of retention, a calendar.
NAME: Final = rf"[a-z0-9][a-z0-9._-]{{0,{LONGEST_NAME - 1}}}"
