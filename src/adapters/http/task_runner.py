"""The runner of HTTP tasks: an attempt is one request, and its output is the answer."""

import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import msgspec

from cronhare.adapters.coroutine_attempts import CoroutineRunner, failed
from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError, read_retry_after
from cronhare.domain.schedules.work import (
    WITHOUT_BODY,
    HttpCall,
    class_of_status,
    code_of_status,
)
from cronhare.domain.texts.printable import printable, shortened
from cronhare.ports.runner import AttemptResult, Captured, Invocation
from cronhare.ports.system import (
    LONGEST_REQUEST,
    HttpAnswer,
    HttpFailed,
    HttpPort,
    HttpRefused,
    HttpRequest,
)

#: Characters of an answer's body in the failure's sentence.
_LONGEST_LINE: Final = 200


class HttpTaskRunner(CoroutineRunner):
    """Runs tasks that have a `Task.http`. Satisfies `TaskRunnerPort`.

    What was asked cannot be taken back: the server may have acted on a request whose answer did not
    come, or was not waited for. So each attempt carries what it can know a repetition by.
    """

    def __init__(self, http: HttpPort, environ: Mapping[str, str] | None = None) -> None:
        """*environ*, by default our own environment, has the values of `headers_env`."""
        super().__init__()
        self._http = http
        self._environ = os.environ if environ is None else environ

    async def _attempt(self, invocation: Invocation) -> AttemptResult:
        call = invocation.task.http
        assert call is not None, "a task of ours"
        try:
            request = self._request(invocation, call)
            answer = await self._http.send(request)
        except HttpRefused as refusal:
            return failed(str(refusal), ErrorClass.PERMANENT)
        except HttpFailed as failure:
            return failed(str(failure), ErrorClass.TRANSIENT)
        return _result(call, answer)

    def _request(self, invocation: Invocation, call: HttpCall) -> HttpRequest:
        has_body = call.method not in WITHOUT_BODY
        headers = {**call.headers, **dict(self._from_environment(call)), **_about(invocation)}
        if has_body and "content-type" not in map(str.lower, headers):
            headers["Content-Type"] = "application/json"
        return HttpRequest(
            method=call.method,
            address=call.address,
            headers=headers,
            body=msgspec.json.encode(invocation.params) if has_body else b"",
            timeout=min(invocation.task.timeout, LONGEST_REQUEST),
        )

    def _from_environment(self, call: HttpCall) -> Iterator[tuple[str, str]]:
        for header, variable in call.headers_env.items():
            value = self._environ.get(variable)
            if value is None:
                raise HttpRefused(f"the worker's environment has no {variable}, for {header}")
            yield header, value.strip()


def _about(invocation: Invocation) -> dict[str, str]:
    topic = {} if invocation.topic is None else {"Cron-Topic": invocation.topic}
    trace = {} if invocation.trace is None else {"traceparent": invocation.trace}
    return {
        **topic,
        **trace,
        "Idempotency-Key": f"{invocation.scheduler_id}-{invocation.execution_id}",
        "Cron-Execution-Id": str(invocation.execution_id),
        "Cron-Execution-Key": invocation.execution_key,
        "Cron-Attempt": str(invocation.attempt),
        "Cron-Due-At": invocation.due_at.isoformat().replace("+00:00", "Z"),
        "Cron-Fence": str(invocation.fence),
    }


def _result(call: HttpCall, answer: HttpAnswer) -> AttemptResult:
    text = answer.body.decode(errors="replace")
    cut = ", and more" if answer.is_cut else ""
    line = f"{call.method} {call.address}: {_said(answer.status)}, {len(answer.body)} bytes{cut}\n"
    return AttemptResult(
        outcome=_outcome(call, answer, text),
        stdout=Captured(head=text, bytes=len(answer.body)),
        stderr=Captured(head=line, bytes=len(line.encode())),
    )


def _outcome(call: HttpCall, answer: HttpAnswer, text: str) -> Outcome:
    status = answer.status
    if status in call.success:
        return Outcome(ending=Ending.SUCCEEDED)
    first = shortened(printable(text.strip().partition("\n")[0]), _LONGEST_LINE)
    wait = read_retry_after(answer.headers.get("retry-after"))
    error = TaskError(
        message=f"{call.address} answered {_said(status)}{f': {first}' if first else ''}",
        code=code_of_status(status),
        error_class=class_of_status(status),
        retry_after=wait if isinstance(wait, timedelta) else None,
        retry_at=None if isinstance(wait, timedelta) else wait,
    )
    return Outcome(ending=Ending.FAILED, error=error)


def _said(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
