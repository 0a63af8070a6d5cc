"""Replays of executions that failed: which may be, and what a person orders."""

import math
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, Final

import attrs
import msgspec

from ..execution import REPLAYABLE, Execution, Graces, State
from ..retries.policy import ATTEMPTS, RetryPolicy
from ..schedules.keys import is_standalone
from ..schedules.schedule import CLEANUP_NAME
from ..schedules.task import TaskRef
from ..texts.printable import echo, printable
from ..texts.words import called
from .archive import Archived, FailureFilter, FieldsInvalid

#: How a row of the archive is resolved whose execution runs again.
REPLAYED: Final = "replayed"

#: What people ask for is overdue from the start, so that the next reconciler publishes it.
ALREADY_OVERDUE: Final = timedelta(days=1)


def begins_by_hand(now: datetime, *, head_start: timedelta) -> datetime:
    """Say when something began to wait that a person asks for.

    It is overdue: at once, or after the *head start* of whoever claims it and sends it as well.
    """
    return now - (Graces().claimed - head_start if head_start else ALREADY_OVERDUE)


def why_not_replayed(execution: Execution) -> str | None:
    """Say why an execution may not be replayed, and what would have to change."""
    if execution.problem is not None:
        return f"its row is broken: {execution.problem}. Mend it by hand, then replay it"
    if execution.state not in REPLAYABLE:
        return f"it is {execution.state}"
    if is_standalone(execution.queue):
        return "it is a run of what stays alive: its worker begins the next one. Discard it"
    if execution.task.is_system and execution.schedule_name != CLEANUP_NAME:
        return f"its task is the system's own, which runs for {CLEANUP_NAME} alone. Discard it"
    return None


def why_left_out(execution: Execution) -> str | None:
    """Say why a replay of many leaves an execution out: nobody named it there."""
    if execution.cancel_requested:
        return "its end was asked for"
    return why_not_replayed(execution)


@attrs.frozen(kw_only=True)
class Allowance:
    """How often a replay may be tried: *attempts* in all, or as its policy says.

    *policy* holds for executions without one of their own (C35 in docs/compatibility.md).
    """

    attempts: int | None = None
    policy: RetryPolicy = attrs.field(factory=RetryPolicy)

    def policy_of(self, execution: Execution) -> RetryPolicy | None:
        if self.attempts is None:
            return execution.retry
        return attrs.evolve(execution.retry or self.policy, attempts=self.attempts)


DEFAULT_ALLOWANCE: Final = Allowance()


def replays(
    asked: Iterable[tuple[int, Execution | None]],
    *,
    now: datetime,
    allowance: Allowance,
    head_start: timedelta,
) -> Iterator[tuple[int, Execution, Execution]]:
    """Replay those that may be, at once.

    *asked* pairs the ids of archive rows, oldest first, with their executions; each answer is such
    an id, the execution before, and after. Of several rows of one execution the oldest counts.
    """
    begins = begins_by_hand(now, head_start=head_start)
    taken = set[int]()
    for archived_id, execution in asked:
        if execution is None or execution.id in taken or why_not_replayed(execution) is not None:
            continue
        taken.add(execution.id)
        yield archived_id, execution, replay(execution, begins=begins, allowance=allowance)


def replay(execution: Execution, *, begins: datetime, allowance: Allowance) -> Execution:
    """Make an execution that ended badly claimed again, with a fresh retry allowance.

    Whoever asked for its end before meant what was then; and who wants it now wants it however late
    it is, as a backfill: it expires no more.
    """
    return msgspec.structs.replace(
        execution,
        state=State.CLAIMED,
        version=execution.version + 1,
        attempt=execution.attempt + 1,
        deaths=0,
        crashes=(),
        cancel_requested=False,
        last_error=None,
        published_at=None,
        started_at=None,
        finished_at=None,
        next_attempt_at=begins,
        check_at=begins,
        expires_at=None,
        retry=allowance.policy_of(execution),
    )


#: Executions a second.
RATES: Final = (0.01, 1_000.0)
DEFAULT_RATE: Final = 10.0
#: By how much of itself a gap between two executions grows at most, by chance.
JITTERS: Final = (0.0, 10.0)
DEFAULT_JITTER: Final = 0.2
#: Executions of one key that have not ended.
AT_ONCE: Final = range(1, 10_000 + 1)
DEFAULT_AT_ONCE: Final = 5
CANARIES: Final = range(1_000 + 1)
DEFAULT_STOP_AT: Final = 0.5
LONGEST_AUTHOR: Final = 255

