"""Which holders of a message that came again it has ended; C20 in docs/compatibility.md."""

from datetime import UTC, datetime, timedelta

import pytest

from cronhare.domain.nodes import PRESUMED_DEAD_AFTER
from cronhare.domain.retries.outcome import CrashPolicy
from cronhare.domain.retries.retry import Hold, Holder, crashes_of

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HERE, ELSEWHERE = "0a1b2c3d", "11111111"


def holder(pid: int, place: str, boot: str = "first") -> Holder:
    return Holder(node=f"ant-{pid}-{place}e4f56071", host="ant", boot=boot)


US = holder(7, HERE)
LIVING = 8


def counts(of: Holder, *, seen_at: datetime | None) -> bool:
    hold = Hold(holder=of, at=NOON - SECOND, seen_at=seen_at)
    found = crashes_of([hold], us=US, now=NOON, policy=CrashPolicy(), lives=lambda pid: pid == 8)
    return bool(found)


@pytest.mark.parametrize("seen_at", [None, NOON, NOON - PRESUMED_DEAD_AFTER - SECOND])
def test_a_pid_of_our_own_place_tells_for_certain(seen_at: datetime | None) -> None:
    assert not counts(holder(LIVING, HERE), seen_at=seen_at)
    assert counts(holder(9, HERE), seen_at=seen_at)
    assert counts(Holder(node="ant-7-0a1b2c3de4f56072", host="ant", boot="first"), seen_at=seen_at)


def test_elsewhere_who_reports_itself_lives() -> None:
    assert not counts(holder(LIVING, ELSEWHERE), seen_at=NOON - PRESUMED_DEAD_AFTER)
    assert not counts(holder(7, ELSEWHERE), seen_at=NOON - SECOND)
    assert counts(holder(LIVING, ELSEWHERE), seen_at=NOON - PRESUMED_DEAD_AFTER - SECOND)
    assert counts(holder(LIVING, ELSEWHERE), seen_at=None)


def test_what_a_reboot_ended_never_counts() -> None:
    assert not counts(holder(9, ELSEWHERE, boot="before"), seen_at=None)
