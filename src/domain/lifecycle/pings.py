"""Pings: an address of a service like healthchecks.io hears of each run's start and end.

Of a run that has ended before anybody looked the end alone is told: a start that came after it
would look like a run that never ends.
"""

import re
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

import attrs
import msgspec

from ..execution import Execution, State
from .events import OutboxRow

#: The event's name in the outbox: no kind that a target asks for.
PING: Final = "ping"

#: Ends of which a service is told; what was cancelled or skipped did not fail.
ENDS: Final = frozenset({State.SUCCEEDED, State.FAILED, State.QUARANTINED})

#: Of what ended longer ago nobody is told: a schedule whose ping is new has a past.
LOOKS_BACK: Final = timedelta(minutes=10)

#: A start that is told later may come after the end.
START_WITHIN: Final = timedelta(seconds=60)

#: Tries of an end's ping, within a minute: by then the next run may have been told of.
MOST_TRIES: Final = 3

#: Characters of what a run wrote last; and the statuses that such services know.
LONGEST_TAIL: Final = 10_000
_STATUSES: Final = range(1, 256)

_ESCAPES: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@attrs.frozen(kw_only=True)
class RunEnd:
    """How the last attempt of a run ended, on which node, and what it wrote last."""

    exit_code: int | None = None
    stderr: str = attrs.field(default="", repr=False)
    stdout: str = attrs.field(default="", repr=False)
    node: str | None = None


@attrs.frozen(kw_only=True)
class Ping:
    """What is asked: *path* goes behind the address; *run* names the run in it."""

    path: str
    run: str
    body: str = attrs.field(default="", repr=False)
    is_start: bool = False


def start_of(execution: Execution, target: str, *, source: str, now: datetime) -> OutboxRow:
    """Tell of a run that has begun."""
    ping = Ping(path="/start", run=_run(execution), is_start=True)
    return _row(f"start:{_name(execution)}", execution, target, ping, source=source, now=now)


def end_of(
    execution: Execution, end: RunEnd, target: str, *, source: str, now: datetime
) -> OutboxRow:
    """Tell of a run that has ended: well, with an exit status, or otherwise badly."""
    if execution.state is State.SUCCEEDED:
        path = ""
    elif execution.state is State.FAILED and end.exit_code in _STATUSES:
        path = f"/{end.exit_code}"
    else:
        path = "/fail"
    words = end.stderr or end.stdout or execution.last_error or ""
    body = _ESCAPES.sub("\N{REPLACEMENT CHARACTER}", words[-LONGEST_TAIL:])
    ping = Ping(path=path, run=_run(execution), body=body)
    # One that was replayed ends anew, after more attempts.
    key = f"end:{_name(execution)}:{execution.attempt}:{execution.version}"
    return _row(key, execution, target, ping, source=source, now=now)


def read_ping(row: OutboxRow) -> Ping | None:
    """Read what is asked; None if somebody wrote into the row what is none."""
    try:
        said = msgspec.json.decode(row.payload)["data"]
        return Ping(path=said["path"], run=said["run"], body=said["body"], is_start=said["isStart"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return None


def _row(
    key: str, execution: Execution, target: str, ping: Ping, *, source: str, now: datetime
) -> OutboxRow:
    data = {"path": ping.path, "run": ping.run, "body": ping.body, "isStart": ping.is_start}
    document = {"id": f"{PING}:{key}", "type": PING, "timestamp": now, "data": data}
    return OutboxRow(
        event_key=f"{PING}:{key}",
        event=PING,
        target=target,
        source=source,
        scheduler_id=execution.scheduler_id,
        schedule_name=execution.schedule_name,
        execution_id=execution.id,
        occurred_at=now,
        payload=msgspec.json.encode(document).decode(),
        next_try_at=now,
    )


def _name(execution: Execution) -> str:
    return f"{execution.id}:{round(execution.executed_at.timestamp() * 1_000)}"


def _run(execution: Execution) -> str:
    return str(UUID(bytes=sha256(_name(execution).encode()).digest()[:16], version=4))
