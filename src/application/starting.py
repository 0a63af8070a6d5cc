"""Commands that a person can type as they are printed."""

import shlex
from collections.abc import Iterable
from typing import Final

from cronhare.domain.schedules.keys import is_standalone, schedule_on

#: What keeps running whatever stays alive and is its own.
UP_WITH_ITS_TASK: Final = "`cronhare up` with its task in the jobs file"

_ADD_TO_ANOTHER: Final = (
    "add it to CRON_QUEUES of one that runs (`cronhare up` serves those of its own jobs file)"
)


def serve(queues: Iterable[str], jobs: str | None) -> str:
    """Say what serves *queues*: that of a schedule which stays alive is in no `CRON_QUEUES`.

    *jobs* are the options that name the file, or app, of their tasks, if these are known.

    >>> serve(["mails", "reports"], "--jobs '/etc/cron hare.toml'")[:74]
    "`cronhare worker --jobs '/etc/cron hare.toml' --queues mails,reports`, or "
    >>> serve(["cron_standalone.pump"], None)[:76]
    '`cronhare worker --jobs JOBS.TOML --standalone pump`, or `cronhare up` with '
    """
    names, ways = list(queues), list[str]()
    own = [schedule_on(name) or "NAME" for name in names if is_standalone(name)]  # or a hash
    if shared := ",".join(shlex.quote(name) for name in names if not is_standalone(name)):
        worker = f"cronhare worker {_given(jobs)} --queues {shared}"
        ways.append(f"`{worker}`, or {_ADD_TO_ANOTHER}")
    if own:
        ways.append(f"`{start_standalone(own, jobs)}`, or {UP_WITH_ITS_TASK}")
    return "; ".join(ways)


def start_standalone(schedules: Iterable[str], jobs: str | None) -> str:
    """Give the commands that serve schedules with `stay_alive`, each by a worker of its own.

    >>> start_standalone(["mail-pump"], None)
    'cronhare worker --jobs JOBS.TOML --standalone mail-pump'
    """
    begin = f"cronhare worker {_given(jobs)} --standalone"
    return "; ".join(f"{begin} {shlex.quote(name)}" for name in schedules)


def keeps_alive(schedule: str) -> str:
    """Say what keeps a schedule with `stay_alive` running.

    >>> keeps_alive("mail-pump")[:55]
    '`cronhare up` with its task in the jobs file, or, where'
    """
    own = start_standalone([schedule], None)
    return f"{UP_WITH_ITS_TASK}, or, where the broker is a server, `{own}`"


def start_up(jobs: str | None) -> str:
    """Give the command that is all of it on one machine, with the options *jobs*, if known.

    >>> start_up("--app shop.jobs:app")
    'cronhare up --app shop.jobs:app'
    """
    return f"cronhare up {_given(jobs)}"


def have_up_serve(queues: Iterable[str]) -> str:
    """Say what has a `cronhare up` that runs serve *queues*: none of what stays alive is named so.

    >>> have_up_serve(["mails"])
    'add a schedule on that queue to its jobs file'
    >>> have_up_serve(["cron_standalone.mail-pump"])
    'add the task to its jobs file'
    """
    alive = {is_standalone(name) for name in queues}
    shared = ["add a schedule on that queue to its jobs file"] if False in alive else []
    own = ["add the task to its jobs file"] if True in alive else []
    return " or ".join([*shared, *own])


def serve_missing(queue: str, *, in_memory: bool) -> str:
    """Say, in a log, what serves a queue that is not there; *in_memory* says where the broker is.

    >>> serve_missing("mails", in_memory=False)
    'start a worker with --queues mails (CRON_QUEUES)'
    >>> serve_missing("mails", in_memory=True)  # where no worker can be started
    'stop `cronhare up`, add a schedule on that queue to its jobs file, and start it again'
    """
    if in_memory:
        return f"stop `cronhare up`, {have_up_serve([queue])}, and start it again"
    return f"start a worker with --queues {queue} (CRON_QUEUES)"


def start_scheduling(jobs: str | None, *, in_memory: bool) -> str:
    """Say what claims, and takes up what was lost; *in_memory* says where the broker is.

    >>> start_scheduling("--jobs jobs.toml", in_memory=False)
    '`cronhare scheduler`, or `cronhare up` on one machine'
    >>> start_scheduling("--jobs jobs.toml", in_memory=True)  # which a scheduler refuses
    '`cronhare up --jobs jobs.toml`'
    """
    if in_memory:
        return f"`{start_up(jobs)}`"
    return "`cronhare scheduler`, or `cronhare up` on one machine"


def _given(jobs: str | None) -> str:
    return jobs or "--jobs JOBS.TOML"
