"""What every ledger promises of executions that are held back: by a key's limit, or by others."""

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.gates import key_gate, schedule_gate
from cronhare.domain.retries.retry import Complete
from cronhare.domain.schedules.schedule import Concurrency, Misfire, MisfirePolicy, OverlapPolicy
from cronhare.ports.attempts import (
    Busy,
    Deferred,
    Finish,
    Refused,
    StartAnswer,
)
from cronhare.ports.claims import LetGo
from tests.integration.ledgers import (
    FOR_GOOD,
    GRACES,
    IN_30_S,
    LEASE,
    LOSS,
    MINUTE,
    SECOND,
    SUCCESS,
    Ledger,
    at_once,
    draft,
)

KEY = "customer-42"
GATE = key_gate(KEY)


def limited(limit: int, key: str = KEY) -> Concurrency:
    return Concurrency(key=key, limit=limit)


def due_together(ledger: Ledger, count: int, *, limit: int) -> list[Execution]:
    """Let schedules with one key be due at once; give their executions, in the order of ids."""
    names = [f"job-{number}" for number in range(count)]
    ledger.save(*(draft(name, concurrency=limited(limit)) for name in names))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)
    ledger.claim_due()
    return ledger.executions()


def let_go(ledger: Ledger, *gates: str) -> list[int]:
    """Give the ids of what passes some gates now, or all at which anything waits."""
    asked = gates or ledger.claims.gates(after="", limit=100)
    found = LetGo(busy=frozenset(asked))
    while found.busy and not found.executions:
        found = ledger.claims.let_go(asked, now=ledger.now)
    return [one.id for one in found.executions]


def start(ledger: Ledger, execution: Execution) -> Execution | Refused | Deferred:
    """Ask until the gates are not busy: their rows are made by the first who asks."""
    while isinstance(answer := ledger.start(ledger.seen(execution)), Busy):
        pass
    return answer


def states(ledger: Ledger) -> list[State]:
    return [execution.state for execution in ledger.executions()]


def test_of_runs_with_one_key_that_are_due_together_no_more_are_claimed_than_may_run(
    ledger: Ledger,
) -> None:
    runs = due_together(ledger, 5, limit=2)

    claimed, held = runs[:2], runs[2:]
    assert [one.state for one in claimed] == [State.CLAIMED] * 2
    assert {(one.state, one.held_by) for one in held} == {(State.HELD, GATE)}
    assert all(isinstance(start(ledger, one), Execution) for one in claimed)
    assert let_go(ledger) == []
    ledger.finish(ledger.seen(claimed[0]), Complete(), SUCCESS)
    assert let_go(ledger, GATE) == [held[0].id]
    assert let_go(ledger, GATE) == []  # the place is taken, though nobody runs there yet
    assert states(ledger) == [State.SUCCEEDED, State.RUNNING, State.CLAIMED, State.HELD, State.HELD]


def test_eight_threads_that_start_at_once_never_exceed_a_limit(ledger: Ledger) -> None:
    id_ = ledger.add(schedule=None, concurrency=limited(3))
    runs = [ledger.run_now(id_, f"manual-{number}") for number in range(24)]

    def start_some(number: int) -> list[StartAnswer]:
        return ledger.start_all(runs[number::8], node=f"ant-{number}")

    answers = [answer for _ in range(3) for each in at_once(8, start_some) for answer in each]

    running = ledger.executions(State.RUNNING)
    held = ledger.executions(State.HELD)
    started = {answer.id for answer in answers if isinstance(answer, Execution)}
    assert len(running) <= 3
    assert started == {one.id for one in running}
    assert {one.held_by for one in held} <= {GATE}
    for one in runs:  # whoever was busy is judged by now
        start(ledger, one)
    assert len(ledger.executions(State.RUNNING)) == 3
    assert len(ledger.executions(State.HELD)) == 21


def test_a_retry_that_waits_gives_its_place_away_and_waits_in_line_when_it_comes(
    ledger: Ledger,
) -> None:
    first, second, third = due_together(ledger, 3, limit=1)
    running = start(ledger, first)
    assert isinstance(running, Execution)

    ledger.finish(running, IN_30_S)

    assert let_go(ledger) == [second.id]
    assert isinstance(start(ledger, second), Execution)
    ledger.clock.advance(30 * SECOND)
    assert start(ledger, first) == Refused(f"held: 1 of 1 with key {KEY} run", gate=GATE)
    assert ledger.seen(first).attempt == 2
    ledger.finish(ledger.seen(second), Complete(), SUCCESS)
    assert let_go(ledger) == [first.id]  # it was due as early as the third, and is older
    assert ledger.seen(third).state is State.HELD


def test_no_later_run_takes_the_place_of_one_that_was_let_go_and_is_on_its_way(
    ledger: Ledger,
) -> None:
    first, second = due_together(ledger, 2, limit=1)
    ledger.finish(ledger.started(first), Complete(), SUCCESS)
    assert let_go(ledger) == [second.id]
    ledger.clock.advance(MINUTE)
    ledger.claim_due()
    by_hand = ledger.run_now(first.scheduler_id, "manual-1")

    refused = start(ledger, by_hand)

    assert refused == Refused(f"held: 1 of 1 with key {KEY} run", gate=GATE)
    assert ledger.executions()[-2].state is State.HELD
    assert isinstance(start(ledger, second), Execution)


