"""What the benchmarks are fed: cron texts, zones and schedules, the same in every run."""

import os
import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import Concurrency
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.schedules.work import Executor, PythonCall

sys.path.insert(0, str(Path(__file__).parents[1]))  # some use what tests use

T = TypeVar("T")


def size(full: T, smallest: T) -> T:
    """Take *smallest* where the environment has BENCH_SMALLEST: to see that a benchmark runs.

    All of the smallest ledgers have 60 schedules, so that one that is filled serves many sections.
    """
    return smallest if os.environ.get("BENCH_SMALLEST") else full


TWENTY_ZONES = (
    "UTC", "America/New_York", "America/Chicago", "America/Los_Angeles", "America/Sao_Paulo",
    "America/Santiago", "America/St_Johns", "Europe/Berlin", "Europe/London", "Europe/Moscow",
    "Europe/Paris", "Africa/Cairo", "Africa/Casablanca", "Asia/Kolkata", "Asia/Shanghai",
    "Asia/Tokyo", "Asia/Tehran", "Australia/Lord_Howe", "Australia/Sydney", "Pacific/Chatham",
)  # fmt: skip

#: Where the minute on the wall is the minute in UTC, so that one minute can be due everywhere.
WHOLE_HOUR_ZONES = tuple(
    zone
    for zone in TWENTY_ZONES
    if zone.rpartition("/")[2] not in {"St_Johns", "Kolkata", "Tehran", "Lord_Howe", "Chatham"}
)

#: When the schedules are written, and a quiet time after it; then the minute of the busy ones.
WRITTEN = datetime(2026, 5, 5, 5, 0, tzinfo=UTC)
QUIET = datetime(2026, 5, 5, 5, 5, tzinfo=UTC)
BUSY = datetime(2026, 5, 5, 5, 17, tzinfo=UTC)

#: What all of them run.
TRUE = Task(name="true", ref=TaskRef("report", 25), command=("/bin/true",))


def function(executor: Executor) -> Task:
    """A function that does nothing."""
    here = PythonCall(app="function_app:app", folder=Path(__file__).parent, executor=executor)
    name = "nothing_async" if executor is Executor.ASYNC else "nothing"
    return Task(name=name, ref=TaskRef("report", 26), python=here)


def distinct_texts(count: int) -> list[str]:
    """Make cron texts of many shapes, no two alike."""
    return _distinct(count, random_text)


def random_text(rng: random.Random, *, earliest: int = 0) -> str:
    """Make a cron text that is due at no minute before *earliest*."""
    first, second = sorted(rng.sample(range(earliest, 60), 2))
    start, stop = sorted(rng.sample(range(24), 2))
    step = rng.randrange(1, 10)
    minute = rng.choice([f"{first}", f"{first},{second}", f"{first}-{second}/{step}"])
    hour = rng.choice(["*", f"{start}", f"{start}-{stop}", f"*/{step}"])
    day = rng.choice(["*", "*", f"{rng.randrange(1, 29)}", "L"])
    month = rng.choice(["*", "*", f"{rng.randrange(1, 13)}", "1-6"])
    week_day = rng.choice(["*", "*", f"{rng.randrange(7)}", "mon-fri", "5#2"])
    if week_day == "5#2":
        day = "*"  # croniter looks for a day that is both, through fifty years
    return f"{minute} {hour} {day} {month} {week_day}"


#: Runs of a key at a time, where schedules have one.
LIMIT = 5


def drafts(count: int, *, busy: int, keys: int = 0) -> list[ScheduleDraft]:
    """Make schedules with distinct expressions, of which *busy* are due at `BUSY`, none before.

    They share so many concurrency *keys*, if any.
    """
    texts = _distinct(busy, _busy_text) + _distinct(count - busy, _later_text)
    return [
        ScheduleDraft(
            name=f"job-{number:06d}",
            task=TRUE.ref,
            schedule=text,
            timezone=WHOLE_HOUR_ZONES[number % len(WHOLE_HOUR_ZONES)],
            params=f'{{"customer":{number}}}',
            concurrency=Concurrency(key=f"key-{number % keys}", limit=LIMIT) if keys else None,
        )
        for number, text in enumerate(texts)
    ]


def _busy_text(rng: random.Random) -> str:
    """Due at 17 minutes past every hour, and at some later minutes of the hour."""
    others = sorted(rng.sample(range(BUSY.minute + 1, 60), rng.randrange(1, 4)))
    minute = ",".join(map(str, (BUSY.minute, *others)))
    hour = rng.choice(["*", "*/1", "0-23"])
    month = rng.choice(["*", "1-12", f"{BUSY.month}-{rng.randrange(6, 13)}"])
    return f"{minute} {hour} * {month} *"


def _later_text(rng: random.Random) -> str:
    return random_text(rng, earliest=BUSY.minute + 1)


def _distinct(count: int, make: Callable[[random.Random], str]) -> list[str]:
    rng = random.Random(2026)
    texts: dict[str, None] = {}
    while len(texts) < count:
        texts[make(rng)] = None
    return list(texts)
