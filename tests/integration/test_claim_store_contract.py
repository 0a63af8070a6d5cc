"""What every claim store promises."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

import msgspec
import pytest

from cronhare.application.administration.explain import newest_instant
from cronhare.domain.execution import LOST_WAIT, Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.retries.outcome import Crash, Ending, PoisonPill
from cronhare.domain.retries.policy import Backoff, RetryPolicy
from cronhare.domain.retries.retry import Quarantine
from cronhare.domain.schedules.planning import Plan, Planned, Planner
from cronhare.domain.schedules.schedule import Misfire, MisfirePolicy
from cronhare.ports.attempts import Refused
from cronhare.ports.claims import Batch
from tests.integration.ledgers import (
    CRASH,
    FOR_GOOD,
    GRACES,
    HOUR,
    IN_30_S,
    LEASE,
    MICROSECOND,
    MINUTE,
    NOON,
    SECOND,
    Ledger,
    at_once,
    draft,
)
from tests.ports import ids_of

# Claiming what is due


def test_what_is_due_at_exactly_now_is_claimed_once(ledger: Ledger) -> None:
    ledger.add()
    ledger.clock.advance(MINUTE - MICROSECOND)
    before = ledger.claim_due()
    ledger.clock.advance(MICROSECOND)

    batch = ledger.claim_due()

    assert (before, batch.looked, len(batch.claimed)) == (Batch(), 1, 1)
    assert (ledger.claim_due(node="bee"), ledger.claims.next_due()) == (Batch(), NOON + 2 * MINUTE)


def test_a_claim_holds_what_its_schedule_said(ledger: Ledger) -> None:
    retry = RetryPolicy(attempts=2, backoff=Backoff(delay=1_000))
    scheduler_id = ledger.add(
        params='{"to":"me"}', retry=retry, timeout=timedelta(minutes=5), queue="cron_scheduler.slow"
    )
    ledger.clock.advance(MINUTE)

    (execution,) = ledger.claim_due(node="host:17").claimed

    assert execution == msgspec.structs.replace(
        execution,
        scheduler_id=scheduler_id,
        schedule_name="report",
        key="cron-2026-3-2-12-1",
        state=State.CLAIMED,
        task=draft().task,
        params='{"to":"me"}',
        queue="cron_scheduler.slow",
        retry=retry,
        timeout=timedelta(minutes=5),
        attempt=1,
        deaths=0,
        due_at=NOON + MINUTE,
        executed_at=NOON + MINUTE,
        container_id="host:17",
        cancel_requested=False,
        crashes=(),
    )
    assert ledger.seen(execution) == execution


def test_of_sixteen_callers_one_is_answered_the_claim(ledger: Ledger) -> None:
    ledger.add()
    ledger.clock.advance(MINUTE)

    batches = at_once(16, lambda n: ledger.claim_due(node=f"node-{n}"))

    (winner,) = [execution for batch in batches for execution in batch.claimed]
    assert ledger.seen(winner).container_id == winner.container_id


def test_no_more_than_the_limit_is_taken_and_the_earliest_first(ledger: Ledger) -> None:
    for minute in (3, 1, 2):
        ledger.add(f"at-{minute}", schedule=f"{minute} * * * *")
    ledger.clock.advance(timedelta(minutes=3))

    batches = [ledger.claim_due(limit=2), ledger.claim_due(limit=2), ledger.claim_due(limit=2)]

    assert [batch.looked for batch in batches] == [2, 1, 0]
    assert {row.schedule_name for row in batches[0].claimed} == {"at-1", "at-2"}


def test_a_key_that_is_taken_is_not_claimed_and_the_cursor_moves_on(ledger: Ledger) -> None:
    scheduler_id = ledger.add()
    key = "cron-2026-3-2-12-1"
    ledger.run_now(scheduler_id, key, node="bee")
    ledger.clock.advance(MINUTE)

    batch = ledger.claim_due()

    assert (batch.looked, batch.claimed) == (1, ())
    assert ledger.claims.next_due() == NOON + 2 * MINUTE


def test_a_schedule_that_cannot_be_planned_does_not_stop_the_others(ledger: Ledger) -> None:
    ledger.add("bad")
    ledger.add("good")
    ledger.clock.advance(MINUTE)

    def planner(planned: Planned) -> Plan:
        if planned.schedule.name == "bad":
            raise ArithmeticError("no such day")
        return ledger.planner(planned)

    batch = ledger.claim_due(planner=planner)

    ((name, problem),) = batch.problems
    assert (name, "no such day" in problem) == ("bad", True)
    assert [execution.schedule_name for execution in batch.claimed] == ["good"]


# What one replica cannot plan


def cannot(_: Planned) -> Plan:
    """Plan as a replica with old zone data does."""
    return Plan(problem="no such zone")


def claim_in_vain(ledger: Ledger) -> Batch:
    """Claim what is due as a replica that can plan nothing."""
    return ledger.claims.claim_due(now=ledger.now, limit=9, node="old", planner=cannot)


def plan_problems(
    ledger: Ledger, planner: Planner, *, after: int = 0, since: datetime | None = None
) -> tuple[Batch, int]:
    """Look again at what could not be planned."""
    return ledger.claims.plan_problems(
        now=ledger.now, since=since, after=after, limit=9, node="ant", planner=planner
    )


def test_what_one_replica_cannot_plan_stays_due_for_another(ledger: Ledger) -> None:
    problem = "no such zone"
    ledger.add()
    ledger.clock.advance(MINUTE)

    first, second = claim_in_vain(ledger), claim_in_vain(ledger)
    (told,) = ledger.schedules.schedules(["report"])
    (execution,) = ledger.claim_due(node="new").claimed
    (healed,) = ledger.schedules.schedules(["report"])

    assert (first.claimed, first.problems) == ((), (("report", problem),))
    assert (second.claimed, second.problems) == ((), ())
    assert str(told.problem).startswith(problem)
    assert told.next_due_at == execution.due_at == NOON + MINUTE
    assert (healed.problem, healed.next_due_at) == (None, NOON + 2 * MINUTE)


def test_what_nobody_can_plan_is_set_aside_and_caught_up_once_somebody_can(
    ledger: Ledger,
) -> None:
    scheduler_id = ledger.add(misfire=Misfire(policy=MisfirePolicy.ALL))
    ledger.clock.advance(MINUTE)
    claim_in_vain(ledger)
    ledger.clock.advance(10 * MINUTE)

    last = claim_in_vain(ledger)
    left_alone = claim_in_vain(ledger)
    still, after = plan_problems(ledger, cannot)
    found, _ = plan_problems(ledger, ledger.planner)

    assert (last.looked, last.problems, left_alone) == (1, (), Batch())
    assert (still.looked, still.problems, after) == (1, (), scheduler_id)
    assert [one.due_at for one in found.claimed] == [NOON + n * MINUTE for n in range(1, 12)]
    assert plan_problems(ledger, ledger.planner) == (Batch(), 0)


def test_of_late_edits_those_are_looked_at_that_are_due_for_nobody(ledger: Ledger) -> None:
    ledger.save(draft("old"))
    ledger.add("due")
    ledger.clock.advance(MINUTE)
    ledger.save(draft("late"))
    ledger.claims.plan_edited(now=ledger.now, since=None, limit=9, node="ant", planner=cannot)
    claim_in_vain(ledger)

    found, after = plan_problems(ledger, ledger.planner, since=ledger.now - SECOND)
    again, _ = plan_problems(ledger, ledger.planner, since=ledger.now - SECOND)

    late = ids_of(ledger.schedules, ["late"])["late"]
    assert (found.looked, found.more, after, again) == (1, False, late, Batch())
    assert {row.name for row in ledger.schedules.schedules() if row.problem} == {"old", "due"}


# Very many instants


def test_a_transaction_ends_once_it_has_looked_at_very_many_instants(ledger: Ledger) -> None:
    for number in range(7):
        ledger.add(f"job-{number}")
    ledger.clock.advance(timedelta(days=8))

    first, second = ledger.claim_due(), ledger.claim_due()

    assert (first.looked, first.more) == (5, True)
    assert {one.schedule_name for one in first.claimed + second.claimed} >= {
        f"job-{number}" for number in range(7)
    }


def test_what_has_just_become_due_or_was_long_ago_can_be_left_for_others_or_later(
    ledger: Ledger,
) -> None:
    for name, minute in (("behind", 1), ("due", 30), ("just", 31)):
        ledger.add(name, schedule=f"{minute} 12 * * *")
    next_due = ledger.claims.next_due(), ledger.claims.next_due(after=NOON + MINUTE)
    ledger.clock.advance(31 * MINUTE + SECOND)

    fresh = ledger.claim_due(since=ledger.now - 2 * MINUTE, until=ledger.now - 2 * SECOND)
    rest = ledger.claim_due()

    assert next_due == (NOON + MINUTE, NOON + 30 * MINUTE)
    assert [one.schedule_name for one in fresh.claimed] == ["due"]
    assert {one.schedule_name for one in rest.claimed} == {"behind", "just"}
    assert fresh.claimed[0].executed_at == ledger.now


# Planning what was edited


def test_of_edits_since_a_moment_no_more_than_the_limit_are_planned(ledger: Ledger) -> None:
    ledger.save(draft("old"))
    ledger.clock.advance(SECOND)
    ledger.save(*(draft(f"new-{n}") for n in range(3)))

    looked = [
        ledger.claims.plan_edited(
            now=ledger.now, since=NOON, limit=2, node="ant", planner=ledger.planner
        ).looked
        for _ in range(3)
    ]

    planned = {row.name for row in ledger.schedules.schedules() if row.planned}
    assert (looked, planned) == ([2, 1, 0], {"new-0", "new-1", "new-2"})


def test_two_edits_at_one_instant_are_both_noticed(ledger: Ledger) -> None:
    ledger.add()

    ledger.save(draft(schedule="30 * * * *"))
    batch = ledger.plan_edited()

    assert batch.looked == 1
    assert ledger.claims.next_due() == NOON + 30 * MINUTE


# Marking what was published


def test_the_mark_of_an_attempt_says_nothing_of_a_later_one(ledger: Ledger) -> None:
    archived = ledger.failed()
    failed = ledger.records.execution(archived.execution_id)
    assert failed is not None
    (replayed,) = ledger.records.replay([archived.id], now=ledger.now)

    ledger.claims.mark_published([failed], now=ledger.now)

    assert ledger.seen(replayed).state is State.CLAIMED


def test_a_mark_can_be_repeated_and_the_first_one_counts(ledger: Ledger) -> None:
    claimed = ledger.claimed()
    ledger.claims.mark_published([claimed], now=ledger.now)
    published = ledger.seen(claimed)
    assert (published.state, published.published_at) == (State.PUBLISHED, ledger.now)
    ledger.clock.advance(SECOND)

    ledger.claims.mark_published([claimed], now=ledger.now)

    assert ledger.seen(claimed) == published


# Finding what is overdue


def retried(ledger: Ledger) -> Execution:
    return ledger.finished(ledger.claimed(), IN_30_S)


def retried_and_sent(ledger: Ledger) -> Execution:
    execution = retried(ledger)
    ledger.claims.mark_published([execution], now=ledger.now)
    return execution


@pytest.mark.parametrize(
    ("begin", "grace", "once_more"),
    [
        (Ledger.claimed, GRACES.claimed, GRACES.claimed),
        (Ledger.published, GRACES.published, GRACES.ended),
        (partial(Ledger.claimed, jitter=10 * HOUR), GRACES.claimed, GRACES.claimed),
        (partial(Ledger.published, jitter=10 * HOUR), GRACES.published, GRACES.ended),
        (retried, GRACES.retrying, GRACES.retrying),
        (retried_and_sent, GRACES.retrying, GRACES.retrying),
    ],
    ids=["claimed", "published", "spread", "spread and sent", "retried", "retried and sent"],
)
def test_what_waits_is_overdue_when_its_time_and_its_grace_are_over_and_again_after_one_more(
    ledger: Ledger, begin: Callable[[Ledger], Execution], grace: timedelta, once_more: timedelta
) -> None:
    execution = begin(ledger)
    ledger.clock.move_to(execution.next_attempt_at or ledger.now)

    for passes in (grace, once_more):
        ledger.clock.advance(passes - MICROSECOND)
        before = ledger.overdue()
        ledger.clock.advance(MICROSECOND)
        assert (before, ledger.overdue()) == ([], [execution.id])


def test_a_broker_is_doubted_page_by_page(ledger: Ledger) -> None:
    first, second, third = [ledger.published(f"report-{number}") for number in range(3)]
    ledger.clock.advance(MINUTE)
    now = ledger.now

    place = ledger.claims.doubt(since=now, now=now, after=0, limit=2)

    assert (place, ledger.overdue()) == (second.id, [first.id, second.id])
    assert ledger.claims.doubt(since=now, now=now, after=second.id, limit=2) is None
    assert third.id in ledger.overdue()


@pytest.mark.parametrize("copies", [0, 3])
@pytest.mark.parametrize("retries", [False, True], ids=["published", "retrying"])
def test_what_was_sent_since_the_broker_fell_silent_is_not_doubted(
    ledger: Ledger, copies: int, retries: bool
) -> None:
    execution = ledger.published()
    if retries:
        execution = ledger.finished(execution, IN_30_S)
        ledger.clock.advance(MINUTE)
        copies = copies or 1  # a retry that was never sent again is expected in any case
    for _ in range(copies):
        ledger.clock.advance(timedelta(days=2))
        late = ledger.claims.overdue(now=ledger.now, graces=GRACES, limit=9)
        assert [one.id for one in late] == [execution.id]
        ledger.claims.mark_published(late, now=ledger.now)
    sent_at = ledger.now
    ledger.clock.advance(MINUTE)

    ledger.claims.doubt(since=sent_at, now=ledger.now, after=0, limit=9)
    spared = ledger.overdue()
    ledger.claims.doubt(since=sent_at + SECOND, now=ledger.now, after=0, limit=9)

    assert (spared, ledger.overdue()) == ([], [execution.id])


def test_what_waits_for_its_own_time_is_doubted_from_then_on(ledger: Ledger) -> None:
    execution = ledger.published(jitter=timedelta(hours=10))
    assert execution.next_attempt_at is not None
    ledger.clock.advance(MINUTE)

    for _ in range(2):  # as each replica may
        ledger.claims.doubt(since=ledger.now, now=ledger.now, after=0, limit=9)
    ledger.clock.move_to(execution.next_attempt_at + LOST_WAIT - MICROSECOND)
    before = ledger.overdue()
    ledger.clock.advance(MICROSECOND)

    assert (before, ledger.overdue()) == ([], [execution.id])


def test_concurrent_callers_find_different_overdue_ones(ledger: Ledger) -> None:
    ledger.save(*(draft(f"job-{n}") for n in range(40)))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)
    ids = {execution.id for execution in ledger.claim_due().claimed}
    ledger.clock.advance(MINUTE)

    answers = at_once(8, lambda _: ledger.overdue(limit=10))
    answers.append(ledger.overdue(limit=40))  # what one was taking, the others passed over

    found = [execution_id for answer in answers for execution_id in answer]
    assert (len(found), set(found)) == (40, ids)


# Finding attempts that were lost


def test_a_lease_that_ends_now_has_lapsed(ledger: Ledger) -> None:
    execution = ledger.running()
    ledger.clock.advance(LEASE - MICROSECOND)
    before = ledger.lapsed()

    ledger.clock.advance(MICROSECOND)

    assert (before, ledger.lapsed()) == ([], [execution.id])


@pytest.mark.parametrize("passed", [timedelta(0), LEASE], ids=["in time", "all have lapsed"])
def test_what_a_node_runs_is_found_lapsed_or_not_and_nobody_elses(
    ledger: Ledger, passed: timedelta
) -> None:
    own, other = ledger.claimed("own"), ledger.claimed("other")
    ledger.started(own, node="ant")
    ledger.started(other, node="bee")
    ledger.clock.advance(passed)

    assert ledger.run_by("ant") == [own.id]
    assert ledger.run_by("ant", "bee") == [own.id, other.id]
    assert ledger.run_by("ant", "bee", limit=1) == [own.id]
    assert ledger.run_by("cat") == []


def test_the_nodes_that_run_something_are_named(ledger: Ledger) -> None:
    for name, node in (("first", "ant"), ("second", "ant"), ("third", "bee")):
        ledger.running(name, node=node)
    ledger.succeeded(ledger.claimed("done"))
    ended = ledger.running("ended", node="cat")
    ledger.finish(ended, IN_30_S, node="cat")

    assert set(ledger.claims.owners()) == {"ant", "bee"}


# Handing over


@pytest.mark.parametrize("state", ["claimed", "published", "retrying"])
def test_what_is_handed_over_has_ended(ledger: Ledger, state: str) -> None:
    execution = ledger.published() if state == "published" else ledger.claimed()
    if state == "retrying":
        execution = ledger.finished(execution, IN_30_S)

    ledger.claims.hand_over([execution], now=ledger.now)

    seen = ledger.seen(execution)
    assert (seen.state, seen.finished_at) == (State.HANDED_OVER, ledger.now)
    assert seen.next_attempt_at is None
    ledger.clock.advance(timedelta(days=3))
    assert ledger.overdue() == []
    assert isinstance(ledger.start(execution), Refused)


def test_what_went_on_in_the_meantime_is_not_handed_over(ledger: Ledger) -> None:
    execution = ledger.published()
    running = ledger.started(execution)

    ledger.claims.hand_over([execution], now=ledger.now)
    state = ledger.seen(execution).state
    retrying = ledger.finish(running, IN_30_S)
    ledger.claims.hand_over([execution], now=ledger.now)

    assert (state, retrying) == (State.RUNNING, State.RETRYING)
    assert ledger.seen(execution).state is State.RETRYING


# The messages that follow ends for good


def overdue(ledger: Ledger, *, limit: int = 1_000) -> Sequence[Archived]:
    return ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=limit)


def ids(ends: Sequence[Archived]) -> list[int]:
    return [ended.id for ended in ends]


def test_what_is_quarantined_is_found_with_its_crashes(ledger: Ledger) -> None:
    began = ledger.now
    crashes = tuple(Crash(began + n * SECOND, Ending.CRASHED, "ant") for n in range(3))
    execution = ledger.claimed()
    ledger.finished(execution, Quarantine("crashed 3 times within 300 s", crashes), CRASH)
    ledger.clock.advance(GRACES.ended)

    (ended,) = overdue(ledger)

    assert ended.kind == State.QUARANTINED
    assert ended.pill == PoisonPill(3, began, ended.failed_at)


def test_an_end_whose_message_is_in_a_queue_is_overdue_no_more_and_a_later_one_is(
    ledger: Ledger,
) -> None:
    first, second = ledger.failed("first"), ledger.failed("second")
    ledger.claims.mark_ends_published([first.ticket])
    ledger.clock.advance(GRACES.ended)
    assert ids(overdue(ledger)) == [second.id]

    [again] = ledger.records.replay([first.id], now=ledger.now)
    ledger.finished(again, FOR_GOOD)
    ledger.claims.mark_ends_published([first.ticket, second.ticket])
    ledger.clock.advance(GRACES.ended)

    [ended] = overdue(ledger)
    assert (ended.ticket.attempt, first.ticket.attempt) == (2, 1)


def test_an_end_is_overdue_when_its_grace_is_over_and_again_after_one_more(ledger: Ledger) -> None:
    archived = ledger.failed()
    ledger.clock.advance(GRACES.ended - MICROSECOND)
    assert list(overdue(ledger)) == []
    ledger.clock.advance(MICROSECOND)
    first = ids(overdue(ledger))
    ledger.clock.advance(GRACES.ended - MICROSECOND)
    soon = ids(overdue(ledger))

    ledger.clock.advance(MICROSECOND)

    assert (first, soon, ids(overdue(ledger))) == ([archived.id], [], [archived.id])


def test_of_what_waits_and_of_ends_the_earliest_are_found_first(ledger: Ledger) -> None:
    waiting = [ledger.claimed(f"waits-{n}").id for n in range(3)]
    ended = [ledger.failed(f"ends-{n}").id for n in range(3)]
    ledger.clock.advance(timedelta(hours=1))

    assert [ledger.overdue(limit=2) for _ in range(3)] == [waiting[:2], waiting[2:], []]
    assert [ids(overdue(ledger, limit=2)) for _ in range(3)] == [ended[:2], ended[2:], []]


def test_what_somebody_has_resolved_needs_no_message(ledger: Ledger) -> None:
    replayed, discarded = ledger.failed("replayed"), ledger.failed("discarded")
    ledger.records.replay([replayed.id], now=ledger.now)
    ledger.records.discard([discarded.id], note="known", now=ledger.now)

    ledger.clock.advance(GRACES.ended)

    assert list(overdue(ledger)) == []


def test_concurrent_callers_find_different_ends(ledger: Ledger) -> None:
    archived = [ledger.failed(f"job-{n}").id for n in range(12)]
    ledger.clock.advance(GRACES.ended)

    answers = at_once(4, lambda _: ids(overdue(ledger, limit=3)))
    answers.append(ids(overdue(ledger)))  # what one was taking, the others passed over

    assert sorted(id_ for answer in answers for id_ in answer) == archived


def test_after_a_clock_that_was_ahead_explain_says_until_when_nothing_is_due(
    ledger: Ledger,
) -> None:
    ledger.add("report", schedule="* * * * *")
    ledger.clock.advance(MINUTE)
    ledger.claim_due()
    ledger.clock.advance(1_440 * MINUTE)
    ledger.claim_due()
    ledger.clock.move_to(ledger.now - 1_440 * MINUTE + SECOND)

    ledger.clock.advance(MINUTE)
    claimed = ledger.claim_due().claimed
    [stored] = ledger.schedules.schedules(["report"])
    instant = newest_instant(stored, now=ledger.now)
    told = " ".join(ledger.explanations.explain(stored, instant).because)

    assert claimed == ()
    assert "nothing of it is due before 2026-03-03 12:02:00Z" in told
    assert "`cronhare schedules disable report`" in told
