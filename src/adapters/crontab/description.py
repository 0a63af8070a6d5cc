"""Turning the comment above an entry into its description."""

import re
from collections.abc import Iterable

from cronhare.domain.texts.printable import shortened

from .source import parse_usable

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


def describe(comment: Iterable[str]) -> str | None:
    """Make one paragraph of a comment block, without what does not speak of the entry.

    Left out: the column titles with all that stands above them (there cron's own templates
    explain the file), file headers, rulers, and lines that were commented out.

    >>> describe(["Weekly,", "on Sunday", "----"])
    'Weekly, on Sunday'
    """
    about_entry: list[str] = []
    for line in comment:
        if _LEGEND.match(line):
            about_entry.clear()
        elif _speaks(line):
            about_entry.append(line)
    return shortened(" ".join(about_entry).rstrip(":"), LONGEST_DESCRIPTION) or None


def _speaks(line: str) -> bool:
    if not re.search(r"\w", line) or _HEADER.match(line) or _DISABLED_SETTING.match(line):
        return False
    return not _is_disabled_entry(line)


def _is_disabled_entry(line: str) -> bool:
    words = line.split()
    times = 1 if line.startswith("@") else 5
    if len(words) <= times:
        return False
    try:
        parse_usable(" ".join(words[:times]))
    except ValueError:
        return words[0] == "@reboot"
    return True
