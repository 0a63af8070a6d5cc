"""Telling a user's crontab from a system one, for files that are named without saying which."""

import re
from collections.abc import Callable, Collection
from pathlib import PurePosixPath

from .reader import Entry, read_crontab
from .source import CrontabKind

#: Accounts that are no commands; `mail` and `backup` could be either.
_ACCOUNTS = frozenset({"root", "daemon", "nobody", "www-data", "postgres"})

_LEGEND_WITH_USER = re.compile(
    r"^[ \t]*#.*(\bdow[ \t]+user|\buser(-?name)?[ \t]+command)\b", re.MULTILINE
)


def guess_kind(name: str, text: str) -> CrontabKind:
    r"""Tell by its path, else by its text, which kind of crontab a file is.

    >>> guess_kind("/etc/cron.d/sysstat", "")
    <CrontabKind.SYSTEM: 'system'>
    >>> guess_kind("mine.txt", "0 5 * * * tar -czf /backup/home.tgz /home\n")
    <CrontabKind.USER: 'user'>
    >>> guess_kind("theirs.txt", "0 5 * * * root tar -czf /backup/home.tgz /home\n")
    <CrontabKind.SYSTEM: 'system'>
    """
    path = PurePosixPath(name)
    if path.parent.name == "cron.d" or path.parts[-2:] == ("etc", "crontab"):
        return CrontabKind.SYSTEM
    if "/spool/cron" in str(path.parent):
        return CrontabKind.USER
    has_users = _LEGEND_WITH_USER.search(text) is not None or _all_name_an_account(text)
    return CrontabKind.SYSTEM if has_users else CrontabKind.USER


def _all_name_an_account(text: str) -> bool:
    lines = read_crontab(text, CrontabKind.SYSTEM)
    entries = [line for line in lines if isinstance(line, Entry)]
    return bool(entries) and all(entry.user in _ACCOUNTS for entry in entries)


def accounts_in(
    text: str, known: Collection[str], find_program: Callable[[str], str | None]
) -> tuple[str, ...]:
    r"""Name the first words of commands that are accounts, and no programs: a user column?

    >>> accounts_in("0 5 * * * backup tar -cf x\n0 6 * * * ls\n", {"backup"}, lambda name: None)
    ('backup',)
    """
    lines = read_crontab(text, CrontabKind.SYSTEM)
    words = {line.user for line in lines if isinstance(line, Entry) and line.user}
    accounts = words & {*known, *_ACCOUNTS}
    return tuple(sorted(name for name in accounts if find_program(name) is None))
