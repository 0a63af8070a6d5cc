"""Reading the lines of a crontab as Debian's cron does: crontab(5), entry.c and env.c of 3.0pl1."""

import enum
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import PurePosixPath

import attrs

from cronhare.domain.cron import CronExpression

ROOT = "root"


class CrontabKind(enum.Enum):
    """Whose table it is, which decides whether a user column follows the time fields."""

    USER = "user"  # `crontab -l`, /var/spool/cron/crontabs/NAME
    SYSTEM = "system"  # /etc/crontab, /etc/cron.d/NAME


@attrs.frozen(kw_only=True)
class Crontab:
    """A crontab as its file holds it. *name* is the file's path, as the reports will print it."""

    name: str
    text: str
    kind: CrontabKind

    @property
    def owner(self) -> str | None:
        path = PurePosixPath(self.name)
        spooled = self.kind is CrontabKind.USER and "/spool/cron" in str(path.parent)
        return path.name if spooled else None

    @property
    def ignored_by_cron(self) -> bool:
        """Whether cron passes over a file of cron.d for its name, as it does with `php.dpkg-old`.

        Source: cron(8) of Debian, "DEBIAN SPECIFIC".
        """
        path = PurePosixPath(self.name)
        return path.parent.name == "cron.d" and not re.fullmatch(r"[A-Za-z0-9_-]+", path.name)


@attrs.frozen(kw_only=True)
class Host:
    """What the crontabs leave unsaid about the machine that ran them, and the one that will.

    *run_as* is the worker's user; *timezone* the host's zone and *home* the home folder of
    *run_as*, None where unknown; *homes* are those of the others. *timeout* is written into every
    task, because cron knows none and the default of an hour could end what used to run for longer.
    """

    run_as: str
    homes: Mapping[str, str] = attrs.field(factory=dict[str, str])
    timezone: str | None = None
    home: str | None = None
    timeout: str | None = "24h"

    def other(self, user: str | None) -> str | None:
        """Whom a job has to name as its user, because the worker is another; None if it is not."""
        return None if user in {None, self.run_as} else user

    def home_of(self, user: str | None) -> str | None:
        return self.home if user is None else self.homes.get(user)


def parse_usable(text: str) -> CronExpression:
    """Parse a cron expression, and refuse what no schedule may have because it never fires.

    Raises:
        ValueError: with the reason.
    """
    expression = CronExpression.parse(text)
    if not expression.fires:
        raise ValueError(f"it never fires: {expression.why_never}")
    return expression


class Verdict(enum.Enum):
    """What has become of a line."""

    CARRIED = "carried"
    CHANGED = "changed"  # carried, but it will not behave as it did
    LEFT_OUT = "left out"


@attrs.frozen(kw_only=True)
class Finding:
    """One line of a crontab and its verdict.

    *job* is the name that an entry was given; None for settings and for what was left out.
    *reasons* are sentences without a full stop, empty for a line that is simply carried.
    """

    file: str
    line: int
    text: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    job: str | None = None


@attrs.frozen(kw_only=True)
class Imported:
    """A jobs file, and how it came about.

    *findings* holds one for every line that is an entry, a setting or cannot be read, and for each
    entry that is commented out, in order; *notes* are sentences that hold for the whole of it.
    """

    text: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


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
#: The last line of the comment that Debian puts above the first entry.
_TEMPLATE = re.compile(r"m +h +dom\b.*|.* command to be executed")

#: NUL, and the lone surrogates that stand for bytes that are not UTF-8.
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")

_DASH = "a leading '-' belongs to other cron daemons: remove it"
_NO_NEWLINE = "the last line has no newline, for which Debian's cron refuses the file; here it runs"
_CARRIAGE_RETURN = "the carriage return at the end of the line is dropped"
_COMMENTED_OUT = "it is commented out"
_BACKSLASHES = r"'\\' is read as one backslash, as Debian's cron does; cronie keeps both"


def read_crontab(text: str, kind: CrontabKind) -> tuple[Line, ...]:
    return tuple(_lines(text.removeprefix("\ufeff"), kind))