#: What a key may be, but for a path such as `params.customer.id`.
KEYS: Final = ("schedule", "task", "queue")
_PATH: Final = "params."
LONGEST_PATH: Final = 255
#: A longer key is replaced by its hash.
LONGEST_KEY: Final = 200


class ReplayOrderInvalid(FieldsInvalid):
    """An order that is refused."""


@attrs.frozen(kw_only=True)
class Pacing:
    """How runs are spread that begin in the background.

    At most *rate* begin in a second; each gap between two is longer by up to *jitter* of itself, by
    chance. Of those that have one `key` in common at most *at_once* are under way. The first
    *canary* are judged before any other begins. It stops once more than *stop_at* of the judged go
    badly; None never stops. Each has *attempts* in all, or as many as its policy says. *author* is
    who asked.

    Raises:
        ReplayOrderInvalid: with all faults at once.
    """

    rate: float = DEFAULT_RATE
    jitter: float = DEFAULT_JITTER
    at_once: int = DEFAULT_AT_ONCE
    canary: int = 0
    stop_at: float | None = DEFAULT_STOP_AT
    attempts: int | None = None
    author: str = ""

    def __attrs_post_init__(self) -> None:
        if faults := [*self.faults()]:
            raise ReplayOrderInvalid(faults)

    @property
    def key(self) -> str | None:
        """What is looked at in each to tell whether they have it in common; None bounds nothing."""
        return None

    @property
    def is_of_one_key(self) -> bool:
        return False

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from _faults_of(self)


@attrs.frozen(kw_only=True)
class ReplayOrder(Pacing):
    """Which failures to run again, and how they are spread.

    *key* is one of `KEYS`, or a path in their params.

    Raises:
        ReplayOrderInvalid: with all faults at once.
    """

    which: FailureFilter
    key: str | None = None

    def faults(self) -> Iterator[tuple[str, str]]:
        if not self.which.unresolved:
            yield "which", "only what is unresolved can be replayed"
        yield from super().faults()
        if self.key is not None and self.key not in KEYS:
            yield from _faults_of_path(self.key)

    def key_of(self, row: Archived) -> str:
        """Give what a failure has in common with others; nothing where no key is asked for.

        All that lack the path have one key in common: they are not to be the ones without a limit.
        """
        if self.key is None:
            return ""
        match self.key:
            case "schedule":
                text = row.schedule_name
            case "task":
                task = TaskRef(row.task_type, row.task_id)
                text = called(task, name=row.task_name, topic=row.topic)
            case "queue":
                text = row.queue
            case path:
                text = _found(row.params, path.removeprefix(_PATH).split("."))
        if len(text) <= LONGEST_KEY and text == printable(text):
            return text
        return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()

    @property
    def reads_params(self) -> bool:
        return self.key is not None and self.key.startswith(_PATH)


def _found(params: str, path: list[str]) -> str:
    try:
        value: Any = msgspec.json.decode(params)
    except (msgspec.DecodeError, RecursionError):
        return ""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _faults_of(order: Pacing) -> Iterator[tuple[str, str]]:
    for field, value, (least, most) in (
        ("rate", order.rate, RATES),
        ("jitter", order.jitter, JITTERS),
        ("stop_at", order.stop_at, (0.0, 1.0)),
    ):
        if value is not None and not (math.isfinite(value) and least <= value <= most):
            yield field, f"{value:g} is not {least:g}-{most:,g}"
    for field, count, allowed in (
        ("at_once", order.at_once, AT_ONCE),
        ("canary", order.canary, CANARIES),
        ("attempts", order.attempts, ATTEMPTS),
    ):
        if count is not None and count not in allowed:
            yield field, f"{count} is not {allowed[0]}-{allowed[-1]:,}"
    if len(order.author) > LONGEST_AUTHOR or order.author != printable(order.author):
        yield "author", f"is to be a line of at most {LONGEST_AUTHOR} letters"


def _faults_of_path(key: str) -> Iterator[tuple[str, str]]:
    if not key.startswith(_PATH) or "" in key.split(".") or key != printable(key):
        yield "key", f"{echo(key)} is neither {', '.join(KEYS)} nor like params.customer.id"
    elif len(key) > LONGEST_PATH:
        yield "key", f"it has {len(key):,} characters, at most {LONGEST_PATH} are allowed"
