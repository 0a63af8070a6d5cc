"""The messages, byte for byte as in docs/compatibility.md, and our own headers.

Messages carry task and params for foreign workers that share our queues. For an execution that the
ledger knows, they come from the ledger. Our own failures are counted there alone, too. Nacks by
others that share a task queue are known to the broker alone: the `rejected` entries of `x-death`
(`x-death[0].count` is another number: after one trip the first entry is the retry queue: C3).
"""

import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import attrs
import msgspec

from .execution import Execution
from .retries.outcome import PoisonPill
from .schedules.task import TaskRef, fault_of_params
from .texts.moments import iso_ms

#: A larger number fits no column of the ledger.
LARGEST_ID: Final = 2**63 - 1

EXECUTION_HEADER = "cron-execution-id"
ATTEMPT_HEADER = "cron-attempt"
KEY_HEADER = "cron-execution-key"
#: How often a run has failed, for foreign workers and people. We never read it.
DEATHS_HEADER = "cron-deaths"
SIGNATURE_HEADER = "cron-signature"
DEDUPLICATION_HEADER = "x-deduplication-header"

#: The headers that are signed, and those that only we write.
SIGNED = (EXECUTION_HEADER, ATTEMPT_HEADER, DEATHS_HEADER, KEY_HEADER, DEDUPLICATION_HEADER)
OURS = frozenset({EXECUTION_HEADER, ATTEMPT_HEADER, DEATHS_HEADER, KEY_HEADER, SIGNATURE_HEADER})

#: W3C's trace context, as any program may give it. It is not signed, as it starts nothing: an older
#: node verifies a newer one's messages all the same.
TRACE_HEADER = "traceparent"

LARGEST_BODY = 256 * 1024

#: In characters; a shorter key could be guessed.
SHORTEST_KEY: Final = 16


@attrs.frozen
class Signer:
    """The keys of our messages: the first one signs, each of them verifies.

    So a key is changed in two steps: first every node knows the new one, then it comes first.
    Without keys nothing is signed, and nothing needs to be.
    """

    keys: Sequence[str] = attrs.field(default=(), repr=False)

    def sign(self, body: bytes, headers: Mapping[str, object]) -> dict[str, object]:
        """Give the headers with the signature of body and headers, if there is a key."""
        if not self.keys:
            return dict(headers)
        return {**headers, SIGNATURE_HEADER: _signature(self.keys[0], body, headers)}

    def holds(self, body: bytes, headers: Mapping[str, object], *, of: Sequence[str]) -> bool:
        signature = headers.get(SIGNATURE_HEADER)
        if not isinstance(signature, str) or not signature.isascii():
            return False
        signed = {name: headers[name] for name in of if name in headers}
        try:
            ours = [_signature(key, body, signed) for key in self.keys]
            return any(hmac.compare_digest(each, signature) for each in ours)
        except (TypeError, ValueError, OverflowError, RecursionError):  # no headers that we write
            return False


def _signature(key: str, body: bytes, headers: Mapping[str, object]) -> str:
    """Sign the headers as one line of JSON, sorted by name, and the body after it."""
    line = msgspec.json.encode(sorted((name, headers[name]) for name in headers))
    return hmac.digest(key.encode(), line + b"\n" + body, "sha256").hex()


#: More nacks than any policy allows: a forged count must not overflow its column.
MOST_NACKS = 1_000_000


