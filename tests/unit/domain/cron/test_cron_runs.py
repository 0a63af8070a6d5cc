"""`next`, `previous` and `upcoming` away from clock changes; zones, and wall times within them."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest

from cronhare.domain.cron import CronExpression, UnknownZone, find_zone, resolve_wall_time

UTC_ZONE = find_zone("UTC")
NOON = datetime(2026, 3, 3, 12, tzinfo=UTC)


def test_a_start_inside_a_minute_belongs_to_that_minute() -> None:
    every_minute = CronExpression.parse("* * * * *")
    inside = NOON + timedelta(seconds=30, microseconds=5)

    assert every_minute.matches(inside, UTC_ZONE)
    assert every_minute.next(inside, UTC_ZONE) == NOON + timedelta(minutes=1)
    assert every_minute.previous(inside, UTC_ZONE) == NOON
    assert every_minute.previous(NOON + timedelta(microseconds=1), UTC_ZONE) == NOON


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0 0 30 2 *", "30 February does not exist"),
    ],
)
def test_what_never_fires_says_why_and_yields_nothing(text: str, reason: str) -> None:
    expression = CronExpression.parse(text)

    assert not expression.fires
    assert expression.why_never == reason
    assert expression.next(NOON, UTC_ZONE) is None
    assert expression.previous(NOON, UTC_ZONE) is None
    assert list(expression.upcoming(NOON, UTC_ZONE)) == []
    assert not any(expression.matches(NOON + timedelta(days=n), UTC_ZONE) for n in range(366))


@pytest.mark.parametrize(
    "text", ["0 0 31 2 1", "0 0 29 2 *", "0 0 * 2 1#5", "0 0 29W 2 *", "0 0 30,1 2 *"]
)
def test_what_fires_at_all_is_known_to_fire(text: str) -> None:
    expression = CronExpression.parse(text)

    assert expression.fires
    assert expression.why_never == ""
    assert expression.next(NOON, UTC_ZONE) is not None


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Tokyo"])
@pytest.mark.parametrize(
    ("text", "start", "runs"),
    [
        ("0 12 29 2 *", 2095, ["2096-02-29", "2104-02-29"]),
        ("0 12 ? 2 SUN#5", 2070, ["2088-02-29", "2128-02-29"]),  # the longest wait: 40 years
    ],
)
def test_rare_runs_are_found_over_decades(
    text: str, start: int, runs: list[str], zone: str
) -> None:
    expression, place = CronExpression.parse(text), find_zone(zone)

    found = list(islice(expression.upcoming(datetime(start, 1, 1, tzinfo=UTC), place), len(runs)))

    assert [f"{run.astimezone(place):%Y-%m-%d}" for run in found] == runs
    for earlier, later in pairwise(found):
        assert expression.previous(later, place) == earlier


def test_the_edges_of_the_calendar_are_no_error() -> None:
    expression = CronExpression.parse("* * * * *")
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

    for name in ("UTC", "America/New_York", "Pacific/Apia"):
        zone = find_zone(name)
        assert expression.next(last, zone) is None
        assert expression.previous(first, zone) is None
        assert expression.next(first, zone) is not None
        assert expression.previous(last, zone) is not None
        assert isinstance(expression.matches(first, zone), bool)
        assert isinstance(expression.matches(last, zone), bool)


EITHER = (
    '"*/2" counts as a restriction, so a day that satisfies either day field is enough;'
    " classic cron daemons want both when a field begins with a star"
)


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("0 8 * * *", ()),
        (
            "*/70 8 * * *",
            ('minute: the step in "*/70" is larger than its range, only 0 is left',),
        ),
        ("0 0 */2 * MON", (EITHER,)),
        ("0 0 29 2 *", ("there are years without a run",)),
        ("0 0 29 2 MON", ()),
    ],
)
def test_an_expression_warns_of_what_may_not_be_meant(text: str, warnings: tuple[str, ...]) -> None:
    assert CronExpression.parse(text).warnings == warnings


def wall(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("zone", "time", "fold", "instant"),
    [
        ("Europe/Berlin", "2025-12-15T15:00", 0, "2025-12-15T14:00Z"),
        ("America/New_York", "2026-11-01T01:30", 0, "2026-11-01T05:30Z"),
        ("America/New_York", "2026-11-01T01:30", 1, "2026-11-01T06:30Z"),
        ("Antarctica/Casey", "2010-03-04T23:30", 0, "2010-03-04T12:30Z"),
        ("Pacific/Apia", "2011-12-31T00:00", 0, "2011-12-30T10:00Z"),
    ],
)
def test_a_wall_time_names_an_instant(zone: str, time: str, fold: int, instant: str) -> None:
    resolved = resolve_wall_time(wall(time), find_zone(zone), fold)

    assert resolved == datetime.fromisoformat(instant)
    assert resolved.tzinfo is UTC


@pytest.mark.parametrize(
    ("zone", "time", "shown"),
    [
        ("Europe/Berlin", "2026-03-29T02:30", "2026-03-29 03:30"),
        ("America/Sao_Paulo", "2018-11-04T00:59", "2018-11-04 01:59"),
    ],
)
def test_a_time_that_the_clock_leaps_over_is_refused_with_what_it_shows_then(
    zone: str, time: str, shown: str
) -> None:
    with pytest.raises(ValueError, match=f"leaps over it, and shows {shown}"):
        resolve_wall_time(wall(time), find_zone(zone))


@pytest.mark.parametrize("edge", ["0001-01-01T00:00", "9999-12-31T23:59"])
def test_the_edges_of_the_calendar_are_refused(edge: str) -> None:
    with pytest.raises(ValueError, match="edge of the calendar"):
        resolve_wall_time(wall(edge), find_zone("Pacific/Apia"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("berlin", "did you mean Europe/Berlin?"),
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("right/Europe/Berlin", "it would differ from node to node"),
        ("+02:00", "an offset is not a zone"),
    ],
)
def test_an_unknown_zone_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UnknownZone) as caught:
        find_zone(name)

    assert caught.value.hint.startswith(hint)
    assert str(caught.value).startswith(f'unknown zone "{name}" (')


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../../etc/passwd", "Europe", "Europe/", "zone.tab", "Europe/Berlin\n",
     "Europe/Berlin\0", "x" * 10_000, "\u0395urope/Berlin", "-", "a//b"],
)  # fmt: skip
def test_what_is_no_name_is_refused_without_touching_it(name: str) -> None:
    with pytest.raises(UnknownZone):
        find_zone(name)
