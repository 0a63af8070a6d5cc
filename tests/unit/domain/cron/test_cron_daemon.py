"""When a text of cron is due, against a daemon that walks through the minutes, and other engines.

The daemon below knows nothing of masks, stretches or searches. It wakes at each real minute, looks
at the clock on the wall, and does what cron(8) of Debian says, keeping the highest wall time that
it has reached. Fields are sets, dates are asked of the standard library.
"""

import calendar
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import attrs
from croniter import croniter
from cronsim import CronSim
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cronhare.domain.cron import CronExpression, find_zone
from cronhare.domain.cron.timeline import EPOCH, MINUTE

CORRECTION = timedelta(hours=3)


@attrs.frozen
class Job:
    """An expression as its author means it: the text, and beside it what each field allows."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    month_days: frozenset[int] | None  # None: not restricted
    week_days: frozenset[int] | None  # Monday is 0, as in the standard library
    word: str = ""

    @property
    def wildcard(self) -> bool:
        minute, hour, *_ = self.text.split()
        return minute[0] == "*" or hour[0] == "*"

    def due_at(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self._due_on(wall)

    def _due_on(self, wall: datetime) -> bool:
        by_month = self.month_days is None or wall.day in self.month_days
        by_month = by_month or is_word_day(self.word, wall)
        by_week = self.week_days is None or wall.weekday() in self.week_days
        if self.month_days is not None and self.week_days is not None:
            return by_month or by_week
        return by_month and by_week


def is_word_day(word: str, wall: datetime) -> bool:
    return word in WORDS and wall.day == word_day(word, wall.year, wall.month)


WORDS = ["L", "LW", "15W", "1W"]


@cache
def word_day(word: str, year: int, month: int) -> int:
    length = calendar.monthrange(year, month)[1]
    working = [d for d in range(1, length + 1) if calendar.weekday(year, month, d) < 5]
    match word:
        case "L":
            return length
        case "LW":
            return working[-1]
        case "15W":
            return min(working, key=lambda day: abs(day - 15))
    return working[0]


def daemon(job: Job, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """Every real minute from *start* up to *end* in which the daemon starts the job."""
    now = start - MINUTE
    highest = wall_clock(now, zone)
    wildcard = job.wildcard
    while (now := now + MINUTE) < end:
        wall = wall_clock(now, zone)
        leap = wall - (highest + MINUTE)
        if wildcard or abs(leap) >= CORRECTION:
            due, highest = job.due_at(wall), wall
        elif leap < timedelta(0):
            due = False
        else:
            due = False
            while highest < wall:
                highest += MINUTE
                due = due or job.due_at(highest)
        if due:
            yield now


def wall_clock(now: datetime, zone: ZoneInfo) -> datetime:
    return now.astimezone(zone).replace(tzinfo=None, second=0, microsecond=0)


ZONES = [
    "Africa/Casablanca", "Africa/Freetown", "Africa/Monrovia", "America/Argentina/Tucuman",
    "America/Caracas", "America/New_York",
    "America/Santiago", "America/Sao_Paulo", "America/St_Johns", "Antarctica/Casey",
    "Antarctica/Troll", "Asia/Gaza", "Asia/Pyongyang", "Atlantic/Azores", "Australia/Lord_Howe",
    "Europe/Berlin", "Pacific/Apia", "Pacific/Chatham", "Pacific/Kwajalein",
]  # fmt: skip


def changes_of(zone: ZoneInfo, year: int) -> list[datetime]:
    """The ends of the days in which the clock was changed, or of the six hours of those days."""
    days = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in range(367)]
    offsets = [day.astimezone(zone).utcoffset() for day in days]
    changed = [days[n] for n in range(1, len(days)) if offsets[n] != offsets[n - 1]]
    return [hour for day in changed for hour in _hours_of_change(zone, day)]


def _hours_of_change(zone: ZoneInfo, end: datetime) -> Iterator[datetime]:
    hours = [end - timedelta(hours=6 * n) for n in range(4, -1, -1)]
    for before, after in pairwise(hours):
        if before.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
            yield after  # the six hours that end here hold a change


@st.composite
def moments_of_change(draw: st.DrawFn) -> tuple[ZoneInfo, datetime]:
    zone = ZoneInfo(draw(st.sampled_from(ZONES)))
    year = draw(st.integers(1960, 2040))
    changes = changes_of(zone, year) or [datetime(year, 7, 1, tzinfo=UTC)]
    return zone, draw(st.sampled_from(changes))


@st.composite
def number_fields(draw: st.DrawFn, most: int) -> tuple[str, frozenset[int]]:
    first = draw(st.integers(0, most))
    last = draw(st.integers(first, most))
    step = draw(st.integers(1, most // 2))
    return draw(
        st.sampled_from(
            [
                ("*", frozenset(range(most + 1))),
                (f"*/{step}", frozenset(range(0, most + 1, step))),
                (f"{first}", frozenset([first])),
                (f"{first},{last}", frozenset([first, last])),
                (f"{first}-{last}", frozenset(range(first, last + 1))),
                (f"{first}-{last}/{step}", frozenset(range(first, last + 1, step))),
                (f"{first}/{step}", frozenset(range(first, most + 1, step))),
            ]
        )
    )


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    minute, minutes = draw(number_fields(59))
    hour, hours = draw(number_fields(23))
    day, month_days = draw(
        st.one_of(
            st.just(("*", None)),
            st.integers(1, 31).map(lambda d: (f"{d}-31", frozenset(range(d, 32)))),
            st.sampled_from(WORDS).map(lambda word: (word, frozenset[int]())),
        )
    )
    week_day, week_days = draw(
        st.one_of(
            st.just(("?", None)),
            st.integers(0, 6).map(lambda d: (calendar.day_abbr[d], frozenset([d]))),
            st.just(("mon-fri", frozenset(range(5)))),
        )
    )
    text = f"{minute} {hour} {day} * {week_day}"
    return Job(text, minutes, hours, month_days, week_days, day)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(job=jobs(), moment=moments_of_change())
def test_around_a_change_of_the_clock_the_engine_runs_when_the_daemon_does(
    job: Job, moment: tuple[ZoneInfo, datetime]
) -> None:
    zone, change = moment
    start, end = change - timedelta(hours=12), change + timedelta(hours=27)
    expression = CronExpression.parse(job.text)

    expected = [run for run in daemon(job, zone, start - timedelta(days=1), end) if run >= start]

    assert forwards(expression, zone, start, end) == expected
    assert backwards(expression, zone, start, end) == expected
    assert matching(expression, zone, start, end) == expected


def forwards(
    expression: CronExpression, zone: ZoneInfo, start: datetime, end: datetime
) -> list[datetime]:
    found, moment = [], expression.next(start - MINUTE, zone)
    while moment is not None and moment < end:
        found.append(moment)
        moment = expression.next(moment, zone)
    return found


def backwards(
    expression: CronExpression, zone: ZoneInfo, start: datetime, end: datetime
) -> list[datetime]:
    found, moment = [], expression.previous(end, zone)
    while moment is not None and moment >= start:
        found.append(moment)
        moment = expression.previous(moment, zone)
    return found[::-1]


def matching(
    expression: CronExpression, zone: ZoneInfo, start: datetime, end: datetime
) -> list[datetime]:
    minutes = [start + n * MINUTE for n in range((end - start) // MINUTE)]
    return [minute for minute in minutes if expression.matches(minute, zone)]


@settings(max_examples=100, deadline=None)
@given(
    job=jobs(),
    zone=st.sampled_from(ZONES).map(ZoneInfo),
    moment=st.integers(-(10**7), 7 * 10**7).map(lambda minute: EPOCH + minute * MINUTE),
)
def test_previous_undoes_next_and_both_lead_to_what_matches(
    job: Job, zone: ZoneInfo, moment: datetime
) -> None:
    expression = CronExpression.parse(job.text)

    following = expression.next(moment, zone)

    assert following is not None
    assert following > moment
    assert expression.matches(following, zone)
    before = expression.previous(following, zone)
    assert before is not None
    assert before <= moment
    assert expression.matches(before, zone)
    assert expression.next(before, zone) == following


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
