"""The runs of a schedule in the order of the column that they show."""

from datetime import UTC, datetime, timedelta

from cronhare.domain.execution import State
from cronhare.entrypoints.web.page.views.schedules import newest_runs
from cronhare.ports.records import Run

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def run(id_: int, *, due: int, ended: int) -> Run:
    due_at = NOON + due * SECOND
    return Run(
        id=id_,
        state=State.SUCCEEDED,
        due_at=due_at,
        started_at=due_at,
        finished_at=NOON + ended * SECOND,
        attempt=1,
    )


def test_what_was_due_last_comes_first_also_if_it_ended_before_another() -> None:
    by_their_ends = [run(1, due=0, ended=1), run(3, due=2, ended=3), run(2, due=1, ended=9)]

    assert [each.id for each in newest_runs(by_their_ends, None, None)] == [3, 2, 1]
    assert [each.id for each in newest_runs(by_their_ends, NOON + SECOND, None)] == [3, 2]


def test_what_ended_last_is_listed_though_it_was_due_before_many_others() -> None:
    newer = [run(id_, due=id_, ended=id_) for id_ in range(100, 200)]
    backfilled = run(201, due=0, ended=300)

    listed = newest_runs([*newer, backfilled], None, None)

    assert listed[0].id == 199
    assert listed[-1].id == backfilled.id
