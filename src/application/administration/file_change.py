"""What the next apply of a jobs file would change of one schedule."""

from cronhare.ports.schedules import ScheduleStorePort

from .difference import difference
from .files_together import FileContent
from .lookup import find_schedule
from .views.differences import ScheduleChangeView


def change_by_file(
    schedules: ScheduleStorePort, name: str, file: FileContent | None
) -> ScheduleChangeView | None:
    """Compare a schedule with the jobs file that is at hand; None if it is of another, or of none.

    Raises:
        NotFound: there is no such schedule.
    """
    stored = find_schedule(schedules, name)
    if file is None or stored.source != file.source:
        return None
    drafts = [draft for draft in file.drafts if draft.name == stored.name]
    found = difference(drafts, [stored], source=file.source)
    return ScheduleChangeView.of(found[0], ()) if found else None
