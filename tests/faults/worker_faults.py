"""A worker dies, goes, or is stopped for a while, in the middle of its tasks."""

import signal
import time

from tests.faults.house import PATIENCE, House, kill_nine
from tests.faults.jobs import EARLY, GROUPS, LATE
from tests.faults.occupying import holding, occupy, wait_until_given_up, wait_until_gone
from tests.faults.saying import hearing


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


SCENARIOS = {"worker-killed": killed, "worker-drained": drained, "worker-stopped": stopped}
