"""What may be deleted of an execution's past, however old it is."""

from typing import Final

from sqlalchemy import and_, bindparam, exists, func, not_

from cronhare.domain.schedules.keys import BOOT

from ..schema.tables import executions, failed_tasks
from ..schema.types import UtcDateTime

#: An execution whose failure is in the archive, unresolved: it may be replayed.
AWAITS_A_PERSON: Final = exists().where(
    failed_tasks.c.execution_id == executions.c.id, failed_tasks.c.resolution.is_(None)
)

#: When it ended.
ENDED: Final = func.coalesce(executions.c.finished_at, executions.c.executed_at)

# A run at a boot must be known as long as it may be asked for again. It does not count.
COUNTS: Final = not_(
    and_(
        executions.c.execution_key.startswith(BOOT),
        bindparam("booted", type_=UtcDateTime) <= ENDED,
    )
)
