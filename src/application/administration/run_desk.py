"""Runs that are asked for now, once however often that is asked."""

from datetime import datetime
from uuid import UUID

import attrs

from cronhare.domain.access import Actor
from cronhare.domain.execution import Execution
from cronhare.domain.schedules.params import same_params

from .commands import Administrator
from .repetition import RequestReused


@attrs.frozen(kw_only=True)
class RunDesk:
    """Begins runs."""

    _administrator: Administrator

    def run(
        self,
        name: str,
        *,
        params: str | None,
        now: datetime,
        actor: Actor,
        request: UUID | None,
    ) -> Execution:
        """Begin a run of a schedule; a *request* that is asked again is answered its run.

        Raises:
            NotFound: there is no such schedule.
            CannotRun: see `Administrator.run_now`.
            RequestReused: the request began a run with other params.
        """
        execution = self._administrator.run_now(
            name, params=params, now=now, actor=actor, request=request
        )
        if request is None or params is None:
            return execution
        if not same_params(execution.params, params):
            raise RequestReused(f"it began execution {execution.id}, with other params")
        return execution