class Nacks(msgspec.Struct, frozen=True, kw_only=True):
    """How often a message was nacked by queue; *trip* is its stay in `cron_scheduler_retry`."""

    by_queue: Mapping[str, int]
    trip: timedelta

    def since(self, published: datetime | None, *, queue: str, now: datetime) -> int:
        """Count the nacks of a message that could be taken from *published* on.

        Only those in *queue*, its execution's own, count. Headers can be forged, so no more of
        them count than there was time for; a trip that is more than half over counts, as it began
        a little before we noted it.

        >>> nacks = Nacks(by_queue={"reports": 9}, trip=timedelta(seconds=30))
        >>> noon, soon = datetime(2026, 3, 2, 12), datetime(2026, 3, 2, 12, 1, 1)
        >>> [nacks.since(noon, queue="reports", now=now) for now in (noon, soon)]
        [0, 2]
        >>> nacks.since(noon, queue="mails", now=soon)
        0
        """
        if published is None or now <= published:
            return 0
        count = self.by_queue.get(queue, 0)
        return min(count, (now - published + self.trip / 2) // self.trip)


def nacks_of(headers: Mapping[str, object]) -> dict[str, int]:
    """Count the nacks in a message's headers by queue; malformed entries count 0.

    >>> nacked = {"queue": "cron_scheduler", "reason": "rejected", "count": 2}
    >>> expired = {"queue": "cron_scheduler_retry", "reason": "expired", "count": 2}
    >>> nacks_of({"x-death": [expired, nacked]})
    {'cron_scheduler': 2}
    """
    nacks = dict[str, int]()
    for entry in _deaths(headers, "rejected"):
        count, name = entry.get("count"), entry.get("queue")
        if isinstance(count, int) and not isinstance(count, bool) and count > 0:
            queue = name if isinstance(name, str) else ""
            nacks[queue] = min(nacks.get(queue, 0) + count, MOST_NACKS)
    return nacks


def was_overdelivered(headers: Mapping[str, object]) -> bool:
    return any(_deaths(headers, "delivery_limit"))


def _deaths(headers: Mapping[str, object], reason: str) -> list[Mapping[str, Any]]:
    x_death = headers.get("x-death")
    entries = x_death if isinstance(x_death, list) else ()
    return [each for each in entries if isinstance(each, Mapping) and each.get("reason") == reason]


Id = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_ID)]

#: Retries before a failure: the attempt that failed is one more. Impossible counts are refused.
Retries = Annotated[int, msgspec.Meta(ge=0, le=MOST_NACKS - 1)]

LONGEST_TYPE = 32


class TaskMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The task message (S1.8). *params_scheduler* is JSON text within the JSON."""

    type: Annotated[str, msgspec.Meta(max_length=LONGEST_TYPE)]
    id: Id
    scheduler_id: Id
    params_scheduler: str


class FailedMessage(TaskMessage, frozen=True, kw_only=True):
    """The failed message (S1.8): the task message, and why."""

    failed_at: str
    failed_reason: str
    retry_count: Retries

    def task_body(self) -> bytes:
        """Write the task message that failed: a signature is made over its bytes."""
        return msgspec.json.encode(msgspec.convert(self, TaskMessage, from_attributes=True))


class PoisonPillRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The crashes for which a run is quarantined (S2.8)."""

    job_id: str
    crash_count: int
    first_crash_at: str
    last_crash_at: str


