"""Schedules with `stay_alive`: kept running, and stopped when their rows say so (C40).

That is a line of docs/compatibility.md.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import attrs
import pytest

from cronhare.application.administration.views.executions import what_it_waits_for
from cronhare.application.worker.attempt import prepare
from cronhare.application.worker.standalone import StandaloneFinder, StandaloneKeeper
from cronhare.domain.execution import Execution, State
from cronhare.domain.schedules.catalog import Catalog
from cronhare.domain.schedules.keys import (
    LONGEST_WAIT,
    NO_DEADLINE,
    STEADY,
    restart_wait,
)
from cronhare.domain.schedules.skips import Pause
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports import LedgerRefused, LedgerUnavailable
from cronhare.ports.runner import Invocation
from tests.unit.application.conftest import Lines
from tests.unit.application.house import REPORT, House

SECOND = timedelta(seconds=1)
OWN = "cron_standalone.pump"


def keeper(house: House, *names: str) -> StandaloneKeeper:
    found: StandaloneKeeper = house.container.standalone(names=names or ("pump",))
    return found


def pump(house: House, **changes: Any) -> None:  # noqa: ANN401
    house.add("pump", **{"schedule": None, "stay_alive": True, **changes})


def newest(house: House) -> Execution:
    return house.executions()[-1]


@attrs.define(eq=False)
class Keeping:
    """What `cronhare up` does: it finds what stays alive, keeps it running, and lets it go."""

    house: House
    served: list[str] = attrs.field(init=False, factory=list[str])
    finder: StandaloneFinder = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.finder = self.house.container.standalone_finder(
            catalog=Catalog([REPORT]), serve=self.served.append, leave=self.served.remove
        )


def delete(house: House) -> None:
    """Delete its row beside its history, as servers without that foreign key let one."""
    house.sql("PRAGMA foreign_keys = OFF")
    house.sql("DELETE FROM Scheduler WHERE name = 'pump'")
    house.sql("PRAGMA foreign_keys = ON")


async def test_ordinary_workers_do_not_run_it_and_its_own_does() -> None:
    house = House(queues=[OWN])
    pump(house)
    keeper(house).round()

    await house.open()
    await house.turn(SECOND)
    assert house.only.state is State.PUBLISHED
    assert what_it_waits_for(house.only, now=house.now) == (
        "what keeps it running: `cronhare up` with its task in the jobs file, or, where the broker "
        "is a server, `cronhare worker --jobs JOBS.TOML --standalone pump`"
    )

    await house.connection.close()
    house = house.neighbour("bee-1")
    await house.connection.consume([OWN], prefetch=9, on_delivery=house.deliveries.append)
    await house.turn(SECOND)
    assert house.only.state is State.SUCCEEDED


async def test_what_ended_is_begun_again_after_a_wait_that_grows() -> None:
    house = House(queues=[OWN])
    pump(house)
    kept = keeper(house)
    await house.connection.consume([OWN], prefetch=9, on_delivery=house.deliveries.append)
    waited = []
    for _ in range(4):
        kept.round()
        await house.turn(SECOND)
        assert newest(house).state is State.SUCCEEDED
        ended, runs = house.now, len(house.executions())
        while len(house.executions()) == runs:
            house.clock.advance(SECOND)
            kept.round()
        waited.append((house.now - ended) // SECOND)

    assert waited == [1, 2, 4, 8]


@pytest.mark.parametrize(
    "edit",
    [
        lambda house: pump(house, stay_alive=False, schedule="* * * * *"),
        lambda house: house.schedules.switch(["pump"], on=False, now=house.now),
        delete,
    ],
    ids=["ordinary", "disabled", "deleted"],
)
@pytest.mark.parametrize("is_kept", [True, False])
def test_what_stays_alive_no_more_is_stopped_also_if_nobody_kept_it_and_let_go_with_its_queue(
    edit: Callable[[House], object], *, is_kept: bool
) -> None:
    house = House(queues=[OWN])
    pump(house)
    up = Keeping(house)
    if is_kept:
        for _ in range(2):  # it has seen the run: a row that is gone leaves it no name
            up.finder.round()
        assert (up.finder.names, up.served) == (["pump"], [OWN])
    else:
        keeper(house).round()
    edit(house)

    for _ in range(2):
        up.finder.round()

    assert (up.finder.names, up.served) == ([], [])
    assert house.only.state is State.CANCELLED
    house.clock.advance(2 * SECOND)
    pump(house)
    up.finder.round()
    assert (up.finder.names, up.served) == (["pump"], [OWN])
    assert newest(house).state is State.CLAIMED


def test_what_was_begun_to_stay_alive_and_is_another_files_is_left_to_it() -> None:
    house = House(queues=[OWN])
    pump(house, task=TaskRef("worker", 77))
    keeper(house).round()
    house.schedules.switch(["pump"], on=False, now=house.now)
    up = Keeping(house)

    up.finder.round()

    assert up.finder.names == []
    assert house.only.state is State.CLAIMED


def test_what_is_paused_keeps_its_queue() -> None:
    house = House(queues=[OWN])
    pump(house)
    up = Keeping(house)
    up.finder.round()
    pause = Pause(since=house.now, by="ann", reason="a new pump")
    house.schedules.pause("pump", pause, now=house.now)

    for _ in range(3):
        up.finder.round()

    assert (up.finder.names, up.served) == (["pump"], [OWN])
    assert house.only.state is State.CANCELLED


def test_it_has_no_deadline_but_its_own() -> None:
    house = House(queues=[OWN])
    pump(house)
    keeper(house).round()

    ready = prepare(house.only, attrs.evolve(REPORT, timeout=SECOND))

    assert isinstance(ready, Invocation)
    assert ready.task.timeout == NO_DEADLINE


def test_a_run_on_the_queue_of_a_name_of_before_is_followed_by_one_on_its_own() -> None:
    house, old = House(queues=[OWN]), "cron_standalone.old"
    pump(house)
    kept = keeper(house)
    kept.round()
    house.sql("UPDATE SchedulerExecution SET queue = ?", old)

    for _ in range(2):
        kept.round()
        house.clock.advance(2 * SECOND)

    runs = [(run.state, run.queue) for run in house.executions()]
    assert runs == [(State.CANCELLED, old), (State.CLAIMED, OWN)]


def test_a_schedule_with_times_is_begun_by_these_alone() -> None:
    house = House(queues=[OWN])
    pump(house, schedule="0 8 * * *")

    keeper(house).round()

    assert house.executions() == []


def test_the_waits_have_a_bound_and_begin_anew_after_a_steady_run() -> None:
    assert restart_wait([SECOND] * 30) == LONGEST_WAIT
    assert restart_wait([SECOND, STEADY, SECOND]) == SECOND


@pytest.mark.parametrize("error", [LedgerRefused("nobody writes this"), LedgerUnavailable("busy")])
async def test_one_that_cannot_be_stopped_keeps_no_other_down(
    error: Exception, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(*_: object, **__: object) -> None:
        raise error

    house = House(queues=[OWN])
    house.add("bad", schedule=None, stay_alive=True)
    keeper(house, "bad").round()
    house.schedules.switch(["bad"], on=False, now=house.now)
    pump(house)
    monkeypatch.setattr(house.records, "cancel", stuck)
    both = keeper(house, "bad", "pump")

    for _ in range(3):
        with suppress(LedgerUnavailable):
            both.round()

    assert [run.schedule_name for run in house.executions()] == ["bad", "pump"]
    refused = [line for line in lines() if "bad cannot be stopped: nobody writes this" in line]
    assert len(refused) == isinstance(error, LedgerRefused)
