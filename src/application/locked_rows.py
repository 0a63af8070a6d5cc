"""How a row that somebody else keeps locked is looked for to record an end: soon, then more rarely.

Nearly always it is locked for some milliseconds. The cleanup, which can be done once more, waits
for all of these pauses, about ten seconds; a task's end, which cannot, goes on with the last. How
long a start looks, is in `held_starts`.
"""

from typing import Final

#: Seconds between one look and the next.
PAUSES: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, *[1.0] * 9)

#: The log tells of a row that is still locked after so many looks, more than a second.
LOOKS_TO_TELL: Final = 8