def _lines(text: str, kind: CrontabKind) -> Iterator[Line]:
    comment: list[str] = []
    raw_lines = text.split("\n")
    for number, raw in enumerate(raw_lines, start=1):
        stripped = raw.removesuffix("\r").lstrip(" \t")
        if stripped.startswith("#"):
            said = _NOT_TEXT.sub("\ufffd", stripped.lstrip("#").strip())
            if _TEMPLATE.fullmatch(said):
                comment.clear()
            elif is_entry(said, kind):
                comment.clear()
                yield Unreadable(line=number, text=stripped.rstrip(), reason=_COMMENTED_OUT)
            else:
                comment.append(said)
            continue
        if stripped.strip():
            line = _active_line(stripped, number, kind)
            if isinstance(line, Entry):
                endings = [_CARRIAGE_RETURN] if raw.endswith("\r") else []
                endings += [_NO_NEWLINE] if number == len(raw_lines) else []
                oddities = (*line.oddities, *endings)
                line = attrs.evolve(line, comment=tuple(comment), oddities=oddities)
            yield line
        comment.clear()


def _active_line(text: str, number: int, kind: CrontabKind) -> Line:
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


def is_entry(text: str, kind: CrontabKind) -> bool:
    line = _entry(text, 0, kind)
    try:
        return isinstance(line, Entry) and (line.when == "@reboot" or bool(parse_usable(line.when)))
    except ValueError:
        return False


def _foreign(minute: str, user: str | None, command: str) -> str | None:
    if minute.startswith("-"):
        return f"minute {minute!r}: {_DASH}"
    if user is not None and user.startswith("-"):
        return f"user {user!r}: {_DASH}"
    if command.startswith("*"):
        return "a command cannot begin with '*': is this a sixth time field?"
    return None


_IN_COMMAND = re.compile(r"\\(.?)|(%)", re.DOTALL)
_IN_INPUT = re.compile(r"\\%|%")


def split_command(text: str) -> tuple[str, str | None]:
    r"""Part what the shell is given from what the command reads; None if nothing is said of that.

    As in Debian's do_command.c: in the command `\%` gives `%` and `\\` gives one backslash; in
    the input `\%` gives `%` and every other backslash stays; input ends with a newline.
    """
    command: list[str] = []
    end = 0
    for found in _IN_COMMAND.finditer(text):
        command.append(text[end : found.start()])
        end = found.end()
        if found[2]:
            lines = _IN_INPUT.sub(lambda found: "\n" if found[0] == "%" else "%", text[end:])
            return "".join(command), lines if lines[-1:] in {"", "\n"} else f"{lines}\n"
        command.append(found[1] if found[1] in {"%", "\\"} else found[0])
    return "".join(command) + text[end:], None


def as_argv(command: str, stdin: str | None, shell: str) -> tuple[str, ...]:
    r"""Give the argument list that runs *command* in *shell* with *stdin* to read.

    The command stays one quoted word: put between `{` and `}` it would break by ending in `&`
    or in a comment, and a pipe is not written alike in every shell.
    """
    if stdin is None:
        return (shell, "-c", command)
    run = f"exec {shlex.quote(shell)} -c {shlex.quote(command)}"
    if not stdin:
        return ("/bin/sh", "-c", f"{run} </dev/null")
    lines = " ".join(shlex.quote(line) for line in stdin.removesuffix("\n").split("\n"))
    return ("/bin/sh", "-c", f"printf '%s\\n' {lines} | {run}")


#: Accounts that are no commands; `mail` and `backup` could be either.
_ACCOUNTS = frozenset({"root", "daemon", "nobody", "www-data", "postgres"})


def guess_kind(name: str, text: str) -> CrontabKind:
    path = PurePosixPath(name)
    if path.parent.name == "cron.d" or path.parts[-2:] == ("etc", "crontab"):
        return CrontabKind.SYSTEM
    if "/spool/cron" in str(path.parent):
        return CrontabKind.USER
    users = _words_for_users(text)
    return CrontabKind.SYSTEM if users and users <= _ACCOUNTS else CrontabKind.USER


def _words_for_users(text: str) -> set[str]:
    lines = read_crontab(text, CrontabKind.SYSTEM)
    return {line.user for line in lines if isinstance(line, Entry) and line.user}


def accounts_in(
    text: str, known: Collection[str], find_program: Callable[[str], str | None]
) -> tuple[str, ...]:
    r"""Name the first words of commands that are accounts, and no programs: a user column?"""
    accounts = _words_for_users(text) & {*known, *_ACCOUNTS}
    return tuple(sorted(name for name in accounts if find_program(name) is None))
