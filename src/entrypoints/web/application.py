"""The application: each operation is one use case, asked in a thread."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Annotated, Any, Final, TypeVar
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from fastapi import Header, Path, Request, Response
from pydantic import BeforeValidator
from starlette.types import ASGIApp

from cronhare.application.administration.schedule_desk import NameTaken, RequestReused
from cronhare.application.administration.views.executions import ExecutionView
from cronhare.application.administration.views.schedules import ScheduleView
from cronhare.application.outages import Outage
from cronhare.domain.execution import Execution
from cronhare.domain.messages.messages import LARGEST_ID
from cronhare.domain.schedules.draft import Fault, ScheduleDraft
from cronhare.ports.ledger import LedgerUnavailable

from ..container import Container
from ..json_text import as_json
from .bodies import read_object
from .guard import Guard
from .openapi import LONGEST_KEY, Api, answers, operation
from .problems import answer_problems
from .reports import read_report
from .schedulers import SchedulerView, read_new

log = logging.getLogger(__name__)

T = TypeVar("T")

#: So many requests ask the ledger at a time; others wait for them.
AT_A_TIME: Final = 4

#: The key is the name of the row: under another one nothing would find what it made.
_NAMED_TWICE: Final = (
    "with an Idempotency-Key the key names the schedule; leave out one of them: a name is taken "
    "once, too (409)"
)

Key = Annotated[str | None, Header(min_length=1, max_length=LONGEST_KEY, pattern="^[!-~]+$")]


def _digits(text: object) -> object:
    """Refuse the other forms of a number that the framework takes: one row has one address."""
    if not (isinstance(text, str) and text.isascii() and text.isdigit()):
        raise ValueError("a number is written in digits alone")
    return text


SchedulerId = Annotated[int, BeforeValidator(_digits), Path(ge=1, le=LARGEST_ID)]


def make_application(container: Container, executor: ThreadPoolExecutor) -> ASGIApp:
    """Make the application of a process; *executor* runs what asks the ledger."""
    operations = Operations(container, executor)
    app = Api(
        title="cronhare",
        version=version("cronhare"),
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_api_route(
        "/schedulers",
        operations.create_scheduler,
        methods=["POST"],
        status_code=201,
        responses=answers(201, "SchedulerView", "it was created", 400, 409, 413, 415),
        openapi_extra=operation("NewScheduler"),
    )
    app.add_api_route(
        "/schedulers/{scheduler_id}",
        operations.show_scheduler,
        methods=["GET"],
        responses=answers(200, "SchedulerView", "the schedule", 404),
    )
    app.add_api_route(
        "/reports/generate",
        operations.generate_report,
        methods=["POST"],
        status_code=202,
        responses=answers(202, "ExecutionView", "it is on its way", 400, 404, 409, 413, 415),
        openapi_extra=operation("GenerateReport"),
    )
    answer_problems(app)
    return Guard(app)


class Operations:
    """What can be asked."""

    def __init__(self, container: Container, executor: ThreadPoolExecutor) -> None:
        """See `make_application`."""
        self._container = container
        self._executor = executor
        self._outage = Outage(log, "The ledger can be asked", back="ledger.back")

    async def create_scheduler(self, request: Request, idempotency_key: Key = None) -> Response:
        """Create a schedule; asked again with the same key, answer the one that was made."""
        faults: list[Fault] = []
        content = await read_object(request, faults)
        if idempotency_key is not None and content.get("name") is not None:
            faults.append(Fault("name", _NAMED_TWICE))
        draft = read_new(
            content,
            faults,
            request=_named(request, idempotency_key) or uuid4(),
            catalog=self._container.catalog(),
            policy=self._container.settings().policy,
        )
        view = await self._ask(lambda: self._create(draft, again=idempotency_key is not None))
        return _json(SchedulerView.with_columns(view), 201, Location=f"/schedulers/{view.id}")

    async def show_scheduler(self, scheduler_id: SchedulerId) -> Response:
        """Show a schedule, with its last and its next run."""
        queries = self._container.queries()
        view = await self._ask(lambda: queries.schedule_with_id(scheduler_id))
        return _json(SchedulerView.with_columns(view), 200)

    async def generate_report(self, request: Request, idempotency_key: Key = None) -> Response:
        """Run a report now; asked again with the same key, answer the run that it began."""
        faults: list[Fault] = []
        content = await read_object(request, faults)
        controller, params = read_report(content, faults)
        key = _named(request, idempotency_key)
        execution = await self._ask(lambda: self._generate(controller, params, key))
        return _json(ExecutionView.of(execution, now=execution.executed_at), 202)

    def _create(self, draft: ScheduleDraft, *, again: bool) -> ScheduleView:
        now = self._container.claims().now()
        try:
            id_ = self._container.schedule_desk().create(draft, now=now, again=again)
        except NameTaken as error:
            if again:
                raise RequestReused(f"{error}, and not as it is asked for now") from error
            raise
        return self._container.queries().schedule_with_id(id_)

    def _generate(self, controller: str, params: str, key: UUID | None) -> Execution:
        now = self._container.claims().now()
        desk = self._container.report_desk()
        return desk.generate(controller, params=params, now=now, request=key)

    async def _ask(self, question: Callable[[], T]) -> T:
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._executor, question)
        except LedgerUnavailable as error:
            text = "The ledger cannot be asked over HTTP"
            self._outage.lasts(logging.ERROR, "ledger.unavailable", text, error)
            raise
        self._outage.is_over()
        return answer


def _named(request: Request, key: str | None) -> UUID | None:
    """Name a request by its Idempotency-Key: a name that fits a row, and tells nothing of it."""
    return None if key is None else uuid5(NAMESPACE_URL, f"{request.url.path} {key}")


def _json(view: Any, status: int, **headers: str) -> Response:  # noqa: ANN401 - any view
    text = as_json(view, encode=str)
    return Response(text, status, headers=headers, media_type="application/json")
