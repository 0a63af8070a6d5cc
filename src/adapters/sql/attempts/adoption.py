"""Adopting messages of other programs: each gets an execution of ours."""

from datetime import datetime

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.claims import NotToBeRun
from cronhare.domain.messages.messages import TaskMessage
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.attempts import Busy, Refused
from cronhare.ports.errors import LedgerRefused

from ..claims.manual_claims import claim_by_hand, find_by_key
from ..dialect import Locked
from ..transactions.database import StorePart, repeatable_unless_locked


class Adoption(StorePart):
    """The part of `AttemptStorePort` that adopts messages."""

    def adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused | Busy:
        @repeatable_unless_locked
        def find_or_claim() -> Execution:
            with self._database.write("adopting a message") as connection:
                return find_by_key(connection, message.scheduler_id, key) or claim_by_hand(
                    connection,
                    self._database.dialect,
                    message.scheduler_id,
                    key=key,
                    now=now,
                    node=node,
                    task=TaskRef(message.type, message.id),
                    params=message.params_scheduler,
                    queue=queue,
                    deaths=deaths,
                )

        try:
            return find_or_claim()
        except Locked:
            return Busy()
        except (LedgerRefused, NotToBeRun) as refusal:
            return Refused(str(refusal))
