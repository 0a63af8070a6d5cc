"""Schedules of each second or two that meet limits of every kind, for so many seconds."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import attrs

from cronhare.domain.schedules.schedule import OverlapPolicy

SECOND = timedelta(seconds=1)

#: Runs at a time, by their keys.
LIMITS = {"one": 1, "two": 2, "five": 5}

#: The queues of the workers; retries have a budget for each.
QUEUES = "cron_scheduler:3,spare:1"

#: Fails while its switch is there: so its circuit breaker opens, and closes later.
BROKEN = "broken"

#: Whose first attempts fail, more of them than the budget has retries.
COSTLY = "costly"

#: Shuts for all of the time, and for none of it.
SHUT, OPEN = "shut", "open"

#: Writes down when it begins and ends: what is killed has no end. Its record and its switch are
#: found by the environment.
TASK = """\
say() {{ echo "$EPOCHREALTIME $1 {name} $CRON_EXECUTION_ID $CRON_ATTEMPT" >> "$RECORD"; }}
say begins
sleep {seconds}
{fails}
say ends
"""
FAILS_AT_FIRST = '[ "$CRON_ATTEMPT" -gt 1 ] || { say ends; exit 1; }'
FAILS_WHILE_BROKEN = '[ ! -e "$RECORD.broken" ] || { say ends; exit 1; }'

CALENDARS = """
[calendars.always]
days = ["Mon-Sun"]

[calendars.never]
days = ["02-29"]
"""


@attrs.frozen(kw_only=True)
class Job:
    """A schedule and its task; *rule* is what limits it, as its table says it."""

    name: str
    every: int
    seconds: float
    rule: str = ""
    fails: str = ":"
    key: str | None = None
    alone: bool = False
    shut: bool = False

    @property
    def step(self) -> timedelta:
        return self.every * SECOND


def all_jobs() -> tuple[Job, ...]:
    """Name the jobs: with keys, with each overlap policy, with calendars, and those that fail."""
    return (*_with_keys(), *_overlapping(), *_by_calendars(), *_failing())


def _with_keys() -> Iterator[Job]:
    for key, limit in LIMITS.items():
        rule = f'concurrency = {{ key = "{key}", limit = {limit} }}'
        for n in range(limit + 1):
            name = f"{key}-{n}"
            yield Job(name=name, every=2, seconds=1.2 + n / 10, rule=rule, key=key)


def _overlapping() -> Iterator[Job]:
    for policy in OverlapPolicy:
        name, rule = policy.value.replace("_", "-"), f'overlap = "{policy}"'
        alone = policy is not OverlapPolicy.ALLOW
        yield Job(name=name, every=2, seconds=1.6 + alone, rule=rule, alone=alone)


def _by_calendars() -> Iterator[Job]:
    yield Job(name=SHUT, every=1, seconds=0, rule='skip_on = ["always"]', shut=True)
    yield Job(name=OPEN, every=2, seconds=0, rule='skip_on = ["never"]')


def _failing() -> Iterator[Job]:
    retry = 'retry = {{ attempts = {}, backoff = {{ type = "fixed", delay = 1000 }} }}'
    spare = f'queue = "spare"\n{retry.format(2)}'
    for n in range(4):
        name = f"{COSTLY}-{n}"
        yield Job(name=name, every=2, seconds=0, rule=spare, fails=FAILS_AT_FIRST)
    rule = retry.format(3)
    yield Job(name=BROKEN, every=1, seconds=0, rule=rule, fails=FAILS_WHILE_BROKEN)


def write_jobs(*, record: Path, mark: tuple[str, str], between: tuple[datetime, datetime]) -> str:
    """Write the jobs file; what is due is so *between* those two."""
    env = f'{{ RECORD = "{record}", {mark[0]} = "{mark[1]}" }}'
    begins, ends = (moment.isoformat() for moment in between)
    times = f"starts_at = {begins}\nends_at = {ends}\n"
    return CALENDARS + "".join(
        f"[tasks.{job.name}]\nid = {id_}\nenv = {env}\n"
        f"command = [\"/bin/bash\", \"-c\", '''\n{_script(job)}''']\n"
        f'[schedules.{job.name}]\ntask = "{job.name}"\nevery = "{job.every}s"\n'
        f"{times}{job.rule}\n"
        for id_, job in enumerate(all_jobs(), start=1)
    )


def _script(job: Job) -> str:
    return TASK.format(name=job.name, seconds=job.seconds, fails=job.fails)
