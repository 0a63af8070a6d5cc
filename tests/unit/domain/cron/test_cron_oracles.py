"""Against croniter and cronsim, where all three should agree: plain expressions in UTC.

Left out is what the two are known to read otherwise: equal ranges (croniter), open steps of the
week day and a star beside a restricted day field (cronsim).
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

from croniter import croniter
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cronhare.domain.cron import CronExpression, find_zone

UTC_ZONE = find_zone("UTC")
STARTS = st.integers(631_152_000, 2_840_140_800).map(  # the seconds of 1990 to 2059
    lambda seconds: datetime.fromtimestamp(seconds, UTC)
)


def numbers(least: int, most: int) -> st.SearchStrategy[str]:
    value = st.integers(least, most)
    ranges = st.tuples(value, value).filter(lambda pair: pair[0] < pair[1])
    steps = st.integers(1, most // 2)
    items = st.one_of(
        value.map(str),
        ranges.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(ranges, steps).map(lambda both: f"{both[0][0]}-{both[0][1]}/{both[1]}"),
    )
    return st.lists(items, min_size=1, max_size=3).map(",".join)


def or_star(field: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), field)


STEPPED = st.integers(1, 30).map(lambda step: f"*/{step}")
NAMED_DAYS = st.sampled_from(["mon-fri", "SUN", "sat", "tue,thu", "1-5", "0", "7", "5-7"])
EXPRESSIONS = st.tuples(
    or_star(st.one_of(STEPPED, numbers(0, 59))),
    or_star(st.one_of(STEPPED, numbers(0, 23))),
    or_star(numbers(1, 31)),
    or_star(st.one_of(numbers(1, 12), st.sampled_from(["jan", "Feb-Nov/3"]))),
    or_star(st.one_of(NAMED_DAYS, numbers(0, 6))),
).map(" ".join)


def ours(text: str, start: datetime) -> list[datetime]:
    expression = CronExpression.parse(text)
    assume(expression.fires)
    return list(islice(expression.upcoming(start, UTC_ZONE), 3))


def theirs(text: str, start: datetime) -> Iterator[datetime]:
    iterator = croniter(text, start)
    while True:
        yield iterator.get_next(datetime)


@settings(max_examples=120, deadline=None)
@given(EXPRESSIONS, STARTS)
def test_plain_expressions_run_as_in_both(text: str, start: datetime) -> None:
    runs = ours(text, start)

    assert runs == list(islice(theirs(text, start), 3))
    assert runs == list(islice(CronSim(text, start), 3))


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.sampled_from(["0 12 LW * *", "0 12 L * *", "30 3,4 L * *"]),
        st.tuples(st.integers(0, 7), st.integers(1, 5)).map(lambda p: f"0 12 * * {p[0]}#{p[1]}"),
        st.integers(0, 6).map(lambda day: f"0 12 * * {day}L"),
    ),
    STARTS,
)
def test_week_day_words_run_as_in_cronsim(text: str, start: datetime) -> None:
    assert ours(text, start) == list(islice(CronSim(text, start), 3))
