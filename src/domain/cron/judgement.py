"""What a person should hear about an expression before relying on it."""

from calendar import month_name
from collections.abc import Iterator

from .days import DayRule, fires, fires_every_year
from .extensions import NearestWorkingDay
from .fields import Field


def why_never(month_day: Field, months: int) -> str:
    """Say which dates do not exist, of an expression that can never fire.

    That takes days of the month alone: any week day comes round in every month, or, as a fifth,
    in some Februaries.
    """
    days = [str(day + 1) for day in range(31) if month_day.mask >> day & 1]
    days += [f"{word.day}W" for word in month_day.words if isinstance(word, NearestWorkingDay)]
    names = [month_name[month + 1] for month in range(12) if months >> month & 1]
    return f"{_any_of(days)} {_any_of(names)} does not exist"


def warnings(fields: tuple[Field, ...], rule: DayRule) -> Iterator[str]:
    """Yield a sentence for each thing that may not be meant."""
    _, _, month_day, month, week_day = fields
    for field in fields:
        yield from field.notes
    if rule.either and (month_day.starred or week_day.starred):
        starred = month_day if month_day.starred else week_day
        yield (
            f'"{starred.text}" counts as a restriction, so a day that satisfies either day field is'
            " enough; classic cron daemons want both when a field begins with a star"
        )
    if fires(rule, month.mask) and not fires_every_year(rule, month.mask):
        yield "there are years without a run"


def _any_of(words: list[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
