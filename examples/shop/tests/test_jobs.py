"""The shop's tasks and schedules on a frozen clock: no server, no process, no sleep."""

import pytest
from shop import outside
from shop.jobs import Refreshed, refresh, send

from cronhare.testing import Cronhare


@pytest.fixture(autouse=True)
def _a_new_day() -> None:
    """Forget what the tests before have done."""
    for seen in (outside.renewed, outside.delivered, outside.refusing, outside.busy):
        seen.clear()


def test_two_missed_mornings_make_one_run(cronhare: Cronhare) -> None:
    """What was missed in a downtime is made up for by one run."""
    cronhare.start("2026-11-26T07:00", tz="Europe/Berlin")
    cronhare.fail(refresh, times=2)
    cronhare.down("26h")
    cronhare.advance("1h")
    run = cronhare.runs("refresh-eu").one()
    assert (run.missed, run.attempts) == (2, 3)
    assert run.result == Refreshed(tokens=3)


def test_at_christmas_nobody_refreshes(cronhare: Cronhare) -> None:
    """The calendar counts: that Friday is none of the weekdays."""
    cronhare.start("2026-12-25T07:45", tz="Europe/Berlin")
    cronhare.advance("30m")
    assert cronhare.runs("refresh-eu") == []


def test_an_order_is_mailed_once(cronhare: Cronhare) -> None:
    """A key makes it one run; while the server has enough, it waits at no cost."""
    outside.busy.append(None)
    cronhare.start("2026-11-26T12:00", tz="Europe/Berlin")
    for _ in range(2):
        send.bind(order=7).enqueue(key="mail:7")
    assert [run.key for run in cronhare.enqueued(send)] == ["mail:7"]

    cronhare.run_enqueued()
    assert outside.delivered == []
    cronhare.advance("30s")
    assert [order for order, _ in outside.delivered] == [7]
    assert cronhare.runs("shop:mail.send").one().attempts == 1


def test_a_refused_address_is_not_tried_again(cronhare: Cronhare) -> None:
    """What will never work is not retried."""
    outside.refusing.add(8)
    cronhare.start()
    send.bind(order=8).enqueue()
    cronhare.advance("1m")
    run = cronhare.runs("shop:mail.send").one()
    assert (run.state, run.attempts, run.error) == ("failed", 1, "address refused")


def test_a_task_is_a_function() -> None:
    """Without the fixture it is called as what it is."""
    with pytest.raises(TypeError, match="expected `int`, got `str`"):
        send.bind(order="7")  # type: ignore[arg-type]
