"""Whatever happens to a ledger, in whatever order: what holds after each step, and at the end."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from shutil import copyfile
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from cronhare.domain.execution import STARTABLE, UNFINISHED, Execution, Graces, State
from cronhare.domain.lifecycle.transitions import EARLIEST
from cronhare.domain.retries.retry import Complete, GiveBack, Quarantine, Verdict
from cronhare.domain.schedules.schedule import Misfire, MisfirePolicy, OverlapPolicy
from cronhare.ports.attempts import Finish, Refused, StartRequest, Superseded
from cronhare.ports.runner import AttemptResult
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import (
    CRASH,
    FAILURE,
    FOR_GOOD,
    IN_30_S,
    LEASE,
    LOSS,
    MINUTE,
    NOON,
    SUCCESS,
    Ledger,
    draft,
    server_ledger,
    sqlite_ledger,
)
from tests.ports import NO_NACKS
from tests.unit.executions import ALLOWED_TRANSITIONS

OpenLedger = Callable[[FrozenClock], AbstractContextManager[Ledger]]

SCHEDULES = [
    draft("all", misfire=Misfire(policy=MisfirePolicy.ALL)),
    draft("once", misfire=Misfire(policy=MisfirePolicy.ONCE)),
    draft("skip", misfire=Misfire(policy=MisfirePolicy.SKIP)),
    draft("alone", overlap=OverlapPolicy.SKIP),
]

nodes = st.sampled_from(["ant", "bee"])
choices = st.integers(min_value=0, max_value=1_000_000)
ends: st.SearchStrategy[tuple[Verdict, AttemptResult]] = st.sampled_from(
    [
        (Complete(), SUCCESS),
        (IN_30_S, FAILURE),
        (IN_30_S, CRASH),
        (GiveBack("shutdown"), LOSS),
        (FOR_GOOD, FAILURE),
        (Quarantine("crashed"), CRASH),
    ]
)


class LedgerMachine(RuleBasedStateMachine):
    """Two nodes, an impatient operator, and a clock."""

    def __init__(self, open_ledger: OpenLedger) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.ledger = self.stack.enter_context(open_ledger(FrozenClock(NOON)))
        self.ledger.save(*SCHEDULES)
        self.ledger.plan_edited()
        self.seen: dict[int, Execution] = {}
        self.started: set[tuple[int, int]] = set()
        self.claimed: set[int] = set()

    def teardown(self) -> None:
        try:
            self.nothing_unfinished_is_ever_forgotten()
        finally:
            self.stack.close()

    # What happens

    @rule(seconds=st.sampled_from([1, 5, 31, 60, 61, 150, 400]))
    def time_passes(self, seconds: int) -> None:
        self.ledger.clock.advance(timedelta(seconds=seconds))

    @rule(node=nodes, limit=st.integers(min_value=1, max_value=5))
    def a_node_claims(self, node: str, limit: int) -> None:
        batch = self.ledger.claim_due(node=node, limit=limit)

        ids = {execution.id for execution in batch.claimed}
        assert not ids & self.claimed
        self.claimed |= ids

    @rule()
    def an_operator_edits_what_is_not_due(self) -> None:
        while self.ledger.claim_due(limit=100).looked:
            pass
        self.ledger.save(*SCHEDULES)
        self.ledger.plan_edited()

    @rule(choice=choices)
    def a_message_is_published(self, choice: int) -> None:
        execution = self._pick(choice)
        if execution is not None:
            self.ledger.claims.mark_published([execution], now=self.ledger.now)

    @rule(choice=choices, node=nodes, late=st.sampled_from([0, 0, 0, 1]))
    def a_message_arrives(self, choice: int, node: str, late: int) -> None:
        execution = self._pick(choice, *STARTABLE, State.RUNNING)
        if execution is None:
            return
        number = execution.attempt - late
        request = StartRequest(execution_id=execution.id, attempt=number, nacks=NO_NACKS)

        (answer,) = self.ledger.attempts.start(
            [request], now=self.ledger.now, node=node, lease=LEASE
        )

        held = execution.state is State.RUNNING and execution.owner == node
        begins = execution.next_attempt_at
        is_due = begins is None or begins <= self.ledger.now + EARLIEST
        may_start = not late and (held or (execution.state in STARTABLE and is_due))
        assert isinstance(answer, Refused) != may_start
        if may_start and not held:
            assert (execution.id, number) not in self.started
            self.started.add((execution.id, number))

    @rule(choice=choices, node=nodes, end=ends)
    def an_attempt_ends(self, choice: int, node: str, end: tuple[Verdict, AttemptResult]) -> None:
        execution = self._pick(choice, State.RUNNING)
        if execution is not None:
            answer = self.ledger.finish(execution, *end, node=node)
            assert (answer == Superseded()) == (execution.owner != node)
            assert not execution.cancel_requested or answer in {State.CANCELLED, Superseded()}

    @rule(end=ends)
    def the_lost_are_given_up(self, end: tuple[Verdict, AttemptResult]) -> None:
        found = self.ledger.claims.lapsed(now=self.ledger.now, limit=9)
        finishes = [Finish(execution=row, ran=LOSS, verdict=end[0]) for row in found]

        answers = self.ledger.attempts.give_up(finishes, now=self.ledger.now)

        assert Superseded() not in answers

    @rule(node=nodes)
    def a_node_renews(self, node: str) -> None:
        mine = {
            row.id for row in self.seen.values() if (row.state, row.owner) == (State.RUNNING, node)
        }

        renewal = self.ledger.attempts.renew(
            list(self.seen), now=self.ledger.now, node=node, lease=LEASE
        )

        assert renewal.held == mine

    @rule()
    def the_reconciler_publishes(self) -> None:
        found = self.ledger.claims.overdue(now=self.ledger.now, graces=Graces(), limit=5)
        self.ledger.claims.mark_published(found, now=self.ledger.now)

        assert all(execution.state in STARTABLE for execution in found)

    @rule(choice=choices)
    def an_operator_cancels(self, choice: int) -> None:
        execution = self._pick(choice)
        if execution is not None:
            answer = self.ledger.records.cancel(execution.id, now=self.ledger.now)
            assert answer == (State.CANCELLED if execution.state in STARTABLE else execution.state)

    @rule()
    def an_operator_replays(self) -> None:
        unresolved = [row.id for row in self.ledger.records.archive()]

        replayed = self.ledger.records.replay(unresolved, now=self.ledger.now)

        assert len(replayed) == len(unresolved)
        assert all(execution.deaths == 0 for execution in replayed)

    # What always holds

    @invariant()
    def it_keeps_its_word(self) -> None:
        self.states_move_along_the_roads()
        self.every_due_instant_is_recorded_exactly_once()
        self.the_archive_holds_what_failed()

    def states_move_along_the_roads(self) -> None:
        for execution in self.ledger.executions():
            before = self.seen.get(execution.id)
            if before is not None and before.state is not execution.state:
                assert execution.state in ALLOWED_TRANSITIONS[before.state]
                assert before.version < execution.version
            if before is not None:
                assert before.attempt <= execution.attempt
            self.seen[execution.id] = execution

    def every_due_instant_is_recorded_exactly_once(self) -> None:
        recorded: dict[str, list[datetime]] = {schedule.name: [] for schedule in SCHEDULES}
        for execution in self.seen.values():
            recorded[execution.schedule_name] += _instants(execution)
        cursors = {row.name: row.next_due_at for row in self.ledger.schedules.schedules()}

        for name, instants in recorded.items():
            cursor = cursors[name]
            assert cursor is not None
            assert sorted(instants) == [
                NOON + n * MINUTE for n in range(1, (cursor - NOON) // MINUTE)
            ]

    def the_archive_holds_what_failed(self) -> None:
        failed = {State.FAILED, State.QUARANTINED}

        archived = {row.execution_id for row in self.ledger.records.archive(limit=10_000)}

        assert archived == {row.id for row in self.seen.values() if row.state in failed}

    def nothing_unfinished_is_ever_forgotten(self) -> None:
        unfinished = {row.id for row in self.ledger.executions(*UNFINISHED)}
        self.ledger.clock.advance(timedelta(days=2))

        assert unfinished == {*self.ledger.overdue(), *self.ledger.lapsed()}

    def _pick(self, choice: int, *states: State) -> Execution | None:
        fitting = [row for row in self.seen.values() if not states or row.state in states]
        return fitting[choice % len(fitting)] if fitting else None


def _instants(execution: Execution) -> list[datetime]:
    length = execution.missed if execution.state is State.SKIPPED else 1
    return [execution.due_at + n * MINUTE for n in range(length)]


@pytest.mark.parametrize(
    ("kind", "examples"),
    [
        ("sqlite", 20),
        pytest.param("mysql", 6, marks=pytest.mark.integration),
        pytest.param("postgresql", 6, marks=pytest.mark.integration),
    ],
)
def test_a_ledger_keeps_its_word_whatever_happens(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, examples: int
) -> None:
    migrated: Any = request.getfixturevalue(f"migrated_{kind}")

    def open_ledger(clock: FrozenClock) -> AbstractContextManager[Ledger]:
        if kind != "sqlite":
            return server_ledger(clock, migrated)
        return sqlite_ledger(clock, copyfile(migrated, tmp_path / f"{uuid4()}.db"))

    class Opened(LedgerMachine):
        def __init__(self) -> None:
            super().__init__(open_ledger)

    run_state_machine_as_test(
        Opened,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