def test_a_lost_attempt_gives_its_place_away_and_a_cancelled_one_leaves_the_line(
    ledger: Ledger,
) -> None:
    first, second, third = due_together(ledger, 3, limit=1)
    start(ledger, first)
    ledger.clock.advance(LEASE)

    ledger.records.cancel(second.id, now=ledger.now)
    lost = Finish(execution=ledger.seen(first), ran=LOSS, verdict=FOR_GOOD)
    ledger.attempts.give_up([lost], now=ledger.now)

    assert let_go(ledger) == [third.id]
    assert states(ledger) == [State.FAILED, State.CANCELLED, State.CLAIMED]


def test_each_run_is_judged_by_its_own_params_and_the_limit_that_its_schedule_has_now(
    ledger: Ledger,
) -> None:
    by_customer = Concurrency(key="customer-{params.id}", limit=1)
    id_ = ledger.add(schedule=None, concurrency=by_customer)
    one, same, other = (
        ledger.run_now(id_, f"manual-{number}", params=f'{{"id":{customer}}}')
        for number, customer in enumerate((42, 42, 43))
    )

    answers = [start(ledger, run) for run in (one, same, other)]

    assert [isinstance(answer, Execution) for answer in answers] == [True, False, True]
    ledger.save(draft(schedule=None, concurrency=Concurrency(key="customer-{params.id}", limit=2)))
    assert let_go(ledger) == [same.id]
    assert isinstance(start(ledger, same), Execution)


def test_where_one_may_wait_further_runs_are_skipped(ledger: Ledger) -> None:
    ledger.add(overlap=OverlapPolicy.QUEUE_ONE)
    for _ in range(3):
        ledger.clock.advance(MINUTE)
        ledger.claim_due()
    first, second, third = ledger.executions()

    assert states(ledger) == [State.CLAIMED, State.HELD, State.SKIPPED]
    assert third.last_error == (
        f"overlap: execution {second.id} waits already (overlap policy queue_one)"
    )
    assert let_go(ledger) == []
    ledger.finish(ledger.started(first), IN_30_S)
    assert let_go(ledger) == []  # a retry that waits has not ended
    ledger.finish(ledger.started(ledger.seen(first)), Complete(), SUCCESS)
    assert let_go(ledger) == [second.id]


def test_where_all_may_wait_they_run_one_after_the_other_also_those_asked_for_by_hand(
    ledger: Ledger,
) -> None:
    id_ = ledger.add(overlap=OverlapPolicy.QUEUE_ALL, misfire=Misfire(policy=MisfirePolicy.ALL))
    ledger.clock.advance(3 * MINUTE)
    ledger.claim_due()
    by_hand = ledger.run_now(id_, "manual-1")
    first, *others = ledger.executions()

    assert isinstance(start(ledger, first), Execution)
    assert start(ledger, by_hand) == Refused(
        f"held: execution {first.id} of the same schedule has not ended", gate=schedule_gate(id_)
    )
    order = []
    running = ledger.seen(first)
    for _ in others:
        ledger.finish(running, Complete(), SUCCESS)
        [next_] = let_go(ledger)
        order.append(next_)
        assert let_go(ledger) == []
        started = start(ledger, next(one for one in others if one.id == next_))
        assert isinstance(started, Execution)
        running = started
    assert order == [one.id for one in others]


def test_the_newest_run_asks_for_the_end_of_those_before_it_and_waits_for_that(
    ledger: Ledger,
) -> None:
    id_ = ledger.add(overlap=OverlapPolicy.CANCEL_PREVIOUS)
    runs: list[Execution] = []
    for _ in range(3):
        ledger.clock.advance(MINUTE)
        batch = ledger.claim_due()
        if not runs:
            [first] = batch.claimed
            running = start(ledger, first)
        runs.append(ledger.executions()[-1])
    assert isinstance(running, Execution)
    gate = schedule_gate(id_)

    answer = ledger.claims.let_go([gate], now=ledger.now)
    while answer.busy:
        answer = ledger.claims.let_go([gate], now=ledger.now)

    first, second, third = (ledger.seen(one) for one in runs)
    assert {one.id for one in answer.cancelled} == {first.id, second.id}
    assert (first.state, first.cancel_requested) == (State.RUNNING, True)
    reason = f"overlap: execution {third.id} takes its place (overlap policy cancel_previous)"
    assert second.last_error == reason
    assert (second.state, third.state) == (State.CANCELLED, State.HELD)
    assert ledger.finish(running, Complete(), SUCCESS) is State.CANCELLED
    assert ledger.seen(first).last_error == reason
    assert let_go(ledger) == [third.id]


def test_a_run_that_no_worker_takes_up_keeps_no_other_queue_from_running(ledger: Ledger) -> None:
    orphan = draft("orphan", queue="cron_scheduler.gone", concurrency=limited(1))
    ledger.save(attrs.evolve(orphan, schedule=None, date_time=ledger.now + MINUTE))
    ledger.add("good", concurrency=limited(1))
    ledger.clock.advance(MINUTE)
    ledger.claim_due()
    ledger.claims.mark_published(ledger.executions(), now=ledger.now)

    for _ in range(10):
        ledger.clock.advance(MINUTE)
        ledger.claim_due()
        late = ledger.claims.overdue(now=ledger.now, graces=GRACES, limit=100)
        sent_again = [one for one in late if one.schedule_name == "orphan"]
        ledger.claims.mark_published(sent_again, now=ledger.now)
        let_go(ledger)

    states = {one.state for one in ledger.executions() if one.schedule_name == "good"}
    assert State.CLAIMED in states
