"""When all schedules are due: rows that agree in it are one row of the answer."""

from collections import Counter
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Engine, Row, bindparam, case, func, select

from cronhare.domain.cron.hashed import resolve
from cronhare.domain.cron.text import split_fields
from cronhare.domain.load.timings import SameTiming, Timings
from cronhare.domain.schedules.schedule import ByHand
from cronhare.ports.clock import ClockPort

from .mapping.execution_rows import display_name
from .mapping.schedule_columns import SPANS_MS, TIME_COLUMNS, read_times
from .mapping.schedule_rows import STAMP
from .schema.tables import schedulers
from .transactions.database import Database, repeatable

_TEXT: Final = func.lower(schedulers.c.schedule)
#: Texts whose numbers may be made of the schedule's name: they are not counted together.
_IS_NAMED: Final = func.replace(_TEXT, "thu", "").like("%h%") & _TEXT.not_like("@%")
_ENABLED: Final = (
    select(
        *(schedulers.c[name] for name in TIME_COLUMNS),
        schedulers.c.jitter_ms,
        case((_IS_NAMED, schedulers.c.name)).label("of_name"),
        case((_IS_NAMED, schedulers.c.id)).label("of_id"),
    )
    .where(
        schedulers.c.system_id.is_(None),
        schedulers.c.status == bindparam("on", value=True, type_=schedulers.c.status.type),
    )
    .subquery()
)
_TIMINGS: Final = select(*_ENABLED.c, func.count().label("number")).group_by(*_ENABLED.c)


_VERSION: Final = select(func.count(), func.max(STAMP)).where(schedulers.c.system_id.is_(None))

#: What schedules have in common: their times, their text if it has an `H`, and jitter.
_Group = tuple[tuple[tuple[str, Any], ...], str | None, int]


class SqlTimingStore:
    """Satisfies `TimingStorePort`."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)

    @repeatable
    def timings(self) -> Timings:
        with self._database.read("counting what is due when") as connection:
            rows = connection.execute(_TIMINGS).all()
        counted, broken = Counter[_Group](), 0
        for row in rows:
            group = _group(row)
            if group is None:
                broken += row.number
            else:
                counted[group] += row.number
        return Timings(
            groups=[
                SameTiming(
                    number=number,
                    hashed=hashed,
                    jitter=timedelta(milliseconds=jitter),
                    **dict(times),
                )
                for (times, hashed, jitter), number in counted.items()
                if not isinstance(dict(times)["timing"], ByHand)
            ],
            broken=broken,
        )

    @repeatable
    def version(self) -> str:
        with self._database.read("looking whether schedules have changed") as connection:
            number, newest = connection.execute(_VERSION).one()
        return f"{number} {newest}"


def _group(row: Row[*tuple[Any, ...]]) -> _Group | None:
    """Say what a row's schedules are counted with; None if they are broken."""
    values, jitter = tuple(row[: len(TIME_COLUMNS)]), row.jitter_ms or 0
    hashed: str | None = None
    try:
        times = read_times(values)
        if times.named:
            hashed, others = row.schedule, values[1:]
            fields = resolve(split_fields(hashed), display_name(row.of_name, row.of_id))
            if fields.faults:
                return None
            times = read_times((" ".join(fields.fields), *others))
    except MemoryError:  # says nothing of the row
        raise
    except Exception:  # noqa: BLE001 - whatever people wrote, the other rows are counted
        return None
    if times.faults or not (isinstance(jitter, int) and jitter in SPANS_MS):
        return None
    return (tuple(times.schedule.items()), hashed, jitter)
