"""The tables: what the statements ask for, and what the first migration makes.

`Scheduler` and `SchedulerExecution` begin as S1.3 and S1.4 in docs/compatibility.md; ours follow.
Only we write the others, and their constraints keep them right; people write `Scheduler`,
`Calendar` and `CalendarWindow`, which take anything. What depends on the database is in that
migration.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import sqlalchemy as sa

from cronhare.domain.audit import AuditOutcome
from cronhare.domain.events.outbox import OutboxState
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.orders import ItemState, ReplayState
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.schedules.skips import Why

from .types import Flag, HandWritten, IsOneOf, UtcDateTime

metadata = sa.MetaData()

#: A number that the database gives.
Id = sa.BigInteger

#: What tasks and people wrote, of any length.
LongText = sa.Text

#: The index that is made only where it can be of some rows alone: few executions have a lease.
IX_LEASE = "ix_execution_lease"


def _count(name: str, *, least: int = 0, **options: Any) -> sa.Column[int]:  # noqa: ANN401 - SQLAlchemy's
    return sa.Column(name, sa.Integer, _from(name, least, 2**31 - 1), nullable=False, **options)


def _from(name: str, least: int, most: int = 2**63 - 1) -> sa.CheckConstraint:
    """Bound a number; in SQLite, where a column takes any type, texts are above all numbers."""
    return sa.CheckConstraint(f"{name} BETWEEN {least} AND {most}")


def _one_of(name: str, allowed: Iterable[str], **options: Any) -> sa.Column[str]:  # noqa: ANN401
    # SQLite would make a table of what stands behind IN, for each row anew.
    is_one = " OR ".join(f"{name} = '{each}'" for each in allowed)
    return sa.Column(name, sa.String(16), sa.CheckConstraint(is_one), **options)


#: The users' table. People may write anything into it, so JSON is text here.
schedulers = sa.Table(
    "Scheduler",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("schedule", sa.String(255)),
    sa.Column("date_time", HandWritten),
    sa.Column("params", LongText),
    sa.Column("status", Flag),
    sa.Column("stay_alive", Flag),
    sa.Column("description", LongText),
    sa.Column("report_id", sa.Integer),
    sa.Column("worker_id", sa.Integer),
    sa.Column("reminder_id", sa.Integer),
    sa.Column("user_id", sa.Integer),
    sa.Column("group_id", sa.Integer),
    sa.Column("language_id", sa.Integer),
    sa.Column("name", sa.String(255)),
    sa.Column("event_id", sa.Integer),
    sa.Column("system_id", sa.Integer),
    sa.Column("timezone", sa.String(64)),
    sa.Column("retry", LongText),
    sa.Column("retention", LongText),
    sa.Column("misfire_policy", sa.String(16)),
    sa.Column("misfire_window_ms", sa.BigInteger),
    sa.Column("misfire_cap", sa.Integer),
    sa.Column("overlap_policy", sa.String(16)),
    sa.Column("concurrency_key", sa.String(255)),
    sa.Column("concurrency_limit", sa.Integer),
    sa.Column("timeout_ms", sa.BigInteger),
    sa.Column("jitter_ms", sa.BigInteger),
    sa.Column("starts_at", HandWritten),
    sa.Column("ends_at", HandWritten),
    sa.Column("queue", sa.String(255)),
    sa.Column("source", LongText),
    sa.Column("task_name", sa.String(255)),
    sa.Column("every_ms", sa.BigInteger),
    sa.Column("gap_policy", sa.String(16)),
    sa.Column("fold_policy", sa.String(16)),
    sa.Column("conditions", LongText),
    sa.Column("task_type", sa.String(32)),
    sa.Column("task_id", sa.Integer),
    sa.Column("topic", sa.String(255)),
    sa.Column("no_listener", sa.String(16)),
    # The digest of what was asked for, in rows that a request with a key has made.
    sa.Column("request", sa.String(64)),
    # Kept up by the database itself in rows that people write: see migration 0004.
    sa.Column("created_at", HandWritten, nullable=False, server_default=""),
    sa.Column("updated_at", HandWritten, nullable=False, server_default=""),
    sa.Index("ux_scheduler_name", "name", unique=True),
    sa.Index("ix_scheduler_updated_at", "updated_at"),  # then the id, which PostgreSQL is told
    sa.Index("ix_scheduler_queue", "queue", "status", "stay_alive", "system_id"),
    sa.Index("ix_scheduler_task", "task_name"),
)

#: Each schedule's cursor. It is edited if its updated_at is not this planned_at. One that could not
#: be planned has the problem, the replica that judged so, and where to go on later. With *idle*
#: nothing goes on there: it says why nothing has run since. While it is paused its due instants do
#: not run; a pause that is over stays until the next. *claimed* counts the runs that were due, if
#: it may have but so many.
plans = sa.Table(
    "SchedulerPlan",
    metadata,
    sa.Column(
        "scheduler_id", Id, sa.ForeignKey("Scheduler.id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column("next_due_at", UtcDateTime),
    sa.Column("planned_at", HandWritten, nullable=False),
    sa.Column("problem", LongText),
    sa.Column("judged_by", sa.String(255)),
    sa.Column("resume_at", UtcDateTime),
    _one_of("idle", Why),
    sa.Column("paused_at", UtcDateTime),
    sa.Column("paused_until", UtcDateTime),
    sa.Column("paused_by", sa.String(255)),
    sa.Column("pause_reason", LongText),
    sa.Column("claimed", sa.BigInteger, _from("claimed", 0)),
    sa.Index("ix_plan_next_due_at", "next_due_at"),  # likewise
    sa.Index("ix_plan_paused", "paused_at"),
)

#: How many events nobody listened to, by topic; or by type and number, where there is no topic.
topic_tallies = sa.Table(
    "TopicTally",
    metadata,
    sa.Column("topic", sa.String(255), primary_key=True),
    sa.Column("no_listener", sa.BigInteger, nullable=False),
    sa.Column("last_at", UtcDateTime, nullable=False),
)

#: Holidays and the like, by which schedules run or do not; people may write them, too.
calendars = sa.Table(
    "Calendar",
    metadata,
    sa.Column("name", sa.String(63), primary_key=True),
    sa.Column("timezone", sa.String(64), nullable=False),
    sa.Column("source", LongText),
)

#: The windows of each calendar; *during* is as in a jobs file, *label* what people call it.
calendar_windows = sa.Table(
    "CalendarWindow",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("calendar", sa.String(63), nullable=False),
    sa.Column("during", sa.String(64), nullable=False),
    sa.Column("label", sa.String(200)),
    sa.Index("ix_window_calendar", "calendar"),
)

#: *check_at* is when the reconciler looks, graces aside; *next_attempt_at* stays what was promised.
#: *held_by* names the gate that holds it back, or the place of a key that it has.
executions = sa.Table(
    "SchedulerExecution",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("scheduler_id", Id, sa.ForeignKey("Scheduler.id"), nullable=False),
    sa.Column("execution_key", sa.String(255), nullable=False),
    sa.Column("executed_at", UtcDateTime, nullable=False),
    sa.Column("container_id", sa.String(255), nullable=False),
    sa.Column("due_at", UtcDateTime),
    _one_of("state", State, nullable=False, server_default="succeeded"),
    _count("attempt", least=1, server_default="1"),
    _count("deaths", server_default="0"),
    _count("crashes", server_default="0"),
    sa.Column("version", sa.Integer, nullable=False, server_default="1"),
    sa.Column("task_type", sa.String(32), nullable=False, server_default=""),
    sa.Column("task_id", sa.BigInteger, _from("task_id", 0), nullable=False, server_default="0"),
    sa.Column("queue", sa.String(255), nullable=False, server_default="cron_scheduler"),
    sa.Column("params", LongText),
    sa.Column("retry", LongText),
    sa.Column("timeout_ms", sa.BigInteger, _from("timeout_ms", 1)),
    sa.Column("owner", sa.String(255)),
    sa.Column("lease_until", UtcDateTime),
    sa.Column("next_attempt_at", UtcDateTime),
    sa.Column("check_at", UtcDateTime),
    sa.Column("published_at", UtcDateTime),
    sa.Column("started_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("last_error", LongText),
    sa.Column(
        "cancel_requested",
        Flag,
        sa.CheckConstraint("cancel_requested IN (0, 1)"),
        nullable=False,
        server_default="0",
    ),
    sa.Column("last_due_at", UtcDateTime),
    _count("missed", server_default="0"),
    _count("resends", server_default="0"),
    sa.Column("source", sa.String(255)),
    sa.Column("task_name", sa.String(255)),
    sa.Column("concurrency_key", sa.String(255)),
    sa.Column("overlap_policy", sa.String(16)),
    sa.Column("held_by", sa.String(255)),
    sa.Column("expires_at", UtcDateTime),
    sa.Column("topic", sa.String(255)),
    sa.Column("no_listener", sa.String(16)),
    sa.Index("ux_execution_key", "scheduler_id", "execution_key", unique=True),
    sa.Index("ix_execution_check", "state", "check_at"),
    sa.Index(IX_LEASE, "state", "lease_until"),
    sa.Index("ix_execution_open", "scheduler_id", "finished_at"),
    sa.Index("ix_execution_task", "task_name"),
    sa.Index("ix_execution_number", "task_type", "task_id"),
    sa.Index("ix_execution_held", "held_by", "due_at"),
)

#: The gates that executions pass. Whoever starts one, or lets one go, locks the rows of its gates:
#: that is all that they are for. *used_at* is when a row was made.
gates = sa.Table(
    "ExecutionGate",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("used_at", UtcDateTime, nullable=False),
    sa.Index("ix_gate_used_at", "used_at"),
)


def _key_of_attempt() -> tuple[sa.Column[int], sa.Column[int]]:
    execution = sa.ForeignKey("SchedulerExecution.id", ondelete="CASCADE")
    return (
        sa.Column("execution_id", Id, execution, primary_key=True, autoincrement=False),
        sa.Column(
            "attempt", sa.Integer, _from("attempt", 1), primary_key=True, autoincrement=False
        ),
    )


attempts = sa.Table(
    "ExecutionAttempt",
    metadata,
    *_key_of_attempt(),
    sa.Column("node", sa.String(255), nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("finished_at", UtcDateTime),
    _one_of("ending", Ending),
    sa.Column("exit_code", sa.Integer),
    sa.Column("signal", sa.Integer),
    sa.Column("pid", sa.Integer),
    sa.Column("error", LongText),
    sa.Column("peak_memory", sa.BigInteger),
    sa.Column("cpu_seconds", sa.Double),
    sa.Column("left_running", sa.Integer),
)

#: The output of attempts, and what they report, in a table of its own: nothing that a task says
#: ever touches the hot rows.
outputs = sa.Table(
    "AttemptOutput",
    metadata,
    *_key_of_attempt(),
    sa.Column("stdout_head", LongText, nullable=False),
    sa.Column("stdout_tail", LongText, nullable=False),
    sa.Column("stdout_bytes", sa.BigInteger, nullable=False),
    sa.Column("stderr_head", LongText, nullable=False),
    sa.Column("stderr_tail", LongText, nullable=False),
    sa.Column("stderr_bytes", sa.BigInteger, nullable=False),
    sa.Column("as_of", UtcDateTime),
    sa.Column("stdout_lines", sa.BigInteger),
    sa.Column("stderr_lines", sa.BigInteger),
    sa.Column("progress", sa.Double),
    sa.Column("progress_text", LongText),
    sa.Column("result", LongText),
    sa.Column("result_problem", LongText),
)

#: The archive. It refers to rows that may be gone by now, so it has no foreign keys.
failed_tasks = sa.Table(
    "FailedTask",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("execution_id", Id, nullable=False),
    sa.Column("scheduler_id", Id, nullable=False),
    sa.Column("schedule_name", sa.String(255), nullable=False),
    sa.Column("execution_key", sa.String(255), nullable=False),
    _one_of("kind", ("failed", "quarantined"), nullable=False),
    sa.Column("task_type", sa.String(32), nullable=False),
    sa.Column("task_id", sa.BigInteger, nullable=False),
    sa.Column("queue", sa.String(255), nullable=False),
    sa.Column("params", LongText, nullable=False),
    sa.Column("failed_at", UtcDateTime, nullable=False),
    sa.Column("failed_reason", LongText, nullable=False),
    sa.Column("error", LongText),
    _count("attempts"),
    _count("retry_count"),
    sa.Column("resolved_at", UtcDateTime),
    sa.Column("resolution", sa.String(16)),
    sa.Column("note", LongText),
    sa.Column("source", sa.String(255)),
    sa.Column("task_name", sa.String(255)),
    sa.Column("check_at", UtcDateTime),
    sa.Column("crash_count", sa.Integer),
    sa.Column("first_crash_at", UtcDateTime),
    sa.Column("options", LongText),
    sa.Column("topic", sa.String(255)),
    sa.Column("event_at", UtcDateTime),
    sa.Column("paused_after", sa.Integer),
    sa.Index("ix_failed_check", "check_at"),
    sa.Index("ix_failed_event", "event_at"),
    sa.Index("ix_failed_at", "failed_at"),
    sa.Index("ix_failed_resolution", "resolution", "id"),
    sa.Index("ix_failed_execution", "execution_id"),
    sa.Index("ix_failed_key", "scheduler_id", "execution_key"),
)

#: What is asked of a replay of many failures (*asked*, in JSON), and how far it has come. *request*
#: names what asked for it, where that may be repeated.
replays = sa.Table(
    "Replay",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("asked", LongText, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    _one_of("state", ReplayState, nullable=False),
    sa.Column("reason", LongText),
    sa.Column("up_to", sa.BigInteger, _from("up_to", 0), nullable=False),
    sa.Column(
        "collected_to", sa.BigInteger, _from("collected_to", -1), nullable=False, server_default="0"
    ),
    sa.Column("next_at", UtcDateTime, nullable=False),
    sa.Column("ended_at", UtcDateTime),
    _count("waiting", server_default="0"),
    _count("released", server_default="0"),
    _count("failing", server_default="0"),
    _count("succeeded", server_default="0"),
    _count("failed", server_default="0"),
    _count("refused", server_default="0"),
    _count("left_out", server_default="0"),
    sa.Column("request", sa.String(36)),
    sa.Index("ix_replay_next", "state", "next_at"),
    sa.Index("ux_replay_request", "request", unique=True),
)

#: The failures of a replay: rows of the archive. Those of one *item_key* are limited.
replay_items = sa.Table(
    "ReplayItem",
    metadata,
    sa.Column(
        "replay_id",
        Id,
        sa.ForeignKey("Replay.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    sa.Column("archived_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("execution_id", sa.BigInteger, nullable=False),
    sa.Column("item_key", sa.String(255), nullable=False),
    _one_of("state", ItemState, nullable=False),
    sa.Index("ix_replay_item", "replay_id", "state", "item_key", "archived_id"),
)

#: What each process reports of itself; *queues* has one a line.
nodes = sa.Table(
    "SchedulerNode",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("version", sa.String(64), nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    sa.Column("queues", LongText, nullable=False),
    sa.Column("concurrency", sa.Integer),
    sa.Column("running", sa.Integer),
    sa.Column("clock_offset_ms", sa.BigInteger, nullable=False),
    sa.Column("consuming", sa.Integer),
    sa.Column("drain_asked_at", UtcDateTime),
    sa.Column("consumed_at", UtcDateTime),
    sa.Column("source", sa.String(320)),  # a jobs file's and an app's
    sa.Column("digest", sa.String(26)),
)

#: What each queue was granted of its retry budget: *granted* is JSON, see `limits.py`.
budgets = sa.Table(
    "RetryBudget",
    metadata,
    sa.Column("queue", sa.String(255), primary_key=True),
    _count("most"),
    sa.Column("window_ms", sa.BigInteger, nullable=False),
    sa.Column("granted", LongText, nullable=False),
    sa.Column("spent_since", UtcDateTime),
    sa.Column("last_at", UtcDateTime),
)

#: What is known of a task's circuit breaker, by the task (`report 25`); *failures* is JSON, see
#: `limits.py`.
breakers = sa.Table(
    "CircuitBreaker",
    metadata,
    sa.Column("task", sa.String(64), primary_key=True),
    sa.Column("task_name", sa.String(255)),
    sa.Column("window_ms", sa.BigInteger, nullable=False),
    sa.Column("failures", LongText, nullable=False),
    sa.Column("judged_at", UtcDateTime),
    _count("next_failures"),
    sa.Column("opened_at", UtcDateTime),
    _count("failed"),
    _count("succeeded"),
    sa.Column("probe_at", UtcDateTime),
    sa.Column("probe", sa.BigInteger),
    sa.Column("last_at", UtcDateTime, nullable=False),
)


#: The outbox: one event for one target. Rows that it refers to may be gone: no foreign keys.
outbox = sa.Table(
    "EventDelivery",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("event_key", sa.String(255), nullable=False),
    sa.Column("event", sa.String(32), nullable=False),
    sa.Column("target", sa.String(255), nullable=False),
    sa.Column("source", sa.String(255), nullable=False),
    sa.Column("scheduler_id", Id, nullable=False),
    sa.Column("schedule_name", sa.String(255), nullable=False),
    sa.Column("execution_id", Id),
    sa.Column("occurred_at", UtcDateTime, nullable=False),
    sa.Column("payload", LongText, nullable=False),
    _one_of("state", OutboxState, nullable=False),
    _count("tries"),
    sa.Column("next_try_at", UtcDateTime),
    sa.Column("owner", sa.String(255)),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("last_error", LongText),
    sa.Index("ux_delivery", "event_key", "target", unique=True),
    sa.Index("ix_delivery_due", "state", "target", "next_try_at"),
)


#: Who has taken a message that came again, and has not said what became of it.
holds = sa.Table(
    "RedeliveryHold",
    metadata,
    sa.Column("message", sa.String(64), primary_key=True),
    sa.Column("node", sa.String(255), primary_key=True),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("boot", sa.String(64), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Index("ix_hold_at", "at"),
)

#: The alerts that hold, or did until *cleared_at*: *rule* is a rule, and where there may be several
#: a hash of its subject. Those of schedules have the *source* of their file.
alerts = sa.Table(
    "Alert",
    metadata,
    sa.Column("rule", sa.String(32), primary_key=True),
    sa.Column("raised_at", UtcDateTime, nullable=False),
    sa.Column("held_at", UtcDateTime, nullable=False),
    sa.Column("data", LongText, nullable=False),
    sa.Column("subject", sa.String(255), nullable=False),
    sa.Column("source", sa.String(255)),
    sa.Column("scheduler_id", Id, nullable=False),
    sa.Column("cleared_at", UtcDateTime),
)

#: When the alerts of a source were judged; the whole ledger's source is empty. The judgement that
#: ended last, at *ended_at*, shows what held at *as_of*, when it began; another may be under way.
judgements = sa.Table(
    "AlertJudgement",
    metadata,
    sa.Column("source", sa.String(255), primary_key=True),
    sa.Column("began_at", UtcDateTime, nullable=False),
    sa.Column("as_of", UtcDateTime),
    sa.Column("ended_at", UtcDateTime),
    sa.CheckConstraint("(as_of IS NULL) = (ended_at IS NULL)"),
)

#: Every change that somebody asked for; without an outcome it is not known what became of it.
audit = sa.Table(
    "AuditEntry",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("actor", sa.String(255), nullable=False),
    sa.Column("channel", sa.String(16), nullable=False),
    sa.Column("action", sa.String(64), nullable=False),
    sa.Column("target", sa.String(255), nullable=False),
    sa.Column("value_before", LongText),
    sa.Column("value_after", LongText),
    _one_of("outcome", AuditOutcome),
    sa.Column("problem", LongText),
    sa.Column("finished_at", UtcDateTime),
    sa.Index("ix_audit_at", "at"),
    sa.Index("ix_audit_target", "target", "id"),
    sa.Index("ix_audit_actor", "actor", "id"),
)

#: Tokens by their names. What is kept of each is a digest.
tokens = sa.Table(
    "AccessToken",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("scope", sa.String(16), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("made_by", sa.String(255), nullable=False),
    sa.Column("expires_at", UtcDateTime),
    sa.Column("revoked_at", UtcDateTime),
    sa.Column("last_used_at", UtcDateTime),
    sa.Index("ux_token_digest", "digest", unique=True),
)

#: The page's sessions, by the digests of their cookies.
page_sessions = sa.Table(
    "PageSession",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("token", sa.String(64), nullable=False),
    sa.Column("token_digest", sa.String(64), nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Index("ix_session_token", "token_digest"),
    sa.Index("ix_session_end", "expires_at"),
)


S = TypeVar("S", sa.Select[Any], sa.Update)

#: MySQL would rather read all rows of a small table, and lock each as it passes: replicas that skip
#: locked rows would leave out their own.
FOUND_BY_KEY = "FORCE INDEX (PRIMARY)"

#: The parameter of statements about several rows.
IDS: sa.BindParameter[Any] = sa.bindparam("ids", expanding=True)

#: Those executions whose ids are the parameter `ids`.
THESE = IsOneOf(executions.c.id, IDS)


def by_id(statement: S) -> S:
    """Let a statement have the executions whose ids are its parameter `ids`, found by that key."""
    if isinstance(statement, sa.Update):
        return statement.where(THESE).with_hint(FOUND_BY_KEY, executions, "mysql")
    return statement.where(THESE).with_hint(executions, FOUND_BY_KEY, "mysql")


#: An execution whose failure is in the archive, unresolved: it may be replayed, so it is kept.
AWAITS_A_PERSON = sa.exists().where(
    failed_tasks.c.execution_id == executions.c.id, failed_tasks.c.resolution.is_(None)
)
