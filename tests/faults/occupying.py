"""Have a worker in the middle of something: runs that end when they are let go."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from pika.exceptions import AMQPError

from cronhare.domain.nodes import container_id
from cronhare.domain.topology import MAIN_QUEUE
from tests.faults.house import PATIENCE, House, Process
from tests.integration.amqp import consumers
from tests.services.finding import wait_until

#: How many runs of a group there are, for all workers to share.
HELD = 6

#: Seconds in which the tasks of a worker that is gone must be gone, too.
SOON = 5.0


@contextmanager
def holding(house: House, *groups: str) -> Iterator[None]:
    """Let the first attempts of these groups end when they are let go, or at the latest now."""
    for group in groups:
        house.arena.hold(group)
    try:
        yield
    finally:
        for group in groups:
            house.arena.let_go(group)


def occupy(house: House, worker: Process, *groups: str) -> list[frozenset[int]]:
    """Have *worker* begin some runs of each group; gives their ids by group.

    Other workers get some, too. The groups must be held, or they are over before one can look.
    """
    wait_until_all_consume(house)
    batches = [set(house.arena.make_due(HELD, like=group)) for group in groups]

    def are_begun() -> bool:
        for names, group in zip(batches, groups, strict=True):
            rows = [row for row in house.arena.unfinished() if row.schedule_name in names]
            have_all_begun = len(rows) == len(names) and all(row.owner for row in rows)
            if have_all_begun and not run_by(house, worker, names):  # others have them all
                names.update(house.arena.make_due(HELD, like=group))
        return all(run_by(house, worker, names) for names in batches)

    wait_until(are_begun, seconds=PATIENCE, every=0.1, what="the start of runs that are held")
    return [run_by(house, worker, names) for names in batches]


def wait_until_all_consume(house: House) -> None:
    """Wait until every worker has found the queue, or has found it again."""

    def all_consume() -> bool:
        with suppress(AMQPError):  # nobody has declared it yet
            broker = house.arena.settings["CRON_BROKER_URL"]
            return consumers(broker, MAIN_QUEUE) == len(house.workers)
        return False

    wait_until(all_consume, seconds=PATIENCE, every=0.1, what="consuming by all workers")


def run_by(house: House, worker: Process, names: Collection[str]) -> frozenset[int]:
    return frozenset(
        row.id
        for row in house.arena.unfinished()
        if row.schedule_name in names and container_id(row.owner or "").endswith(f"-{worker.pid}")
    )


def given_up(house: House, ids: Collection[int]) -> frozenset[int]:
    """Tell which of these first attempts somebody has ended in the ledger."""
    waiting = {row.id for row in house.arena.unfinished() if row.attempt == 1}
    return frozenset(ids) - waiting


def still_run(house: House, ids: Collection[int]) -> int:
    """Count the processes of these first attempts."""
    return sum(id_ in ids and attempt == 1 for id_, attempt in house.arena.running())


def wait_until_given_up(house: House, ids: Collection[int]) -> None:
    wait_until(
        lambda: given_up(house, ids) == ids,
        seconds=PATIENCE,
        every=0.1,
        what="the end of a worker's leases",
    )


def wait_until_gone(house: House, ids: Collection[int]) -> None:
    wait_until(
        lambda: not still_run(house, ids),
        seconds=SOON,
        every=0.1,
        what="the end of a worker's tasks",
    )


def recover(house: House) -> None:
    """See work done again, by everybody: nobody has ended meanwhile, and each worker consumes."""
    house.recover()
    wait_until_all_consume(house)
    house.check_that_all_live()
