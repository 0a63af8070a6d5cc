"""Reading the lines of a crontab as Debian's cron does: crontab(5), entry.c and env.c of 3.0pl1."""

import re
from collections.abc import Iterator

import attrs

from cronhare.domain.texts.printable import shortened

from .percent import split_command
from .source import CrontabKind


@attrs.frozen(kw_only=True)
class Setting:
    """A line `NAME=value`. It holds for the entries below it."""

    line: int
    text: str
    name: str
    value: str


@attrs.frozen(kw_only=True)
class Entry:
    """A line that says when to run what.

    *when* holds the five fields, or a word such as `@daily`, as written and not yet judged.
    *command* is what the shell is given; *stdin* what the command is given to read, None if the
    line has no `%`. *comment* holds the comment lines directly above, *oddities* what a reader
    of the line may want to know.
    """

    line: int
    text: str
    when: str
    user: str | None
    command: str
    stdin: str | None = None
    comment: tuple[str, ...] = ()
    oddities: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Unreadable:
    """A line that is neither, with the reason."""

    line: int
    text: str
    reason: str


Line = Setting | Entry | Unreadable

_SETTING = re.compile(
    r"""(?: "(?P<name2>[^"=]+)" | '(?P<name1>[^'=]+)' | (?P<name>[^\s="'][^\s=]*) )
        \s* = \s*
        (?: "(?P<value2>[^"]*)" | '(?P<value1>[^']*)' | (?P<value>(?!["']).*) )
        \s*""",
    re.VERBOSE,
)
#: So many characters of a line are read, and of a comment; cron itself reads a thousand.
LONGEST_LINE, LONGEST_COMMENT = 16_384, 1_000

#: NUL, and the lone surrogates that stand for bytes that are not UTF-8.
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")
_FLAG = re.compile(r"-[a-z]+\s")

_DASH = "a leading '-' belongs to other cron daemons: remove it"
_NO_NEWLINE = "the last line has no newline, for which Debian's cron refuses the file; here it runs"
_CARRIAGE_RETURN = "the carriage return at the end of the line is dropped"
_BACKSLASHES = r"'\\' is read as one backslash, as Debian's cron does; cronie keeps both"


def read_crontab(text: str, kind: CrontabKind) -> tuple[Line, ...]:
    """Read every line of a crontab that is neither blank nor a comment, in order."""
    return tuple(_lines(text.removeprefix("\ufeff"), kind))


def _lines(text: str, kind: CrontabKind) -> Iterator[Line]:
    comment: list[str] = []
    raw_lines = text.split("\n")
    for number, raw in enumerate(raw_lines, start=1):
        stripped = raw.removesuffix("\r").lstrip(" \t")
        if stripped.startswith("#"):
            said = stripped[:LONGEST_COMMENT].lstrip("#").strip()
            comment.append(_NOT_TEXT.sub("\ufffd", said))
            continue
        if stripped.strip():
            line = _active_line(stripped, number, kind)
            unended = number == len(raw_lines)
            yield _in_context(line, comment, raw, unended=unended)
        comment.clear()


def _in_context(line: Line, comment: list[str], raw: str, *, unended: bool) -> Line:
    """Add to an entry what only its surroundings in the file tell."""
    if not isinstance(line, Entry):
        return line
    endings = {_CARRIAGE_RETURN: raw.endswith("\r"), _NO_NEWLINE: unended}
    oddities = (*line.oddities, *(oddity for oddity, true in endings.items() if true))
    return attrs.evolve(line, comment=tuple(comment), oddities=oddities)


def _active_line(text: str, number: int, kind: CrontabKind) -> Line:
    if len(text) > LONGEST_LINE:
        reason = f"the line has {len(text)} characters; {LONGEST_LINE} are read"
        return Unreadable(line=number, text=shortened(text, LONGEST_COMMENT), reason=reason)
    if _NOT_TEXT.search(text):
        shown = _NOT_TEXT.sub("\ufffd", text)
        reason = "the line holds a NUL or bytes that are not UTF-8"
        return Unreadable(line=number, text=shown, reason=reason)
    if setting := _SETTING.fullmatch(text):
        found = setting.groupdict("")
        name = found["name"] or found["name1"] or found["name2"]
        value = found["value"].rstrip() or found["value1"] or found["value2"]
        return Setting(line=number, text=text, name=name, value=value)
    return _entry(text, number, kind)


def _entry(text: str, number: int, kind: CrontabKind) -> Entry | Unreadable:
    times = 1 if text.startswith("@") else 5
    before_command = times + (kind is CrontabKind.SYSTEM)
    parts = re.split(r"[ \t]+", text, maxsplit=before_command)
    if len(parts) <= before_command or not parts[-1].strip():
        wanted = (
            "a time, a user and a command" if before_command > times else "a time and a command"
        )
        reason = f"{wanted} are expected, and the line ends before that"
        return Unreadable(line=number, text=text, reason=reason)
    user = parts[times] if kind is CrontabKind.SYSTEM else None
    if foreign := _foreign(parts[0], user, parts[-1]):
        return Unreadable(line=number, text=text, reason=foreign)
    command, stdin = split_command(parts[-1])
    return Entry(
        line=number,
        text=text,
        when=" ".join(parts[:times]),
        user=user,
        command=command,
        stdin=stdin,
        oddities=(_BACKSLASHES,) if r"\\" in parts[-1] else (),
    )


def _foreign(minute: str, user: str | None, command: str) -> str | None:
    """Tell what of an entry only other daemons understand, if anything."""
    if minute.startswith("-"):
        return f"minute {minute!r}: {_DASH}"
    if user is not None and user.startswith("-"):
        return f"user {user!r}: {_DASH}"
    if flag := _FLAG.match(command):
        return f"the flag {flag.group().strip()!r} before the command belongs to other cron daemons"
    if command.startswith("*"):
        return "a command cannot begin with '*': is this a sixth time field?"
    return None
