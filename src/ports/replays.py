"""Replays of many failures, and backfills: ordered once, carried out by any scheduler."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.backfill import BackfillOrder
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import Replay
from cronhare.domain.retries.retry import RetryPolicy


@attrs.frozen(kw_only=True)
class Advance:
    """One step of a replay: how it stands now, and what begins, to be published."""

    replay: Replay
    executions: Sequence[Execution] = ()


class ReplayStorePort(Protocol):
    """Keeps replays. Safe to share between threads, processes and hosts.

    What tests/integration/test_replay_store_contract.py does not assert is not promised. Every
    method may raise `LedgerUnavailable`; the call can then be repeated, but for `order` without a
    request.
    """

    def order(
        self, order: ReplayOrder | BackfillOrder, *, now: datetime, request: UUID | None = None
    ) -> Replay:
        """Begin a replay of what the archive has now: later failures are not in it.

        Or a backfill. Its instants are looked up as it goes on, by the schedule as it is then. A
        *request* that was made before is answered the replay that it began; of concurrent callers
        with one request exactly one begins it.
        """
        ...

    def asked_by(self, request: UUID) -> Replay | None:
        """Give the replay or backfill that a request began; None if it has begun none."""
        ...

    def have_run(self, scheduler_id: int, due: Sequence[datetime]) -> Collection[datetime]:
        """Give those of a schedule's instants that have a run: not one that was skipped."""
        ...

    def replays(self, *, limit: int, before: int | None = None) -> Sequence[Replay]:
        """List replays, the newest first; those *before* one of them, if it is given."""
        ...

    def replay(self, replay_id: int) -> Replay | None:
        """Find one."""
        ...

    def halt(self, replay_id: int, *, reason: str, now: datetime) -> Replay | None:
        """Stop an active replay: nothing of it begins any more. What has begun goes on.

        Answers how it stands; None if there is none.
        """
        ...

    def resume(self, replay_id: int, *, now: datetime) -> Replay | None:
        """Let a stopped replay go on, without its rule to stop: a person has looked at it."""
        ...

    def advance(
        self,
        *,
        now: datetime,
        node: str,
        policy: RetryPolicy,
        random_fraction: Callable[[], float],
    ) -> Advance | None:
        """Take one step of the active replay that has waited longest; None if none is due.

        In one transaction, and by one caller at a time, it learns what became of those that have
        begun, looks at some more of the archive, decides (`next_step`), and lets as many begin as
        that says. What is locked waits for a later step, and keeps no other waiting. What cannot be
        replayed is refused alone. A replay of which the database refuses something is stopped, and
        says why. One that cannot be taken on at all is passed over for a minute, once the call has
        failed.
        *policy* holds for executions without one. Of a backfill each instant is claimed once,
        whatever asks for it again; one that has a run is refused alone. *node* claims it.
        """
        ...