class AttemptRef(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt of an execution that a message stands for, from our own headers."""

    execution_id: int
    attempt: int


class Unreadable(msgspec.Struct, frozen=True):
    """Why a message is to be parked."""

    reason: str


def task_body(execution: Execution) -> bytes:
    """Write the task message; the same bytes for every attempt."""
    return msgspec.json.encode(_task_message(execution))


def failed_body(execution: Execution, *, reason: str, at: datetime) -> bytes:
    """Write the failed message. Its retry count is the execution's deaths."""
    message = FailedMessage(
        **msgspec.structs.asdict(_task_message(execution)),
        failed_at=iso_ms(at),
        failed_reason=reason,
        retry_count=execution.deaths,
    )
    return msgspec.json.encode(message)


def pill_record(execution_id: int, pill: PoisonPill | None) -> PoisonPillRecord | None:
    if pill is None:
        return None
    return PoisonPillRecord(
        job_id=str(execution_id),
        crash_count=pill.crash_count,
        first_crash_at=iso_ms(pill.first_crash_at),
        last_crash_at=iso_ms(pill.last_crash_at),
    )


def pill_key(queue: str, execution_id: int) -> str:
    return f"poison:{queue}:{execution_id}"


def quarantine_body(execution: Execution, pill: PoisonPill | None, *, at: datetime) -> bytes:
    """Write the message of a run that was quarantined at *at* (S2.8), for a *pill* or its row."""
    message = {
        "originalQueue": execution.queue,
        "originalJobId": str(execution.id),
        "originalData": _task_message(execution),
        "poisonPillRecord": pill_record(execution.id, pill),
        "quarantinedAt": iso_ms(at),
    }
    return msgspec.json.encode(message)


def headers_of(execution: Execution) -> dict[str, object]:
    """Give an attempt's headers, always new: a broker's own headers are never copied (ADR 6)."""
    return {
        EXECUTION_HEADER: execution.id,
        ATTEMPT_HEADER: execution.attempt,
        DEATHS_HEADER: execution.deaths,
        KEY_HEADER: execution.key,
        DEDUPLICATION_HEADER: execution.message_id,
    }


def read(body: bytes, headers: Mapping[str, object], signer: Signer) -> TaskMessage | Unreadable:
    """Decode another program's task message, or say why it is not believed, or may not be run."""
    if len(body) > LARGEST_BODY:
        return Unreadable(f"the body has {len(body)} bytes, {LARGEST_BODY} are allowed")
    try:
        task = msgspec.json.decode(body, type=TaskMessage)
    except msgspec.DecodeError as error:
        return Unreadable(f"the body is not a task message: {error}")
    except (UnicodeDecodeError, RecursionError) as error:
        return Unreadable(f"the body is not JSON: {error}")
    fault = fault_of_signature(body, headers, signer) or fault_of_foreign(task)
    return Unreadable(fault) if fault else task


def fault_of_signature(body: bytes, headers: Mapping[str, object], signer: Signer) -> str | None:
    """Say why our own headers cannot be believed; without a key all of them are."""
    if not signer.keys or OURS.isdisjoint(headers) or signer.holds(body, headers, of=SIGNED):
        return None
    why = "signed by none of our keys" if SIGNATURE_HEADER in headers else "not signed"
    return f"its headers are ours, and it is {why} (CRON_MESSAGE_KEY)"


def fault_of_foreign(message: TaskMessage) -> str | None:
    if TaskRef(message.type, message.id).is_system:
        return f"tasks of the type {message.type} are our own"
    return fault_of_carried(message)


def fault_of_carried(message: TaskMessage) -> str | None:
    fault = fault_of_params(message.params_scheduler)
    return fault and f"params_scheduler: {fault}"


def ticket_of(headers: Mapping[str, object]) -> AttemptRef | None:
    execution_id, attempt = headers.get(EXECUTION_HEADER), headers.get(ATTEMPT_HEADER)
    match execution_id, attempt:
        case (bool(), _) | (_, bool()):  # an int to Python alone
            return None
        case int(), int() if 0 < execution_id <= LARGEST_ID and 0 < attempt <= LARGEST_ID:
            return AttemptRef(execution_id=execution_id, attempt=attempt)
    return None


def _task_message(execution: Execution) -> TaskMessage:
    return TaskMessage(
        type=execution.task.type,
        id=execution.task.id,
        scheduler_id=execution.scheduler_id,
        params_scheduler=execution.params,
    )


#: The most headers that are kept, and their bytes in all.
MOST_HEADERS: Final = 32
LARGEST_HEADERS: Final = 8 * 1024

#: Bytes of a header's name, and how deep its value may be nested (RabbitMQ's `x-death` is 3 deep).
LONGEST_NAME: Final = 128
DEEPEST_KEPT: Final = 4


def kept_headers(headers: Mapping[str, object]) -> dict[str, object]:
    """Keep headers of a foreign message in their order, as long as there is room for them.

    Anybody may have made them. No run needs one that is left out; one that AMQP cannot carry, or
    that makes a message too large, would hold up the message that follows.

    >>> kept_headers({"trace": "abc", "n": 2**63, "raw": b"x", "long": "x" * 9_000, "yes": True})
    {'trace': 'abc', 'yes': True}
    """
    kept: dict[str, object] = {}
    room = LARGEST_HEADERS
    for name, value in headers.items():
        size = _size({name: value}, DEEPEST_KEPT + 1)
        if size <= room and len(kept) < MOST_HEADERS:
            kept[name] = value
            room -= size
    return kept


def cut(text: str, size: int) -> str:
    """Cut a text to at most *size* bytes of UTF-8.

    >>> cut("Köln", 2), cut("Köln", 3), cut("Köln", 9)
    ('K', 'Kö', 'Köln')
    """
    return text.encode(errors="replace")[:size].decode(errors="ignore")


def _size(value: object, depth: int) -> int:
    """Estimate the bytes of a header's value; too many if it cannot be kept at all."""
    match value:
        case str():
            return len(value.encode(errors="replace")) + 5
        case bool() | datetime() | None:
            return 9
        case int() if -(2**63) <= value < 2**63:
            return 9
        case list() if depth:
            return 5 + sum(_size(item, depth - 1) for item in value)
        case dict() if depth:
            names = [str(name).encode(errors="replace") for name in value]
            if all(len(name) <= LONGEST_NAME for name in names):
                inside = sum(_size(item, depth - 1) for item in value.values())
                return 5 + sum(map(len, names)) + inside
    return LARGEST_HEADERS + 1
