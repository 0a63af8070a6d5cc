"""The messages on a task's IPC pipe: one JSON object per line.

`finish` and `failed` are those of S1.13 in docs/compatibility.md.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import attrs
import msgspec

from cronhare.domain.retries.outcome import (
    MOST_TYPES,
    ErrorClass,
    TaskError,
    classify,
    plausible_wait,
    read_retry_after,
)
from cronhare.domain.texts.printable import printable, shortened
from cronhare.ports.runner import LARGEST_PROGRESS, LARGEST_RESULT, LONGEST_PROGRESS_TEXT

from .output import AttemptLog, Line, LineSplitter

#: Bytes of a line: a result, and what is around it. Other texts are cut to less: see `TaskError`.
LONGEST_MESSAGE = LARGEST_RESULT + 1024
#: Broken messages that are logged; a task may send any number.
_MOST_WARNINGS = 10
#: After so many broken messages no other is read: the task's end is seen without them.
MOST_BROKEN = 1000
#: How the line of a result begins.
_RESULT = re.compile(rb'\s*\{\s*"result"\s*:')


class BrokenMessage(ValueError):
    """A line is no message; the text says why."""


@attrs.frozen(kw_only=True)
class Message:
    """What a line says; what it does not say has no value.

    `{"finish": pid}`: the work is done. `{"failed": true, "error": {…}}`: it cannot be done.
    `{"snooze": 30}`: it is to be run again after so many seconds, at no attempt's cost.

    *report* has fields of `TaskReport`: `{"progress": 0.4, "text": "…"}`, which starts the timeout
    anew; `{"result": …}`, which is kept as JSON without blanks; one that cannot be kept, or
    `{"result_problem": "…"}`, with the reason.
    """

    finished: bool = False
    failed: TaskError | None = None
    snooze: timedelta | None = None
    report: Mapping[str, Any] = attrs.field(factory=dict[str, Any])

    def then(self, later: "Message") -> "Message":
        """Give what both say, of each kind the last."""
        return Message(
            finished=self.finished or later.finished,
            failed=later.failed or self.failed,
            snooze=self.snooze if later.snooze is None else later.snooze,
            report={**self.report, **later.report},
        )


def _reported(**fields: object) -> Message:
    return Message(report=fields)


def read_message(line: Line) -> Message:
    """Read one line.

    >>> read_message(Line(b'{"progress": 0.4, "text": "users"}')).report
    {'progress': 0.4, 'progress_text': 'users'}
    >>> read_message(Line(b'{"result": {"rows": 12}}')).report
    {'result': '{"rows":12}', 'result_problem': None}
    >>> read_message(Line(b'{"result": NaN}')).report
    {'result_problem': 'not JSON: JSON is malformed: invalid character (byte 11)'}

    Raises:
        BrokenMessage: it is too long, not JSON, or no message that we know.
    """
    is_result = _RESULT.match(line.data) is not None
    if line.cut and is_result:
        return _reported(result_problem=f"more than {LARGEST_RESULT} bytes of JSON")
    if line.cut:
        raise BrokenMessage(f"longer than {LONGEST_MESSAGE // 1024} KiB")
    try:
        return _message(msgspec.json.decode(line.data))
    except BrokenMessage:
        raise
    except Exception as error:  # a task may write anything: it is no fault of ours
        why = f"not JSON: {error}"
        if is_result:
            return _reported(result_problem=_escaped(why))
        raise BrokenMessage(why) from error


def _message(content: Any) -> Message:  # noqa: ANN401 - any JSON value
    match content:
        case {"failed": True}:
            return Message(failed=_error(content.get("error")))
        case {"progress": int() | float() as value} if not isinstance(value, bool):
            if not abs(value) <= LARGEST_PROGRESS:  # before the conversion: it may fit no float
                raise BrokenMessage("a progress is between 0 and 1, and at most 10^15")
            text = _text(content.get("text"))
            shown = None if text is None else _escaped(text)
            return _reported(progress=float(value), progress_text=shown)
        case {"snooze": seconds}:
            if (wait := plausible_wait(seconds, timedelta(seconds=1))) is None:
                raise BrokenMessage("a snooze is a number of seconds, 0 or more")
            return Message(snooze=wait)
        case {"finish": finish} if finish is not False and finish is not None:
            return Message(finished=True)
        case {"result": result}:
            # Escapes of JSON keep what could harm a terminal or a database.
            written = msgspec.json.encode(result)
            if len(written) <= LARGEST_RESULT:
                return _reported(result=written.decode(), result_problem=None)
            why = f"{len(written)} bytes of JSON, {LARGEST_RESULT} are allowed"
            return _reported(result_problem=why)
        case {"result_problem": str() as why}:
            return _reported(result_problem=_escaped(why))
    raise BrokenMessage('neither "finish", "failed", "progress", "result" nor "snooze"')


def _escaped(text: str) -> str:
    return printable(shortened(text, LONGEST_PROGRESS_TEXT))


def _error(value: object) -> TaskError:
    fields = value if isinstance(value, dict) else {"message": value}
    code = _text(fields.get("code"))
    asked = _retry_after(fields)
    # The name of an exception's class, or a list of it and its bases.
    names = given if isinstance(given := fields.get("type"), list) else [given]
    return TaskError(
        message=_text(fields.get("message")) or "failed without a message",
        code=code,
        error_class=_class(fields.get("class"), code, is_limited=asked is not None),
        types=tuple(name for name in names[:MOST_TYPES] if isinstance(name, str)),
        retry_after=asked if isinstance(asked, timedelta) else None,
        retry_at=asked if isinstance(asked, datetime) else None,
        stack=_text(fields.get("stack")),
    )


def _class(name: object, code: str | None, *, is_limited: bool) -> ErrorClass:
    if isinstance(name, str) and name in list(ErrorClass):
        return ErrorClass(name)
    return ErrorClass.RATE_LIMITED if is_limited else classify(code)


def _retry_after(fields: Mapping[str, object]) -> timedelta | datetime | None:
    """The first plausible wait, or None: a task's slip must not stop its schedule for years."""
    for name in ("retry_after_ms", "retryAfterMs"):
        if (wait := plausible_wait(fields.get(name), timedelta(milliseconds=1))) is not None:
            return wait
    return read_retry_after(fields.get("retry_after"))


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


class MessageReader:
    """Reads the task's IPC messages. A broken one is logged and skipped: nothing is raised.

    So is a result that cannot be kept, but it is passed on.
    """

    def __init__(self, log: AttemptLog) -> None:
        self._log = log
        self._lines = LineSplitter(LONGEST_MESSAGE)
        self._broken = 0

    def feed(self, chunk: bytes) -> list[Message]:
        return list(self._read(self._lines.feed(chunk)))

    def end(self) -> list[Message]:
        return list(self._read(self._lines.rest()))

    def _read(self, lines: Iterable[Line]) -> Iterator[Message]:
        for line in lines:
            if self._broken >= MOST_BROKEN:
                continue
            try:
                message = read_message(line)
            except BrokenMessage as error:
                self._warn(f"Ignored an IPC message: {error}")
                continue
            if why := message.report.get("result_problem"):
                self._warn(f"The result is not kept: {why}")
            yield message

    def _warn(self, why: str) -> None:
        self._broken += 1
        if self._broken == MOST_BROKEN:
            self._log.warning(f"{MOST_BROKEN} broken IPC messages: no other is read")
        if self._broken <= _MOST_WARNINGS:
            last = " (no more of these are logged)" if self._broken == _MOST_WARNINGS else ""
            self._log.warning(f"{why}{last}")
