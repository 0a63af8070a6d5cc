"""Golden runs around changes of the clock, as Debian's cron(8) has them.

Expected runs are written as the clock on the wall shows them, with the UTC offset of that minute.
"""

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from cronhare.domain.cron import CronExpression, find_zone

MINUTE = timedelta(minutes=1)


@attrs.frozen
class Golden:
    """All runs of *text* in *zone* from the wall time *start*, for so many *hours*."""

    text: str
    zone: str
    start: str
    hours: int
    runs: str  # day, time and offset, such as "08 03:00-0400"


AUTUMN, SPRING = "2026-11-01 00:00", "2026-03-08 00:00"
NEW_YORK = [
    # 02:00 -0500 becomes 03:00 -0400; in autumn 02:00 -0400 becomes 01:00 -0500
    Golden("30 2 * * *", "America/New_York", SPRING, 27, "08 03:00-0400, 09 02:30-0400"),
    Golden("0,30 2 * * *", "America/New_York", SPRING, 26,
           "08 03:00-0400, 09 02:00-0400, 09 02:30-0400"),
    Golden("30 2 8 3 *", "America/New_York", SPRING, 26, "08 03:00-0400"),
    Golden("30 */2 * * *", "America/New_York", SPRING, 4, "08 00:30-0500, 08 04:30-0400"),
    Golden("*/30 2 * * *", "America/New_York", SPRING, 26, "09 02:00-0400, 09 02:30-0400"),
    Golden("0-59 2 * * *", "America/New_York", SPRING, 12, "08 03:00-0400"),
    Golden("0 3 * * *", "America/New_York", SPRING, 12, "08 03:00-0400"),
    Golden("30 1 * * *", "America/New_York", AUTUMN, 27, "01 01:30-0400, 02 01:30-0500"),
    Golden("0 0-2 * * *", "America/New_York", AUTUMN, 12,
           "01 00:00-0400, 01 01:00-0400, 01 02:00-0500"),
    Golden("30 * * * *", "America/New_York", AUTUMN, 4,
           "01 00:30-0400, 01 01:30-0400, 01 01:30-0500, 01 02:30-0500"),
    Golden("*/30 1 * * *", "America/New_York", AUTUMN, 12,
           "01 01:00-0400, 01 01:30-0400, 01 01:00-0500, 01 01:30-0500"),
]  # fmt: skip
BERLIN = [
    Golden("30 2 * * *", "Europe/Berlin", "2026-03-29 00:00", 26, "29 03:00+0200, 30 02:30+0200"),
    Golden("30 2 * * *", "Europe/Berlin", "2026-10-25 00:00", 28, "25 02:30+0200, 26 02:30+0100"),
    Golden("@hourly", "Europe/Berlin", "2026-10-25 01:00", 4,
           "25 01:00+0200, 25 02:00+0200, 25 02:00+0100, 25 03:00+0100"),
]  # fmt: skip
LORD_HOWE = [  # half an hour
    Golden("15 2 * * *", "Australia/Lord_Howe", "2025-10-05 00:00", 26,
           "05 02:30+1100, 06 02:15+1100"),
    Golden("45 1 * * *", "Australia/Lord_Howe", "2026-04-05 00:00", 24, "05 01:45+1100"),
    Golden("30 * * * *", "Australia/Lord_Howe", "2026-04-05 00:00", 4,
           "05 00:30+1100, 05 01:30+1100, 05 01:30+1030, 05 02:30+1030"),
    Golden("*/20 1-3 * * *", "Australia/Lord_Howe", "2026-04-05 00:00", 3,
           "05 01:00+1100, 05 01:20+1100, 05 01:40+1100, 05 01:40+1030, 05 02:00+1030,"
           " 05 02:20+1030"),
]  # fmt: skip
CHATHAM = [  # at 02:45 and 03:45
    Golden("0 3 * * *", "Pacific/Chatham", "2025-09-28 00:00", 28, "28 03:45+1345, 29 03:00+1345"),
    Golden("0 3 * * *", "Pacific/Chatham", "2026-04-05 00:00", 24, "05 03:00+1345"),
    Golden("*/30 3 * * *", "Pacific/Chatham", "2026-04-05 00:00", 24,
           "05 03:00+1345, 05 03:30+1345, 05 03:00+1245, 05 03:30+1245"),
]  # fmt: skip
SAO_PAULO = [  # 4 November 2018 begins at 01:00
    Golden("*/15 1,2,3 * * 0", "America/Sao_Paulo", "2018-11-03 22:00", 3,
           "04 01:00-0200, 04 01:15-0200, 04 01:30-0200, 04 01:45-0200"),
    Golden("0 */2 * * 0", "America/Sao_Paulo", "2018-11-03 22:00", 6,
           "04 02:00-0200, 04 04:00-0200"),
    Golden("*/15 1 4 11 *", "America/Sao_Paulo", "2018-11-03 22:00", 99,
           "04 01:00-0200, 04 01:15-0200, 04 01:30-0200, 04 01:45-0200"),
    Golden("30 0 * * *", "America/Sao_Paulo", "2018-11-03 22:00", 28,
           "04 01:00-0200, 05 00:30-0200"),
    Golden("@daily", "America/Sao_Paulo", "2018-11-03 22:00", 28, "04 01:00-0200, 05 00:00-0200"),
]  # fmt: skip
ST_JOHNS = [  # 7 November 2010, 00:01 becomes 23:01 of the day before
    Golden("50-56/3 */3 * * *", "America/St_Johns", "2010-11-06 21:30", 5,
           "06 21:50-0230, 06 21:53-0230, 06 21:56-0230, 07 00:50-0330, 07 00:53-0330,"
           " 07 00:56-0330"),
    Golden("0 */2 7 11 *", "America/St_Johns", "2010-11-06 21:30", 6,
           "07 00:00-0230, 07 00:00-0330, 07 02:00-0330"),
    Golden("30 23 * * *", "America/St_Johns", "2010-11-06 21:30", 28,
           "06 23:30-0230, 07 23:30-0330"),
    Golden("@daily", "America/St_Johns", "2010-11-06 21:30", 28, "07 00:00-0230, 08 00:00-0330"),
]  # fmt: skip
CORRECTIONS = [  # three hours and more: the new time simply holds
    Golden("0 12 * * *", "Pacific/Apia", "2011-12-29 00:00", 48, "29 12:00-1000, 31 12:00+1400"),
    Golden("0 0 30 12 *", "Pacific/Apia", "2011-12-29 00:00", 48, ""),
    Golden("@daily", "Pacific/Kwajalein", "1993-08-20 00:00", 48, "20 00:00-1200, 22 00:00+1200"),
    # 5 March 2010, 02:00 +1100 becomes 4 March, 23:00 +0800
    Golden("30 23 * * *", "Antarctica/Casey", "2010-03-04 20:00", 9,
           "04 23:30+1100, 04 23:30+0800"),
]  # fmt: skip
OTHERS = [
    # two hours, at 01:00 UTC
    Golden("30 1 * * *", "Antarctica/Troll", "2026-03-29 00:00", 25,
           "29 03:00+0200, 30 01:30+0200"),
    Golden("30 1 * * *", "Antarctica/Troll", "2026-10-25 00:00", 24, "25 01:30+0200"),
    Golden("0 * * * *", "Antarctica/Troll", "2026-10-25 00:00", 6,
           "25 00:00+0200, 25 01:00+0200, 25 02:00+0200, 25 01:00+0000, 25 02:00+0000,"
           " 25 03:00+0000"),
    # at midnight: 6 September begins at 01:00, and 4 April has 23:00 twice
    Golden("30 0 * * *", "America/Santiago", "2026-09-05 22:00", 28,
           "06 01:00-0300, 07 00:30-0300"),
    Golden("30 23 * * *", "America/Santiago", "2026-04-04 22:00", 28,
           "04 23:30-0300, 05 23:30-0400"),
    Golden("45 * * * *", "America/Santiago", "2026-04-04 22:00", 4,
           "04 22:45-0300, 04 23:45-0300, 04 23:45-0400, 05 00:45-0400"),
    # Ramadan: back on 15 February, forward on 22 March
    Golden("30 2 * * *", "Africa/Casablanca", "2026-02-15 00:00", 25, "15 02:30+0100"),
    Golden("30 2 * * *", "Africa/Casablanca", "2026-03-22 00:00", 26,
           "22 03:00+0100, 23 02:30+0100"),
    # 23:30 of 4 May 2018 becomes midnight: the run falls on the next date
    Golden("45 23 4 5 *", "Asia/Pyongyang", "2018-05-04 12:00", 40, "05 00:00+0900"),
]  # fmt: skip

