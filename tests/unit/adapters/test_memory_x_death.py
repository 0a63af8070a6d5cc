from datetime import UTC, datetime, timedelta

import pytest

from cronhare.adapters.memory.engine import Reason, add_death, is_cycle

FIRST = datetime(2025, 12, 12, 8, 0, 0, 999_999, tzinfo=UTC)


def _rejected(
    headers: dict[str, object], *, key: str = "main", at: datetime = FIRST
) -> dict[str, object]:
    exchange = "" if key == "main" else "other"
    return add_death(headers, "main", Reason.REJECTED, exchange=exchange, key=key, at=at)


def _expired(headers: dict[str, object]) -> dict[str, object]:
    at = FIRST + timedelta(hours=1)
    return add_death(headers, "retry", Reason.EXPIRED, exchange="dlx", key="retry", at=at)


def _entry(queue: str, reason: str) -> dict[str, object]:
    return {"queue": queue, "reason": reason, "count": 1}


def test_the_first_death_is_written_in_full_and_kept_apart_as_well() -> None:
    headers = _rejected({"cron-attempt": 1})

    assert headers == {
        "cron-attempt": 1,
        "x-first-death-reason": "rejected",
        "x-first-death-queue": "main",
        "x-first-death-exchange": "",
        "x-death": [
            {
                "count": 1,
                "reason": "rejected",
                "queue": "main",
                "time": datetime(2025, 12, 12, 8, 0, 0, tzinfo=UTC),
                "exchange": "",
                "routing-keys": ["main"],
            }
        ],
    }


def test_a_repeated_death_is_counted_and_keeps_the_time_and_the_road_of_the_first() -> None:
    once = _rejected({})
    again = _rejected(_expired(once), key="k", at=FIRST + timedelta(days=1))

    [first], [newer, older] = _deaths(once), _deaths(again)
    assert newer == {**first, "count": 2}
    assert (older["queue"], older["count"]) == ("retry", 1)


def _deaths(headers: dict[str, object]) -> list[dict[str, object]]:
    deaths = headers["x-death"]
    assert isinstance(deaths, list)
    return deaths


@pytest.mark.parametrize(
    ("deaths", "expected"),
    [
        ([("main", "expired")], True),
        ([("retry", "expired"), ("main", "expired")], True),
        ([("retry", "expired"), ("main", "rejected")], False),
        ([("retry", "rejected"), ("main", "expired")], False),
        ([("main", "expired"), ("retry", "rejected")], True),
        ([("retry", "expired")], False),
        ([], False),
    ],
)
def test_only_a_way_back_without_a_rejection_is_a_cycle(
    deaths: list[tuple[str, str]], expected: bool
) -> None:
    headers = {"x-death": [_entry(queue, reason) for queue, reason in deaths]}

    assert is_cycle("main", headers) is expected
