"""The jobs of an arena: what is due every minute, and what ends only when it may."""

import os
from datetime import datetime
from pathlib import Path

SCHEDULES = 20
MARK = "FAULTS_MARK"

#: Where the tasks are functions, the executor that runs them.
EXECUTOR = "FAULTS_EXECUTOR"

#: Writes down that it began, works a little, and fails on its first attempt every third time, also
#: where a cluster of three gives each node every third number.
TASK = """\
echo "$CRON_EXECUTION_ID $CRON_ATTEMPT" >> "$EFFECTS"
sleep 0.{tenths}
[ "$CRON_ATTEMPT" -gt 1 ] || [ $(((CRON_EXECUTION_ID + CRON_EXECUTION_ID / 3) % 3)) -ne 0 ]
"""

#: Two groups whose first attempts end when they are let go, the one sooner than the other.
EARLY, LATE = GROUPS = "early", "late"
HELD_TASK = """\
echo "$CRON_EXECUTION_ID $CRON_ATTEMPT" >> "$EFFECTS"
[ "$CRON_ATTEMPT" -gt 1 ] || while [ -e "{hold}" ]; do sleep 0.2; done
"""

#: What runs when we say so, by hand, or made due as another schedule.
YEARLY = "0 0 1 1 *"


def once_a_year(minute: datetime) -> str:
    """Write the expression of what is due at *minute*, and not again while we look."""
    return f"{minute.minute} {minute.hour} {minute.day} {minute.month} *"


def jobs(*, effects: Path, mark: str, holds: Path) -> str:
    """Write the jobs file: the tasks' own record is *effects*; in *holds* are their holds."""
    every_minute = [
        (f"s{n}", n, TASK.format(tenths=n % 10), "* * * * *") for n in range(1, SCHEDULES + 1)
    ]
    held = [
        (name, 100 + n, HELD_TASK.format(hold=hold(holds, name)), YEARLY)
        for n, name in enumerate(GROUPS)
    ]
    env = f'{{ EFFECTS = "{effects}", {MARK} = "{mark}" }}'
    return "\n".join(_job(*each, env=env) for each in every_minute + held)


def hold(folder: Path, name: str) -> Path:
    """Name the file that keeps a group from ending while it is there."""
    return folder / f"{name}.hold"


def _job(name: str, id_: int, script: str, schedule: str, *, env: str) -> str:
    work = f"env = {env}\ncommand = [\"/bin/sh\", \"-c\", '''\n{script}''']\n"
    if executor := os.environ.get(EXECUTOR):
        work = f'python = "tests.faults.app:app"\nexecutor = "{executor}"\n'
    return (
        f"[tasks.{name}]\nid = {id_}\n{work}"
        f'[schedules.{name}]\ntask = "{name}"\nschedule = "{schedule}"\n'
        'retry = { attempts = 8, backoff = { type = "fixed", delay = 1000 } }\n'
    )
