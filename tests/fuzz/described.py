"""Boundary: each operation of the HTTP API, with requests made of its own description.

Schemathesis makes them, good ones and bad ones. No answer is a fault of ours, each has a status, a
type and a form that the description has, and none tells the secret that is in the settings.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as effort
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from cronhare.domain.lifecycle.archive import UNRESOLVED
from cronhare.domain.lifecycle.orders import ReplayOrder
from cronhare.domain.retries.retry import Quarantine
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.web.application import operations_of_api
from cronhare.entrypoints.web.asking import Asker
from tests.frozen_clock import FrozenClock
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled, Place
from tests.fuzz.sites import Served, served
from tests.integration.ledgers import Ledger, sql_ledger

TASK = Task(name="tokens", ref=TaskRef("report", 25), command=("true",))
CANARY = "canary-5ecret"

#: Requests for each operation: of its own entry, and of one by chance.
EXAMPLES, MORE = 10, 30

#: Numbers of rows, most of which there are.
ROWS = 8

_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@attrs.frozen
class Described:
    """A site with some of everything in its ledger, and its description."""

    served: Served
    operations: dict[str, Any]
    numbers: Iterator[int] = attrs.field(factory=count)

    @property
    def port(self) -> int:
        return self.served.site.port

    def innocent(self) -> None:
        """See `Site.innocent`: lists are answered in their time, and the ledger is whole."""
        paths = ("/schedulers", "/executions", "/failed")
        self.served.in_time(lambda: {self.served.site.get(path).status for path in paths}, {200})


@contextmanager
def described(folder: Path) -> Iterator[Described]:
    """Open the site."""
    with served(folder, [TASK], smtp_url=f"smtp://someone:{CANARY}@127.0.0.1:9") as found:
        fill(sql_ledger(FrozenClock(datetime.now(UTC)), found.container.engine()))
        schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{found.site.port}/openapi.json")
        results: list[Any] = list(schema.get_all_operations())
        operations = [each.ok() for each in results]
        yield Described(found, {each.label: each for each in operations})


@contextmanager
def _at(place: Place) -> Iterator[Described]:
    with described(place.folder) as found:
        yield found


def fill(ledger: Ledger) -> None:
    """Write schedules, runs in several states, failures and a replay."""
    ledger.plan_edited()
    ledger.failed("failed")
    ledger.failed("pill", verdict=Quarantine("it crashed too often"))
    ledger.running("runs")
    ledger.published("waits")
    ledger.add("rests", status=False)
    ledger.replays.order(ReplayOrder(which=UNRESOLVED), now=ledger.now)


@cache
def labels() -> tuple[str, ...]:
    """Name the operations."""
    asker = Asker(Container(settings=Settings.read()), None)  # type: ignore[arg-type]
    return tuple(
        f"{method} {each.path_format}"
        for each in operations_of_api(asker)
        for method in each.methods or ()
    )


def attempt(label: str, at: Described, *, examples: int, number: int) -> Answer:
    """Make so many requests to an operation, the same for each *number*."""
    refused = []

    @seed(number)
    @effort(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=at.operations[label].as_strategy())
    def ask(case: Any) -> None:  # noqa: ANN401 - one request
        _meet_what_is_there(case, next(at.numbers))
        answer = case.call(base_url=f"http://127.0.0.1:{at.port}")
        refused.append(answer.status_code >= 400)
        case.validate_response(answer, checks=_CHECKS)
        if CANARY in answer.text or any(CANARY in value for value in map(str, answer.headers)):
            raise AssertionError(f"{label} tells the secret: {answer.text}")

    try:
        ask()
    except Exception as error:
        raise Mishandled(f"{label}: {error}") from error
    return Answer.REFUSED if all(refused) else Answer.HANDLED


def _meet_what_is_there(case: Any, number: int) -> None:  # noqa: ANN401 - one request
    """Turn every other request to a row that there is, and to whichever version it has."""
    if number % 2:
        return
    for name, value in (case.path_parameters or {}).items():
        if isinstance(value, int):
            case.path_parameters[name] = value % ROWS + 1
    if case.method in {"PATCH", "DELETE"}:
        case.headers["If-Match"] = "*"


def _by_chance(rng: random.Random) -> Entry[Described]:
    label, number = rng.choice(labels()), rng.randrange(2**32)
    tried = partial(attempt, label, examples=MORE, number=number)
    return Entry(f"{label}, of the number {number}", tried)


BOUNDARY = Boundary(
    name="operations",
    at=_at,
    entries=[
        Entry(label, partial(attempt, label, examples=EXAMPLES, number=12), short=label[0] == "G")
        for label in labels()
    ],
    by_chance=_by_chance,
)
