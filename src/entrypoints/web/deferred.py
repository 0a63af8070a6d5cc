"""Answers that are made in a thread: a long one is not made in the event loop, where all wait."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class Deferred(Response):
    """Stands for an answer that a thread makes, head and body."""

    def __init__(self, make: Callable[[], Response]) -> None:
        """*make* makes it, and may raise what the application answers as a problem."""
        super().__init__()
        self._make = make

    async def made(self, request: Request) -> Response:
        """Have it made by the threads of the application that answers this request."""
        answer: Response = await request.app.state.in_thread(self._make)
        return answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; see ASGI."""
        answer = await self.made(Request(scope))
        await answer(scope, receive, send)
