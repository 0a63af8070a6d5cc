from datetime import UTC, datetime
from typing import Any

import pytest

from cronhare.domain.lifecycle.archive import EVERY_FAILURE, UNRESOLVED, Archived
from cronhare.domain.lifecycle.replay import LONGEST_KEY, ReplayOrder, ReplayOrderInvalid

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def row(params: str = "{}", **changes: Any) -> Archived:  # noqa: ANN401
    """A webhook that failed."""
    said: dict[str, Any] = {
        "id": 1,
        "execution_id": 7,
        "scheduler_id": 3,
        "schedule_name": "hook",
        "execution_key": "manual-1",
        "kind": "failed",
        "task_type": "report",
        "task_id": 25,
        "queue": "cron_scheduler",
        "params": params,
        "failed_at": NOON,
        "failed_reason": "500",
        "error": None,
        "attempts": 4,
        "retry_count": 3,
    }
    return Archived(**said | changes)


@pytest.mark.parametrize(
    ("key", "failed", "common"),
    [
        (None, row(), ""),
        ("schedule", row(), "hook"),
        ("task", row(), "report 25"),
        ("task", row(task_name="send"), "send"),
        ("task", row(topic="orders.paid"), "orders.paid"),
        ("queue", row(), "cron_scheduler"),
        ("params.customer", row('{"customer": "acme"}'), "acme"),
        ("params.customer.id", row('{"customer": {"id": 42}}'), "42"),
        ("params.customer", row('{"customer": [1, 2]}'), "[1,2]"),
        ("params.customer", row('{"client": "acme"}'), ""),
        ("params.customer.id", row('{"customer": "acme"}'), ""),
        ("params.customer", row('["customer"]'), ""),
        ("params.customer", row("{no json"), ""),
        ("params.a", row('{"a": ' + "[" * 100_000), ""),
    ],
)
def test_failures_have_in_common_what_the_key_names(
    key: str | None, failed: Archived, common: str
) -> None:
    assert ReplayOrder(which=UNRESOLVED, key=key).key_of(failed) == common


@pytest.mark.parametrize("text", ["x" * 10_000, "a\\u0000b", "\\u202e"])
def test_a_key_that_no_row_holds_is_replaced_by_its_hash(text: str) -> None:
    order = ReplayOrder(which=UNRESOLVED, key="params.customer")

    one, other = (order.key_of(row(f'{{"customer": "{text}{n}"}}')) for n in (1, 2))

    assert one != other
    assert len(one) <= LONGEST_KEY
    assert one.isascii()
    assert one.isalnum()


def test_an_order_is_refused_with_all_its_faults() -> None:
    with pytest.raises(ReplayOrderInvalid) as refused:
        ReplayOrder(
            which=EVERY_FAILURE,
            rate=float("nan"),
            jitter=-1,
            stop_at=1.5,
            at_once=0,
            canary=10**9,
            attempts=21,
            key="params..id",
            author="\x1b[2J",
        )

    assert [field for field, _ in refused.value.faults] == [
        "which",
        "rate",
        "jitter",
        "stop_at",
        "at_once",
        "canary",
        "attempts",
        "author",
        "key",
    ]
