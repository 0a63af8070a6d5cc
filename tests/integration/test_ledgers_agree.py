"""The same moves in memory and in SQL, forbidden ones included: answers and rows do not differ."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import timedelta
from itertools import count
from pathlib import Path
from shutil import copyfile

import attrs
import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import URL, create_engine, text

from cronhare.adapters.memory.clock import FrozenClock
from cronhare.domain.execution import STARTABLE, Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.catching_up import CatchUp
from cronhare.domain.lifecycle.claims import NotToBeRun
from cronhare.domain.lifecycle.failure_filter import EVERY_FAILURE, UNRESOLVED
from cronhare.domain.lifecycle.failures import Failure
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.messages.messages import AttemptRef, FailedMessage, TaskMessage
from cronhare.domain.messages.nack_count import Nacks
from cronhare.domain.retries.budget import BudgetPolicy
from cronhare.domain.retries.retry import Complete, GiveBack, Quarantine, RetryPolicy, Verdict
from cronhare.domain.schedules.schedule import Misfire, MisfirePolicy, OverlapPolicy
from cronhare.ports.attempts import Deferred, Finish, StartRequest
from cronhare.ports.records import Retention
from cronhare.ports.runner import AttemptResult, Captured, Written
from tests.integration.ledgers import (
    CRASH,
    FAILURE,
    FOR_GOOD,
    GRACES,
    IN_30_S,
    LEASE,
    LOSS,
    NOON,
    SUCCESS,
    Ledger,
    draft,
    memory_ledger,
    server_ledger,
    sqlite_ledger,
)
from tests.ports import ids_of

#: Opens a ledger, and gives a person's hand that writes `cancel_requested` into a row of it.
Opened = tuple[Ledger, Callable[[Execution], None]]
OpenLedger = Callable[[FrozenClock], AbstractContextManager[Opened]]

SCHEDULES = [
    draft("all", misfire=Misfire(policy=MisfirePolicy.ALL)),
    draft("once", misfire=Misfire(policy=MisfirePolicy.ONCE)),
    draft("alone", overlap=OverlapPolicy.SKIP),
]

RETENTION = Retention(
    completed=timedelta(minutes=5),
    completed_rows=3,
    failed=timedelta(minutes=10),
    others=timedelta(minutes=5),
)
ONE_A_MINUTE = BudgetPolicy(most=1)
MANY_NACKS = Nacks(by_queue={"cron_scheduler": 2}, trip=timedelta(seconds=1))
SAID = Captured(head="hello", bytes=5)

nodes = st.sampled_from(["ant", "bee"])
choices = st.integers(min_value=0, max_value=1_000_000)
several = st.lists(choices, min_size=1, max_size=4)
offsets = st.sampled_from([0, 0, 0, 0, -1, 1])
nacks = st.sampled_from([None, Nacks(by_queue={}, trip=LEASE), MANY_NACKS])
ends: st.SearchStrategy[tuple[Verdict, AttemptResult]] = st.sampled_from(
    [
        (Complete(), attrs.evolve(SUCCESS, stdout=SAID)),
        (IN_30_S, FAILURE),
        (IN_30_S, CRASH),
        (GiveBack("shutdown"), LOSS),
        (FOR_GOOD, FAILURE),
        (Quarantine("crashed"), CRASH),
    ]
)

#: An execution, by what it is called in each ledger: ids are each ledger's own.
Name = tuple[str, str]


class TwoLedgers(RuleBasedStateMachine):
    """Whatever is asked of both is answered alike, and leaves the same rows."""

    def __init__(self, open_ledgers: Sequence[OpenLedger]) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.clock = FrozenClock(NOON)
        opened = [self.stack.enter_context(opens(self.clock)) for opens in open_ledgers]
        self.ledgers = [ledger for ledger, _ in opened]
        self.hands = [hand for _, hand in opened]
        self.rows: list[dict[Name, Execution]] = [{} for _ in opened]
        self.older: list[dict[Name, Execution]] = [{} for _ in opened]
        for ledger in self.ledgers:
            ledger.save(*SCHEDULES)
            ledger.plan_edited()
        self.schedule_ids = [
            ids_of(ledger.schedules, [one.name for one in SCHEDULES]) for ledger in self.ledgers
        ]

    def teardown(self) -> None:
        self.stack.close()

    # What happens

    @rule(seconds=st.sampled_from([1, 5, 31, 60, 61, 150, 400, 900]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @rule(node=nodes, limit=st.integers(min_value=3, max_value=5))
    def claim(self, node: str, limit: int) -> None:
        def ask(place: int) -> object:
            batch = self.ledgers[place].claim_due(node=node, limit=limit)
            return batch.looked, batch.skipped, sorted(map(_shown, batch.claimed), key=repr)

        self.agree("claim_due", ask)

    @rule(picks=several)
    def publish(self, picks: list[int]) -> None:
        self.with_each("mark_published", picks, lambda ledger: ledger.claims.mark_published)

    @rule(picks=several)
    def hand_over(self, picks: list[int]) -> None:
        self.with_each("hand_over", picks, lambda ledger: ledger.claims.hand_over)

    @rule(picks=several, by=offsets, node=nodes, nacks=nacks, was_away=st.booleans())
    def start(
        self, picks: list[int], by: int, node: str, nacks: Nacks | None, *, was_away: bool
    ) -> None:
        def ask(place: int) -> object:
            starts = [
                StartRequest(execution_id=one.id, attempt=one.attempt + by, nacks=nacks)
                for one in self.picked(place, picks)
            ]
            now = self.clock.now()
            answers = self.ledgers[place].attempts.start(
                starts,
                now=now,
                node=node,
                lease=LEASE,
                catch_up=CatchUp(budget=ONE_A_MINUTE, free_at=now) if was_away else None,
            )
            return [_shown(one) for one in answers]

        self.agree("start", ask)

    @rule(picks=several, end=ends, node=nodes, is_old=st.booleans())
    def finish(
        self, picks: list[int], end: tuple[Verdict, AttemptResult], node: str, is_old: bool
    ) -> None:
        def ask(place: int) -> object:
            finishes = self.finishes(place, picks, end, is_old=is_old)
            return self.ledgers[place].attempts.finish(finishes, now=self.clock.now(), node=node)

        self.agree("finish", lambda place: list(ask(place)))  # type: ignore[call-overload]

    @rule(pick=choices)
    def start_what_waits(self, pick: int) -> None:
        def ask(place: int) -> object:
            return [
                _shown(self.ledgers[place].start(one))
                for one in self.picked(place, [pick], *STARTABLE)
            ]

        self.agree("start", ask)

    @rule(pick=choices, end=ends)
    def finish_what_runs(self, pick: int, end: tuple[Verdict, AttemptResult]) -> None:
        def ask(place: int) -> object:
            return [
                self.ledgers[place].finish(one, *end, node=one.owner or "")
                for one in self.picked(place, [pick], State.RUNNING)
            ]

        self.agree("finish", ask)

    @rule(picks=several, end=ends, is_old=st.booleans())
    def give_up(self, picks: list[int], end: tuple[Verdict, AttemptResult], is_old: bool) -> None:
        def ask(place: int) -> object:
            finishes = self.finishes(place, picks, (end[0], LOSS), is_old=is_old)
            return list(self.ledgers[place].attempts.give_up(finishes, now=self.clock.now()))

        self.agree("give_up", ask)

    @rule(picks=several, node=nodes)
    def renew(self, picks: list[int], node: str) -> None:
        def ask(place: int) -> object:
            ids = [one.id for one in self.picked(place, picks)]
            renewal = self.ledgers[place].attempts.renew(
                ids, now=self.clock.now(), node=node, lease=LEASE
            )
            names = {one.id: name for name, one in self.rows[place].items()}
            asked = (renewal.held, renewal.cancel_requested, renewal.busy)
            return [sorted(names[id_] for id_ in part) for part in asked]

        self.agree("renew", ask)

    @rule(pick=choices, node=nodes, by=offsets)
    def keep_written(self, pick: int, node: str, by: int) -> None:
        def ask(place: int) -> object:
            written = [
                Written(execution_id=one.id, attempt=one.attempt + by, stdout=SAID, stderr=SAID)
                for one in self.picked(place, [pick])
            ]
            self.ledgers[place].attempts.keep_written(written, now=self.clock.now(), node=node)
            return None

        self.agree("keep_written", ask)

    @rule(
        key=st.sampled_from(["foreign-1", "foreign-2"]),
        which=choices,
        deaths=st.sampled_from([0, 2]),
    )
    def adopt(self, key: str, which: int, deaths: int) -> None:
        def ask(place: int) -> object:
            message = TaskMessage(
                type="report",
                id=7,
                scheduler_id=self.scheduler(place, which),
                params_scheduler="{}",
            )
            return _shown(
                self.ledgers[place].attempts.adopt(
                    message,
                    key=key,
                    queue="cron_scheduler",
                    deaths=deaths,
                    now=self.clock.now(),
                    node="ant",
                )
            )

        self.agree("adopt", ask)

    @rule(key=st.sampled_from(["manual-1", "manual-2"]), which=choices)
    def run_now(self, key: str, which: int) -> None:
        def ask(place: int) -> object:
            records, id_ = self.ledgers[place].records, self.scheduler(place, which)
            now = self.clock.now()
            try:
                return _shown(records.run_now(id_, key=key, params=None, now=now, node="ant"))
            except NotToBeRun as error:
                return str(error)

        self.agree("run_now", ask)

    @rule(pick=choices)
    def cancel(self, pick: int) -> None:
        self.agree(
            "cancel",
            lambda place: [
                self.ledgers[place].records.cancel(one.id, now=self.clock.now())
                for one in self.picked(place, [pick])
            ],
        )

    @rule(pick=choices)
    def a_person_writes_that_the_end_is_asked_for(self, pick: int) -> None:
        self.agree(
            "by hand",
            lambda place: [self.hands[place](one) for one in self.picked(place, [pick])],
        )

    @rule()
    def replay(self) -> None:
        def ask(place: int) -> object:
            records = self.ledgers[place].records
            ids = [row.id for row in records.archive(EVERY_FAILURE, limit=1_000)]
            replayed = records.replay(ids, now=self.clock.now())
            return [_shown(one) for one in replayed]

        self.agree("replay", ask)

    @rule(
        rate=st.sampled_from([0.1, 2.0]),
        key=st.sampled_from([None, "schedule"]),
        canary=st.sampled_from([0, 1]),
        attempts=st.sampled_from([None, 1]),
    )
    def order_a_replay(
        self, rate: float, key: str | None, canary: int, attempts: int | None
    ) -> None:
        order = ReplayOrder(
            which=UNRESOLVED, rate=rate, key=key, at_once=1, canary=canary, attempts=attempts
        )
        self.agree(
            "order a replay",
            lambda place: self.ledgers[place].replays.order(order, now=self.clock.now()).order,
        )

    @rule()
    def go_on_with_a_replay(self) -> None:
        def go_on(place: int) -> object:
            advance = self.ledgers[place].replays.advance(
                now=self.clock.now(),
                node="ant",
                policy=RetryPolicy(),
                random_fraction=lambda: 0.5,
            )
            if advance is None:
                return None
            replay = attrs.evolve(
                advance.replay, id=0, up_to=0, collected_to=0, created_at=self.clock.now()
            )
            return replay, [_shown(one) for one in advance.executions]

        self.agree("go on with a replay", go_on)

    @rule()
    def discard(self) -> None:
        def ask(place: int) -> object:
            records = self.ledgers[place].records
            ids = [row.id for row in records.archive(limit=1_000)]
            return records.discard(ids, note="known", now=self.clock.now())

        self.agree("discard", ask)

    @rule(pick=choices, by=offsets, is_proven=st.booleans(), is_ours=st.booleans())
    def keep_failure(self, pick: int, by: int, is_proven: bool, is_ours: bool) -> None:
        def ask(place: int) -> object:
            kept: list[object] = []
            for one in self.picked(place, [pick]):
                message = FailedMessage(
                    type="report",
                    id=7,
                    scheduler_id=one.scheduler_id,
                    params_scheduler="{}",
                    failed_at="unread",
                    failed_reason="Connection timeout",
                    retry_count=1,
                )
                ticket = AttemptRef(execution_id=one.id, attempt=one.attempt + by)
                failure = Failure(
                    message=message,
                    failed_at=None,
                    key=f"foreign-{one.key}",
                    ticket=ticket if is_ours else None,
                    proven=is_proven,
                )
                answer = self.ledgers[place].records.keep_failure(
                    failure, now=self.clock.now(), node="ant"
                )
                if isinstance(answer, Archived):
                    kept.append(_archived(answer))
                else:
                    kept.append(None if answer is None else answer.state)
            return kept

        self.agree("keep_failure", ask)

    @rule(ago=st.sampled_from([0, 60, 600]))
    def doubt(self, ago: int) -> None:
        def ask(place: int) -> object:
            now = self.clock.now()
            since = now - timedelta(seconds=ago)
            return self.ledgers[place].claims.doubt(since=since, now=now, after=0, limit=1_000)

        self.agree("doubt", ask)

    @rule()
    def reconcile(self) -> None:
        def ask(place: int) -> object:
            ledger, now = self.ledgers[place], self.clock.now()
            names = {one.id: name for name, one in self.rows[place].items()}
            overdue = ledger.overdue()
            return [
                sorted(names[id_] for id_ in found)
                for found in (overdue, ledger.lapsed(), ledger.run_by("ant"))
            ], [_ended(one) for one in ledger.claims.overdue_ends(now=now, graces=GRACES, limit=9)]

        self.agree("reconcile", ask)

    @rule(pick=choices, by=offsets)
    def mark_ends_published(self, pick: int, by: int) -> None:
        def ask(place: int) -> object:
            ends = [
                AttemptRef(execution_id=one.id, attempt=one.attempt + by)
                for one in self.picked(place, [pick])
            ]
            self.ledgers[place].claims.mark_ends_published(ends)
            return None

        self.agree("mark_ends_published", ask)

    @rule()
    def clean_up(self) -> None:
        self.agree(
            "clean_up",
            lambda place: self.ledgers[place].records.clean_up(
                now=self.clock.now(), retention=RETENTION
            ),
        )

    # What always holds

    @invariant()
    def rows_are_alike(self) -> None:
        self.older = self.rows
        self.rows = [
            {(one.schedule_name, one.key): one for one in ledger.executions()}
            for ledger in self.ledgers
        ]
        self.agree(
            "executions",
            lambda place: {name: _shown(one) for name, one in self.rows[place].items()},
        )
        self.agree("attempts", self.attempts_of)
        self.agree("archive", self.archive_of)
        self.agree("owners", lambda place: sorted(self.ledgers[place].claims.owners()))

    def attempts_of(self, place: int) -> object:
        records = self.ledgers[place].records
        return {
            name: (
                [attrs.evolve(made, execution_id=0) for made in records.attempts(one.id)],
                list(records.output(one.id)),
            )
            for name, one in self.rows[place].items()
        }

    def archive_of(self, place: int) -> object:
        rows = self.ledgers[place].records.archive(EVERY_FAILURE, limit=1_000)
        return sorted((_archived(row) for row in rows), key=repr)

    # How it is asked

    def agree(self, doing: str, ask: Callable[[int], object]) -> None:
        first, *others = [ask(place) for place in range(len(self.ledgers))]
        for other in others:
            assert other == first, doing

    def with_each(
        self, doing: str, picks: list[int], method: Callable[[Ledger], Callable[..., None]]
    ) -> None:
        self.agree(
            doing,
            lambda place: method(self.ledgers[place])(
                self.picked(place, picks), now=self.clock.now()
            ),
        )

    def picked(self, place: int, picks: list[int], *states: State) -> list[Execution]:
        rows = self.rows[place].items()
        names = sorted(name for name, one in rows if not states or one.state in states)
        return [self.rows[place][names[pick % len(names)]] for pick in picks] if names else []

    def finishes(
        self, place: int, picks: list[int], end: tuple[Verdict, AttemptResult], *, is_old: bool
    ) -> list[Finish]:
        """End what is as it was a step ago, or is now."""
        verdict, ran = end
        found = self.picked(place, picks)
        if is_old:
            older = self.older[place]
            found = [older.get((one.schedule_name, one.key), one) for one in found]
        return [Finish(execution=one, ran=ran, verdict=verdict) for one in found]

    def scheduler(self, place: int, which: int) -> int:
        ids = [*(id_ for _, id_ in sorted(self.schedule_ids[place].items())), 999_999]
        return ids[which % len(ids)]


def _shown(answer: object) -> object:
    """Show an execution without the numbers that a ledger chooses for itself."""
    if isinstance(answer, Deferred):
        return answer.at, _shown(answer.execution)
    if not isinstance(answer, Execution):
        return answer
    reason = answer.last_error and re.sub(r"execution \d+", "execution …", answer.last_error)
    return msgspec.structs.replace(answer, id=0, scheduler_id=0, last_error=reason)


def _archived(row: Archived) -> Archived:
    return attrs.evolve(row, id=0, execution_id=0, scheduler_id=0)


def _ended(ended: Archived) -> object:
    return _archived(ended)


@pytest.fixture
def open_memory() -> OpenLedger:
    def opened(clock: FrozenClock) -> AbstractContextManager[Opened]:
        ledger = memory_ledger(clock)

        def ask_for_its_end(execution: Execution) -> None:
            executions = ledger.claims._executions  # type: ignore[attr-defined]
            executions.write(execution, msgspec.structs.replace(execution, cancel_requested=True))

        return nullcontext((ledger, ask_for_its_end))

    return opened


def _hand(stack: ExitStack, url: str | URL) -> Callable[[Execution], None]:
    engine = create_engine(url)
    stack.callback(engine.dispose)
    statement = text("UPDATE SchedulerExecution SET cancel_requested = 1 WHERE id = :id")

    def ask_for_its_end(execution: Execution) -> None:
        with engine.begin() as connection:
            connection.execute(statement, {"id": execution.id})

    return ask_for_its_end


@pytest.fixture
def open_sqlite(migrated_sqlite: Path, tmp_path: Path) -> OpenLedger:
    numbers = count()

    @contextmanager
    def opened(clock: FrozenClock) -> Iterator[Opened]:
        path = tmp_path / f"{next(numbers)}.db"
        copyfile(migrated_sqlite, path)
        with ExitStack() as stack:
            ledger = stack.enter_context(sqlite_ledger(clock, path))
            yield ledger, _hand(stack, f"sqlite:///{path}")

    return opened


def _open_on(url: URL) -> OpenLedger:
    @contextmanager
    def opened(clock: FrozenClock) -> Iterator[Opened]:
        with ExitStack() as stack:
            ledger = stack.enter_context(server_ledger(clock, url))
            yield ledger, _hand(stack, url)

    return opened


@pytest.fixture
def open_mysql(migrated_mysql: URL) -> OpenLedger:
    return _open_on(migrated_mysql)


@pytest.fixture
def open_postgresql(migrated_postgresql: URL) -> OpenLedger:
    return _open_on(migrated_postgresql)


@pytest.mark.parametrize(
    ("kind", "examples"),
    [
        ("sqlite", 24),
        pytest.param("mysql", 6, marks=pytest.mark.integration),
        pytest.param("postgresql", 6, marks=pytest.mark.integration),
    ],
)
def test_a_ledger_in_sql_answers_as_the_one_in_memory(
    request: pytest.FixtureRequest, open_memory: OpenLedger, kind: str, examples: int
) -> None:
    open_other: OpenLedger = request.getfixturevalue(f"open_{kind}")

    class Opened(TwoLedgers):
        def __init__(self) -> None:
            super().__init__([open_memory, open_other])

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
