"""When a schedule's runs alert, as defaults, classes, tasks and schedules say it."""

import math
import re
from collections.abc import Mapping
from datetime import time, timedelta
from typing import Any, Final

from cronhare.domain.schedules.alert_rules import (
    LARGEST_FACTOR,
    LARGEST_OUTPUT,
    LONGEST_WAIT,
    NO_CONDITIONS,
    AlertConditions,
    Deadline,
)
from cronhare.domain.schedules.draft import Fault
from cronhare.domain.texts.durations import DurationInvalid, parse_duration, say_duration

from .tables import written

#: The keys that are read here.
FIELDS: Final = ("not_started_by", "not_finished_by", "longer_than_usual", "least_output")

#: Against what is said farther away.
_OFF: Final = "off"

_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?([kKMG]i?)?B?")
_POWERS: Final = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3}


def read_conditions(table: Mapping[str, Any], faults: list[Fault]) -> AlertConditions:
    """Read them from a table as it was written."""
    if not any(name in table for name in FIELDS):
        return NO_CONDITIONS
    return AlertConditions(
        not_started_by=_deadline("not_started_by", table.get("not_started_by"), faults),
        not_finished_by=_deadline("not_finished_by", table.get("not_finished_by"), faults),
        longer_than_usual=_factor(table.get("longer_than_usual"), faults),
        least_output=_size(table.get("least_output"), faults),
    )


def _deadline(field: str, value: object, faults: list[Fault]) -> Deadline | None:
    if value is None:
        return None
    if value == _OFF:
        return Deadline()
    if isinstance(value, str) and (found := _TIME.fullmatch(value)):
        return Deadline(time_of_day=time(int(found[1]), int(found[2])))
    try:
        after = parse_duration(value) if isinstance(value, str) else timedelta(0)
    except DurationInvalid:
        after = timedelta(0)
    if not timedelta(0) < after <= LONGEST_WAIT:
        longest = say_duration(LONGEST_WAIT)
        allowed = f'a time after it is due such as "5m", at most {longest}'
        faults.append(
            Fault(
                field, f'{written(value)} is neither {allowed}, nor a time of day "06:30", nor off'
            )
        )
        return None
    return Deadline(after=after)


def _factor(value: object, faults: list[Fault]) -> float | None:
    if value is None:
        return None
    if value == _OFF:
        return 0.0
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 1 < value <= LARGEST_FACTOR
    ):
        return float(value)
    problem = f"{written(value)} is no number above 1, at most {LARGEST_FACTOR:,.0f}, nor off"
    faults.append(Fault("longer_than_usual", problem))
    return None


def _size(value: object, faults: list[Fault]) -> int | None:
    if value is None:
        return None
    if value == _OFF:
        return 0
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and (found := _SIZE.fullmatch(value)):
        unit = found[2] or ""
        base = 1_024 if unit.endswith("i") else 1_000
        size: int = int(found[1]) * base ** _POWERS[unit[:1]]
        if 0 < size <= LARGEST_OUTPUT:
            return size
    problem = f'{written(value)} is no size such as 100, "100B", "2kB" or "1MiB", nor off'
    faults.append(Fault("least_output", problem))
    return None
