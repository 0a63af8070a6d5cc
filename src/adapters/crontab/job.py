"""A crontab entry as the task and the schedule that it becomes in a jobs file, and their name."""

import re
from collections.abc import Mapping
from itertools import count
from pathlib import PurePosixPath

import attrs

from cronhare.adapters.toml_writing import Value, write_comment, write_table

LONGEST_NAME = 63

#: What the shell puts in its place, and whom sudo runs something as.
_SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]*`|\bsudo\s+-u\s+\S+")
#: Commands that only prepare or guard the one that counts.
_GUARD = re.compile(r"\[\[?|test|cd|command|sleep|umask|ulimit|\.|source|export|set|true|false")
#: Words that go before the one that counts: keywords, assignments, options, numbers, locks, and
#: programs that run another one.
_BEFORE = re.compile(
    r"if|then|el(se|if)|fi|while|until|do|done|[!{}$]|exec|eval|time|\w+=.*|[-\d].*|.*\.lock"
    r"|(.*/)?((io)?nice|chronic|env|flock|nohup|setsid|sudo|timeout|chrt|taskset"
    r"|(ba|da|k|z)?sh|python[\d.]*|perl|ruby|php[\d.]*|node|run-parts)"
)
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
            "overlap": None if self.when is None else "skip",  # one that hangs blocks no other
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

    Quotation marks are passed over: what a shell is given is a command as well.
    """
    for part in re.split(r"[;&|()]+", _SUBSTITUTION.sub("$", command)):
        words = (word.strip("'\"") for word in part.split())
        word = next((word for word in words if word and not _BEFORE.fullmatch(word)), "")
        if word and not _GUARD.fullmatch(word):
            file = PurePosixPath(word)
            return file.stem if file.suffix in _SCRIPT_SUFFIXES else file.name
    return "command"


def clean_name(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower())[:LONGEST_NAME].strip("-._") or "command"


def make_unique(name: str, taken: set[str]) -> str:
    """Give *name*, or the first of name-2, name-3, … that is not taken, and take it."""
    numbered = (f"{name[: LONGEST_NAME - len(f'-{n}')]}-{n}" for n in count(2))
    unique = name if name not in taken else next(each for each in numbered if each not in taken)
    taken.add(unique)
    return unique
