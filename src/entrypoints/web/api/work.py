"""`/nodes`, `/queues`, `/budgets`, `/breakers`: who works, where work waits, what holds retries."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from fastapi import Path, Request, Response

from cronhare.application.administration.views.work import (
    BreakerView,
    BudgetView,
    NodesView,
    NodeView,
    QueueView,
)
from cronhare.domain.access import Scope

from ..access import actor_of
from ..asking import Asking
from .answers import as_answer
from .body import read_body
from .operations import Operation, operation
from .parameters import LONGEST_TEXT
from .scheduler_switches import Nothing

Named = Annotated[str, Path(min_length=1, max_length=LONGEST_TEXT, pattern=r"^[^\x00/]+$")]


class Work(Asking):
    """Nodes, queues, and the limits of retries."""

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        lists: tuple[tuple[str, Callable[..., Any], type, bool, str], ...] = (
            ("/nodes", self.list_nodes, NodesView, False, "the processes of the ledger"),
            ("/queues", self.list_queues, QueueView, True, "the task queues"),
            ("/budgets", self.list_budgets, BudgetView, True, "the retry budgets of queues"),
            ("/breakers", self.list_breakers, BreakerView, True, "the circuit breakers of tasks"),
        )
        for path, endpoint, gives, many, what in lists:
            yield operation(
                "GET", path, endpoint, scope=Scope.READ, what=what, gives=gives, many=many
            )
        for path, endpoint, gives, what in (
            ("/nodes/{name}/drain", self.drain_node, NodeView, "it takes no more work"),
            ("/nodes/{name}/undrain", self.undrain_node, NodeView, "it takes work again"),
            ("/breakers/{name}/reset", self.reset_breaker, BreakerView, "what it was"),
        ):
            yield operation(
                "POST",
                path,
                endpoint,
                scope=Scope.OPERATE,
                what=what,
                takes=Nothing,
                may_be_empty=True,
                gives=gives,
                refuses=(404, 409),
            )

    async def list_nodes(self) -> Response:
        """List the processes that work on the ledger, and those that have ended of late."""
        return as_answer(await self._asker.ask(self._container.queries().nodes))

    async def list_queues(self) -> Response:
        """List the task queues: what waits in each, what runs, and who consumes."""
        return as_answer(await self._asker.ask(self._container.queries().queues))

    async def list_budgets(self) -> Response:
        """List what each queue has left of its retries; a window gives them back by itself."""
        return as_answer(await self._asker.ask(self._container.limit_desk().budgets))

    async def list_breakers(self) -> Response:
        """List circuit breakers: which are open, since when, and when a retry tries again."""
        return as_answer(await self._asker.ask(self._container.limit_desk().breakers))

    async def drain_node(self, request: Request, name: Named) -> Response:
        """Let a worker take no more work; it finishes what it has, and stays."""
        await read_body(Nothing, request)
        desk, actor, now = self._container.node_desk(), actor_of(request), self._now
        return as_answer(await self._asker.ask(lambda: desk.drain(name, actor=actor, now=now())))

    async def undrain_node(self, request: Request, name: Named) -> Response:
        """Let a worker take work again."""
        await read_body(Nothing, request)
        desk, actor, now = self._container.node_desk(), actor_of(request), self._now
        return as_answer(await self._asker.ask(lambda: desk.undrain(name, actor=actor, now=now())))

    async def reset_breaker(self, request: Request, name: Named) -> Response:
        """Close a task's circuit breaker, by its name or such as `report 25`; it counts anew."""
        await read_body(Nothing, request)
        desk, actor = self._container.limit_desk(), actor_of(request)
        return as_answer(await self._asker.ask(lambda: desk.reset(name, actor=actor)))

    def _now(self) -> Any:  # noqa: ANN401 - a moment
        return self._container.ledger_time().now()
