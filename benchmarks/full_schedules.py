"""Schedules of every kind, in the numbers in which a large installation might have them."""

import random
from datetime import datetime, timedelta
from typing import Any, Final

import attrs
from samples import TWENTY_ZONES

from cronhare.domain.schedules.catalog import ref_of_topic
from cronhare.domain.schedules.conditions import CalendarDraft, Conditions
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import Concurrency
from cronhare.domain.schedules.task import TaskRef

#: One in so many schedules has each of these.
EVERY_TEN_MINUTES: Final = 200
HOURLY: Final = 100

QUEUES: Final = (
    "cron_scheduler", "cron_scheduler.reports", "cron_scheduler.mail", "cron_scheduler.imports",
    "cron_scheduler.slow",
)  # fmt: skip
TASKS: Final = 120
KEYS: Final = 300
SOURCE: Final = "/etc/cronhare/jobs.toml"

HOLIDAYS: Final = CalendarDraft(
    name="holidays",
    timezone="Europe/Berlin",
    windows=tuple((f"{month:02d}-{month:02d}", f"Day {month} off") for month in range(1, 13)),
)

_NAMES: Final = ("invoice", "backup", "report", "sync", "cleanup", "import", "mail", "health")


def full_schedules(count: int, now: datetime) -> list[ScheduleDraft]:
    """Make *count* schedules: those of every ten minutes first, then hourly ones, then the rest."""
    rng = random.Random(2026)
    return [_draft(number, count, rng, now) for number in range(count)]


def task_of(number: int) -> tuple[TaskRef, str]:
    """Give the task of a schedule, and its name: few tasks have many schedules."""
    task = (number * number) % TASKS
    kind = ("report", "worker", "reminder")[task % 3]
    return TaskRef(kind, 100 + task), f"{_NAMES[task % len(_NAMES)]}-{task:03d}"


def name_of(number: int) -> str:
    """Name a schedule."""
    return f"{_NAMES[number % len(_NAMES)]}-customer-{number:06d}"


def queue_of(number: int) -> str:
    """Most run on the main queue."""
    return QUEUES[0] if number % 10 < 6 else QUEUES[number % len(QUEUES)]


def _draft(number: int, count: int, rng: random.Random, now: datetime) -> ScheduleDraft:
    ref, task_name = task_of(number)
    plain = ScheduleDraft(
        name=name_of(number),
        task=ref,
        task_name=task_name,
        timezone=TWENTY_ZONES[number % len(TWENTY_ZONES)],
        params=f'{{"customer":{number},"format":"pdf"}}',
        queue=queue_of(number),
        status=number % 20 != 19,
        description=f"{task_name} for customer {number}" if number % 3 == 0 else None,
        user_id=number % 5_000 if number % 4 == 0 else None,
    )
    return attrs.evolve(plain, **_times(number, count, rng, now), **_options(number, rng))


def _times(number: int, count: int, rng: random.Random, now: datetime) -> dict[str, Any]:
    if number < count // EVERY_TEN_MINUTES:
        return {"every": timedelta(minutes=10)} if number % 5 == 0 else {"schedule": "*/10 * * * *"}
    # A third of what people write is due at the full hour.
    minute = 0 if rng.random() < 1 / 3 else rng.randrange(60)
    hour, later = rng.randrange(24), timedelta(minutes=rng.randrange(60, 400_000))
    if number < count // EVERY_TEN_MINUTES + count // HOURLY:
        return {"schedule": f"{minute} * * * *"}
    topic = f"orders.{number % 40}"
    rare: dict[int, dict[str, Any]] = {
        0: {"date_time": now + later},
        1: {"date_time": now - later},
        2: {},  # by hand
        3: {"schedule": f"H {hour} * * *"},
        4: {"every": timedelta(hours=1 + hour)},
        5: {"topic": topic, "task": ref_of_topic(topic), "task_name": None},
        6: {"schedule": f"{minute} {hour} {1 + number % 28} * *"},
        7: {"schedule": f"{minute} {hour} * * {number % 7}"},
    }
    return rare.get(number % 25, {"schedule": f"{minute} {hour} * * *"})


def _options(number: int, rng: random.Random) -> dict[str, Any]:
    options = dict[str, Any]()
    if number % 11 == 0:
        options["concurrency"] = Concurrency(key=f"tenant-{number % KEYS}", limit=5)
    if number % 13 == 0:
        options["conditions"] = Conditions(skip_on=(HOLIDAYS.name,))
    if number % 7 == 0:
        options["jitter"] = timedelta(seconds=rng.randrange(1, 300))
    if number % 5 == 0:
        options["timeout"] = timedelta(minutes=rng.randrange(1, 60))
    return options
