from datetime import UTC, datetime

import pytest

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import FailureFilter, FailureFilterInvalid

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_a_filter_that_no_row_can_meet_is_refused_with_all_its_faults() -> None:
    with pytest.raises(FailureFilterInvalid) as refused:
        FailureFilter(
            schedule="",
            task="a\0b",
            reason="x" * 1_001,
            code="\udcff",
            kind=State.RUNNING,
            since=NOON,
            until=NOON,
        )

    assert [field for field, _ in refused.value.faults] == [
        "schedule",
        "task",
        "code",
        "reason",
        "kind",
        "until",
    ]
