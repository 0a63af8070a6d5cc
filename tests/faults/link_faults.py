"""The link between a process and a server is frozen in silence, or cut; others take over."""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from sqlalchemy import make_url

from tests.faults.house import PATIENCE, House, Process, stop_politely
from tests.faults.jobs import LATE
from tests.faults.occupying import given_up, holding, occupy, recover, still_run
from tests.faults.saying import hearing, said
from tests.services.finding import wait_until
from tests.services.proxy import Link, proxy_in_thread

BROKER, DATABASE = "CRON_BROKER_URL", "CRON_DATABASE_URL"
BUSY, LOSSES, ROUNDS = 100, 3, 5


def broker_frozen(house: House) -> None:
    """Freeze the link to the broker under a scheduler and a worker; others end what they began."""
    with behind_a_link(house, BROKER, heartbeat="2") as (link, worker):
        with holding(house, LATE):
            occupy(house, worker, LATE)
            link.freeze()
            house.arena.make_due(BUSY)
        wait_until_all_has_ended_without(link, house)
        recover(house)


def database_frozen(house: House) -> None:
    """Freeze the link to the database likewise: what the worker ran is over when others run it."""
    with behind_a_link(house, DATABASE) as (link, worker):
        with holding(house, LATE):
            [begun] = occupy(house, worker, LATE)
            link.freeze()
            house.arena.make_due(BUSY)
            wait_until(lambda: are_taken_over(house, begun), seconds=PATIENCE, what="taking over")
        wait_until_all_has_ended_without(link, house)
        recover(house)


def are_taken_over(house: House, begun: Collection[int]) -> bool:
    """Tell whether all these first attempts were given up.

    Raises:
        AssertionError: the task of one that was still runs.
    """
    free = given_up(house, begun)
    both = still_run(house, free)
    assert not both, f"others were given {both} tasks that a worker without a ledger still ran"
    return free == begun


def wait_until_all_has_ended_without(link: Link, house: House) -> None:
    """See everything to its end while the link is frozen, and thaw it."""
    try:
        wait_until_all_has_ended(house)
    finally:
        link.thaw()
    assert link.held_back, "nobody had anything to say while the link was frozen"


def wait_until_all_has_ended(house: House) -> None:
    wait_until(
        lambda: house.arena.settled_at() is not None,
        seconds=PATIENCE,
        every=0.1,
        what="ending everything while a link is frozen",
    )


def broker_cut(house: House) -> None:
    """Cut the link to the broker under a scheduler and a worker, again and again."""
    with behind_a_link(house, BROKER) as (link, worker):
        with holding(house, LATE):
            occupy(house, worker, LATE)
            cut_until_lost(link, house)
        recover(house)


def cut_until_lost(link: Link, house: House) -> None:
    """Cut a link again and again, also while it is being opened, until `LOSSES` were told."""
    before = said(house.arena.logs).actions["broker.lost"]

    def cut() -> bool:
        link.cut()
        time.sleep(house.die.uniform(0.05, 0.7))
        return said(house.arena.logs).actions["broker.lost"] - before >= LOSSES

    wait_until(cut, seconds=PATIENCE, what=f"losing the broker {LOSSES} times")


def scheduler_cut_off(house: House) -> None:
    """Cut one scheduler off from the broker; others publish what it claims, then it is alone."""
    with link_to(house, BROKER, heartbeat="2") as (link, settings):
        others = list(house.schedulers)
        cut_off = house.start_scheduler(**settings)
        wait_until(lambda: link.connections > 0, seconds=PATIENCE, what="connecting")
        with hearing(house.arena.logs, "broker.unavailable"):
            link.freeze()
        for _ in range(ROUNDS):
            house.arena.make_due(BUSY)
            wait_until_all_has_ended(house)
        link.thaw()
        stop_politely(others)
        house.recover()
        stop_politely([cut_off])
    house.fill_up()


@contextmanager
def behind_a_link(house: House, server: str, **options: str) -> Iterator[tuple[Link, Process]]:
    """Start one more scheduler and one more worker, behind a link that can be hurt.

    *options* are added to the server's URL.
    """
    with link_to(house, server, **options) as (link, settings):
        scheduler = house.start_scheduler(**settings)
        worker = house.start_worker(**settings)
        yield link, worker
        stop_politely([scheduler, worker])


@contextmanager
def link_to(house: House, server: str, **options: str) -> Iterator[tuple[Link, dict[str, str]]]:
    """Make a link that can be hurt, and the settings of those who are to use it."""
    url = make_url(house.arena.settings[server])
    assert url.port is not None
    with proxy_in_thread(url.port) as (port, link):
        through = url.set(port=port).update_query_dict(options)
        yield link, {server: through.render_as_string(hide_password=False)}


SCENARIOS = {
    "broker-link-frozen": broker_frozen,
    "broker-link-cut": broker_cut,
    "scheduler-cut-off": scheduler_cut_off,
    "database-link-frozen": database_frozen,
}
