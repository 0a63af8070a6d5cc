"""The tables: what the statements ask for, and what the first migration makes.

`Scheduler` and `SchedulerExecution` begin as S1.3 and S1.4 in docs/compatibility.md; ours follow.
Only we write the others, and their constraints keep them right; people write `Scheduler`,
`Calendar` and `CalendarWindow`, which take anything. What depends on the database is in that
migration.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    BindParameter,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    Text,
    Update,
    bindparam,
    exists,
    text,
)

from cronhare.domain.audit import AuditOutcome
from cronhare.domain.events.outbox import OutboxState
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.replay_pace import ItemState, ReplayState
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.schedules.skips import Why

from .types import Flag, HandWritten, IsOneOf, UtcDateTime

metadata = MetaData()

#: A number that the database gives.
Id = BigInteger

#: What tasks and people wrote, of any length.
LongText = Text

#: The index that is made only where it can be of some rows alone: few executions have a lease.
IX_LEASE = "ix_execution_lease"


def _count(name: str, *, least: int = 0, **options: Any) -> Column[int]:  # noqa: ANN401 - SQLAlchemy's
    return Column(name, Integer, _from(name, least, 2**31 - 1), nullable=False, **options)


def _from(name: str, least: int, most: int = 2**63 - 1) -> CheckConstraint:
    """Bound a number; in SQLite, where a column takes any type, texts are above all numbers."""
    return CheckConstraint(f"{name} BETWEEN {least} AND {most}")


def _one_of(name: str, allowed: Iterable[str], **options: Any) -> Column[str]:  # noqa: ANN401
    # SQLite would make a table of what stands behind IN, for each row anew.
    is_one = " OR ".join(f"{name} = '{each}'" for each in allowed)
    return Column(name, String(16), CheckConstraint(is_one), **options)


def _of_those_with(name: str) -> dict[str, Any]:
    where = text(f"{name} IS NOT NULL")
    return {"sqlite_where": where, "postgresql_where": where}


#: The users' table. People may write anything into it, so JSON is text here.
schedulers = Table(
    "Scheduler",
    metadata,
    Column("id", Id, primary_key=True),
    Column("schedule", String(255)),
    Column("date_time", HandWritten),
    Column("params", LongText),
    Column("status", Flag),
    Column("stay_alive", Flag),
    Column("description", LongText),
    Column("report_id", Integer),
    Column("worker_id", Integer),
    Column("reminder_id", Integer),
    Column("user_id", Integer),
    Column("group_id", Integer),
    Column("language_id", Integer),
    Column("name", String(255)),
    Column("event_id", Integer),
    Column("system_id", Integer),
    Column("timezone", String(64)),
    Column("retry", LongText),
    Column("retention", LongText),
    Column("misfire_policy", String(16)),
    Column("misfire_window_ms", BigInteger),
    Column("misfire_cap", Integer),
    Column("overlap_policy", String(16)),
    Column("concurrency_key", String(255)),
    Column("concurrency_limit", Integer),
    Column("timeout_ms", BigInteger),
    Column("jitter_ms", BigInteger),
    Column("starts_at", HandWritten),
    Column("ends_at", HandWritten),
    Column("queue", String(255)),
    Column("source", LongText),
    Column("task_name", String(255)),
    Column("every_ms", BigInteger),
    Column("gap_policy", String(16)),
    Column("fold_policy", String(16)),
    Column("conditions", LongText),
    Column("task_type", String(32)),
    Column("task_id", Integer),
    Column("topic", String(255)),
    Column("no_listener", String(16)),
    # The digest of what was asked for, in rows that a request with a key has made.
    Column("request", String(64)),
    # Kept up by the database itself in rows that people write: see migration 0004.
    Column("created_at", HandWritten, nullable=False, server_default=""),
    Column("updated_at", HandWritten, nullable=False, server_default=""),
    Index("ux_scheduler_name", "name", unique=True),
    Index("ix_scheduler_updated_at", "updated_at"),  # then the id, which PostgreSQL is told
    Index("ix_scheduler_queue", "queue", "status", "stay_alive", "system_id"),
    Index("ix_scheduler_task", "task_name"),
)

#: Each schedule's cursor. It is edited if its updated_at is not this planned_at. One that could not
#: be planned has the problem, the replica that judged so, and where to go on later. With *idle*
#: nothing goes on there: it says why nothing has run since. While it is paused its due instants do
#: not run; a pause that is over stays until the next. *claimed* counts the runs that were due, if
#: it may have but so many.
plans = Table(
    "SchedulerPlan",
    metadata,
    Column("scheduler_id", Id, ForeignKey("Scheduler.id", ondelete="CASCADE"), primary_key=True),
    Column("next_due_at", UtcDateTime),
    Column("planned_at", HandWritten, nullable=False),
    Column("problem", LongText),
    Column("judged_by", String(255)),
    Column("resume_at", UtcDateTime),
    _one_of("idle", Why),
    Column("paused_at", UtcDateTime),
    Column("paused_until", UtcDateTime),
    Column("paused_by", String(255)),
    Column("pause_reason", LongText),
    Column("claimed", BigInteger, _from("claimed", 0)),
    Index("ix_plan_next_due_at", "next_due_at"),  # likewise
    Index("ix_plan_paused", "paused_at", **_of_those_with("paused_at")),
)

#: How many events nobody listened to, by topic; or by type and number, where there is no topic.
topic_tallies = Table(
    "TopicTally",
    metadata,
    Column("topic", String(255), primary_key=True),
    Column("no_listener", BigInteger, nullable=False),
    Column("last_at", UtcDateTime, nullable=False),
)

#: Holidays and the like, by which schedules run or do not; people may write them, too.
calendars = Table(
    "Calendar",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("timezone", String(64), nullable=False),
    Column("source", LongText),
)

#: The windows of each calendar; *during* is as in a jobs file, *label* what people call it.
calendar_windows = Table(
    "CalendarWindow",
    metadata,
    Column("id", Id, primary_key=True),
    Column("calendar", String(63), nullable=False),
    Column("during", String(64), nullable=False),
    Column("label", String(200)),
    Index("ix_window_calendar", "calendar"),
)

#: *check_at* is when the reconciler looks, graces aside; *next_attempt_at* stays what was promised.
#: *held_by* names the gate that holds it back, or the place of a key that it has.
executions = Table(
    "SchedulerExecution",
    metadata,
    Column("id", Id, primary_key=True),
    Column("scheduler_id", Id, ForeignKey("Scheduler.id"), nullable=False),
    Column("execution_key", String(255), nullable=False),
    Column("executed_at", UtcDateTime, nullable=False),
    Column("container_id", String(255), nullable=False),
    Column("due_at", UtcDateTime),
    _one_of("state", State, nullable=False, server_default="succeeded"),
    _count("attempt", least=1, server_default="1"),
    _count("deaths", server_default="0"),
    _count("crashes", server_default="0"),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("task_type", String(32), nullable=False, server_default=""),
    Column("task_id", BigInteger, _from("task_id", 0), nullable=False, server_default="0"),
    Column("queue", String(255), nullable=False, server_default="cron_scheduler"),
    Column("params", LongText),
    Column("retry", LongText),
    Column("timeout_ms", BigInteger, _from("timeout_ms", 1)),
    Column("owner", String(255)),
    Column("lease_until", UtcDateTime),
    Column("next_attempt_at", UtcDateTime),
    Column("check_at", UtcDateTime),
    Column("published_at", UtcDateTime),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("last_error", LongText),
    Column(
        "cancel_requested",
        Flag,
        CheckConstraint("cancel_requested IN (0, 1)"),
        nullable=False,
        server_default="0",
    ),
    Column("last_due_at", UtcDateTime),
    _count("missed", server_default="0"),
    _count("resends", server_default="0"),
    Column("source", String(255)),
    Column("task_name", String(255)),
    Column("concurrency_key", String(255)),
    Column("overlap_policy", String(16)),
    Column("held_by", String(255)),
    Column("expires_at", UtcDateTime),
    Column("topic", String(255)),
    Column("no_listener", String(16)),
    Index("ux_execution_key", "scheduler_id", "execution_key", unique=True),
    Index("ix_execution_check", "state", "check_at"),
    Index(IX_LEASE, "state", "lease_until", **_of_those_with("lease_until")),
    Index("ix_execution_open", "scheduler_id", "finished_at"),
    Index("ix_execution_task", "task_name"),
    Index("ix_execution_number", "task_type", "task_id"),
    Index("ix_execution_held", "held_by", "due_at", **_of_those_with("held_by")),
)

#: The gates that executions pass. Whoever starts one, or lets one go, locks the rows of its gates:
#: that is all that they are for. *used_at* is when a row was made.
gates = Table(
    "ExecutionGate",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("used_at", UtcDateTime, nullable=False),
    Index("ix_gate_used_at", "used_at"),
)


def _key_of_attempt() -> tuple[Column[int], Column[int]]:
    execution = ForeignKey("SchedulerExecution.id", ondelete="CASCADE")
    return (
        Column("execution_id", Id, execution, primary_key=True, autoincrement=False),
        Column("attempt", Integer, _from("attempt", 1), primary_key=True, autoincrement=False),
    )


attempts = Table(
    "ExecutionAttempt",
    metadata,
    *_key_of_attempt(),
    Column("node", String(255), nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    _one_of("ending", Ending),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("pid", Integer),
    Column("error", LongText),
    Column("peak_memory", BigInteger),
    Column("cpu_seconds", Double),
    Column("left_running", Integer),
)

#: The output of attempts, and what they report, in a table of its own: nothing that a task says
#: ever touches the hot rows.
outputs = Table(
    "AttemptOutput",
    metadata,
    *_key_of_attempt(),
    Column("stdout_head", LongText, nullable=False),
    Column("stdout_tail", LongText, nullable=False),
    Column("stdout_bytes", BigInteger, nullable=False),
    Column("stderr_head", LongText, nullable=False),
    Column("stderr_tail", LongText, nullable=False),
    Column("stderr_bytes", BigInteger, nullable=False),
    Column("as_of", UtcDateTime),
    Column("stdout_lines", BigInteger),
    Column("stderr_lines", BigInteger),
    Column("progress", Double),
    Column("progress_text", LongText),
    Column("result", LongText),
    Column("result_problem", LongText),
)

#: The archive. It refers to rows that may be gone by now, so it has no foreign keys.
failed_tasks = Table(
    "FailedTask",
    metadata,
    Column("id", Id, primary_key=True),
    Column("execution_id", Id, nullable=False),
    Column("scheduler_id", Id, nullable=False),
    Column("schedule_name", String(255), nullable=False),
    Column("execution_key", String(255), nullable=False),
    _one_of("kind", ("failed", "quarantined"), nullable=False),
    Column("task_type", String(32), nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("queue", String(255), nullable=False),
    Column("params", LongText, nullable=False),
    Column("failed_at", UtcDateTime, nullable=False),
    Column("failed_reason", LongText, nullable=False),
    Column("error", LongText),
    _count("attempts"),
    _count("retry_count"),
    Column("resolved_at", UtcDateTime),
    Column("resolution", String(16)),
    Column("note", LongText),
    Column("source", String(255)),
    Column("task_name", String(255)),
    Column("check_at", UtcDateTime),
    Column("crash_count", Integer),
    Column("first_crash_at", UtcDateTime),
    Column("options", LongText),
    Column("topic", String(255)),
    Column("event_at", UtcDateTime),
    Index("ix_failed_check", "check_at"),
    Index("ix_failed_event", "event_at"),
    Index("ix_failed_at", "failed_at"),
    Index("ix_failed_resolution", "resolution", "id"),
    Index("ix_failed_execution", "execution_id"),
    Index("ix_failed_key", "scheduler_id", "execution_key"),
)

#: What is asked of a replay of many failures (*asked*, in JSON), and how far it has come. *request*
#: names what asked for it, where that may be repeated.
replays = Table(
    "Replay",
    metadata,
    Column("id", Id, primary_key=True),
    Column("asked", LongText, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    _one_of("state", ReplayState, nullable=False),
    Column("reason", LongText),
    Column("up_to", BigInteger, _from("up_to", 0), nullable=False),
    Column(
        "collected_to", BigInteger, _from("collected_to", -1), nullable=False, server_default="0"
    ),
    Column("next_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    _count("waiting", server_default="0"),
    _count("released", server_default="0"),
    _count("failing", server_default="0"),
    _count("succeeded", server_default="0"),
    _count("failed", server_default="0"),
    _count("refused", server_default="0"),
    _count("left_out", server_default="0"),
    Column("request", String(36)),
    Index("ix_replay_next", "state", "next_at"),
    Index("ux_replay_request", "request", unique=True),
)

#: The failures of a replay: rows of the archive. Those of one *item_key* are limited.
replay_items = Table(
    "ReplayItem",
    metadata,
    Column(
        "replay_id",
        Id,
        ForeignKey("Replay.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("archived_id", BigInteger, primary_key=True, autoincrement=False),
    Column("execution_id", BigInteger, nullable=False),
    Column("item_key", String(255), nullable=False),
    _one_of("state", ItemState, nullable=False),
    Index("ix_replay_item", "replay_id", "state", "item_key", "archived_id"),
)

#: What each process reports of itself; *queues* has one a line.
nodes = Table(
    "SchedulerNode",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("host", String(255), nullable=False),
    Column("version", String(64), nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("queues", LongText, nullable=False),
    Column("concurrency", Integer),
    Column("running", Integer),
    Column("clock_offset_ms", BigInteger, nullable=False),
    Column("consuming", Integer),
    Column("drain_asked_at", UtcDateTime),
    Column("consumed_at", UtcDateTime),
    Column("source", String(255)),
    Column("digest", String(12)),
)

#: What each queue was granted of its retry budget: *granted* is JSON, see `limits.py`.
budgets = Table(
    "RetryBudget",
    metadata,
    Column("queue", String(255), primary_key=True),
    _count("most"),
    Column("window_ms", BigInteger, nullable=False),
    Column("granted", LongText, nullable=False),
    Column("spent_since", UtcDateTime),
    Column("last_at", UtcDateTime),
)

#: What is known of a task's circuit breaker, by the task (`report 25`); *failures* is JSON, see
#: `limits.py`.
breakers = Table(
    "CircuitBreaker",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("task_name", String(255)),
    Column("window_ms", BigInteger, nullable=False),
    Column("failures", LongText, nullable=False),
    Column("judged_at", UtcDateTime),
    _count("next_failures"),
    Column("opened_at", UtcDateTime),
    _count("failed"),
    _count("succeeded"),
    Column("probe_at", UtcDateTime),
    Column("probe", BigInteger),
    Column("last_at", UtcDateTime, nullable=False),
)


#: The outbox: one event for one target. Rows that it refers to may be gone: no foreign keys.
outbox = Table(
    "EventDelivery",
    metadata,
    Column("id", Id, primary_key=True),
    Column("event_key", String(255), nullable=False),
    Column("event", String(32), nullable=False),
    Column("target", String(255), nullable=False),
    Column("source", String(255), nullable=False),
    Column("scheduler_id", Id, nullable=False),
    Column("schedule_name", String(255), nullable=False),
    Column("execution_id", Id),
    Column("occurred_at", UtcDateTime, nullable=False),
    Column("payload", LongText, nullable=False),
    _one_of("state", OutboxState, nullable=False),
    _count("tries"),
    Column("next_try_at", UtcDateTime),
    Column("owner", String(255)),
    Column("finished_at", UtcDateTime),
    Column("last_error", LongText),
    Index("ux_delivery", "event_key", "target", unique=True),
    Index("ix_delivery_due", "state", "target", "next_try_at"),
)


#: Who has taken a message that came again, and has not said what became of it.
holds = Table(
    "RedeliveryHold",
    metadata,
    Column("message", String(64), primary_key=True),
    Column("node", String(255), primary_key=True),
    Column("host", String(255), nullable=False),
    Column("boot", String(64), nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Index("ix_hold_at", "at"),
)

#: The alerts that hold, or did until *cleared_at*: *rule* is a rule, and where there may be several
#: a hash of its subject. Those of schedules have the *source* of their file.
alerts = Table(
    "Alert",
    metadata,
    Column("rule", String(32), primary_key=True),
    Column("raised_at", UtcDateTime, nullable=False),
    Column("held_at", UtcDateTime, nullable=False),
    Column("data", LongText, nullable=False),
    Column("subject", String(255), nullable=False),
    Column("source", String(255)),
    Column("scheduler_id", Id, nullable=False),
    Column("cleared_at", UtcDateTime),
)

#: When the alerts of a source were judged; the whole ledger's source is empty. The judgement that
#: ended last, at *ended_at*, shows what held at *as_of*, when it began; another may be under way.
judgements = Table(
    "AlertJudgement",
    metadata,
    Column("source", String(255), primary_key=True),
    Column("began_at", UtcDateTime, nullable=False),
    Column("as_of", UtcDateTime),
    Column("ended_at", UtcDateTime),
    CheckConstraint("(as_of IS NULL) = (ended_at IS NULL)"),
)

#: Every change that somebody asked for; without an outcome it is not known what became of it.
audit = Table(
    "AuditEntry",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("actor", String(255), nullable=False),
    Column("channel", String(16), nullable=False),
    Column("action", String(64), nullable=False),
    Column("target", String(255), nullable=False),
    Column("value_before", LongText),
    Column("value_after", LongText),
    _one_of("outcome", AuditOutcome),
    Column("problem", LongText),
    Column("finished_at", UtcDateTime),
    Index("ix_audit_at", "at"),
    Index("ix_audit_target", "target", "id"),
    Index("ix_audit_actor", "actor", "id"),
)

#: Tokens by their names. What is kept of each is a digest.
tokens = Table(
    "AccessToken",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("scope", String(16), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("made_by", String(255), nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),
    Index("ux_token_digest", "digest", unique=True),
)

#: The page's sessions, by the digests of their cookies.
page_sessions = Table(
    "PageSession",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("token", String(64), nullable=False),
    Column("token_digest", String(64), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Index("ix_session_token", "token_digest"),
    Index("ix_session_end", "expires_at"),
)


S = TypeVar("S", Select[Any], Update)

#: MySQL would rather read all rows of a small table, and lock each as it passes: replicas that skip
#: locked rows would leave out their own.
FOUND_BY_KEY = "FORCE INDEX (PRIMARY)"

#: The parameter of statements about several rows.
IDS: BindParameter[Any] = bindparam("ids", expanding=True)

#: Those executions whose ids are the parameter `ids`.
THESE = IsOneOf(executions.c.id, IDS)


def by_id(statement: S) -> S:
    """Let a statement have the executions whose ids are its parameter `ids`, found by that key."""
    if isinstance(statement, Update):
        return statement.where(THESE).with_hint(FOUND_BY_KEY, executions, "mysql")
    return statement.where(THESE).with_hint(executions, FOUND_BY_KEY, "mysql")


#: An execution whose failure is in the archive, unresolved: it may be replayed, so it is kept.
AWAITS_A_PERSON = exists().where(
    failed_tasks.c.execution_id == executions.c.id, failed_tasks.c.resolution.is_(None)
)
