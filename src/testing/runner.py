"""Runs tasks of an app within the test: in its thread, one at a time, with no event loop around."""

import asyncio
import json
import time
from asyncio import Future
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeAlias, TypeVar

import attrs

from cronhare import task as reporting
from cronhare.adapters.process.attempt import of_exit
from cronhare.adapters.process.environment import environment
from cronhare.adapters.process.messages import Message, MessageReader
from cronhare.adapters.process.output import AttemptLog
from cronhare.entrypoints.python.app import App
from cronhare.entrypoints.python.calling import context, find
from cronhare.entrypoints.python.words import Snooze
from cronhare.ports.runner import (
    AttemptResult,
    Invocation,
    StopReason,
    TaskReport,
    Written,
)
from cronhare.task import Given

A = TypeVar("A")
T = TypeVar("T")

#: An attempt, and where its result goes.
Asked: TypeAlias = tuple[Invocation, Future[AttemptResult]]


@attrs.frozen
class Failure:
    """The first attempts of each run fail, with an *error*, so many *times*."""

    times: int
    error: Exception | type[Exception]


@attrs.define(eq=False)
class InlineRunner:
    """Satisfies `TaskRunnerPort` for functions of an *app*.

    What is *asked* waits until `perform` is called, outside of the event loop, as a child of a
    worker has none either. What it reports goes through what reads the reports of a child.
    """

    _app: App
    failures: dict[str, Failure] = attrs.field(init=False, factory=dict[str, Failure])
    is_calling: bool = attrs.field(init=False, default=False)
    asked: asyncio.Queue[Asked] = attrs.field(init=False, factory=asyncio.Queue)

    async def run(self, invocation: Invocation) -> AttemptResult:
        answer: Future[AttemptResult] = asyncio.get_running_loop().create_future()
        self.asked.put_nowait((invocation, answer))
        return await answer

    def stop(self, execution_id: int, reason: StopReason) -> bool:  # noqa: ARG002 - the port's
        return False

    def written(self, execution_id: int, *, beyond: int = 0) -> Written | None:  # noqa: ARG002
        return None

    async def close(self) -> None:
        """Nothing is left running."""

    def perform(self, invocation: Invocation, answer: Future[AttemptResult]) -> None:
        """Call what was asked. What is no `Exception` ends the test."""
        reports = bytearray()
        variables = environment(invocation, passed={}, ours={}, params_file="")
        given = Given(variables, json.dumps(invocation.params), reports.extend)
        reporting.ask(lambda: given)
        self.is_calling = True
        try:
            status = outside_of_loops(reporting.perform, partial(self._call, invocation))
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            self.is_calling = False
            reporting.ask(lambda: None)
        answer.set_result(_result(invocation, status, bytes(reports)))

    def _call(self, invocation: Invocation) -> object:
        task = find(self._app, invocation.task.name)
        failure = self.failures.get(task.name)
        if failure is not None and invocation.deaths < failure.times:
            raise failure.error
        given = (context(),) if task.signature.takes_context else ()
        result = task.function(*given, **task.signature.arguments(invocation.params))
        if asyncio.iscoroutine(result):
            result = asyncio.run(result)
        if isinstance(result, Snooze):
            reporting.snooze(result.seconds)
        return result


def outside_of_loops(function: Callable[[A], T], argument: A) -> T:
    """Call it here; in a thread, if the test is a coroutine."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function(argument)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, function, argument).result()


def _result(invocation: Invocation, status: int, reports: bytes) -> AttemptResult:
    """Give what a child's end and its messages come to; its output is pytest's."""
    reader, said = MessageReader(AttemptLog(invocation, time.monotonic)), Message()
    for message in (*reader.feed(reports), *reader.end()):
        said = said.then(message)
    outcome = of_exit((status & 0xFF) << 8, said)
    return AttemptResult(outcome=outcome, report=TaskReport(**said.report))
