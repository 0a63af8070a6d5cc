"""A crontab entry as the task and the schedule that it becomes in a jobs file."""

from collections.abc import Mapping

import attrs

from cronhare.adapters.toml_writing import Value, write_comment, write_table


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
