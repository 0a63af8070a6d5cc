"""How a job behaves otherwise here than under cron: for one entry, and for all of them."""

import re

from cronhare.domain.schedules.task import USER_NAME
from cronhare.domain.schedules.unseen import is_unseen, names_unseen

from .job import Job
from .reader import Entry
from .source import ROOT, Crontab, Host

#: Whom the units run as, unless they were asked for another.
UNITS_USER = "cronhare"

_STDIN = "the text after '%' is piped into the command"
_BOTH_DAYS = (
    "it runs when either day field matches; Debian's cron wants both where one begins with '*'"
)
_UNITS = (
    "the units of `cronhare service install` run as cronhare, become no other user and see no "
    "home: for jobs of another user, or with a home, docs/howto/from-cron.md has what they need "
    "besides"
)
_IGNORED_FILE = "cron passes over this file for its name: disabled, so that nothing new starts"


def why_dormant(crontab: Crontab, user: str | None, host: Host) -> tuple[str, ...]:
    """Tell why an entry is carried disabled: what cron would not do, an import must not begin.

    *user* is whom cron runs it as, if that is not the worker's user.
    """
    reasons = (_IGNORED_FILE,) if crontab.ignored_by_cron else ()
    if user is not None and not re.fullmatch(USER_NAME, user):
        return (
            *reasons,
            f"cron runs it as {user!r}, which is no name that a task may have: disabled",
        )
    if user is not None and host.run_as != ROOT:
        stranger = (
            f"cron runs it as {user}; the worker runs as {host.run_as}, and only root's may become "
            "another user: disabled"
        )
        return (*reasons, stranger)
    return reasons


def list_changes(entry: Entry) -> tuple[str, ...]:
    """Say what an entry does otherwise than it did."""
    stdin = (_STDIN,) if entry.stdin is not None else ()
    days = (_BOTH_DAYS,) if _reads_both_days_otherwise(entry.when) else ()
    return (*stdin, *days, *entry.oddities)


def _reads_both_days_otherwise(when: str) -> bool:
    """Whether Debian's star rule, which looks at a field's first character, gives other days."""
    if when.startswith("@"):
        return False
    _, _, day_of_month, _, day_of_week = when.split()
    days = (day_of_month, day_of_week)
    return not {"*", "?"} & set(days) and any(day.startswith("*") for day in days)


def list_notes(jobs: list[Job], host: Host) -> tuple[str, ...]:
    """Tell how cronhare differs from cron for all of the jobs at once."""
    if not jobs:
        return ()
    at_boot = any(job.when is None for job in jobs)
    in_utc = any(job.when is not None and job.timezone is None for job in jobs)
    ours = f"jobs without a user run as the worker's, which is taken to be {host.run_as}"
    beyond_units = any(_is_beyond_units(job, host) for job in jobs)
    notes = {
        f"{ours} (otherwise: --run-as)": any(job.user is None for job in jobs),
        _UNITS: beyond_units,
        "runs that were missed are caught up by one; cron drops them": True,
        "@reboot jobs run once per boot of each host that has a worker with this file": at_boot,
        "commands read their parameters, {}, from standard input; cron leaves it empty": True,
        "the host's zone is unknown: schedules without a timezone run in UTC": in_utc,
        "commands start in the jobs file's folder; cron starts them in the user's home": any(
            job.cwd is None for job in jobs
        ),
        "where no PATH is set, the worker's holds; cron's own is /usr/bin:/bin": any(
            "PATH" not in job.env for job in jobs
        ),
        f"a run is ended after {host.timeout}; cron lets it go on": host.timeout is not None,
    }
    return tuple(note for note, holds in notes.items() if holds)


def _is_beyond_units(job: Job, host: Host) -> bool:
    """Tell whether a job runs as somebody else, or looks into a home."""
    if job.user is not None or host.run_as != UNITS_USER:
        return True
    return is_unseen(job.cwd or "/") or any(map(names_unseen, job.command))
