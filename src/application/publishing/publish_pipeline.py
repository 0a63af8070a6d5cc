"""Publishing batches while the next one is claimed."""

import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future, wait
from contextvars import copy_context
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    # Here: the container asks for `AT_ONCE`, whatever it is to make.
    from cronhare.domain.execution import Execution

    from .execution_publisher import ExecutionPublisher, PublishResult

log = logging.getLogger(__name__)

#: So many batches are under way at a time: one is sent while another is marked as published. Not
#: more, so that memory stays flat.
AT_ONCE: Final = 2


class PublishPipeline:
    """The publishing side of one tick; leaving it waits for all batches.

    What was claimed and could not be published is left to the reconciler.
    """

    def __init__(
        self, publisher: "ExecutionPublisher", executor: Executor, *, now: datetime
    ) -> None:
        """*executor* lends `AT_ONCE` threads that wait for the broker."""
        self.published = 0
        self._publisher = publisher
        self._executor = executor
        self._now = now
        self._under_way: deque[Future[PublishResult]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for all that is under way, and raise the first error; the others are logged."""
        wait(self._under_way)
        first: BaseException | None = error
        while self._under_way:
            try:
                self._note_oldest()
            except Exception as another:
                if first is not None:
                    text = "Another batch could not be published either"
                    log.exception("%s", text, extra={"action": "publish.failed"})
                first = first or another
        if first is not None and first is not error:
            raise first

    def publish(self, batch: "Sequence[Execution]") -> None:
        """Begin to publish *batch*, once there is a thread for it.

        Raises the error of an earlier batch; *batch* is published all the same.
        """
        try:
            if len(self._under_way) == AT_ONCE:
                self._note_oldest()
        finally:
            if batch:
                # In our context: its span is part of the tick's trace.
                run, publish = copy_context().run, self._publisher.publish
                result = self._executor.submit(run, publish, batch, now=self._now)
                self._under_way.append(result)

    def _note_oldest(self) -> None:
        self.published += self._under_way.popleft().result().published