GOLDEN = [*NEW_YORK, *BERLIN, *LORD_HOWE, *CHATHAM, *SAO_PAULO, *ST_JOHNS, *CORRECTIONS, *OTHERS]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case.zone}: {case.text}")
def test_runs_around_a_change_of_the_clock(case: Golden) -> None:
    expression, zone = CronExpression.parse(case.text), find_zone(case.zone)
    start = datetime.fromisoformat(case.start).replace(tzinfo=zone).astimezone(UTC)
    minutes = [start + n * MINUTE for n in range(case.hours * 60)]
    end = minutes[-1] + MINUTE

    forwards = []
    for run in expression.upcoming(start - MINUTE, zone):
        if run >= end:
            break
        forwards.append(run)
    backwards = []
    moment = expression.previous(end, zone)
    while moment is not None and moment >= start:
        backwards.append(moment)
        moment = expression.previous(moment, zone)

    assert ", ".join(f"{run.astimezone(zone):%d %H:%M%z}" for run in forwards) == case.runs
    assert backwards == forwards[::-1]
    assert [minute for minute in minutes if expression.matches(minute, zone)] == forwards


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_start_in_the_second_pass_leads_to_the_next_day() -> None:
    expression, zone = CronExpression.parse("30 1 * * *"), find_zone("America/New_York")

    for start in ("2026-11-01T01:10-05:00", "2026-11-01T01:40-04:00", "2026-11-01T01:30-05:00"):
        assert expression.next(at(start), zone) == at("2026-11-02T01:30-05:00")


def test_a_wildcard_that_only_ever_meets_a_gap_has_no_run_and_says_so_soon() -> None:
    """The second Sunday of March has no 02:xx in New York, from 2007 on."""
    expression, zone = CronExpression.parse("*/5 2 ? 3 SUN#2"), find_zone("America/New_York")

    assert expression.next(at("2010-01-01T00:00+00:00"), zone) is None
    assert expression.next(at("2000-01-01T00:00+00:00"), zone) == at("2000-03-12T02:00-05:00")
    assert expression.previous(at("2026-01-01T00:00+00:00"), zone) == at("2006-03-12T02:55-05:00")
