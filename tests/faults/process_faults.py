"""A scheduler or a worker dies, goes, or is stopped; messages come more than once."""

import signal
import time
from collections.abc import Sequence
from functools import partial

from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.application.publish import envelope
from cronhare.domain.execution import Execution
from cronhare.domain.messages import Signer
from cronhare.domain.schedules.planning import plan
from tests.faults.house import PATIENCE, House, Scenario, kill_nine, stop_politely
from tests.faults.jobs import EARLY, GROUPS, LATE
from tests.faults.occupying import holding, occupy, wait_until_given_up, wait_until_gone
from tests.faults.saying import hearing, said
from tests.faults.scheduler import COMMITTED, CONFIRMED, HALF_PUBLISHED, INSERTED, POINTS, TAKEN
from tests.services.finding import wait_until

BUSY = 300

#: What the ledger has heard of a busy minute when its scheduler is dead.
CLAIMED_AT = {TAKEN: 0, INSERTED: 0, COMMITTED: BUSY, HALF_PUBLISHED: BUSY, CONFIRMED: BUSY}


def killed_at(point: str, house: House) -> None:
    """Let a scheduler die at *point* with a busy minute in its hands."""
    house.load()
    stop_politely(house.schedulers)
    names = house.arena.make_due(BUSY)
    mortal = house.arena.start_module("tests.faults.scheduler", point)
    status = mortal.wait(timeout=60)
    assert status == -signal.SIGKILL, f"it was to die at {point}, and ended with {status}"
    rows = sum(row.schedule_name in names for row in house.arena.executions())
    assert rows == CLAIMED_AT[point], f"it died at {point} with {rows} rows in the ledger"
    house.fill_up()
    house.recover()


def killed(house: House) -> None:
    """Kill a worker; once its leases lapse, others run again what it had begun."""
    victim = house.die.choice(house.workers)
    with holding(house, LATE):
        [begun] = occupy(house, victim, LATE)
        kill_nine(victim)
        wait_until_gone(house, begun)
        wait_until_given_up(house, begun)
    house.fill_up()
    house.recover()


def drained(house: House) -> None:
    """Stop a worker politely: what ends within its grace counts, the rest begins anew for free."""
    victim = house.die.choice(house.workers)
    with holding(house, *GROUPS):
        early, late = occupy(house, victim, *GROUPS)
        victim.send_signal(signal.SIGTERM)
        time.sleep(house.die.uniform(0, 2))
        house.arena.let_go(EARLY)
        status = victim.wait(timeout=PATIENCE)
        wait_until_gone(house, early | late)
    assert status == 0, f"SIGTERM ended it with {status}"
    rows = {row.id: row for row in house.arena.executions()}
    judged = {rows[id_].attempt for id_ in early}, {rows[id_].attempt for id_ in late}
    assert judged == ({1}, {2}), f"of what it finished and gave back, the attempts are {judged}"
    assert not any(rows[id_].deaths for id_ in late), "what was given back has cost an attempt"
    house.fill_up()
    house.recover()


def stopped(house: House) -> None:
    """Stop a worker (SIGSTOP) for longer than its lease; what it says then does not count.

    Some of its tasks end while it does not listen, others would go on after it has come back.
    """
    victim = house.die.choice(house.workers)
    with holding(house, *GROUPS):
        begun = frozenset[int]().union(*occupy(house, victim, *GROUPS))
        with hearing(house.arena.logs, "attempt.superseded", times=len(begun)):
            victim.send_signal(signal.SIGSTOP)
            try:
                wait_until_given_up(house, begun)
                house.arena.let_go(EARLY)
                time.sleep(house.die.uniform(0, 2))
            finally:
                victim.send_signal(signal.SIGCONT)
        wait_until_gone(house, begun)
    house.recover()
    house.check_that_all_live()


DUE, COPIES = 40, 8


def copied(house: House) -> None:
    """Send many copies of each message: of first attempts, then of their retries."""
    house.load()
    stop_politely(house.schedulers)
    claims = house.arena.claims
    house.arena.make_due(DUE)
    now = claims.now()
    batch = claims.claim_due(
        now=now, limit=1_000, node="by-hand", planner=lambda one: plan(one, now)
    )
    fenced = said(house.arena.logs).fenced
    send_copies(house, batch.claimed)
    send_copies(house, claims.unfinished(after=0, limit=1_000))
    wait_until(
        lambda: said(house.arena.logs).fenced - fenced >= len(batch.claimed) * (COPIES - 1),
        seconds=PATIENCE,
        every=0.2,
        what=f"fencing all but one of {COPIES} copies",
    )
    house.fill_up()
    house.recover()


def send_copies(house: House, executions: Sequence[Execution]) -> None:
    """Publish many messages for each coming attempt, as if schedulers had lost their minds."""
    broker = PikaBroker(house.arena.settings["CRON_BROKER_URL"])
    now = house.arena.claims.now()
    sent = [envelope(one, now=now, signer=Signer()) for one in executions]
    broker.publish([each for each in sent for _ in range(COPIES)])
    broker.close()


SCENARIOS: dict[str, Scenario] = {
    **{f"scheduler-killed-{point}": partial(killed_at, point) for point in POINTS},
    "worker-killed": killed,
    "worker-drained": drained,
    "worker-stopped": stopped,
    "messages-copied": copied,
}
