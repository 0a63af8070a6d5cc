"""Turning the comment above an entry into its description."""

import re
from collections.abc import Callable, Iterable

from cronhare.domain.texts.printable import shortened

#: So much of what stands above a line is kept.
LONGEST_DESCRIPTION = 1_000

#: The row of column titles, and the picture that Debian draws in its place.
_LEGEND = re.compile(
    r"m(in(ute)?)?\s+h(our)?\s+d|(\*\s+){4}\*|[.|┌│└├][-.|\s─│┌└├*]*(\s|-|─|$)", re.IGNORECASE
)
_HEADER = re.compile(
    r"/etc/cron[^ ]*:|DO NOT EDIT|\(Cron version|\(.* installed on |-\*-|vim?:|\$Id"
)
_DISABLED_SETTING = re.compile(r"[A-Z_]+\s*=")


def describe(comment: Iterable[str], parse: Callable[[str], object]) -> str | None:
    """Make one paragraph of a comment block, without what does not speak of the entry.

    Left out: the column titles with all that stands above them (there cron's own templates
    explain the file), file headers, rulers, and lines that were commented out.

    >>> describe(["Weekly,", "on Sunday", "----"], parse=int)
    'Weekly, on Sunday'
    """
    about_entry: list[str] = []
    for line in comment:
        if _LEGEND.match(line):
            about_entry.clear()
        elif _speaks(line, parse):
            about_entry.append(line)
    return shortened(" ".join(about_entry).rstrip(":"), LONGEST_DESCRIPTION) or None


def _speaks(line: str, parse: Callable[[str], object]) -> bool:
    if not re.search(r"\w", line) or _HEADER.match(line) or _DISABLED_SETTING.match(line):
        return False
    return not _is_disabled_entry(line, parse)


def _is_disabled_entry(line: str, parse: Callable[[str], object]) -> bool:
    words = line.split()
    times = 1 if line.startswith("@") else 5
    if len(words) <= times:
        return False
    try:
        parse(" ".join(words[:times]))
    except ValueError:
        return words[0] == "@reboot"
    return True
