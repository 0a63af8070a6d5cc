"""A crontab entry as the task and the schedule that it becomes in a jobs file, and their name."""

import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from pathlib import PurePosixPath

import attrs

from cronhare.adapters.toml_writing import Value, write_comment, write_table

LONGEST_NAME = 63

#: What a command is named after is among its first words.
MOST_WORDS = 256

_SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]*`")
_ASSIGNMENT = re.compile(r"\w+=")

#: Words before a command that are not the command.
_KEYWORD = re.compile(r"if|then|el(se|if)|fi|while|until|do|done|[!{}]|exec|eval|time")
#: Commands that only prepare or guard the one that counts.
_GUARD = re.compile(r"\[\[?|test|cd|command|sleep|umask|ulimit|\.|source|export|set|true|false")
#: Programs that run another one, which follows their options.
_WRAPPER = re.compile(r"(io)?nice|chronic|env|flock|nohup|setsid|sudo|timeout|chrt|taskset")
#: Programs whose first argument says more than they do.
_SHELL = re.compile(r"(ba|da|k|z)?sh")
_INTERPRETER = re.compile(rf"{_SHELL.pattern}|python[\d.]*|perl|ruby|php[\d.]*|node|run-parts")
_INLINE_CODE = frozenset({"-c", "-e", "-r"})
_SCRIPT_SUFFIXES = frozenset({".sh", ".py", ".pl", ".rb", ".php", ".js"})


@attrs.frozen(kw_only=True)
class Job:
    """A task with its one schedule, of the same name.

    *user* is whom it runs as, None for the worker's own. *when* is a cron expression, None for a
    run at the start. *timeout* is text such as `24h`. *remarks* are written above it. *notify*
    names who is told of a failure.
    """

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    user: str | None
    timeout: str | None
    when: str | None
    timezone: str | None
    enabled: bool
    description: str | None
    remarks: tuple[str, ...]
    notify: str | None = None

    def __str__(self) -> str:
        """Write it as a piece of a jobs file."""
        task: dict[str, Value | None] = {
            "type": "worker",
            "command": self.command,
            "timeout": self.timeout,
            "cwd": self.cwd,
            "user": self.user,
            "env": self.env or None,
        }
        schedule: dict[str, Value | None] = {
            "task": self.name,
            "schedule": self.when,
            "on_boot": True if self.when is None else None,
            "timezone": None if self.when is None else self.timezone,
            "status": None if self.enabled else False,
            "description": self.description,
            "retry": {"attempts": 1},  # cron tries once
            "notify": None if self.notify is None else [self.notify],
        }
        remarks = "".join(f"{write_comment(remark)}\n" for remark in self.remarks)
        return (
            f"{remarks}{write_table(('tasks', self.name), task)}\n\n"
            f"{write_table(('schedules', self.name), schedule)}\n"
        )


def name_command(command: str) -> str:
    """Name the program of a shell command; `command` if none can be made out.

    >>> name_command("test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }")
    'cron.daily'
    >>> name_command("cd /srv/shop && nice -n 10 .venv/bin/python3 -m shop.report >/dev/null 2>&1")
    'shop.report'
    """
    names = (_name_words(words) for words in _simple_commands(command))
    return next((name for name in names if name), "command")


def clean_name(text: str) -> str:
    """Make a name that a jobs file allows.

    >>> clean_name("Nächtliches Backup.sh")
    'n-chtliches-backup.sh'
    """
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower())[:LONGEST_NAME].strip("-._") or "command"


def make_unique(name: str, taken: dict[str, int]) -> str:
    """Give *name*, or the first of name-2, name-3, … that is not taken, and take it.

    *taken* holds with each name how far its numbers were tried: none is tried twice.
    """
    unique, count = name, taken.get(name, 1)
    while unique in taken:
        count += 1
        unique = f"{name[: LONGEST_NAME - len(f'-{count}')]}-{count}"
    taken[unique] = 1
    taken[name] = count
    return unique


def _simple_commands(command: str) -> Iterator[list[str]]:
    """Part a shell command at its operators; what the shell would refuse has no parts."""
    lexer = shlex.shlex(_SUBSTITUTION.sub("$", command), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for token in islice(lexer, MOST_WORDS):
            if set(token) <= set(";&|()"):
                yield words
                words = []
            else:
                words.append(token)
    except ValueError:  # a quotation without an end
        return
    yield words


def _name_words(words: list[str]) -> str | None:
    rest = _without_prefix(words)
    while rest and _WRAPPER.fullmatch(_file_name(rest[0])):
        rest = _without_prefix(_after_options(rest[1:]))
    if not rest or _GUARD.fullmatch(rest[0]):
        return None
    program = _file_name(rest[0])
    if _INTERPRETER.fullmatch(program):
        return _name_script(program, rest[1:])
    return program


def _without_prefix(words: list[str]) -> list[str]:
    for index, word in enumerate(words):
        if not _KEYWORD.fullmatch(word) and not _ASSIGNMENT.match(word):
            return words[index:]
    return []


def _after_options(words: list[str]) -> list[str]:
    """Drop a wrapper's options, and the user, number, lock or duration that some want with them."""
    for before, (index, word) in zip(["", *words], enumerate(words), strict=False):
        if before not in {"-u", "-g"} and not re.match(r"-|\d|/(run|var|tmp)/", word):
            return words[index:]
    return []


def _name_script(program: str, words: list[str]) -> str | None:
    """Name the script, the module or a shell's one-liner that an interpreter is given."""
    for word, following in pairwise([*words, ""]):
        if word == "-m":
            return following or None
        if _SHELL.fullmatch(program) and re.fullmatch(r"-\w*c", word):
            return name_command(following)
        if word in _INLINE_CODE:
            return None
        if not word.startswith("-"):
            return _file_name(word)
    return program


def _file_name(path: str) -> str:
    file = PurePosixPath(path)
    return file.stem if file.suffix in _SCRIPT_SUFFIXES else file.name
